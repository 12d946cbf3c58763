"""The multi-cluster distribution (Definition 2.1), its geometries, and sampling from it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray

from featavg.data.streams import stream
from featavg.errors import InputError
from featavg.fields import TaskFields, fit_fields


def positive_mask(
    positive: Sequence[int] | Sequence[bool] | ndarray, k: int, things: str = "clusters"
) -> Bool[ndarray, " k"]:
    """J+ as a mask over k clusters (or outputs), from a mask or from indices.

    The length decides, so that nothing can be read in two ways. k values are a mask: truth values,
    or the integers 0 and 1. Fewer are indices, each named once, from 0 to k - 1. (k different
    indices would name everything and leave the other class empty, so no valid list of indices is
    as long as a mask.)

    Args:
        positive: the mask or the indices.
        k: how many clusters or outputs there are.
        things: what they are called in an error.

    >>> positive_mask([0, 1, 0, 1], 4).tolist(), positive_mask([1, 3], 4).tolist()
    ([False, True, False, True], [False, True, False, True])
    """
    given = np.asarray(positive)
    if given.ndim != 1 or given.dtype.kind not in "biu" or not 1 <= len(given) <= k:
        problem = f"is neither a mask of the {k} {things} nor a list of some of them"
        remedy = f"give {k} truth values, or the indices of the positive {things}"
        raise InputError("positive", problem, remedy)
    mask = np.zeros(k, dtype=bool)
    if len(given) == k:
        if given.dtype.kind != "b" and not np.all((given == 0) | (given == 1)):
            remedy = f"a mask has {k} truth values, a list of indices fewer"
            raise InputError("positive", f"has {k} numbers that are not all 0 or 1", remedy)
        mask[:] = given != 0
    elif given.dtype.kind == "b":
        remedy = f"give {k} of them, or the indices of the positive {things}"
        raise InputError("positive", f"has {len(given)} truth values for {k} {things}", remedy)
    else:
        if given.min() < 0 or given.max() >= k or len(np.unique(given)) < len(given):
            remedy = f"name each of the positive {things} once, by index"
            raise InputError("positive", f"names {things} outside 0..{k - 1} or twice", remedy)
        mask[given] = True
    if mask.all() or not mask.any():
        problem = "leaves a class empty"
        raise InputError("positive", problem, f"both classes need one of the {k} {things}")
    return mask


@dataclass(frozen=True, eq=False)
class MultiCluster(TaskFields):
    r"""Clusters around k features; a point has the label of its cluster's class.

    Draw j with probability p_j, set y = +1 if j is in J+ and -1 otherwise, and

        x = alpha * mu_j + sigma * xi,    xi ~ N(0, I_d).

    Only the Gram matrix of the features enters any l2 question, because the noise has no preferred
    direction. So the features are its Cholesky factor, in the first k coordinates of R^d
    (orthogonal ones: sqrt(d) e_j); `orientation="random"` turns them into a random k-dimensional
    subspace, which is what an l_inf question is about.

    Args:
        k: number of clusters.
        d: dimension of the input space.
        alpha, sigma: signal and noise.
        positive: J+, as how many of the first clusters are positive, as their indices, or as a mask
            of k truth values (default: the first half). `data.partition` says how they are told
            apart.
        cosine: the cosine between any two features.
        norms: |mu_j|, one number or one for each cluster (default: sqrt(d)).
        probabilities: p_j (default: uniform).
        gram: the Gram matrix <mu_i, mu_j>, instead of `cosine` and `norms`.
        orientation: "axes" or "random".

    >>> import numpy as np
    >>> import featavg as fa
    >>> task = fa.MultiCluster(k=4, d=100)
    >>> task.positive_clusters
    array([ True,  True, False, False])
    >>> task.features.shape, float(np.linalg.norm(task.features[0]))
    ((4, 4), 10.0)
    """

    def __post_init__(self) -> None:
        fit_fields(self)
        if self.d < self.k:
            problem = f"is {self.d}, below k = {self.k}"
            raise InputError("d", problem, "k features need d >= k dimensions")
        # Computed here so that a bad geometry is refused when it is stated, not when it is used.
        self.positive_clusters, self.cluster_probabilities, self.features  # noqa: B018

    @cached_property
    def positive_clusters(self) -> ndarray:
        """J+ as a mask over the clusters."""
        positive = self.k // 2 if self.positive is None else self.positive
        if isinstance(positive, int | np.integer) and not isinstance(positive, bool):
            return positive_mask(np.arange(self.k) < positive, self.k)
        return positive_mask(positive, self.k)  # type: ignore[arg-type]

    @cached_property
    def cluster_probabilities(self) -> Float[ndarray, " k"]:
        """p_j, summing to one."""
        if self.probabilities is None:
            return np.full(self.k, 1.0 / self.k)
        p = np.asarray(self.probabilities, dtype=float)
        if p.shape != (self.k,) or not np.all(p >= 0) or not abs(p.sum() - 1.0) < 1e-9:
            problem = "are not k shares that sum to 1"
            raise InputError("probabilities", problem, f"give {self.k} of them")
        return p / p.sum()

    @cached_property
    def gram_matrix(self) -> Float[ndarray, "k k"]:
        """<mu_i, mu_j>."""
        if self.gram is not None:
            return self._given_gram()
        lowest = -1.0 / (self.k - 1)
        if not lowest <= self.cosine < 1.0:
            remedy = f"{self.k} features can share a cosine from {lowest:.4g} up to below 1"
            raise InputError("cosine", f"is {self.cosine}", remedy)
        norms = np.asarray(math.sqrt(self.d) if self.norms is None else self.norms, dtype=float)
        if norms.shape not in ((), (self.k,)) or not np.all(np.isfinite(norms) & (norms > 0)):
            problem = "are not positive numbers"
            raise InputError("norms", problem, f"give one norm, or {self.k} of them")
        norms = np.broadcast_to(norms, self.k)
        cosines = np.full((self.k, self.k), float(self.cosine))
        np.fill_diagonal(cosines, 1.0)
        return norms[:, None] * cosines * norms

    def _given_gram(self) -> Float[ndarray, "k k"]:
        gram = np.asarray(self.gram, dtype=float)
        if self.cosine != 0.0 or self.norms is not None:
            problem = "is given beside cosine or norms"
            raise InputError("gram", problem, "it states both already, give it alone")
        if gram.shape != (self.k, self.k):
            problem = f"has shape {gram.shape}"
            raise InputError("gram", problem, f"give a {self.k} x {self.k} matrix")
        if not np.all(np.isfinite(gram)) or not np.allclose(gram, gram.T, rtol=1e-10, atol=0):
            problem = "is not a symmetric matrix of finite numbers"
            raise InputError("gram", problem, "give <mu_i, mu_j>")
        smallest = float(np.linalg.eigvalsh(gram)[0])
        if smallest < -1e-9 * float(np.trace(gram)) or np.any(np.diag(gram) <= 0):
            problem = f"has eigenvalue {smallest:.3g}, so no features have these inner products"
            remedy = "give a positive semi-definite matrix with a positive diagonal"
            raise InputError("gram", problem, remedy)
        return gram

    @cached_property
    def features(self) -> Float[ndarray, "k k"]:
        """The features in their own k coordinates: rows mu_j, lower triangular."""
        return _square_root(self.gram_matrix)

    @property
    def positive_count(self) -> int:
        """The number of positive clusters, |J+|."""
        return int(self.positive_clusters.sum())

    @property
    def cluster_labels(self) -> Int[ndarray, " k"]:
        """The class of each cluster, +1 or -1."""
        return np.where(self.positive_clusters, 1, -1)

    def class_clusters(self, sign: int) -> Int[ndarray, " j"]:
        """J_s: the clusters of the class `sign`."""
        if sign not in (-1, 1):
            raise InputError("sign", f"is {sign}", "give -1 or 1")
        return np.flatnonzero(self.cluster_labels == sign)

    def features_in(self, dimension: int) -> Float[ndarray, "k dimension"]:
        """The features in the first `dimension` coordinates of R^d; the others are zero.

        A random orientation fills all d coordinates, so it has no shorter form.
        """
        if self.orientation == "random":
            if dimension != self.d:
                problem = f"is random, but {dimension} of {self.d} coordinates were asked for"
                remedy = 'use coordinates="ambient", or orientation="axes" for an l2 question'
                raise InputError("orientation", problem, remedy)
            return self.features @ self._random_directions
        if dimension < self.k:
            raise InputError("dimension", f"is {dimension}", f"the features fill {self.k}")
        placed = np.zeros((self.k, dimension))
        placed[:, : self.k] = self.features
        return placed

    @cached_property
    def _random_directions(self) -> Float[ndarray, "k d"]:
        # A property of the task, not of a sample: every seed sees the same features.
        normal = stream(0, "orientation").standard_normal((self.d, self.k))
        q, r = np.linalg.qr(normal)
        return (q * np.sign(np.diag(r))).T

    def sample(self, n: int, seed: int) -> Sample:
        """`n` fresh points: an independent draw for each seed, never a training sample."""
        return Sample(self, n, seed, purpose="test")

    def settings(self) -> dict[str, object]:
        """The task as plain values, to be written beside a result and read back."""
        gram = None if self.gram is None else np.asarray(self.gram, dtype=float).tolist()
        return {
            "k": int(self.k),
            "d": int(self.d),
            "alpha": float(self.alpha),
            "sigma": float(self.sigma),
            "positive": np.flatnonzero(self.positive_clusters).tolist(),
            "cosine": float(self.cosine),
            "norms": None if self.norms is None else np.asarray(self.norms, dtype=float).tolist(),
            "probabilities": None if self.probabilities is None else self.cluster_probabilities.tolist(),
            "gram": gram,
            "orientation": self.orientation,
        }


def _square_root(gram: Float[ndarray, "k k"]) -> Float[ndarray, "k k"]:
    """A lower-triangular factor; features may be linearly dependent, where Cholesky gives up."""
    try:
        return np.linalg.cholesky(gram)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(gram)
        root = vectors * np.sqrt(np.clip(values, 0.0, None))
        r = np.asarray(np.linalg.qr(root.T, mode="r"))
        return np.asarray(r.T * np.where(np.diag(r) < 0, -1.0, 1.0))


# Coordinates, or points, that are drawn at a time.
CHUNK = 16


class Sample:
    """Points of a task, written down in as many coordinates as a question needs.

    A network that lives in N coordinates (see `featavg.data.compress`) has no weight on the others,
    so a fresh point is its first N coordinates. The coordinates are drawn one after another, which
    makes `coordinates(100)` the beginning of `coordinates(200)`.

    >>> import featavg as fa
    >>> points = fa.MultiCluster(k=2, d=10**6).sample(3, seed=1)
    >>> bool((points.coordinates(5) == points.coordinates(9)[:, :5]).all())
    True
    """

    def __init__(self, task: MultiCluster, n: int, seed: int, purpose: str = "test") -> None:
        if n < 1:
            raise InputError("n", f"is {n}", "draw at least one point")
        self.task, self.n, self.seed, self.purpose = task, n, seed, purpose
        draw = stream(seed, f"{purpose}-clusters")
        self.clusters: Int[ndarray, " n"] = draw.choice(task.k, n, p=task.cluster_probabilities)
        self.y: Int[ndarray, " n"] = task.cluster_labels[self.clusters]

    def __len__(self) -> int:
        return self.n

    def __repr__(self) -> str:
        return f"Sample({self.n} points of {self.task.k} clusters, d={self.task.d}, seed={self.seed})"

    def noise(self, dimension: int) -> Float[ndarray, "n dimension"]:
        """The first `dimension` coordinates of xi."""
        draw = stream(self.seed, f"{self.purpose}-noise")
        noise = np.empty((self.n, dimension))
        # Drawn coordinate by coordinate, and a few at a time: no second matrix is needed.
        for first in range(0, dimension, CHUNK):
            part = noise[:, first : first + CHUNK]
            part[...] = draw.standard_normal(part.shape[::-1]).T
        return noise

    def coordinates(self, dimension: int) -> Float[ndarray, "n dimension"]:
        """The first `dimension` coordinates of the points."""
        points = self.noise(dimension)
        points *= self.task.sigma
        features = self.task.alpha * self.task.features_in(dimension)
        for first in range(0, self.n, CHUNK):
            points[first : first + CHUNK] += features[self.clusters[first : first + CHUNK]]
        return points

    @property
    def x(self) -> Float[ndarray, "n d"]:
        """The points in R^d. Large d asks for much memory; `coordinates` does not."""
        return self.coordinates(self.task.d)
