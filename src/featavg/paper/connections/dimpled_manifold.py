"""Shamir et al.: do minimal perturbations leave the manifold of the data?

Features and noise fill r of the d dimensions; the networks start from directions of all d. What a
neuron has outside the subspace is never trained, since no gradient points there, and enters any l2
question through inner products alone. So the first r coordinates are the subspace and the last M are
a frame of the M neurons' parts outside it (Bartlett's factor, as in `featavg.data.compress`).

A network on x + B z is a network of z with weights W B and biases b + W x: so the exact search for
radii also answers how near the boundary is along a subspace, and out of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import xarray as xr
from jaxtyping import Bool, Float, Int
from numpy import ndarray

from featavg.data.clusters import MultiCluster, Sample
from featavg.data.compress import TrainingSet
from featavg.data.streams import stream
from featavg.errors import InputError
from featavg.figures.figure import Arrow, Axis, Contour, Figure, Lines, Note, Plane, Points, Series
from featavg.figures.marks import Role
from featavg.nets.readouts._readout import score
from featavg.nets.two_layer import TwoLayer
from featavg.paper.engine.claim import Check, Context, Evidence, claim
from featavg.paper.engine.tables import line, tabulate
from featavg.robustness.exact.result import Radii
from featavg.robustness.radii import radii
from featavg.training.train import train


@dataclass(frozen=True)
class OnSubspace:
    """The task: k clusters in r of d dimensions, |mu_j| = sqrt(d), noise inside the subspace.

    >>> task = OnSubspace(k=4, d=1000, r=20)
    >>> data = task.draw(n=50, neurons=6, seed=0)
    >>> data.x.shape, bool(np.all(data.x[:, 20:] == 0)), bool(np.any(data.unit_weights[:, 20:] != 0))
    ((50, 26), True, True)
    """

    k: int = 10
    d: int = 3072
    r: int = 100
    sigma: float = 1.0

    def __post_init__(self) -> None:
        if not self.k <= self.r < self.d:
            raise InputError("r", f"is {self.r}", f"give a dimension from k = {self.k} to below d")

    @property
    def inside(self) -> MultiCluster:
        """The task as the subspace sees it."""
        return MultiCluster(k=self.k, d=self.r, sigma=self.sigma, norms=math.sqrt(self.d))

    def draw(self, n: int, neurons: int, seed: int) -> TrainingSet:
        """A training set with the initial directions of `neurons` neurons."""
        if neurons > self.d - self.r:
            raise InputError("neurons", f"are {neurons}", f"at most {self.d - self.r} fit outside")
        task = self.inside
        points = Sample(task, n, seed, purpose="train")
        draw = stream(seed, "manifold-weights")
        weights = np.zeros((neurons, self.r + neurons))
        weights[:, : self.r] = draw.standard_normal((neurons, self.r))
        outside = weights[:, self.r :]
        outside[np.tril_indices(neurons, -1)] = draw.standard_normal(neurons * (neurons - 1) // 2)
        freedom = self.d - self.r - np.arange(neurons, dtype=float)
        outside[np.diag_indices(neurons)] = np.sqrt(draw.chisquare(freedom))
        return TrainingSet(task, (seed,), self.embed(points, neurons), points.clusters, weights, "compressed")

    def embed(self, points: Sample, neurons: int) -> Float[ndarray, "n N"]:
        """Points of the subspace in the coordinates of a training set."""
        return np.pad(points.coordinates(self.r), ((0, 0), (0, neurons)))

    def basis(self, neurons: int) -> Float[ndarray, "N r"]:
        """The subspace, in the same coordinates."""
        return np.eye(self.r + neurons)[:, : self.r]


@dataclass(frozen=True, eq=False)
class Split:
    """Minimal perturbations in all directions, `on` the subspace, and the distance `off` it.

    `off` is infinite where there is no boundary straight out; `off_share` is |off-part|^2 of the exact
    perturbations over their |u|^2, NaN for points decided wrongly.
    """

    exact: Radii
    on: Radii
    off: Float[ndarray, " n"]
    off_share: Float[ndarray, " n"]


def split(
    net: TwoLayer,
    x: Float[ndarray, "n N"],
    y: Int[ndarray, " n"],
    basis: Float[ndarray, "N r"],
    readout: str = "max",
    positive: Bool[ndarray, " c"] | None = None,
) -> Split:
    """Exact radii in all directions, inside the span of the orthonormal columns of `basis`, and out of it.

    >>> net = TwoLayer(np.array([[1.0, 2.0], [-1.0, 0.0]]), np.zeros(2), np.array([[1.0, -1.0]]))
    >>> found = split(net, np.array([[2.0, 0.0]]), np.array([1]), np.array([[1.0], [0.0]]))
    >>> [round(float(v), 3) for v in (found.exact.attack[0], found.on.attack[0], found.off[0])]
    [0.894, 2.0, 1.0]
    """

    def along(directions: Float[ndarray, "N m"]) -> list[Radii]:
        found = []
        for point, label in zip(x, y, strict=True):
            seen = TwoLayer(net.weights @ directions, net.biases + net.weights @ point, net.head)
            origin = np.zeros((1, directions.shape[1]))
            found.append(radii(seen, origin, np.array([label]), readout=readout, positive=positive, jobs=1))
        return found

    exact = radii(net, x, y, readout=readout, positive=positive, jobs=1)
    off = np.array([float(one.attack[0]) for one in along(outside_frame(net, basis))])
    moved = exact.witness - x
    total = np.sum(moved**2, axis=1)
    inside = np.sum((moved @ basis) ** 2, axis=1)
    share = np.full(len(x), np.nan)
    known = total > 0
    share[known] = np.clip(1.0 - inside[known] / total[known], 0.0, 1.0)
    return Split(exact, Radii.joined(along(basis)), off, share)


def outside_frame(net: TwoLayer, basis: Float[ndarray, "N r"]) -> Float[ndarray, "N m"]:
    """Orthonormal directions orthogonal to `basis` that span what the neurons have there."""
    rest = net.weights - (net.weights @ basis) @ basis.T
    _, sizes, rows = np.linalg.svd(rest, full_matrices=False)
    kept = sizes > 1e-12 * max(float(np.linalg.norm(net.weights)), 1e-300)
    return np.asarray(rows[kept].T)


PAPER = 1e-5  # initial weights of the paper; the talks have 1/sqrt(d)
M, H = 5, 3
LABELS: dict[str, Role] = {"coarse": "averaged", "fine": "decoupled"}


@dataclass(frozen=True, eq=False)
class DimpledNetwork:
    """A network trained on a subspace, and its test points' perturbations, split."""

    task: OnSubspace
    net: TwoLayer
    x: Float[ndarray, "n N"]
    y: ndarray
    split: Split
    positive: ndarray | None


