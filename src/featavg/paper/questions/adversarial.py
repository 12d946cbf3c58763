"""Does adversarial training on class labels decouple, and what does it cost against finer labels?

Gradient descent on the worst-case loss within a radius r (`adversarial_objective`), with class labels
only, against gradient descent on the plain loss with cluster labels on the same points. The averaged
network stands sqrt(d/k), the decoupled one sqrt(d/2): radii between the two cannot be stood by
averaging. With five neurons per class the inner problem is solved exactly, up to a gap that is
measured; that the worst points are the worst is checked once more by exact radii in the end.

The tolerances were written before the first run. That run attacked the inner problem and showed that
training finds what such an attack misses: of five seeds two ended with points that could be flipped and
were not found. The inner problem was then solved exactly; the tolerances stayed.

Training on the worst case amplifies round-off: a rate that differs by 1e-15 of itself moved a radius by
2.5%. Other machines agree on verdicts, not on digits.
"""

from __future__ import annotations

import math
from time import process_time
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.data.clusters import MultiCluster
from featavg.data.compress import draw
from featavg.figures.figure import Axis, Figure, Lines, Rule, Series
from featavg.figures.marks import Role
from featavg.measures.averaging import averaging_index
from featavg.nets.two_layer import TwoLayer
from featavg.paper.engine.claim import Check, Context, Evidence, claim
from featavg.paper.questions.adversarial_objective import AdversarialObjective, worst_case
from featavg.robustness.radii import radii
from featavg.training.controllers import Constant
from featavg.training.driver import Stop
from featavg.training.driver import run as descend
from featavg.training.objectives import TwoLayerObjective
from featavg.training.recipe import Recipe
from featavg.training.steppers import GradientDescent
from featavg.training.train import objective_of, train

if TYPE_CHECKING:
    import xarray as xr

# Training radii in units of sqrt(d/2), what the decoupled network stands; averaging stands
# sqrt(2/k) = 0.45 of it. The checks are about SHARE, which lies between.
SHARES, SHARE = (0.0, 0.25, 0.5, 0.75, 0.9), 0.75


@claim(
    "question-adversarial",
    "Adversarial training on class labels decouples",
    theme="Open questions",
    source="Asked by the talks on arXiv 2410.10322: can standard training with better labels replace "
    "adversarial training?",
    measured="averaging index, exact l2 radii and seconds after adversarial training at five radii, "
    "against plain training on cluster labels; k = 10, d = 1000",
    tier="full",
    minutes=3,
    statements=("summary-mechanism-3", "csml-remark-supervision", "itcs-final-remarks", "csml-final-remarks"),
)
def adversarial(
    run: Context,
    k: int = 10,
    d: int = 1000,
    n: int = 120,
    sigma: float = 0.5,
    neurons: int = 5,
    lr: float = 0.01,
    steps: int = 400,
    test_points: int = 20,
) -> Evidence:
    """Gradient descent on worst-case losses within a radius that averaging cannot stand makes the
    network learn features apart with class labels alone, and nearly as robust as plain training
    on cluster labels does.
    """
    task, recipe = MultiCluster(k=k, d=d, sigma=sigma), Recipe(m=neurons, lr=lr, steps=steps)
    table = measured(run, task, recipe, n, test_points)
    at, plain, fine = table.sel(share=SHARE), table.sel(share=0.0), table["fine_radius"]
    adversarial_seconds = table["seconds"].isel(share=slice(1, None)).mean("share", skipna=False)
    cost, best = adversarial_seconds / table["fine_seconds"], table["radius"].max("share")
    return Evidence(
        Check(f"averaging index after training at {SHARE:g}·√(d/2)", at["index"], "<=", 0.5),
        Check("its radius over that of plain training on class labels", at["radius"] / plain["radius"],
              ">=", 1.3),
        Check("its radius over that of plain training on cluster labels", at["radius"] / fine, ">=", 0.8),
        Check("share of the training points that can be flipped which the inner problem flips",
              table["found"].min(skipna=False), ">=", 0.95,
              note="of 20 points, against their exact radii; the worst run", role="note"),
        Check("gap of the inner problem in units of the largest margin, the worst run",
              table["gap"].max(skipna=False), "<=", 0.01, role="note"),
        Check("seconds of adversarial training over those of plain training on cluster labels", cost,
              ">=", 1.0, note="same number of steps", role="note"),
        figure=figure(table, k, d),
        numbers=table,
        finding=f"Trained at {SHARE:g}·√(d/2) on class labels the index is {at['index'].median():.2f} "
        f"(plain: {plain['index'].median():.2f}) and the median radius {at['radius'].median():.1f}; at "
        f"best over all training radii {best.median():.1f}. Plain training has "
        f"{plain['radius'].median():.1f} on class labels and {fine.median():.1f} on cluster labels, in "
        f"{1 / cost.median():.0%} of the time.",
    )  # fmt: skip


