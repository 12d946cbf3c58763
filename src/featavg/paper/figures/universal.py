"""One vector for all points, -y sum_j y_j mu_j: how long it must be to fool almost all of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.data.clusters import MultiCluster
from featavg.figures.figure import Axis, Figure, Lines, Series
from featavg.figures.marks import Role
from featavg.figures.result import Result
from featavg.nets.ideal import feature_averaging
from featavg.nets.readouts.registry import score
from featavg.nets.two_layer import TwoLayer
from featavg.paper.theorems.radius_runs import RADIUS_SAMPLES, K, RadiusCase, fresh, networks
from featavg.progress import Progress, silent
from featavg.training.steppers.flow import GradientFlow
from featavg.training.train import Recipe, train

D, POINTS = 10_000, 200
LENGTHS = np.linspace(0.0, 2.5, 101)  # in units of sqrt(d/k)
# A loss of e^-50: complementarity of a flow from a small start is within some percent there.
DEEP_LOG_LOSS = -50.0
NETWORKS: dict[str, tuple[str, Role]] = {
    "f_FA": ("f<sub>FA</sub>", "reference"),
    "averaged": ("averaged", "averaged"),
    "deep": ("averaged, both layers and biases, loss e⁻⁵⁰", "neutral"),
    "decoupled": ("decoupled (probability)", "decoupled"),
}


@cache
def deep_networks(task_k: int, d: int, seeds: tuple[int, ...]) -> tuple[TwoLayer, ...]:
    """Both layers and the biases trained by gradient flow until the loss is e^-50."""
    recipe = Recipe(
        layers="both",
        sigma_w=1e-5 * 3072 / d,
        sigma_b=1e-5 * 3072 / d,
        stepper=GradientFlow(),
        steps=20_000,
        target_log_loss=DEEP_LOG_LOSS,
    )
    task = MultiCluster(k=task_k, d=d)
    return tuple(train(task, recipe, n=RADIUS_SAMPLES, seed=seed).net for seed in seeds)


def fooled(
    task: MultiCluster, net: TwoLayer, seed: int, lengths: Float[ndarray, " q"] = LENGTHS
) -> Float[ndarray, " q"]:
    """The share of correctly decided fresh points x for which x - y z is decided otherwise.

    Args:
        lengths: |z| in units of sqrt(d/k), z along sum_j y_j mu_j.
    """
    test = fresh(task, POINTS, seed)
    x = test.coordinates(net.dimension)
    direction = task.cluster_labels @ task.features_in(net.dimension)
    direction *= math.sqrt(task.d / task.k) / np.linalg.norm(direction)
    mask = task.positive_clusters if net.outputs > 1 else None
    right = test.y * score(net(x), mask, "probability") > 0
    x, y = x[right], test.y[right]
    moved = [x - length * y[:, None] * direction for length in lengths]
    flipped = [y * score(net(one), mask, "probability") <= 0 for one in moved]
    return np.mean(flipped, axis=1)


def shortest(
    shares: Float[ndarray, " q"], level: float, lengths: Float[ndarray, " q"] = LENGTHS
) -> float:
    """The shortest of the lengths that fools a share `level`; infinite if none does."""
    enough = np.flatnonzero(shares >= level)
    return float(lengths[enough[0]]) if len(enough) else math.inf


@dataclass(frozen=True, eq=False, repr=False)
class UniversalVector(Result):
    """Share of points fooled against |z| / sqrt(d/k), a row for each seed, for each kind of network.

    Returned by `fa.universal_vector`, which has an example.
    """

    d: int
    shares: Mapping[str, Float[ndarray, "s q"]]

    def length(self, name: str, level: float = 0.99) -> list[float]:
        """For each seed the shortest |z| / sqrt(d/k) that fools a share `level` of the points."""
        return [shortest(row, level) for row in self.shares[name]]

    def at(self, name: str, length: float) -> list[float]:
        """For each seed the share fooled at a length in units of sqrt(d/k)."""
        return [float(v) for v in self.shares[name][:, int(np.searchsorted(LENGTHS, length))]]

    def figure(self) -> Figure:
        """All kinds against the length."""
        lines = tuple(
            Series.over_seeds(NETWORKS[name][0], LENGTHS, rows, NETWORKS[name][1])
            for name, rows in self.shares.items()
        )
        return Figure(
            "fooled",
            "One vector for all points",
            f"Share of correctly decided points that x − y z fools, z along Σ yⱼ μⱼ, d = {self.d:,}, "
            f"k = {K}, against its length; band: seeds.",
            (Lines(Axis("|z| / √(d/k)"), Axis("share fooled"), lines),),
        )

    def to_json(self) -> dict[str, Any]:
        """The share fooled against the length, for every network."""
        return {
            "d": self.d,
            "lengths": LENGTHS.tolist(),
            "shares": {name: rows.tolist() for name, rows in self.shares.items()},
        }

    def summary(self) -> str:
        """The length for 99% of each kind, worst seed."""
        lines = [f"  {name:10} {max(self.length(name)):.3f} √(d/k)" for name in self.shares]
        return "\n".join(["Length of the universal vector that fools 99%, worst seed", *lines])


def universal_vector(
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4), progress: Progress = silent
) -> UniversalVector:
    """The universal vector against f_FA and against trained networks, k = 10.

    Args:
        seeds: one network and one sample for each.
        progress: called with the share done and a note.

    >>> import featavg as fa
    >>> fa.universal_vector(seeds=(0,))
    Length of the universal vector that fools 99%, worst seed
    ...
    """
    task = MultiCluster(k=K, d=D)
    kinds = {
        "f_FA": (feature_averaging(task),) * len(seeds),
        "averaged": networks(RadiusCase("coarse", d=D, paper=False), seeds),
        "deep": deep_networks(K, D, seeds),
        "decoupled": networks(RadiusCase("fine", d=D, paper=False), seeds),
    }
    shares = {}
    for i, (name, nets) in enumerate(kinds.items()):
        progress(i / len(kinds), name)
        shares[name] = np.array(
            [fooled(task, net, seed) for net, seed in zip(nets, seeds, strict=True)]
        )
    return UniversalVector(D, shares)


@dataclass(frozen=True, eq=False, repr=False)
class RemarkLengths(Result):
    """The vector against f_FA itself: |z| / sqrt(d/k) that fools half of the points, and 99%.

    Attributes:
        settings: (k, d, |J+|) of each row.
        half, almost: a row for each setting, a column for each seed.

    Returned by `fa.remark_lengths`, which has an example.
    """

    settings: tuple[tuple[int, int, int], ...]
    half: Float[ndarray, "v s"]
    almost: Float[ndarray, "v s"]

    def figure(self) -> Figure:
        """Both lengths against d for the balanced ones."""
        rows = [i for i, (k, _, plus) in enumerate(self.settings) if k == K and plus == K // 2]
        d = [self.settings[i][1] for i in rows]
        lines = (
            Series.over_seeds("half of the points", d, _drawable(self.half[rows].T), "neutral"),
            Series.over_seeds("99%", d, _drawable(self.almost[rows].T), "averaged"),
            Series("√(d/k)", d, [1.0] * len(d), "reference", "dashed"),
        )
        return Figure(
            "lengths",
            "How long the attack vector must be",
            "Length of ρ along −Σ<sub>J₊</sub>μ + Σ<sub>J₋</sub>μ that fools f<sub>FA</sub> on half of "
            f"the points and on 99%, in units of √(d/k), k = {K}; band: seeds.",
            (Lines(Axis("dimension d", log=True), Axis("|ρ| / √(d/k)"), lines),),
        )

    def to_json(self) -> dict[str, Any]:
        """Every length."""
        return {
            "settings": [list(row) for row in self.settings],
            "half": self.half.tolist(),
            "almost": self.almost.tolist(),
        }

    def summary(self) -> str:
        """One line for each setting."""
        rows = zip(self.settings, self.half, self.almost, strict=True)
        lines = [
            f"  k = {k:>3}, d = {d:>9,}, |J+| = {plus:>2}: half at {h.mean():.3f}, 99% at {a.mean():.3f}"
            for (k, d, plus), h, a in rows
        ]
        return "\n".join(["|ρ| / √(d/k) that fools f_FA", *lines])


def _drawable(lengths: Float[ndarray, "s v"]) -> Float[ndarray, "s v"]:
    """A length that was not found is a gap."""
    return np.where(np.isfinite(lengths), lengths, np.nan)


REMARK_SETTINGS = (
    (10, 3072, 5),
    (10, 10**5, 5),
    (10, 10**7, 5),
    (4, 10**7, 2),
    (40, 10**7, 20),
    (10, 10**7, 2),
)


def remark_lengths(seeds: tuple[int, ...] = (0, 1, 2, 3, 4)) -> RemarkLengths:
    """The remark to Definition 1.1: the vector itself against f_FA, and how long it must be.

    Args:
        seeds: of the fresh points.

    >>> import featavg as fa
    >>> fa.remark_lengths(seeds=(0,))
    |ρ| / √(d/k) that fools f_FA
    ...
    """
    lengths = np.linspace(0.5, 1.5, 401)
    half, almost = [], []
    for k, d, plus in REMARK_SETTINGS:
        task = MultiCluster(k=k, d=d, positive=plus)
        shares = [fooled(task, feature_averaging(task), seed, lengths) for seed in seeds]
        half.append([shortest(row, 0.5, lengths) for row in shares])
        almost.append([shortest(row, 0.99, lengths) for row in shares])
    return RemarkLengths(REMARK_SETTINGS, np.array(half), np.array(almost))