@lru_cache(maxsize=64)
def dimpled_network(
    labels: str, sigma_w: float, seed: int, task: OnSubspace, n: int = 200, steps: int = 300
) -> DimpledNetwork:
    """Train on coarse or fine labels and split the exact minimal perturbations of 16 test points."""
    neurons = 2 * M if labels == "coarse" else H * task.k
    data = task.draw(n, neurons, seed)
    run = train(data, labels=labels, m=M, h=H, sigma_w=sigma_w, steps=steps)
    points = task.inside.sample(16, seed)
    x = task.embed(points, neurons)
    positive = task.inside.positive_clusters if labels == "fine" else None
    parts = split(run.net, x, points.y, task.basis(neurons), "max", positive)
    return DimpledNetwork(task, run.net, x, points.y, parts, positive)


def _measures(network: DimpledNetwork) -> dict[str, float]:
    """Median distances to the boundary of points decided rightly, and the share of |u|^2 off the subspace."""
    parts = network.split
    right = parts.exact.attack > 0
    distances = {"exact": parts.exact.attack, "on": parts.on.attack, "off": parts.off}
    return {
        "off_share": float(np.nanmedian(parts.off_share)),
        "gap": float(parts.exact.gaps.max()),
        **{name: float(np.median(values[right])) for name, values in distances.items()},
    }


