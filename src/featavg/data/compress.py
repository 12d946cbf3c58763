"""Training sets: in R^d as they are, or the same in law in n + k + M coordinates.

Gradient descent sees the data only through inner products, and Gaussian noise has no preferred
direction. Turn R^d so that its first coordinates are spanned, in this order, by the k features, the
M initial weight vectors and the n noise vectors: what is left of each vector is a row of a
lower-triangular Bartlett factor, whose diagonal entries are chi-distributed. Nothing is approximated:
every inner product, and so every loss, coefficient, cosine, margin and l2 radius, has the joint law
it has in R^d, at any d. Distances in l_inf are not preserved, and neither is Adam, which treats
coordinates one by one.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.boundary.kinds import Count, Seed
from featavg.boundary.public import public
from featavg.data.clusters import MultiCluster, Sample
from featavg.data.streams import stream
from featavg.errors import InputError, one_of
from featavg.machine import require

_log = logging.getLogger(__name__)
# Where the noise along a feature is half of its length, the best classifier errs on 8% of the points.
HOPELESS = 2.0
COORDINATES = ("auto", "compressed", "ambient")


@dataclass(frozen=True, eq=False, repr=False)
class TrainingSet:
    """A sample of a task and the random directions its networks start from, in one frame.

    The leading axes `*s` are there when several seeds are stacked into one batched computation.

    Attributes:
        x: the points.
        clusters, y: the cluster and the class (+1 or -1) of each point.
        unit_weights: standard normal directions; times sigma_w they are initial weights.
        coordinates: "compressed" or "ambient".

    Returned by `fa.draw` and `draw_many`, which have examples.
    """

    task: MultiCluster
    seeds: tuple[int, ...]
    x: Float[ndarray, "*s n N"]
    clusters: Int[ndarray, "*s n"]
    unit_weights: Float[ndarray, "*s M N"]
    coordinates: str

    def __repr__(self) -> str:
        shape = " x ".join(map(str, self.x.shape))
        return f"TrainingSet(points {shape}, {self.coordinates} from d={self.task.d})"

    @property
    def y(self) -> Int[ndarray, "*s n"]:
        """The class of each point, +1 or -1."""
        return self.task.cluster_labels[self.clusters]

    @property
    def dimension(self) -> int:
        """N, the number of coordinates the points are written in."""
        return self.x.shape[-1]

    @property
    def features(self) -> Float[ndarray, "k N"]:
        """The features in the same coordinates."""
        return self.task.features_in(self.dimension)

    @property
    def noise(self) -> Float[ndarray, "*s n N"]:
        """sigma * xi_i: each point without its feature."""
        rest = self.x.copy()
        # Compressed features are in the first k coordinates: the others need no second matrix.
        near = self.task.k if self.coordinates == "compressed" else self.dimension
        rest[..., :near] -= self.task.alpha * self.features[:, :near][self.clusters]
        return rest

    def share(self, first: int, count: int) -> TrainingSet:
        """The same points with `count` of the random directions, for one of several networks."""
        return replace(self, unit_weights=self.unit_weights[..., first : first + count, :])


@public
def draw(task: MultiCluster, n: Count, neurons: Count, seed: Seed, coordinates: str = "auto") -> TrainingSet:
    """A training set of `n` points together with `neurons` random initial directions.

    Several networks that are to be compared on one sample share one draw: `neurons` counts them all.

    Args:
        task: the clusters.
        n: training points.
        neurons: initial directions, of all networks together.
        seed: of noise and weights.
        coordinates: "auto" compresses whenever that is exact and smaller, "compressed" insists on
            it, "ambient" stays in R^d.

    >>> import featavg as fa
    >>> fa.draw(fa.MultiCluster(k=10, d=10**12), n=100, neurons=10, seed=0).x.shape
    (100, 120)
    """
    one_of("coordinates", coordinates, COORDINATES)
    _warn_of_noise(task)
    if n < 1:
        raise InputError("n", f"is {n}", "draw at least one point")
    size = task.k + neurons + n
    if coordinates == "auto":
        fits = size < task.d and task.orientation == "axes"
        coordinates = "compressed" if fits else "ambient"
    if coordinates == "compressed" and size > task.d:
        problem = f"are compressed, which needs n + k + neurons = {size} <= d = {task.d}"
        raise InputError("coordinates", problem, 'use "ambient" or "auto"')
    dimension = size if coordinates == "compressed" else task.d
    require(8.0 * n * dimension * 1.5, "n", "lower n, or d if the coordinates are ambient")
    fill = _compressed if coordinates == "compressed" else _ambient
    return fill(task, n, neurons, seed)


def _warn_of_noise(task: MultiCluster) -> None:
    """Say that features whose lengths the user chose are shorter than the noise allows."""
    if task.sigma == 0 or (task.gram is None and task.norms is None):
        return
    ratio = task.alpha * math.sqrt(np.diag(task.gram_matrix).min()) / task.sigma
    if ratio < HOPELESS:
        _log.warning(
            "The shortest feature has a signal-to-noise ratio alpha |mu| / sigma of %.2g: its points are "
            "hidden in the noise. Features of length sqrt(d) = %.3g have %.3g.",
            ratio,
            math.sqrt(task.d),
            task.alpha * math.sqrt(task.d) / task.sigma,
        )


def draw_many(task: MultiCluster, n: int, neurons: int, seeds: Sequence[int], coordinates: str = "auto") -> TrainingSet:
    """One training set for each seed, stacked: the seed is the first axis of every array.

    Args:
        task: the clusters.
        n: training points for each seed.
        neurons: initial directions for each seed.
        seeds: one draw each.
        coordinates: "auto" compresses whenever that is exact and smaller, "compressed" insists on
            it, "ambient" stays in R^d.

    >>> import featavg as fa
    >>> many = draw_many(fa.MultiCluster(k=4, d=100), n=20, neurons=6, seeds=[0, 1, 2])
    >>> many.x.shape, many.y.shape
    ((3, 20, 30), (3, 20))
    """
    if not seeds:
        raise InputError("seeds", "are empty", "give at least one seed")
    dimension = min(task.k + neurons + n, task.d) if coordinates != "ambient" else task.d
    require(8.0 * n * dimension * 1.5 * len(seeds), "n", "lower n, or run fewer seeds at once")
    sets = [draw(task, n, neurons, seed, coordinates) for seed in seeds]
    return TrainingSet(
        task,
        tuple(seeds),
        np.stack([one.x for one in sets]),
        np.stack([one.clusters for one in sets]),
        np.stack([one.unit_weights for one in sets]),
        sets[0].coordinates,
    )


def _ambient(task: MultiCluster, n: int, neurons: int, seed: int) -> TrainingSet:
    points = Sample(task, n, seed, purpose="train")
    weights = stream(seed, "weights").standard_normal((neurons, task.d))
    return TrainingSet(task, (seed,), points.coordinates(task.d), points.clusters, weights, "ambient")


def _compressed(task: MultiCluster, n: int, neurons: int, seed: int) -> TrainingSet:
    points = Sample(task, n, seed, purpose="train")
    size = task.k + neurons + n
    weights = np.zeros((neurons, size))
    fill_bartlett(weights, task.k, task.d, stream(seed, "weights"))
    x = np.zeros((n, size))
    fill_bartlett(x, task.k + neurons, task.d, stream(seed, "train-noise"))
    x *= task.sigma
    x[:, : task.k] += task.alpha * task.features[points.clusters]
    return TrainingSet(task, (seed,), x, points.clusters, weights, "compressed")


def fill_bartlett(rows: Float[ndarray, "r N"], before: int, d: int, draw: np.random.Generator) -> None:
    """Fill rows with standard normal vectors of R^d, seen in a frame that they span one by one.

    The first `before` coordinates belong to directions that were there before, so they are plain
    normals. Row i then has a normal for each earlier row and, on its own new direction, the length
    of what is left: chi with d - before - i degrees of freedom.
    """
    count = len(rows)
    lengths = np.sqrt(draw.chisquare(d - before - np.arange(count, dtype=float)))
    for i, row in enumerate(rows):
        draw.standard_normal(out=row[: before + i])
        row[before + i] = lengths[i]
