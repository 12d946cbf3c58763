"""How robust KKT points are: exact radii, one direction for all points, and the Lipschitz bound."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.data.clusters import MultiCluster
from featavg.errors import InputError
from featavg.figures.figure import Axis, Bar, Bars, Figure
from featavg.figures.marks import Role
from featavg.figures.result import Result
from featavg.measures.accuracy import accuracy
from featavg.nets.two_layer import TwoLayer
from featavg.paper.margins.kkt_runs import D, kkt_run
from featavg.progress import Progress, silent
from featavg.robustness.radii import radii

RADIUS_POINTS = 40
FRESH_POINTS = 1000
FLIPPED = 0.99
# Up to this many neurons every activation pattern is looked at: 2^16 of them are a second's work.
LISTED = 16


@dataclass(frozen=True, repr=False, eq=False)
class KKTRadius(Result):
    """Robustness of KKT points for several k, a list over seeds for each.

    Attributes:
        layers, start: which networks, see `kkt_run`.
        clusters: k.
        radius: median exact radius over sqrt(d/k).
        universal: the shortest z = eta sum_j y_j mu_j that flips 99% of fresh points, over
            sqrt(d / (c^2 k)) with c = 1/2, the share of the smaller class.
        accuracy: on the same fresh points as they are. Without it a short radius would mean nothing.

    Returned by `fa.kkt_radius`, which has an example.
    """

    layers: str
    start: str
    clusters: tuple[int, ...]
    radius: tuple[tuple[float, ...], ...]
    universal: tuple[tuple[float, ...], ...]
    accuracy: tuple[tuple[float, ...], ...]

    @property
    def every_radius(self) -> list[float]:
        """All ratios of radii."""
        return [value for row in self.radius for value in row]

    @property
    def every_universal(self) -> list[float]:
        """All ratios of lengths."""
        return [value for row in self.universal for value in row]

    @property
    def every_accuracy(self) -> list[float]:
        """All clean accuracies."""
        return [value for row in self.accuracy for value in row]

    def figure(self) -> Figure:
        """Both ratios for every k."""
        bars = (
            _bar("median radius / √(d/k)", self.radius, "averaged"),
            _bar("length that flips 99% / √(d/(c²k))", self.universal, "reference"),
        )
        return Figure(
            "radius",
            "KKT points are as fragile as averages",
            "Exact median radius and the universal direction's length, in units of their formulas.",
            (Bars(tuple(f"k = {k}" for k in self.clusters), bars, Axis("ratio")),),
        )

    def to_json(self) -> dict[str, Any]:
        """Every number, by name."""
        return {
            "layers": self.layers,
            "start": self.start,
            "k": list(self.clusters),
            "radius": [list(row) for row in self.radius],
            "universal": [list(row) for row in self.universal],
            "accuracy": [list(row) for row in self.accuracy],
        }

    def summary(self) -> str:
        """The ranges of both ratios."""
        near, far = self.every_radius, self.every_universal
        return (
            f"{self.layers} layers, {self.start} start: median radii {min(near):.2f} to {max(near):.2f} "
            f"√(d/k) for k = {', '.join(map(str, self.clusters))}; one direction of {max(far):.2f} "
            "√(d/(c²k)) flips 99% of fresh points"
        )


def kkt_radius(
    layers: str = "first",
    start: str = "small",
    *,
    clusters: Sequence[int] = (4, 6, 10),
    seeds: Sequence[int] = (0,),
    progress: Progress = silent,
) -> KKTRadius:
    """Exact radii and the universal direction at KKT points.

    Args:
        layers, start: which networks, see `kkt_run`.
        clusters: values of k; all but the last have two seeds, the order in k is what they are for.
        seeds: of data and weights.
        progress: called with the share done and a note.

    >>> import featavg as fa
    >>> fa.kkt_radius(clusters=(4,))
    first layers, small start: median radii ...
    """
    columns: tuple[list[tuple[float, ...]], ...] = ([], [], [])
    for i, k in enumerate(clusters):
        rows = []
        for seed in seeds if k == clusters[-1] else seeds[:2]:
            progress(i / len(clusters), f"k = {k}, seed {seed}")
            run = kkt_run(k, seed, layers=layers, start=start)
            net = run.nets[-1]
            exact = radii(net, run.task.sample(RADIUS_POINTS, seed), jobs=1)
            length = universal_length(net, run.task, seed)
            median = float(np.median(exact.certified))
            share = accuracy(net, run.task.sample(FRESH_POINTS, seed)).value
            rows.append((median / math.sqrt(D / k), length / math.sqrt(4 * D / k), share))
        for column, values in zip(columns, zip(*rows, strict=True), strict=True):
            column.append(values)
    return KKTRadius(layers, start, tuple(clusters), *map(tuple, columns))


def universal_length(net: TwoLayer, task: MultiCluster, seed: int) -> float:
    """The shortest z = eta sum_j y_j mu_j that flips all but 1% of 1000 fresh points.

    Infinite if eight times sqrt(d/k) is too short.
    """
    sample = task.sample(FRESH_POINTS, seed)
    x = sample.coordinates(net.dimension)
    direction = task.cluster_labels @ task.features_in(net.dimension)
    size = float(np.linalg.norm(direction))

    def flips(length: float) -> bool:
        z = length / size * direction
        score = sample.y * net(x - sample.y[:, None] * z)[:, 0]
        return bool(np.mean(score <= 0) >= FLIPPED)

    low, high = 0.0, 8.0 * math.sqrt(task.d / task.k)
    if not flips(high):
        return math.inf
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if flips(middle) else (middle, high)
    return high


def lipschitz_bound(net: TwoLayer) -> float:
    r"""A bound on |f(x) - f(x')| / |x - x'| for a network with one output.

    A gradient of f is sum_{r in S} a_r w_r for the set S of active neurons, so the longest such sum
    over all S bounds it. Up to `LISTED` neurons all sums are formed (exact whenever some point
    activates that set); beyond, |sum| is bounded by sqrt(M) times the spectral norm of (a_r w_r).

    >>> from featavg.nets.two_layer import binary
    >>> round(lipschitz_bound(binary(np.array([[3.0, 0.0], [0.0, 4.0]]))), 12)
    5.0
    """
    if net.outputs != 1 or net.batch:
        raise InputError("net", "has several outputs or seeds", "give one network with one output")
    rows = net.head[0][:, None] * net.weights
    if net.neurons > LISTED:
        return math.sqrt(net.neurons) * float(np.linalg.norm(rows, 2))
    gram = rows @ rows.T
    squares, inner = np.zeros(1), np.zeros((1, net.neurons))
    # Doubling: the sums over subsets of the first r neurons, then the same with neuron r added.
    for r in range(net.neurons):
        squares = np.concatenate([squares, squares + 2 * inner[:, r] + gram[r, r]])
        inner = np.concatenate([inner, inner + gram[r]])
    return math.sqrt(float(squares.max()))


def lipschitz_radii(
    net: TwoLayer, x: Float[ndarray, "n N"], y: Int[ndarray, " n"]
) -> Float[ndarray, " n"]:
    """q_i / beta for every point, zero where it is misclassified: never above the exact radius."""
    q = y * net(x)[:, 0]
    return np.maximum(q, 0.0) / lipschitz_bound(net)


def _bar(label: str, values: tuple[tuple[float, ...], ...], role: Role) -> Bar:
    middle = [float(np.median(row)) for row in values]
    return Bar(label, middle, role, [min(row) for row in values], [max(row) for row in values])
