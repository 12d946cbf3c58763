"""One vector for all points, -y sum_j y_j mu_j: how long it must be to fool almost all of them."""

from __future__ import annotations

import math

import numpy as np
import xarray as xr
from jaxtyping import Float
from numpy import ndarray

from featavg.data.clusters import MultiCluster
from featavg.figures.figure import Axis, Figure, Lines, Series
from featavg.figures.marks import Role
from featavg.nets.readouts._readout import score
from featavg.nets.two_layer import TwoLayer, feature_averaging
from featavg.paper.engine.claim import Check, Context, Evidence, claim
from featavg.paper.engine.tables import tabulate
from featavg.paper.figures.networks import SAMPLES, K, flow_case, fresh, networks
from featavg.training.recipe import Recipe
from featavg.training.steppers.flow import GradientFlow
from featavg.training.train import train

LENGTHS = np.linspace(0.0, 2.5, 101)  # in units of sqrt(d/k)
FINE_LENGTHS = np.linspace(0.5, 1.5, 401)
# A loss of e^-50: complementarity of a flow from a small start is within some percent there.
DEEP_LOG_LOSS = -50.0
NETWORKS: dict[str, tuple[str, Role]] = {
    "f_FA": ("f<sub>FA</sub>", "reference"),
    "averaged": ("averaged", "averaged"),
    "deep": ("averaged, both layers and biases, loss e⁻⁵⁰", "neutral"),
    "decoupled": ("decoupled (probability)", "decoupled"),
}
# k, d, |J+| of the tasks on which the vector meets f_FA itself.
LARGE = 10**7
REMARK = ((10, 3072, 5), (10, 10**5, 5), (10, LARGE, 5), (4, LARGE, 2), (40, LARGE, 20), (10, LARGE, 2))


def fooled(
    task: MultiCluster, net: TwoLayer, seed: int, points: int, lengths: Float[ndarray, " q"]
) -> Float[ndarray, " q"]:
    """The share of correctly decided fresh points x for which x - y z is decided otherwise.

    z is along sum_j y_j mu_j, with its length in units of sqrt(d/k).
    """
    test = fresh(task, points, seed)
    x = test.coordinates(net.dimension)
    direction = task.cluster_labels @ task.features_in(net.dimension)
    direction *= math.sqrt(task.d / task.k) / np.linalg.norm(direction)
    mask = task.positive_clusters if net.outputs > 1 else None
    # Pre-activations move along a line: each length then costs no product with the points.
    z, slopes = net.preactivations(x), net.weights @ direction

    def margins(z: ndarray, y: ndarray) -> ndarray:
        return np.asarray(y * score(np.maximum(z, 0.0) @ net.head.T, mask, "probability"))

    right = margins(z, test.y) > 0
    z, y = z[right], test.y[right]
    moved = (z - length * y[:, None] * slopes for length in lengths)
    return np.array([np.mean(margins(one, y) <= 0) for one in moved])


def shortest(shares: ndarray, level: float, lengths: ndarray) -> float:
    """The shortest of the lengths that fools a share `level`; infinite if none does."""
    enough = np.flatnonzero(shares >= level)
    return float(lengths[enough[0]]) if len(enough) else math.inf


