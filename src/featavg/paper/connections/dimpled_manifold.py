"""Shamir et al.: do minimal perturbations leave the manifold of the data?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.figures.figure import Arrow, Axis, Contour, Figure, Lines, Note, Plane, Points, Series
from featavg.figures.marks import Role
from featavg.figures.result import Result
from featavg.nets.readouts.registry import score
from featavg.nets.two_layer import TwoLayer
from featavg.paper.connections.manifold import OnSubspace
from featavg.paper.connections.on_manifold import Split, split
from featavg.progress import Progress, silent
from featavg.training.train import train

PAPER = 1e-5
H = 3


@dataclass(frozen=True, eq=False)
class DimpledNetwork:
    """A network trained on a subspace, and its test points' perturbations, split."""

    task: OnSubspace
    net: TwoLayer
    x: Float[ndarray, "n N"]
    y: ndarray
    split: Split
    positive: ndarray | None

    @property
    def off_share(self) -> float:
        """Median share of |u|^2 outside the subspace."""
        return float(np.nanmedian(self.split.off_share))

    @property
    def distances(self) -> tuple[float, float, float]:
        """Median distance to the boundary: nearest, inside the subspace, straight out of it."""
        right = self.split.exact.attack > 0
        parts = (self.split.exact.attack, self.split.on.attack, self.split.off_radii)
        exact, on, off = (float(np.median(v[right])) for v in parts)
        return exact, on, off


@lru_cache(maxsize=64)
def dimpled_network(
    labels: str,
    sigma_w: float,
    seed: int,
    task: OnSubspace,
    n: int = 200,
    steps: int = 300,
    test: int = 16,
    m: int = 5,
) -> DimpledNetwork:
    """Train on coarse or fine labels and split the exact minimal perturbations of test points."""
    neurons = 2 * m if labels == "coarse" else H * task.k
    data = task.draw(n, neurons, seed)
    run = train(data, labels=labels, m=m, h=H, sigma_w=sigma_w, steps=steps)
    points = task.inside.sample(test, seed)
    x = task.embed(points, neurons)
    positive = task.inside.positive_clusters if labels == "fine" else None
    parts = split(run.net, x, points.y, task.basis(neurons), "max", positive)
    return DimpledNetwork(task, run.net, x, points.y, parts, positive)


@dataclass(frozen=True, repr=False, eq=False)
class OffManifold(Result):
    """Networks trained on a subspace from initial weights of several sizes, and where they break.

    Attributes:
        task: clusters on a random subspace.
        sizes: of the initial weights; the first is the paper's, the last the talks' 1/sqrt(d).
        runs: the networks of each (labels, size), one for each seed.

    Returned by `fa.off_manifold`, which has an example.
    """

    task: OnSubspace
    sizes: tuple[float, ...]
    runs: dict[tuple[str, float], list[DimpledNetwork]]

    def off_share(self, labels: str, size: float) -> float:
        """The median share of |u|^2 that leaves the manifold."""
        return float(np.median([run.off_share for run in self.runs[labels, size]]))

    def distances(self, labels: str, size: float) -> tuple[float, float, float]:
        """Median distance to the boundary: nearest, on the manifold, straight out of it."""
        rows = [run.distances for run in self.runs[labels, size]]
        exact, on, off = (float(v) for v in np.median(rows, axis=0))
        return exact, on, off

    @property
    def gap(self) -> float:
        """The largest gap between a certificate and its witness."""
        every = (run for rows in self.runs.values() for run in rows)
        return max(float(run.split.exact.gaps.max()) for run in every)

    def figure(self) -> Figure:
        """Off-manifold share and distances against the size of the initial weights."""
        return _curves(self.sizes, self.runs)

    def plane_figure(self) -> Figure:
        """The boundary in the plane of both nearest ways, for small and large initial weights."""
        ends = (self.sizes[0], self.sizes[-1])
        return _pictures(
            [self.runs[labels, size][0] for labels in ("coarse", "fine") for size in ends]
        )

    def to_json(self) -> dict[str, Any]:
        """Every number, by labels and size."""
        return {
            f"{labels}_{size:.2g}": {
                "off_share": self.off_share(labels, size),
                "exact_on_off": self.distances(labels, size),
            }
            for labels, size in self.runs
        }

    def summary(self) -> str:
        """Where dimples come from."""
        small, large = self.sizes[0], self.sizes[-1]
        _, on, off = self.distances("coarse", large)
        radius, other = self.distances("coarse", small)[0], self.distances("fine", small)[0]
        return (
            f"Dimples come from the initial weights, which nothing unlearns off the manifold: with "
            f"σ<sub>w</sub> = 1/√d, {self.off_share('coarse', large):.0%} of an exact minimal "
            f"perturbation leaves the manifold and the boundary is {off:.1f} away off it against "
            f"{on:.1f} on it; with the paper's σ<sub>w</sub> = 10<sup>−5</sup> it is "
            f"{self.off_share('coarse', small):.0%}, and the averaged network's radius of "
            f"{radius:.1f} against the decoupled one's {other:.1f} is a matter inside the manifold."
        )


