"""Li et al. (2022): a line that is right and never robust, and what a robust classifier costs.

Every vertex v of the cube {0, 1}^m carries an arbitrary label y_v; the point itself is
x = (v, y_v * gap) in R^(m+1). The last coordinate alone gives the label, but it is only `gap` wide:
an adversary who may move further must be met with the other m coordinates, and those say nothing
but which of the 2^m vertices this is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray
from scipy.optimize import linprog

from featavg.data.clusters import MultiCluster
from featavg.data.streams import stream
from featavg.errors import InputError
from featavg.figures.figure import Axis, Circle, Contour, Figure, Lines, Plane, Points, Series
from featavg.nets.two_layer import TwoLayer
from featavg.paper.engine.claim import Check, Context, Evidence, claim
from featavg.robustness.radii import radii
from featavg.training.train import train

SIZES = (3, 4, 5, 6, 7)
CLUSTERS = (4, 8, 12)
D, POINTS_PER_CLUSTER, TESTS = 3072, 20, 12
# Seeds for which what holds by construction is looked at.
CONSTRUCTIONS = 5


@dataclass(frozen=True, eq=False)
class Lattice:
    """All 2^m points of the task; labels are random, half of them +1.

    >>> task = Lattice(m=3, gap=0.05)
    >>> task.x.shape, int(task.y.sum())
    ((8, 4), 0)
    """

    m: int
    gap: float = 0.05
    seed: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.m <= 16:
            raise InputError("m", f"is {self.m}", "give a cube of 1 to 16 dimensions")
        if not 0 < self.gap < 0.5:
            raise InputError("gap", f"is {self.gap}", "give a number between 0 and 0.5")

    @cached_property
    def vertices(self) -> Float[ndarray, "V m"]:
        """The vertices, in the order of their binary numbers."""
        numbers = np.arange(2**self.m)
        return ((numbers[:, None] >> np.arange(self.m)) & 1).astype(float)

    @cached_property
    def y(self) -> Int[ndarray, " V"]:
        """A label for each vertex."""
        return stream(self.seed, "lattice-labels").permutation(np.resize([1, -1], 2**self.m))

    @property
    def x(self) -> Float[ndarray, "V d"]:
        """The points."""
        return np.column_stack([self.vertices, self.gap * self.y])

    def nearest_vertex_radii(self) -> Float[ndarray, " V"]:
        """The exact l2 radius of the classifier "the label of the nearest vertex", at every point.

        From v, the nearest point of the cell of another vertex w lies half-way in each of the
        h = |v - w|_1 coordinates in which they differ, sqrt(h)/2 away: the radius is that of the
        nearest vertex with another label, found by a search in rings around all vertices at once.
        """
        labels = self.y > 0
        near = np.full(len(labels), np.inf)
        # reach[v, s]: is there a vertex of label s within the rings searched so far?
        reach = np.stack([~labels, labels], axis=1)
        index = np.arange(len(labels))
        flips = [index ^ (1 << bit) for bit in range(self.m)]
        for ring in range(1, self.m + 1):
            reach = np.logical_or.reduce([reach, *(reach[flip] for flip in flips)])
            met = reach[index, 1 - labels.astype(int)]
            near = np.where(met & np.isinf(near), np.sqrt(ring) / 2, near)
        return near


def last_coordinate(task: Lattice) -> TwoLayer:
    """f(x) = relu(x_d) - relu(-x_d), the last coordinate, as a network of two neurons."""
    last = np.eye(task.m + 1)[-1]
    return TwoLayer(np.stack([last, -last]), np.zeros(2), np.array([[1.0, -1.0]]))


def needed_width(task: Lattice) -> int:
    """The fewest of a sequence of random ReLU neurons (and a bias) whose head has all labels right.

    Where balls of radius eps >= gap contain the vertices (v, 0), a robust classifier is right on all of
    them. Labels are arbitrary, so a family that can always be robust shatters them: its VC dimension is
    at least 2^m, and so is, up to a power, the size of its networks. More neurons can only help, so
    bisection finds the border; each question is a linear program.
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
    answer = linprog(np.zeros(width), table, -np.ones(len(y)), bounds=[(None, None)] * width, method="highs")
    return bool(answer.status == 0)


def _cluster_radii(k: int, seed: int) -> tuple[float, float]:
    """Median exact radii after training on few points: coarse in sqrt(d/k), fine in sqrt(d/2)."""
    task = MultiCluster(k=k, d=D)
    n = POINTS_PER_CLUSTER * k
    fresh = task.sample(TESTS, seed)
    coarse, fine = (train(task, labels=labels, n=n, seed=seed).net for labels in ("coarse", "fine"))
    averaged = float(np.median(radii(coarse, fresh, jobs=1).attack))
    decoupled = float(np.median(radii(fine, fresh, readout="max", jobs=1).attack))
    return averaged / math.sqrt(D / k), decoupled / math.sqrt(D / 2)


