"""The picture of the talks: a line, a zigzag, and what training makes of them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray

from featavg.data.clusters import MultiCluster
from featavg.errors import InputError
from featavg.figures.figure import Arrow, Axis, Circle, Contour, Figure, Note, Plane, Points
from featavg.figures.marks import Role
from featavg.nets.deep import Deep
from featavg.nets.readouts._readout import score
from featavg.nets.two_layer import TwoLayer, biased_robust, feature_averaging, feature_decoupling
from featavg.paper.engine.claim import Check, Context, Evidence, claim
from featavg.robustness.radii import radii
from featavg.training.driver import SaveAt
from featavg.training.train import train
from featavg.training.trajectory import Trajectory


@dataclass(frozen=True, eq=False)
class View:
    """An affine plane: origin + a * across + b * up, with orthonormal `across` and `up`.

    >>> view = through(np.zeros(3), np.array([2.0, 0, 0]), np.array([1.0, 3, 0]))
    >>> view.place(np.array([[1.0, 2.0, 5.0]]))
    array([[1., 2.]])
    """

    origin: Float[ndarray, " k"]
    across: Float[ndarray, " k"]
    up: Float[ndarray, " k"]

    def place(self, x: Float[ndarray, "n N"]) -> Float[ndarray, "n 2"]:
        """Points, projected into the plane; coordinates beyond the features' do not count."""
        moved = x[:, : len(self.origin)] - self.origin
        return np.stack([moved @ self.across, moved @ self.up], axis=1)

    def points(self, a: Float[ndarray, " p"], b: Float[ndarray, " q"], dimension: int) -> Float[ndarray, "pq N"]:
        """All points of a grid, b varying slowest, written in `dimension` coordinates."""
        ga, gb = np.meshgrid(a, b)
        inside = self.origin + ga.reshape(-1, 1) * self.across + gb.reshape(-1, 1) * self.up
        return np.pad(inside, ((0, 0), (0, dimension - inside.shape[1])))


def through(origin: Float[ndarray, " k"], first: Float[ndarray, " k"], second: Float[ndarray, " k"]) -> View:
    """The plane through three points; `first` lies on the horizontal axis."""
    across = first - origin
    across = across / np.linalg.norm(across)
    up = second - origin - ((second - origin) @ across) * across
    if not np.linalg.norm(up) > 1e-9 * np.linalg.norm(second - origin):
        raise InputError("points", "lie on one line", "give three that span a plane")
    return View(origin, across, up / np.linalg.norm(up))


@dataclass(frozen=True, eq=False)
class Shown:
    """A network with its name, its read-out and its place in the palette."""

    name: str
    net: TwoLayer | Deep
    role: Role
    readout: str = "max"
    positive: Bool[ndarray, " k"] | None = None

    def decide(self, x: Float[ndarray, "n N"]) -> Float[ndarray, " n"]:
        """The number whose sign is the decision."""
        return score(self.net(x), self.positive, self.readout)

    def nearest(self, x: Float[ndarray, " k"], y: int) -> Float[ndarray, " k"] | None:
        """The exact minimal perturbation of x, or None if x is on the wrong side already."""
        padded, label = np.pad(x, (0, self.net.dimension - len(x)))[None, :], np.array([y])
        exact = radii(self.net, padded, label, readout=self.readout, positive=self.positive, jobs=1)
        if not 0 < exact.attack[0] < np.inf:
            return None
        return np.asarray((exact.witness[0] - padded[0])[: len(x)])

    def values(self, view: View, a: Float[ndarray, " p"], b: Float[ndarray, " q"]) -> Float[ndarray, "q p"]:
        """The decision on a grid, scaled to at most 1, which moves no boundary."""
        x = view.points(a, b, self.net.dimension)
        z = self.decide(x)
        if isinstance(self.net, TwoLayer) and self.net.outputs == 1:
            # Where no neuron is on the score is exactly zero and counts as flipped, as in `radii`.
            # How far the positive neurons are from it makes the edge of that region a clean line.
            asleep = self.net.preactivations(x)[:, self.net.head[0] > 0].max(axis=1)
            z = np.where(z == 0.0, np.minimum(asleep, 0.0), z)
        return np.round(z / max(np.abs(z).max(), 1e-300), 4).reshape(len(b), len(a))