def off_manifold(
    k: int = 10,
    d: int = 3072,
    r: int = 100,
    *,
    seeds: Sequence[int] = (0,),
    every_seed: bool = False,
    progress: Progress = silent,
) -> OffManifold:
    """Exact minimal perturbations of networks trained on a subspace, split along it and out of it.

    Args:
        k, d, r: clusters, dimension, and dimension of the subspace.
        seeds: of data and weights.
        every_seed: run every seed at every size of the initial weights, not only at both ends.
        progress: called with the share done and a note.

    >>> import featavg as fa  # long
    >>> fa.off_manifold()
    Dimples come from the initial weights, which nothing unlearns off ...
    """
    task = OnSubspace(k, d, r)
    sizes = (PAPER, 1e-3, 4e-3, 1 / math.sqrt(d))
    runs: dict[tuple[str, float], list[DimpledNetwork]] = {}
    plans = [(labels, size) for labels in ("coarse", "fine") for size in sizes]
    for i, (labels, size) in enumerate(plans):
        progress(i / len(plans), f"{labels} labels, initial weights {size:.2g}")
        chosen = seeds if every_seed or size in (sizes[0], sizes[-1]) else seeds[:1]
        runs[labels, size] = [dimpled_network(labels, size, seed, task) for seed in chosen]
    return OffManifold(task, sizes, runs)


def _curves(
    sizes: tuple[float, ...], runs: dict[tuple[str, float], list[DimpledNetwork]]
) -> Figure:
    roles: dict[str, Role] = {"coarse": "averaged", "fine": "decoupled"}
    names = {"coarse": "averaged", "fine": "decoupled"}
    shares, away = [], []
    for labels, role in roles.items():
        rows = [[run.off_share for run in runs[labels, size]] for size in sizes]
        low, middle, high = ([float(f(row)) for row in rows] for f in (np.min, np.median, np.max))
        shares.append(Series(names[labels], sizes, middle, role, "line+markers", low, high))
        distances = np.array(
            [np.median([run.distances for run in runs[labels, size]], axis=0) for size in sizes]
        )
        distances[~np.isfinite(distances)] = np.nan
        away += [
            Series(
                f"{names[labels]}, on the manifold", sizes, distances[:, 1], role, "line+markers"
            ),
            Series(f"{names[labels]}, off the manifold", sizes, distances[:, 2], role, "dashed"),
        ]
    axis = Axis("size of the initial weights σ<sub>w</sub>", log=True)
    return Figure(
        "shares",
        "How much of a minimal perturbation leaves the manifold?",
        "Left: the share of exact minimal perturbations that is orthogonal to the data's subspace "
        "grows from nothing to almost all with the initial weights. Right: the distance to the "
        "boundary along the subspace and straight out of it.",
        (
            Lines(axis, Axis("share of |u|² off the manifold", range=(-0.03, 1.03)), tuple(shares),
                  title="Off-manifold share"),
            Lines(axis, Axis("distance to the boundary", "l2", log=True), tuple(away),
                  title="Distance along each"),
        ),
    )  # fmt: skip


def _pictures(runs: list[DimpledNetwork]) -> Figure:
    sizes = ("σ<sub>w</sub> = 10<sup>−5</sup>", "σ<sub>w</sub> = 1/√d")
    titles = [f"{name}, {size}" for name in ("averaged", "decoupled") for size in sizes]
    return Figure(
        "plane",
        "On the manifold or off it",
        "The plane through a test point (star) along its shortest perturbation on the manifold "
        "(horizontal) and straight out of it (vertical). With small initial weights the boundary "
        "stands upright and the nearest point is on the manifold; with large ones it lies along the "
        "manifold and the nearest point is straight out.",
        tuple(_plane(run, title) for run, title in zip(runs, titles, strict=True)),
    )


def _plane(run: DimpledNetwork, title: str) -> Plane:
    r = run.task.r
    index = int(np.flatnonzero((run.y > 0) & (run.split.exact.attack > 0))[0])
    point = run.x[index]
    along = np.pad(run.split.on.witness[index], (0, run.x.shape[1] - r))
    along /= np.linalg.norm(along)
    moved = run.split.exact.witness[index] - point
    out = moved.copy()
    out[:r] = 0.0
    out = out / np.linalg.norm(out)
    unit = math.sqrt(run.task.d)
    a, b = np.linspace(-0.5, 1.7, 67), np.linspace(-0.9, 0.9, 55)
    ga, gb = np.meshgrid(a * unit, b * unit)
    grid = point + ga.reshape(-1, 1) * along + gb.reshape(-1, 1) * out
    z = score(run.net(grid), run.positive, "max").reshape(ga.shape)
    z = np.round(z / np.abs(z).max(), 4)
    own, other = _clouds(run, point[:r], along[:r])
    nearest = (float(moved @ along) / unit, float(moved @ out) / unit)
    length = float(np.linalg.norm(moved)) / unit
    return Plane(
        Axis("on the manifold, in √d"),
        Axis("off the manifold, in √d"),
        points=(
            Points("its cluster", own / unit, np.zeros(len(own)), "decoupled"),
            Points("a rival cluster", other / unit, np.zeros(len(other)), "averaged", "s"),
            Points("a test point", [0.0], [0.0], "neutral", "*", 13),
        ),
        contours=(Contour("boundary", a.tolist(), b.tolist(), z, "neutral", fill=True),),
        arrows=(Arrow((0.0, 0.0), nearest, ""),),
        notes=(Note(0.6, -0.82, f"|u| = {length:.2f} √d"),),
        title=title,
    )


def _clouds(
    run: DimpledNetwork, point: Float[ndarray, " r"], along: Float[ndarray, " r"]
) -> tuple[Float[ndarray, " p"], Float[ndarray, " q"]]:
    """Where fresh points of the own cluster and of the rival ahead lie along a direction."""
    task = run.task.inside
    points = task.sample(20 * task.k, 1)
    features = task.features_in(run.task.r)
    home = np.argmax(features @ point)
    ahead = np.where(task.cluster_labels < 0, features @ along, -np.inf).argmax()
    positions = (points.coordinates(run.task.r) - point) @ along
    return positions[points.clusters == home], positions[points.clusters == ahead]
