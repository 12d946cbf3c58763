"""Li et al. (2022): a line that is right and never robust, and what a robust classifier costs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray
from scipy.optimize import linprog

from featavg.data.clusters import MultiCluster
from featavg.data.streams import stream
from featavg.figures.figure import Axis, Circle, Contour, Figure, Lines, Plane, Points, Series
from featavg.figures.result import Result
from featavg.nets.two_layer import TwoLayer
from featavg.paper.connections.lattice import Lattice
from featavg.progress import Progress, silent
from featavg.robustness.radii import radii
from featavg.training.train import train

SIZES = (3, 4, 5, 6, 7)
CLUSTERS = (4, 8, 12)
D, POINTS_PER_CLUSTER, TESTS = 3072, 20, 12


@dataclass(frozen=True, repr=False, eq=False)
class Expressivity(Result):
    """Accuracy of a line and of the nearest vertex, and what arbitrary labels cost in neurons.

    Attributes:
        m, gap, eps: the cube's dimension, the width of the last coordinate, the perturbation.
        clean, robust: accuracy of the line, and its robust accuracy at `eps`, for each seed.
        line_radius: the exact radii of the line at some points, the farthest from `gap`.
        vertex_radius: the smallest radius of the nearest-vertex classifier, for each seed.
        sizes: dimensions of cubes whose 2^m vertices were labelled at random.
        widths: the fewest random ReLU neurons whose head can reproduce those labels, which every
            classifier robust at eps >= gap must do; a row for each seed.
        clusters: numbers of clusters on which networks were trained with `POINTS_PER_CLUSTER` each.
        coarse, fine: median exact radii of those, in units of sqrt(d/k) and of sqrt(d/2).

    Returned by `fa.expressivity`, which has an example.
    """

    m: int
    gap: float
    eps: float
    clean: Float[ndarray, " s"]
    robust: Float[ndarray, " s"]
    line_radius: float
    vertex_radius: Float[ndarray, " s"]
    sizes: tuple[int, ...]
    widths: Int[ndarray, "s q"]
    clusters: tuple[int, ...]
    coarse: Float[ndarray, " c"]
    fine: Float[ndarray, " c"]

    @property
    def exponents(self) -> Float[ndarray, " s"]:
        """The exponent a of width ~ (2^m)^a, fitted for each seed."""
        return np.array([np.polyfit(self.sizes, np.log2(row), 1)[0] for row in self.widths])

    def figure(self) -> Figure:
        """The task in a picture, and the neurons that its labels cost."""
        return Figure(
            "expressivity",
            "A line that is right and never robust",
            "Left: four positions, whose labels show in a narrow last coordinate (drawn to scale). "
            "The linear boundary is right and cuts through every ball of radius ε; the tinted cells "
            "are robust, but each must be learnt by itself. "
            "Right: neurons that it takes to reproduce arbitrary labels on the 2<sup>d−1</sup> "
            "vertices, against the k neurons that k clusters take.",
            (_picture(self.gap, self.eps), self._costs()),
        )

    def _costs(self) -> Lines:
        vertices = [2.0**m for m in self.sizes]
        series = (
            Series.over_seeds("cube, labels at random", vertices, self.widths.astype(float), "averaged"),
            Series("half of the vertices", vertices, [v / 2 for v in vertices], "reference", "dashed"),
            Series("clusters: one neuron each", self.clusters, self.clusters, "decoupled", "line+markers"),
        )  # fmt: skip
        axes = Axis("vertices, or clusters", log=True), Axis("neurons", log=True)
        return Lines(*axes, series, title="What robustness costs")

    def to_json(self) -> dict[str, Any]:
        """Every number, by name."""
        return {
            "gap": self.gap,
            "eps": self.eps,
            "m": self.m,
            "linear_clean": self.clean.tolist(),
            "linear_robust": self.robust.tolist(),
            "nearest_vertex_smallest_radius": self.vertex_radius.tolist(),
            "sizes": list(self.sizes),
            "widths": self.widths.tolist(),
            "exponents": self.exponents.tolist(),
            "clusters": list(self.clusters),
            "coarse_radius_over_sqrt_d_k": self.coarse.tolist(),
            "fine_radius_over_sqrt_d_2": self.fine.tolist(),
        }

    def summary(self) -> str:
        """Both halves in two sentences."""
        last = np.median(self.widths[:, -1])
        return (
            f"The line is right on all points and robust at ε = {self.eps:g} on none: its exact "
            f"radius is {self.gap:g} everywhere, where the nearest vertex has "
            f"{self.vertex_radius.min():.2f} or more. To reproduce the labels, as a robust classifier "
            f"must, takes a number of neurons that grows like the number of vertices to the power "
            f"{np.mean(self.exponents):.2f} ({last:g} for {2 ** self.sizes[-1]}). Clusters are another "
            f"matter: from {POINTS_PER_CLUSTER} points each, coarse labels end at "
            f"{self.coarse.min():.2f} to {self.coarse.max():.2f} √(d/k) and fine ones, with one neuron "
            f"per cluster, at {self.fine.min():.2f} to {self.fine.max():.2f} √(d/2)."
        )


def expressivity(
    m: int = 10,
    gap: float = 0.05,
    eps: float = 0.25,
    *,
    seeds: Sequence[int] = (0,),
    progress: Progress = silent,
) -> Expressivity:
    """A cube with arbitrary labels: the line, the nearest vertex, and the width that labels cost.

    Args:
        m: dimension of the cube of vertices.
        gap: width of the last coordinate.
        eps: length of the perturbation.
        seeds: of labels and networks.
        progress: called with the share done and a note.

    >>> import featavg as fa
    >>> fa.expressivity()
    The line is right on all points and robust at ε = ...
    """
    clean, robust, smallest, exact = [], [], [], []
    widths = []
    for i, seed in enumerate(seeds):
        progress(0.8 * i / len(seeds), f"labels {seed}")
        task = Lattice(m, gap, seed)
        line = last_coordinate(task)
        some = np.arange(0, 2**m, max(1, 2**m // 64))
        exact.append(radii(line, task.x[some], task.y[some], jobs=1).attack)
        clean.append(float(np.mean(task.y * line(task.x)[:, 0] > 0)))
        # The radius of a half-space is |f(x)| / |gradient| = |last coordinate|.
        robust.append(float(np.mean(np.abs(task.x[:, -1]) > eps)))
        smallest.append(float(task.nearest_vertex_radii().min()))
        widths.append([needed_width(Lattice(size, gap, seed)) for size in SIZES])
    progress(0.8, "clusters")
    pairs = np.array([_cluster_radii(k, seeds[0]) for k in CLUSTERS])
    distances = np.concatenate(exact)
    return Expressivity(
        m,
        gap,
        eps,
        np.array(clean),
        np.array(robust),
        float(distances[np.argmax(np.abs(distances - gap))]),
        np.array(smallest),
        SIZES,
        np.array(widths),
        CLUSTERS,
        pairs[:, 0],
        pairs[:, 1],
    )


def last_coordinate(task: Lattice) -> TwoLayer:
    """f(x) = relu(x_d) - relu(-x_d), the last coordinate, as a network of two neurons."""
    last = np.eye(task.m + 1)[-1]
    return TwoLayer(np.stack([last, -last]), np.zeros(2), np.array([[1.0, -1.0]]))


def needed_width(task: Lattice) -> int:
    """The fewest of a sequence of random ReLU neurons (and a bias) whose head has all labels right.

    Where balls of radius eps contain the vertices, a robust classifier is right on all of them.
    More neurons can only help, so bisection finds the border; each question is a linear program.
    """
    count = len(task.y)
    draw = stream(task.seed, f"lattice-neurons-{task.m}")
    directions = draw.standard_normal((task.m, count))
    shifts = draw.standard_normal(count)
    hidden = np.maximum((2 * task.vertices - 1) @ directions + shifts, 0.0)
    low, high = 0, count
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if separable(hidden[:, :middle], task.y) else (middle, high)
    return high


def separable(hidden: Float[ndarray, "n h"], y: Int[ndarray, " n"]) -> bool:
    """Whether some head and bias put every point on its side.

    >>> separable(np.array([[0.0], [1.0], [2.0]]), np.array([-1, 1, 1]))
    True
    >>> separable(np.array([[0.0], [1.0], [2.0]]), np.array([-1, 1, -1]))
    False
    """
    table = -y[:, None] * np.column_stack([hidden, np.ones(len(y))])
    width = table.shape[1]
    answer = linprog(
        np.zeros(width), table, -np.ones(len(y)), bounds=[(None, None)] * width, method="highs"
    )
    return bool(answer.status == 0)


def _cluster_radii(k: int, seed: int) -> tuple[float, float]:
    """Median exact radii after training on few points: coarse in sqrt(d/k), fine in sqrt(d/2)."""
    task = MultiCluster(k=k, d=D)
    n = POINTS_PER_CLUSTER * k
    fresh = task.sample(TESTS, seed)
    coarse, fine = (train(task, labels=labels, n=n, seed=seed).net for labels in ("coarse", "fine"))
    averaged = radii(coarse, fresh, jobs=1).attack
    decoupled = radii(fine, fresh, readout="max", jobs=1).attack
    return float(np.median(averaged)) / math.sqrt(D / k), float(np.median(decoupled)) / math.sqrt(
        D / 2
    )


def _picture(gap: float, eps: float) -> Plane:
    labels = np.array([1, -1, -1, 1])
    positions = np.arange(len(labels), dtype=float)
    x = np.linspace(-0.6, len(labels) - 0.4, 161)
    zigzag = np.interp(x, positions, labels.astype(float))
    up, down = labels > 0, labels < 0
    return Plane(
        Axis("position v"),
        Axis("last coordinate", range=(-1.2, 1.2)),
        points=(
            Points("class +", positions[up], gap * labels[up], "decoupled", size=7),
            Points("class −", positions[down], gap * labels[down], "averaged", "s", 7),
        ),
        contours=(
            Contour("nearest vertex: right and robust", x.tolist(), [-1.2, 1.2], [zigzag] * 2,
                    "neutral", fill=True),
            Contour("linear: right, never robust", [-0.6, len(labels) - 0.4], [-1.2, 1.2],
                    [[-1.2, -1.2], [1.2, 1.2]], "reference"),
        ),
        circles=tuple(
            Circle((v, gap * s), eps, "ε" if v == 0 else "")
            for v, s in zip(positions, labels, strict=True)
        ),
        title="Right and robust are two things",
    )  # fmt: skip