def _clusters_in(task: MultiCluster, view: View, chosen: Int[ndarray, " c"], unit: float) -> tuple[Points, ...]:
    """Fresh points of the chosen clusters, projected into the plane."""
    points = task.sample(60 * task.k, 0)
    x, kept = points.coordinates(task.k), np.isin(points.clusters, chosen)
    up, down = (view.place(x[kept & (points.y == sign)]).T / unit for sign in (1, -1))
    return (
        Points("class +", up[0], up[1], "decoupled", "o", 4.5, 0.6),
        Points("class −", down[0], down[1], "averaged", "s", 4.5, 0.6),
    )


def panel(
    task: MultiCluster,
    shown: tuple[Shown, ...],
    view: View,
    span: tuple[float, float],
    axes: tuple[str, str],
    title: str,
    clusters: Int[ndarray, " c"],
    point: Float[ndarray, " k"] | None = None,
    resolution: int = 67,
) -> Plane:
    """One panel: boundaries, clusters, and the minimal perturbation of `point` with its ball.

    Lengths are in units of sqrt(d), the length of a feature.
    """
    unit = float(np.sqrt(task.d))
    at = np.linspace(span[0], span[1], resolution)
    contours = tuple(
        Contour("boundary", at, at, one.values(view, at * unit, at * unit), one.role, fill=len(shown) == 1)
        for one in shown
    )
    arrows, circles, notes = (), (), ()  # type: tuple[Arrow, ...], tuple[Circle, ...], tuple[Note, ...]
    if point is not None:
        moved = shown[0].nearest(point, 1)
        if moved is not None:
            start = view.place(point[None, :])[0] / unit
            end = view.place((point + moved)[None, :])[0] / unit
            radius = float(np.linalg.norm(moved)) / unit
            if radius > 0.01:  # too short an arrow is only a smudge
                arrows = (Arrow((start[0], start[1]), (end[0], end[1])),)
                circles = (Circle((start[0], start[1]), radius),)
            notes = (Note(start[0], start[1] - radius - 0.16, f"radius {radius:.2f} √d"),)
    return Plane(
        Axis(axes[0]),
        Axis(axes[1]),
        points=_clusters_in(task, view, clusters, unit),
        contours=contours,
        arrows=arrows,
        circles=circles,
        notes=notes,
        title=title,
    )


def ideal_nets(task: MultiCluster) -> tuple[Shown, Shown, Shown]:
    """f_FA, f_FD and the biased robust network, written down."""
    return (
        Shown("f<sub>FA</sub>", feature_averaging(task), "averaged"),
        Shown("f<sub>FD</sub>", feature_decoupling(task), "decoupled"),
        Shown("with biases", biased_robust(task), "neutral"),
    )


def trained(k: int, d: int, n: int, seed: int, steps: int = 100, every: int = 100) -> tuple[Trajectory, ...]:
    """The paper's two networks: coarse labels, fine labels."""
    task, save = MultiCluster(k=k, d=d), SaveAt(every=every)
    return tuple(train(task, labels=labels, n=n, seed=seed, steps=steps, save_at=save) for labels in ("coarse", "fine"))


def trained_nets(task: MultiCluster, runs: tuple[Trajectory, ...], save: int = -1) -> tuple[Shown, Shown]:
    """The two networks at a save."""
    return (
        Shown("trained averaged", runs[0].at(save), "averaged"),
        Shown("trained decoupled", runs[1].at(save), "decoupled", "max", task.positive_clusters),
    )


def feature_plane(task: MultiCluster) -> View:
    """The plane through two features of the positive class and one of the negative."""
    if task.positive_count < 2:
        raise InputError("k", f"is {task.k}", "the picture needs two features of the positive class")
    first, second = task.class_clusters(1)[:2]
    return through(*(task.features[j] for j in (first, second, task.class_clusters(-1)[0])))