@claim(
    "connections-dimpled-manifold", "Do minimal perturbations leave the manifold of the data?",
    theme="Connections",
    source="Talks, 'Connection to dimpled manifold models'; Shamir, Melamed and BenShmuel 2021",
    measured="exact minimal perturbations of networks trained on ten clusters in a random "
    "100-dimensional subspace of R<sup>3072</sup>, split into parts on and off it, and the exact "
    "distance to the boundary along each, for initial weights from 10<sup>−5</sup> to 1/√d",
    minutes=0.13, statements=("itcs-dimples", "csml-dimples", "csml-margin-misleads",),
)  # fmt: skip
def dimpled_manifold(
    run: Context, k: int = 10, d: int = 3072, r: int = 100, n: int = 200, steps: int = 300
) -> Evidence:
    """The dimpled-manifold model: data lie near a low-dimensional manifold, the boundary clings to
    it with shallow dimples, and adversarial perturbations are short because they leave the
    manifold; feature averaging is offered as a theory of it.
    """
    task = OnSubspace(k, d, r)
    sizes = (PAPER, 1e-3, 4e-3, 1 / math.sqrt(d))

    def network(labels: str, size: float, seed: int) -> DimpledNetwork:
        return dimpled_network(labels, size, seed, task, n, steps)

    # Without --full later seeds are run at both ends alone.
    table = tabulate(
        lambda labels, size, seed: _measures(network(labels, size, seed)),
        run.seeds,
        run.progress,
        every_seed=lambda labels, size: run.full or size in (sizes[0], sizes[-1]),
        labels=list(LABELS),
        size=sizes,
    )
    ends = table.isel(size=[0, -1]).median("seed", skipna=False)
    small, large = (ends.sel(labels="coarse").isel(size=end) for end in (0, 1))
    averaged, decoupled = float(small["exact"]), float(ends.sel(labels="fine")["exact"][0])
    shares = float(small["off_share"]), float(large["off_share"])
    on, off = float(large["on"]), float(large["off"])
    shown = [network(labels, size, run.seeds[0]) for labels in LABELS for size in (sizes[0], sizes[-1])]
    return Evidence(
        Check("averaged, σ<sub>w</sub> = 1/√d: share of |u|² off the manifold", shares[1], ">=", 0.5),
        Check("averaged, σ<sub>w</sub> = 1/√d: distance off the manifold over distance on it",
              off / on, "<=", 0.5),
        Check("averaged, σ<sub>w</sub> = 10<sup>−5</sup>: share of |u|² off the manifold",
              shares[0], ">=", 0.5, note="the paper's initialisation"),
        Check("σ<sub>w</sub> = 10<sup>−5</sup>: averaged over decoupled radius",
              averaged / decoupled, "<=", 0.6, note="both exact"),
        Check("largest gap between certificate and witness", table["gap"].max(), "<=", 1e-4, role="note"),
        finding="Dimples come from the initial weights, which nothing unlearns off the manifold: with "
        f"σ<sub>w</sub> = 1/√d, {shares[1]:.0%} of an exact minimal perturbation leaves the manifold and "
        f"the boundary is {off:.1f} away off it against {on:.1f} on it; with the paper's σ<sub>w</sub> = "
        f"10<sup>−5</sup> it is {shares[0]:.0%}, and the averaged network's radius of {averaged:.1f} "
        f"against the decoupled one's {decoupled:.1f} is a matter inside the manifold.",
        numbers=table, figures=(_curves(table), _pictures(shown)),
    )  # fmt: skip


def _curves(table: xr.Dataset) -> Figure:
    shares, away = [], []
    sizes = table["size"].values
    for labels, role in LABELS.items():
        part = table.sel(labels=labels)
        share, distance = part["off_share"], part.median("seed").where(np.isfinite)
        shares.append(line(role, share, role))
        on, off = distance["on"].values, distance["off"].values
        away += [
            Series(f"{role}, on the manifold", sizes, on, role, "line+markers"),
            Series(f"{role}, off the manifold", sizes, off, role, "dashed"),
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
    out = np.where(np.arange(len(moved)) < r, 0.0, moved)
    out /= np.linalg.norm(out)
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
