"""Does adversarial training on class labels decouple, and what does it cost against finer labels?

Gradient descent on the worst-case loss within a radius r (`training.objectives.adversarial`), with
class labels only, against gradient descent on the plain loss with cluster labels on the same points. The
averaged network stands sqrt(d/k), the decoupled one sqrt(d/2): radii between the two cannot be stood
by averaging. With five neurons per class the inner problem is solved exactly, up to a gap that is
measured; that the worst points are the worst is checked once more by exact radii in the end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

import featavg
from featavg.data.clusters import MultiCluster
from featavg.data.compress import draw
from featavg.figures.figure import Axis, Figure, Lines, Rule, Series
from featavg.figures.result import Result
from featavg.measures.averaging import averaging_index
from featavg.nets.two_layer import TwoLayer
from featavg.paper.questions.adversarial_objective import AdversarialObjective, worst_case
from featavg.progress import Progress, silent
from featavg.robustness.radii import radii
from featavg.storage.cache import kept_values
from featavg.training.controllers.constant import Constant
from featavg.training.driver import Stop, run
from featavg.training.objectives.objective import TwoLayerObjective
from featavg.training.steppers.gd import GradientDescent
from featavg.training.train import Recipe, objective_of, train

K, D, N, SIGMA, NEURONS, RATE, STEPS = 10, 1000, 120, 0.5, 5, 0.01, 400
TEST_POINTS, CHECKED = 20, 20
# In units of sqrt(d/2), what the decoupled network stands; averaging stands sqrt(2/k) = 0.45 of it.
SHARES = (0.0, 0.25, 0.5, 0.75, 0.9)
COLUMNS = ("index", "radius", "robust", "accuracy", "seconds", "found", "gap")


@dataclass(frozen=True, eq=False, repr=False)
class AdversarialStudy(Result):
    """Networks trained with class labels at several radii, and one with cluster labels.

    Attributes:
        shares: training radii in units of sqrt(d/2).
        table: radius x seed x `COLUMNS`: averaging index; median exact radius of fresh points; their
            share that no perturbation of the training radius flips, exactly; clean accuracy; seconds
            of training; share of the training points that can be flipped within the radius which the
            inner problem's solution flips; its largest relative gap in the end.
        fine: seed x (median exact radius by `max`, seconds) of plain training on cluster labels.
        fine_robust: share of fresh points it keeps at each radius, radius x seed.

    Returned by `fa.adversarial_study`, which has an example.
    """

    shares: tuple[float, ...]
    table: Float[ndarray, "r s q"]
    fine: Float[ndarray, "s 2"]
    fine_robust: Float[ndarray, "r s"]

    def column(self, name: str) -> Float[ndarray, "r s"]:
        """One of `COLUMNS`."""
        return self.table[..., COLUMNS.index(name)]

    def at(self, name: str, share: float) -> Float[ndarray, " s"]:
        """One of `COLUMNS` at one training radius."""
        return self.column(name)[self.shares.index(share)]

    @property
    def cost(self) -> Float[ndarray, " s"]:
        """Seconds of adversarial training (mean over the radii) over those of cluster labels."""
        return self.column("seconds")[1:].mean(axis=0) / self.fine[:, 1]

    def figure(self) -> Figure:
        """Radius, robust accuracy and index against the training radius."""
        lengths = np.array(self.shares) * math.sqrt(D / 2)
        fine = np.broadcast_to(self.fine[:, :1], (len(self.fine), len(lengths)))
        axis = Axis("training radius", "l2")
        radius = (
            Series.over_seeds(
                "class labels, adversarial", lengths, self.column("radius").T, "averaged"
            ),
            Series.over_seeds("cluster labels, plain", lengths, fine, "decoupled"),
        )
        robust = (
            Series.over_seeds(
                "class labels, adversarial", lengths, self.column("robust").T, "averaged"
            ),
            Series.over_seeds("cluster labels, plain", lengths, self.fine_robust.T, "decoupled"),
        )
        index = (
            Series.over_seeds(
                "class labels, adversarial", lengths, self.column("index").T, "averaged"
            ),
        )
        rules = (Rule(math.sqrt(D / K), label="√(d/k)"), Rule(math.sqrt(D / 2), label="√(d/2)"))
        return Figure(
            "adversarial",
            "Adversarial training on class labels against finer labels",
            "Left: median exact radius of fresh points after adversarial training with class labels, and "
            "after plain training with cluster labels (max). Middle: share of fresh points that no "
            "perturbation of the training radius flips. Right: averaging index. Bands: all seeds.",
            (
                Lines(axis, Axis("median radius", "l2"), radius, rules=rules),
                Lines(axis, Axis("robust accuracy", range=(0.0, 1.05)), robust),
                Lines(axis, Axis("averaging index", range=(0.0, 1.05)), index),
            ),
        )

    def to_json(self) -> dict[str, Any]:
        """Every number."""
        return {
            "shares": list(self.shares),
            "fine_radius": self.fine[:, 0].tolist(),
            "fine_seconds": self.fine[:, 1].tolist(),
            "fine_robust": self.fine_robust.tolist(),
        } | {name: self.column(name).tolist() for name in COLUMNS}

    def summary(self) -> str:
        """A line for each training radius."""
        lines = [
            f"Adversarial training on class labels, k = {K}, d = {D}; cluster labels have radius "
            f"{np.median(self.fine[:, 0]):.1f}",
            "  radius/√(d/2): " + ", ".join(COLUMNS),
        ]
        for share, rows in zip(self.shares, self.table, strict=True):
            values = "".join(f"{v:9.3f}" for v in np.median(rows, axis=0))
            lines.append(f"  {share:5.2f}{values}")
        return "\n".join(lines)


def adversarial_study(
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4),
    shares: tuple[float, ...] = SHARES,
    store: str | Path | None = None,
    progress: Progress = silent,
) -> AdversarialStudy:
    """Train at every radius with class labels, once with cluster labels, and measure exactly.

    Args:
        seeds: one sample and one initialisation each.
        shares: training radii in units of sqrt(d/2).
        store: folder for finished runs, which are then not done again.

    >>> import featavg as fa  # long
    >>> fa.adversarial_study(seeds=(0,), shares=(0.0, 0.5))
    Adversarial training on class labels, ...
    """
    table = np.zeros((len(shares), len(seeds), len(COLUMNS)))
    fine, fine_robust = np.zeros((len(seeds), 2)), np.zeros((len(shares), len(seeds)))
    lengths = np.array(shares) * math.sqrt(D / 2)
    for j, seed in enumerate(seeds):
        task = MultiCluster(k=K, d=D, sigma=SIGMA)
        start = process_time()
        plain = train(task, labels="fine", n=N, seed=seed, lr=RATE, steps=STEPS)
        fine[j, 1] = process_time() - start
        exact = radii(plain.net, task.sample(TEST_POINTS, seed), readout="max", jobs=1)
        fine[j, 0] = exact.median[1]
        fine_robust[:, j] = [(exact.certified > length).mean() for length in lengths]
        for i, length in enumerate(lengths):
            progress((j + i / len(shares)) / len(seeds), f"seed {seed}, radius {length:.1f}")
            table[i, j] = _kept_or_trained(task, seed, float(length), store)
    return AdversarialStudy(tuple(shares), table, fine, fine_robust)


def _kept_or_trained(
    task: MultiCluster, seed: int, length: float, store: str | Path | None
) -> list[float]:
    """A row of `COLUMNS`, or the one that an earlier run of the same version left."""
    name = f"adversarial-{featavg.__version__}-n{N}-steps{STEPS}-seed{seed}-{length:.6g}"
    path = None if store is None else Path(store) / f"{name}.json"
    row = kept_values(
        path, name, lambda: dict(zip(COLUMNS, _trained_at(task, seed, length), strict=True))
    )
    return [row[column] for column in COLUMNS]


def _trained_at(task: MultiCluster, seed: int, length: float) -> list[float]:
    """A row of `COLUMNS`."""
    recipe = Recipe(m=NEURONS, lr=RATE, steps=STEPS)
    data = draw(task, N, recipe.neurons(K), seed)
    plain = objective_of(data, recipe)
    assert isinstance(plain, TwoLayerObjective)
    objective = AdversarialObjective(plain, length)
    start = process_time()
    done = run(
        objective,
        plain.params_of(plain.net),
        stepper=GradientDescent(),
        controller=Constant(RATE),
        stop=Stop(STEPS),
    )
    seconds = process_time() - start
    net = done.net
    assert isinstance(net, TwoLayer)
    fresh = task.sample(TEST_POINTS, seed)
    exact = radii(net, fresh, jobs=1)
    right = exact.certified > 0
    found, gap = _inner_strength(net, data.x, data.y, length)
    return [
        float(averaging_index(net, task).value),
        exact.median[1],
        float((exact.certified > length).mean()),
        float(right.mean()),
        seconds,
        found,
        gap,
    ]


def _inner_strength(
    net: TwoLayer, x: Float[ndarray, "n N"], y: ndarray, length: float
) -> tuple[float, float]:
    """How many of the training points that can be flipped the inner problem's solution flips, and its
    largest gap in units of the largest margin; the first few points stand for all."""
    x, y = x[:CHECKED], y[:CHECKED]
    signs = y.astype(float)
    worst = worst_case(net, net.preactivations(x), signs, length)
    gap = float((worst.margins - worst.bounds).max() / np.abs(signs * net(x)[:, 0]).max())
    possible = radii(net, x, y=y, jobs=1).attack <= length
    return (float((worst.margins[possible] <= 0).mean()) if possible.any() else 1.0), gap