@claim(
    "connections-expressivity",
    "A line with perfect clean and zero robust accuracy, where robustness costs exponentially",
    theme="Connections", source="Talks, 'Connection to lower bound examples'; Li et al. 2022",
    measured="the fewest random ReLU neurons whose head (a linear program) reproduces arbitrary "
    "labels on the 2<sup>d−1</sup> vertices, d = 4 to 8, as every classifier robust at ε must; "
    "exact radii of networks trained on 20 points of each of 4, 8 and 12 clusters. That the "
    "line is right and not robust is so by construction and is shown as a note",
    minutes=0.11, statements=("itcs-expressivity", "csml-expressivity"), times=4,
)  # fmt: skip
def expressivity(run: Context, m: int = 10, gap: float = 0.05, eps: float = 0.25) -> Evidence:
    """There is a task on which a linear classifier is right everywhere and robust nowhere, and a
    robust classifier exists, but only in families whose size is exponential in the dimension;
    feature averaging, in contrast, happens with polynomially many samples.
    """
    clean, robust, vertex, exact, rows, ratios = [], [], [], [], [], []
    some = np.arange(0, 2**m, max(1, 2**m // 64))
    for i, seed in enumerate(run.seeds):
        run.progress(i / len(run.seeds), f"seed {seed}")
        rows.append([needed_width(Lattice(size, gap, seed)) for size in SIZES])
        ratios.append([_cluster_radii(k, seed) for k in CLUSTERS])
    for seed in run.seeds[:CONSTRUCTIONS]:
        task = Lattice(m, gap, seed)
        line = last_coordinate(task)
        exact.append(radii(line, task.x[some], task.y[some], jobs=1).attack)
        clean.append(float(np.mean(task.y * line(task.x)[:, 0] > 0)))
        # The radius of a half-space is |f(x)| / |gradient| = |last coordinate|.
        robust.append(float(np.mean(np.abs(task.x[:, -1]) > eps)))
        vertex.append(float(task.nearest_vertex_radii().min()))
    coarse, fine = np.moveaxis(np.array(ratios), 2, 0)
    widths = np.array(rows)
    exponents = np.array([np.polyfit(SIZES, np.log2(row), 1)[0] for row in widths])
    figure = Figure(
        "expressivity",
        "A line that is right and never robust",
        "Left: four positions, whose labels show in a narrow last coordinate (drawn to scale). "
        "The linear boundary is right and cuts through every ball of radius ε; the tinted cells "
        "are robust, but each must be learnt by itself. "
        "Right: neurons that it takes to reproduce arbitrary labels on the 2<sup>d−1</sup> "
        "vertices, against the k neurons that k clusters take.",
        (_picture(gap, eps), _costs(widths)),
    )
    return Evidence(
        Check("neurons ~ vertices<sup>a</sup>: a", exponents, "within", (0.8, 1.2),
              note="1: as many as a share of all 2<sup>d−1</sup> vertices"),
        Check("few points of k clusters, coarse labels: largest radius over √(d/k)", coarse.max(axis=1), "<=",
              1.3, note="averaging needs no exponential sample"),
        Check("few points of k clusters, fine labels: smallest radius over √(d/2)", fine.min(axis=1), ">=",
              0.8, note="nor does robustness"),
        Check("line: smallest clean accuracy (by construction)", min(clean), ">=", 1.0, role="note"),
        Check(f"line: largest robust accuracy at ε = {eps:g} (by construction)", max(robust), "<=", 0.0,
              role="note"),
        Check("nearest vertex: smallest radius (by construction)", min(vertex), ">=", 0.5, role="note"),
        Check("exact radius of the line minus the gap", np.abs(np.concatenate(exact) - gap).max(), "<=", 1e-6,
              role="note"),
        finding=f"The line is right on all points and robust at ε = {eps:g} on none: its exact radius is "
        f"{gap:g} everywhere, where the nearest vertex has {min(vertex):.2f} or more. To reproduce the "
        "labels, as a robust classifier must, takes a number of neurons that grows like the number of "
        f"vertices to the power {np.mean(exponents):.2f} ({np.median(widths[:, -1]):g} for "
        f"{2 ** SIZES[-1]}). Clusters are another matter: from {POINTS_PER_CLUSTER} points each, coarse "
        f"labels end at {coarse.min():.2f} to {coarse.max():.2f} √(d/k) and fine ones, with one neuron per "
        f"cluster, at {fine.min():.2f} to {fine.max():.2f} √(d/2).",
        numbers={"gap": gap, "eps": eps, "m": m, "linear_clean": clean, "linear_robust": robust,
                 "nearest_vertex_smallest_radius": vertex, "sizes": SIZES, "widths": widths,
                 "exponents": exponents, "clusters": CLUSTERS, "coarse_radius_over_sqrt_d_k": coarse,
                 "fine_radius_over_sqrt_d_2": fine},
        figure=figure,
    )  # fmt: skip


def _costs(widths: Int[ndarray, "s q"]) -> Lines:
    vertices = [2.0**m for m in SIZES]
    half = [v / 2 for v in vertices]
    series = (
        Series.over_seeds("cube, labels at random", vertices, widths.astype(float), "averaged"),
        Series("half of the vertices", vertices, half, "reference", "dashed"),
        Series("clusters: one neuron each", CLUSTERS, CLUSTERS, "decoupled", "line+markers"),
    )
    axes = Axis("vertices, or clusters", log=True), Axis("neurons", log=True)
    return Lines(*axes, series, title="What robustness costs")


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
            Contour("nearest vertex: right and robust", x.tolist(), [-1.2, 1.2], [zigzag] * 2, "neutral", fill=True),
            Contour(
                "linear: right, never robust",
                [-0.6, len(labels) - 0.4],
                [-1.2, 1.2],
                [[-1.2, -1.2], [1.2, 1.2]],
                "reference",
            ),
        ),
        circles=tuple(Circle((v, gap * s), eps, "ε" if v == 0 else "") for v, s in zip(positions, labels, strict=True)),
        title="Right and robust are two things",
    )