def attack_plane(task: MultiCluster, shown: Shown) -> View:
    """The plane through a feature, its exact minimal perturbation, and the feature nearest to that.

    Where the perturbation heads straight for that feature, the universal direction fills the plane.
    """
    point = task.features[task.class_clusters(1)[0]]
    moved = shown.nearest(point, 1)
    rivals = task.features[task.class_clusters(-1)]
    universal = -(task.cluster_labels[:, None] * task.features).sum(axis=0)
    if moved is None:
        return through(point, rivals[0], point + universal)
    rival = rivals[np.argmax(rivals @ moved)]
    towards = rival - point
    cosine = moved @ towards / np.linalg.norm(moved) / np.linalg.norm(towards)
    return through(point, rival, point + (universal if cosine > 0.98 else moved))


def _rival(task: MultiCluster, view: View) -> int:
    """The feature of class − that lies farthest across."""
    return int(np.argmax(np.where(task.cluster_labels < 0, task.features @ view.across, -np.inf)))


def pieces(shown: Shown, view: View, size: float, resolution: int = 401) -> int:
    """How many different directions the boundary has in a plane, to within two degrees.

    Signs are read on a fine grid; where neighbours differ, the direction of the boundary is that of
    the level line of the two cells' finite differences.
    """
    ticks = np.linspace(-size, size, resolution)
    z = shown.decide(view.points(ticks, ticks, shown.net.dimension)).reshape(resolution, resolution)
    gb, ga = np.gradient(z)
    flips = (np.sign(z[:-1, :-1]) != np.sign(z[1:, 1:])) & (np.abs(z[:-1, :-1]) > 0)
    slopes = np.stack([ga[:-1, :-1][flips], gb[:-1, :-1][flips]], axis=1)
    slopes = slopes[np.linalg.norm(slopes, axis=1) > 1e-9 * np.abs(z).max()]
    angles = np.sort(np.mod(np.degrees(np.arctan2(slopes[:, 1], slopes[:, 0])) + 1.0, 180.0))
    groups = np.split(angles, np.flatnonzero(np.diff(angles) > 2.0) + 1)
    # Cells that straddle a kink have slopes in between: only directions that last are counted.
    return sum(len(group) > 0.03 * len(angles) for group in groups)


@claim(
    "connections-picture", "The boundary of averaged features is a line, of decoupled ones a zigzag",
    theme="Connections", source="Talks, 'Robust and nonrobust solutions'",
    measured="the directions of the boundary in the plane through three features and the exact "
    "radius at a feature, for f<sub>FA</sub>, f<sub>FD</sub>, the biased robust network and both "
    "trained networks; k = 10, d = 3072",
    minutes=0.05, statements=("csml-robust-picture",),
)  # fmt: skip
def picture(run: Context, k: int = 10, d: int = 3072, n: int = 1000) -> Evidence:
    """f<sub>FA</sub> separates the clusters by a line that passes near all of them, f<sub>FD</sub>
    by a zigzag further away, and trained networks look like the one or the other according to
    their labels.
    """
    task = MultiCluster(k=k, d=d)
    view, point = feature_plane(task), task.features[task.class_clusters(1)[0]]
    nets = []
    for i, seed in enumerate(run.seeds):
        run.progress(i / len(run.seeds), f"seed {seed}")
        nets.append((*ideal_nets(task), *trained_nets(task, trained(k, d, n, seed))))
    first = nets[0]
    # What is written down is the same on every seed.
    each = {
        shown.name: [_radius_at(point, found[i]) / math.sqrt(d) for found in (nets if i > 2 else nets[:1])]
        for i, shown in enumerate(first)
    }
    radius = {name: float(np.mean(values)) for name, values in each.items()}
    straight, bent = (pieces(shown, view, 2 * math.sqrt(d)) for shown in first[:2])
    theory = (k**-0.5, (1 + k / 2) ** -0.5, 0.5, k**-0.5, 0.5**0.5)
    found = ", ".join(f"{name} {value:.3f}" for name, value in radius.items())
    return Evidence(
        Check("directions of the boundary of f<sub>FA</sub> in the plane of three features", straight,
              "<=", 1, note="a line"),
        Check("directions of the boundary of f<sub>FD</sub> there", bent, ">=", 3, note="a zigzag"),
        *(
            Check(f"{name}: exact radius at μ<sub>1</sub> over its theory", np.array(values) / known, "within",
                  (0.999, 1.001) if i < 3 else (0.9, 1.1), note=f"theory: {known:.3f} √d")
            for i, ((name, values), known) in enumerate(zip(each.items(), theory, strict=True))
        ),
        finding=f"In the plane of three features the boundary of f<sub>FA</sub> has {straight} direction "
        f"and that of f<sub>FD</sub> {bent}. Exact radii at μ<sub>1</sub>, in units of √d: {found}.",
        numbers={"radius_over_sqrt_d": each, "pieces": [straight, bent]},
        figures=(_features(task, first, view), _attacks(task, first, point)),
    )  # fmt: skip


