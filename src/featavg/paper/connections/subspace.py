"""Multi-cluster data on a random low-dimensional subspace of R^d, exactly in few coordinates.

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

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray

from featavg.data.clusters import MultiCluster, Sample
from featavg.data.compress import TrainingSet
from featavg.data.streams import stream
from featavg.errors import InputError
from featavg.nets.two_layer import TwoLayer
from featavg.robustness.exact.result import Radii
from featavg.robustness.radii import radii


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
        return TrainingSet(
            task, (seed,), self.embed(points, neurons), points.clusters, weights, "compressed"
        )

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
            found.append(
                radii(seen, origin, np.array([label]), readout=readout, positive=positive, jobs=1)
            )
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