def measured(run: Context, task: MultiCluster, recipe: Recipe, n: int, test_points: int) -> xr.Dataset:
    """Every training radius with class labels and plain training with cluster labels, by seed."""
    import xarray as xr

    rows, plain = [], []
    for j, seed in enumerate(run.seeds):
        fresh = task.sample(test_points, seed)
        start = process_time()
        fine = train(task, labels="fine", n=n, seed=seed, lr=recipe.lr, steps=recipe.steps)
        seconds = process_time() - start
        exact = radii(fine.net, fresh, readout="max", jobs=1)
        plain.append((exact.median[1], seconds))
        row = []
        for i, share in enumerate(SHARES):
            length = share * math.sqrt(task.d / 2)
            run.progress((j + i / len(SHARES)) / len(run.seeds), f"seed {seed}, radius {length:.1f}")
            kept = {"fine_robust": float((exact.certified > length).mean())}
            row.append(trained_at(task, recipe, n, seed, test_points, length) | kept)
        rows.append(row)
    cells = {name: [[cell[name] for cell in row] for row in rows] for name in rows[0][0]}
    variables = {name: (("seed", "share"), values) for name, values in cells.items()}
    radius, taken = zip(*plain, strict=True)
    alone = {"fine_radius": ("seed", list(radius)), "fine_seconds": ("seed", list(taken))}
    return xr.Dataset(variables | alone, {"share": list(SHARES), "seed": list(run.seeds)})


def trained_at(
    task: MultiCluster, recipe: Recipe, n: int, seed: int, test_points: int, length: float
) -> dict[str, float]:
    """Trains on the worst case within a radius and measures the network: averaging index, median exact
    radius of fresh points, their share that no perturbation of the training radius flips, accuracy,
    seconds of training, and how well the inner problem is solved in the end.
    """
    data = draw(task, n, recipe.neurons(task.k), seed)
    plain = objective_of(data, recipe)
    assert isinstance(plain, TwoLayerObjective)
    start = process_time()
    done = descend(
        AdversarialObjective(plain, length),
        plain.params_of(plain.net),
        stepper=GradientDescent(),
        controller=Constant(recipe.lr),
        stop=Stop(recipe.steps),
    )
    seconds = process_time() - start
    net = done.net
    assert isinstance(net, TwoLayer)
    exact = radii(net, task.sample(test_points, seed), jobs=1)
    # The first few points stand for all.
    found, gap = inner_strength(net, data.x[:20], data.y[:20], length)
    return {
        "index": float(averaging_index(net, task).value),
        "radius": exact.median[1],
        "robust": float((exact.certified > length).mean()),
        "accuracy": float((exact.certified > 0).mean()),
        "seconds": seconds,
        "found": found,
        "gap": gap,
    }


def inner_strength(net: TwoLayer, x: Float[ndarray, "n N"], y: ndarray, length: float) -> tuple[float, float]:
    """Share of the points that can be flipped which the inner problem's solution flips, and its
    largest gap in units of the largest margin.
    """
    signs = y.astype(float)
    worst = worst_case(net, net.preactivations(x), signs, length)
    gap = float((worst.margins - worst.bounds).max() / np.abs(signs * net(x)[:, 0]).max())
    possible = radii(net, x, y=y, jobs=1).attack <= length
    return (float((worst.margins[possible] <= 0).mean()) if possible.any() else 1.0), gap


def figure(table: xr.Dataset, k: int, d: int) -> Figure:
    """Radius, robust accuracy and index against the training radius."""
    lengths = table["share"].values * math.sqrt(d / 2)
    fine_radius = table["fine_radius"].broadcast_like(table["radius"])
    by_seed = table.assign(fine_radius=fine_radius).transpose("seed", "share")

    def series(name: str, role: Role = "averaged") -> Series:
        label = "class labels, adversarial" if role == "averaged" else "cluster labels, plain"
        return Series.over_seeds(label, lengths, by_seed[name].values, role)

    radius = series("radius"), series("fine_radius", "decoupled")
    robust = series("robust"), series("fine_robust", "decoupled")
    axis, share = Axis("training radius", "l2"), (0.0, 1.05)
    rules = (Rule(math.sqrt(d / k), label="√(d/k)"), Rule(math.sqrt(d / 2), label="√(d/2)"))
    return Figure(
        "adversarial",
        "Adversarial training on class labels against finer labels",
        "Left: median exact radius of fresh points after adversarial training with class labels, and "
        "after plain training with cluster labels (max). Middle: share of fresh points that no "
        "perturbation of the training radius flips. Right: averaging index. Bands: all seeds.",
        (
            Lines(axis, Axis("median radius", "l2"), radius, rules=rules),
            Lines(axis, Axis("robust accuracy", range=share), robust),
            Lines(axis, Axis("averaging index", range=share), (series("index"),)),
        ),
    )