def _radius_at(point: Float[ndarray, " k"], shown: Shown) -> float:
    moved = shown.nearest(point, 1)
    return float(np.linalg.norm(moved)) if moved is not None else 0.0


def _features(task: MultiCluster, shown: tuple[Shown, ...], view: View) -> Figure:
    clusters = np.array([*task.class_clusters(1)[:2], task.class_clusters(-1)[0]])
    axes = ("towards μ<sub>2</sub> (class +), in √d", "towards a feature of class −, in √d")
    panels = tuple(panel(task, (one,), view, (-1.2, 2.6), axes, one.name, clusters) for one in shown)
    return Figure(
        "features",
        "A line and a zigzag",
        "The plane through μ<sub>1</sub> and μ<sub>2</sub> (class +) and one feature of class −, with "
        "fresh points of these clusters. The averaged networks cut it along a line; the decoupled "
        "ones along a zigzag that follows each cluster; with biases a wedge between the clusters is "
        "left undecided, which counts against the network.",
        panels,
    )


def _attacks(task: MultiCluster, shown: tuple[Shown, ...], point: Float[ndarray, " k"]) -> Figure:
    panels = []
    for one in shown:
        view = attack_plane(task, one)
        clusters = np.array([task.class_clusters(1)[0], _rival(task, view)])
        axes = ("towards a rival feature, in √d", "across, in √d")
        panels.append(panel(task, (one,), view, (-1.1, 1.7), axes, one.name, clusters, point))
    return Figure(
        "attacks",
        "The nearest way across the boundary",
        "For each network the plane through μ<sub>1</sub> (class +), a rival feature and the exact "
        "minimal perturbation of μ<sub>1</sub> (arrow), with the ball that it touches. Averaging "
        "lets the boundary come within √(d/k); decoupled features keep it half-way to the rival.",
        tuple(panels),
    )


def film(k: int = 10, d: int = 3072, n: int = 1000, seed: int = 0, steps: int = 100, every: int = 4) -> list[Figure]:
    """The two trained networks at every save: frames for `featavg.figures.animate`.

    Both are seen in the plane of the trained decoupled network: through a feature, the rival that
    its minimal perturbation heads for, and the universal direction, along which averaging breaks.
    """
    task = MultiCluster(k=k, d=d)
    runs = trained(k, d, n, seed, steps, every)
    point = task.features[task.class_clusters(1)[0]]
    view = attack_plane(task, trained_nets(task, runs)[1])
    clusters = np.array([task.class_clusters(1)[0], _rival(task, view)])
    axes = ("towards a rival feature, in √d", "universal direction, in √d")
    frames = []
    for save, step in enumerate(runs[0].steps):
        panels = (
            panel(task, (one,), view, (-1.1, 1.7), axes, f"{one.name}, step {step}", clusters, point, 81)
            for one in trained_nets(task, runs, save)
        )
        frames.append(Figure("film", "Training", f"After {step} steps.", tuple(panels)))
    return frames
