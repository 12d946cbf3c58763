"""A plane through chosen features: where a network's boundary cuts it, and what lies in it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray

from featavg.data.clusters import MultiCluster
from featavg.errors import InputError
from featavg.figures.figure import Arrow, Axis, Circle, Contour, Note, Plane, Points
from featavg.figures.marks import Role
from featavg.nets.deep import Deep
from featavg.nets.readouts._readout import score
from featavg.nets.two_layer import TwoLayer
from featavg.robustness.radii import radii


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

    def points(
        self, a: Float[ndarray, " p"], b: Float[ndarray, " q"], dimension: int
    ) -> Float[ndarray, "pq N"]:
        """All points of a grid, b varying slowest, written in `dimension` coordinates."""
        ga, gb = np.meshgrid(a, b)
        inside = self.origin + ga.reshape(-1, 1) * self.across + gb.reshape(-1, 1) * self.up
        return np.pad(inside, ((0, 0), (0, dimension - inside.shape[1])))


def through(
    origin: Float[ndarray, " k"], first: Float[ndarray, " k"], second: Float[ndarray, " k"]
) -> View:
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

    def values(
        self, view: View, a: Float[ndarray, " p"], b: Float[ndarray, " q"]
    ) -> Float[ndarray, "q p"]:
        """The decision on a grid, scaled to at most 1, which moves no boundary."""
        x = view.points(a, b, self.net.dimension)
        z = self.decide(x)
        if isinstance(self.net, TwoLayer) and self.net.outputs == 1:
            # Where no neuron is on the score is exactly zero and counts as flipped, as in `radii`.
            # How far the positive neurons are from it makes the edge of that region a clean line.
            asleep = self.net.preactivations(x)[:, self.net.head[0] > 0].max(axis=1)
            z = np.where(z == 0.0, np.minimum(asleep, 0.0), z)
        return np.round(z / max(np.abs(z).max(), 1e-300), 4).reshape(len(b), len(a))


def _clusters_in(
    task: MultiCluster, view: View, chosen: Int[ndarray, " c"], unit: float
) -> tuple[Points, ...]:
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
        Contour("boundary", at, at, one.values(view, at * unit, at * unit), one.role,
                fill=len(shown) == 1)
        for one in shown
    )  # fmt: skip
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
