"""Multi-cluster data on a random low-dimensional subspace of R^d, exactly in few coordinates.

Features and noise fill r of the d dimensions; the networks start from directions of all d. What a
neuron has outside the subspace is never trained, since no gradient points there, and enters any l2
question through inner products alone. So the first r coordinates are the subspace and the last M are
a frame of the M neurons' parts outside it (Bartlett's factor, as in `featavg.data.compress`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.data.clusters import MultiCluster, Sample
from featavg.data.compress import TrainingSet
from featavg.data.streams import stream
from featavg.errors import InputError


@dataclass(frozen=True)
class OnSubspace:
    """The task: k clusters in r of d dimensions, |mu_j| = sqrt(d), noise inside the subspace.

    >>> import numpy as np
    >>> import featavg as fa
    >>> task = fa.OnSubspace(k=4, d=1000, r=20)
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