def length_figure(half: xr.DataArray, almost: xr.DataArray) -> Figure:
    """Both lengths against d for the balanced tasks."""
    rows = [i for i, (k, _, plus) in enumerate(REMARK) if k == K and plus == K // 2]
    d = [REMARK[i][1] for i in rows]

    def line(label: str, lengths: xr.DataArray, role: Role) -> Series:
        drawn = lengths.values[rows].T  # a length that was not found is a gap
        return Series.over_seeds(label, d, np.where(np.isfinite(drawn), drawn, np.nan), role)

    theory = Series("√(d/k)", d, [1.0] * len(d), "reference", "dashed")
    lines = line("half of the points", half, "neutral"), line("99%", almost, "averaged"), theory
    return Figure(
        "lengths",
        "How long the attack vector must be",
        "Length of ρ along −Σ<sub>J₊</sub>μ + Σ<sub>J₋</sub>μ that fools f<sub>FA</sub> on half of "
        f"the points and on 99%, in units of √(d/k), k = {K}; band: seeds.",
        (Lines(Axis("dimension d", log=True), Axis("|ρ| / √(d/k)"), lines),),
    )


@claim(
    "remark-attack-vector", "The averaged features themselves are the attack", theme="Exact robustness",
    source="Lecture notes on arXiv 2410.10322, remark to Definition 1.1",
    measured="shortest ρ that fools half of the fresh points and 99% of them, over d, k and partitions",
    minutes=0.02, statements=("notes-remark-1.1", "notes-why-averaging", "abstract-vulnerability",),
)  # fmt: skip
def attack_vector(run: Context, points: int = 200) -> Evidence:
    """ρ along −Σ<sub>J₊</sub>μ<sub>j</sub> + Σ<sub>J₋</sub>μ<sub>j</sub> with |ρ| = Ω(√(d/k)) flips
    f<sub>FA</sub>, because f<sub>FA</sub> is linear in it.
    """

    def measure(setting: int, seed: int) -> dict[str, float]:
        k, d, plus = REMARK[setting]
        task = MultiCluster(k=k, d=d, positive=plus)
        shares = fooled(task, feature_averaging(task), seed, points, FINE_LENGTHS)
        levels = {"half": 0.5, "almost": 0.99}
        return {name: shortest(shares, level, FINE_LENGTHS) for name, level in levels.items()}

    table = tabulate(measure, run.seeds, run.progress, setting=range(len(REMARK)))
    half, almost = table["half"], table["almost"]
    # Against f_FA the vector takes (|rho| sqrt(k/d)) d from the margin d: exactly sqrt(d/k) at a centre,
    # for any partition. Noise moves the margin by sqrt(k/d): 0.1% of it at d = 10^7, k = 10.
    longest = float(almost[[d == LARGE for _, d, _ in REMARK]].max())
    return Evidence(
        Check("|ρ| / √(d/k) that fools 99%, largest d, worst k and partition", longest, "<=", 1.05, role="main"),
        Check("|ρ| / √(d/k) that fools half, smallest over all", half.min(), ">=", 0.95,
              note="how long it must be: no shorter one does"),
        Check("|ρ| / √(d/k) that fools half, largest over all d, k and partitions", half.max(), "<=", 1.05),
        figure=length_figure(half, almost), numbers={"settings": REMARK, "lengths": table},
        finding=f"The vector flips f<sub>FA</sub> on half of the points at {half.mean():.3f} √(d/k) for "
        f"every d, k and partition tried, and on 99% at {longest:.3f} √(d/k) for large "
        "d: it must be √(d/k) long and that is enough. (The documents print "
        "sgn f(x+ρ) = sgn f(x) for success; ≠ is meant.)",
    )  # fmt: skip


def deep_networks(task: MultiCluster, seeds: tuple[int, ...]) -> tuple[TwoLayer, ...]:
    """Both layers and the biases trained by gradient flow until the loss is e^-50."""
    start = 1e-5 * 3072 / task.d
    recipe = Recipe(
        layers="both", sigma_w=start, sigma_b=start, stepper=GradientFlow(), steps=20_000, target_log_loss=DEEP_LOG_LOSS
    )
    return tuple(train(task, recipe, n=SAMPLES, seed=seed).net for seed in seeds)


def figure(shares: xr.DataArray, d: int) -> Figure:
    """The share fooled against the length, for all networks."""
    lines = tuple(
        Series.over_seeds(label, LENGTHS, shares.sel(network=name).values, role)
        for name, (label, role) in NETWORKS.items()
    )
    return Figure(
        "fooled",
        "One vector for all points",
        f"Share of correctly decided points that x − y z fools, z along Σ yⱼ μⱼ, d = {d:,}, "
        f"k = {K}, against its length; band: seeds.",
        (Lines(Axis("|z| / √(d/k)"), Axis("share fooled"), lines),),
    )


@claim(
    "universal-vector",
    "One vector fools almost all points",
    theme="Exact robustness",
    source="Talk at iTCS 2024, Theorem 4.2 (Frei et al.; for KKT points: see margin-kkt-radius); lecture "
    "notes on arXiv 2410.10322, remark to Definition 1.1",
    measured="the share of fresh points fooled against |z|, and the shortest |z| for 99%: networks at "
    "the paper's time, and with both layers and biases trained to a loss of e⁻⁵⁰",
    minutes=0.02,
    shares="radii at any d",
    statements=("itcs-theorem-4.2", "notes-remark-1.1", "summary-break-2", "summary-failure-signatures"),
)
def against_trained(run: Context, d: int = 10_000, points: int = 200) -> Evidence:
    """For trained networks too there is one z along Σ y<sub>j</sub>μ<sub>j</sub> with |z| =
    O(√(d/k)) such that x − y z is decided otherwise than x for almost all points.
    """
    task, seeds = MultiCluster(k=K, d=d), run.seeds
    run.progress(0.0, "training")
    nets = {
        "f_FA": (feature_averaging(task),) * len(seeds),
        "averaged": networks(flow_case("coarse", d), seeds),
        "deep": deep_networks(task, seeds),
        "decoupled": networks(flow_case("fine", d), seeds),
    }

    def measure(network: str, seed: int) -> dict[str, float | ndarray]:
        shares = fooled(task, nets[network][seeds.index(seed)], seed, points, LENGTHS)
        return {"share": shares, "length": shortest(shares, 0.99, LENGTHS)}

    table = tabulate(measure, seeds, run.progress, ("z",), network=tuple(NETWORKS))
    table = table.assign_coords(z=LENGTHS)
    worst = {name: float(table["length"].sel(network=name).max()) for name in NETWORKS}
    beyond = table["share"][..., int(np.searchsorted(LENGTHS, 1.25))]
    unharmed = float(beyond.sel(network="decoupled").max())
    return Evidence(
        Check("averaged, paper's time: length that fools 99% / √(d/k), worst seed", worst["averaged"], "<=", 1.5,
              role="main"),
        Check("averaged: share fooled at 1.25 √(d/k)", beyond.sel(network="averaged"), ">=", 0.95),
        Check("both layers and biases trained to e⁻⁵⁰: length that fools 99% / √(d/k), worst seed",
              worst["deep"], "<=", 2.0, note="Theorem 4.2 allows O(√(d/c²k)), c = 1/2, at KKT points"),
        Check("decoupled: share fooled by the same vector at 1.25 √(d/k)", unharmed, "<=", 0.01, role="note"),
        figure=figure(table["share"], d), numbers=table,
        finding=f"A vector of length {worst['averaged']:.2f} √(d/k) fools 99% of the points of every averaged "
        f"network at the paper's time, and {worst['deep']:.2f} √(d/k) after both layers and the biases "
        f"were trained to a loss of e⁻⁵⁰; at 1.25 √(d/k) it fools {unharmed:.1%} of the decoupled "
        f"network's. Against f<sub>FA</sub> {worst['f_FA']:.2f} √(d/k) is enough.",
    )  # fmt: skip
