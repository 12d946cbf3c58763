"""Compressed training sets too large for a matrix: the triangle alone, in blocks, in single precision.

Behind its first columns a compressed sample is lower triangular (see `compress`), so half of its
matrix is zeros. For n = 78,125 points, the theorems' regime at k = 5, the matrix has 49 GB and its
triangle in float32 has 12. Blocks of rows that end at their last entry hold it nearly without loss, and
both products of a training step go through them one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray
from scipy.linalg import solve_triangular

from featavg.data.clusters import MultiCluster, Sample
from featavg.data.compress import fill_bartlett
from featavg.data.streams import stream
from featavg.errors import InputError
from featavg.machine import require
from featavg.nets.two_layer import TwoLayer
from featavg.training.objectives import TwoLayerEvaluation
from featavg.training.parts import Loss, Params

# Rows in a block: large enough for BLAS, small enough to waste little above the diagonal.
ROWS = 512
Precision = Literal["float32", "float64"]


@dataclass(frozen=True, eq=False)
class PackedTriangle:
    """n rows that are lower triangular behind their first `before` columns.

    Each block of rows ends at the diagonal entry of its last row. Products are computed in the
    precision of the blocks and added up in float64.
    """

    blocks: tuple[Float[ndarray, "_ _"], ...]
    before: int

    @cached_property
    def ends(self) -> tuple[int, ...]:
        """The row after the last of each block."""
        return tuple(int(end) for end in np.cumsum([len(block) for block in self.blocks]))

    @property
    def shape(self) -> tuple[int, int]:
        """(n, N), as of the whole matrix."""
        return self.ends[-1], self.before + self.ends[-1]

    @property
    def nbytes(self) -> int:
        """Bytes of all blocks."""
        return sum(block.nbytes for block in self.blocks)

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """The precision of the blocks."""
        return self.blocks[0].dtype

    def astype(self, precision: Precision) -> PackedTriangle:
        """The same numbers in another precision."""
        return PackedTriangle(tuple(b.astype(precision) for b in self.blocks), self.before)

    def _parts(self) -> Iterator[tuple[ndarray, int, int]]:
        for block, end in zip(self.blocks, self.ends, strict=True):
            yield block, end - len(block), end

    def times(self, weights: Float[ndarray, "M N"]) -> Float[ndarray, "n M"]:
        """The products X W^T with some weights."""
        scale = float(np.abs(weights).max()) or 1.0
        given = np.ascontiguousarray((weights / scale).T, dtype=self.dtype)
        products = np.empty((self.shape[0], len(weights)))
        for block, start, end in self._parts():
            products[start:end] = block @ given[: block.shape[1]]
        return products * scale

    def gathered(self, slopes: Float[ndarray, "n M"]) -> Float[ndarray, "M N"]:
        """The sums S^T X over the points."""
        # Slopes shrink with the loss, far below what single precision can hold: relative to the largest.
        scale = float(np.abs(slopes).max()) or 1.0
        given = np.ascontiguousarray((slopes / scale).T, dtype=self.dtype)
        total = np.zeros((slopes.shape[1], self.shape[1]))
        for block, start, end in self._parts():
            total[:, : block.shape[1]] += given[:, start:end] @ block
        return total * scale

    def coefficients(self, vectors: Float[ndarray, "M N"]) -> Float[ndarray, "M n"]:
        """c with c X = v behind the first columns: one solve with the triangle, from its end."""
        left = vectors[:, self.before :].copy()
        solved = np.zeros_like(left)
        for block, start, end in reversed(list(self._parts())):
            square = block[:, self.before + start :].astype(np.float64)
            part = solve_triangular(square, left[:, start:end].T, lower=True, trans="T").T
            solved[:, start:end] = part
            front = block[:, self.before : self.before + start]
            left[:, :start] -= part.astype(self.dtype) @ front
        return solved

    def first(self, columns: int) -> Float[ndarray, "n columns"]:
        """The first columns, which are full."""
        return np.concatenate([block[:, :columns] for block in self.blocks]).astype(np.float64)


@dataclass(frozen=True, eq=False)
class PackedSet:
    """A compressed training set as a packed triangle; `TrainingSet` is the same as a matrix."""

    task: MultiCluster
    seed: int
    x: PackedTriangle
    clusters: Int[ndarray, " n"]
    unit_weights: Float[ndarray, "M N"]  # standard normal, zero behind the first columns

    @property
    def y(self) -> Int[ndarray, " n"]:
        """The class of each point, +1 or -1."""
        return self.task.cluster_labels[self.clusters]

    @property
    def features(self) -> Float[ndarray, "k N"]:
        """The features in the same coordinates."""
        return self.task.features_in(self.x.shape[1])


def packed_bytes(task: MultiCluster, n: int, neurons: int, precision: Precision = "float32") -> int:
    """Bytes that training on a packed set takes at its peak, from its shapes alone.

    The triangle, what blocks hold above it, and a dozen arrays of the size of the weights and of the
    pre-activations in float64 (states, stages of the stepper, gradients).
    """
    before, size = task.k + neurons, np.dtype(precision).itemsize
    triangle = size * (n * before + n * (n + 1) // 2 + n * ROWS // 2)
    return int(triangle + 8 * 16 * neurons * (2 * n + before))


def draw_packed(task: MultiCluster, n: int, neurons: int, seed: int, precision: Precision = "float32") -> PackedSet:
    """A training set with the law of `draw(..., coordinates="compressed")`, from other draws.

    >>> data = draw_packed(MultiCluster(k=4, d=10**6), n=600, neurons=4, seed=0)
    >>> data.x.shape, [len(block) for block in data.x.blocks]
    ((600, 608), [512, 88])
    """
    require(packed_bytes(task, n, neurons, precision), "n", "lower n, or use single precision")
    before = task.k + neurons
    weights = np.zeros((neurons, before + n))
    fill_bartlett(weights, task.k, task.d, stream(seed, "weights"))
    clusters = Sample(task, n, seed, purpose="train").clusters
    random = stream(seed, "packed-noise")
    lengths = np.sqrt(random.chisquare(task.d - before - np.arange(n, dtype=float)))
    blocks = []
    for start in range(0, n, ROWS):
        end = min(start + ROWS, n)
        block = np.empty((end - start, before + end), dtype=precision)
        random.standard_normal(out=block, dtype=precision)
        square = block[:, before + start :]
        square[...] = np.tril(square, -1)
        np.fill_diagonal(square, lengths[start:end])
        block *= task.sigma
        block[:, : task.k] += task.alpha * task.features[clusters[start:end]]
        blocks.append(block)
    return PackedSet(task, seed, PackedTriangle(tuple(blocks), before), clusters, weights)


@dataclass(frozen=True, eq=False)
class PackedObjective:
    """`TwoLayerObjective` for points that are held as a triangle; one network, not a batch."""

    blocks: PackedTriangle
    targets: Int[ndarray, " n"]
    net: TwoLayer
    loss: Loss
    trainable: Sequence[str] = ("weights", "biases")

    def __post_init__(self) -> None:
        points, columns = self.blocks.shape
        if self.targets.shape != (points,):
            raise InputError("targets", f"have shape {self.targets.shape}", "give one per point")
        if self.net.batch or columns != self.net.dimension:
            raise InputError("net", f"reads {self.net.dimension}", f"the points have {columns}")
        self.loss.check_targets(self.targets, self.net.outputs)

    @property
    def data(self) -> Sequence[ndarray]:
        """The blocks and the targets."""
        return (*self.blocks.blocks, self.targets)

    def net_with(self, params: Params) -> TwoLayer:
        """The network that has these trainable arrays."""
        return self.net.with_arrays(dict(zip(self.trainable, params, strict=True)))

    def evaluate(self, params: Params) -> TwoLayerEvaluation:
        """Forward pass."""
        net = self.net_with(params)
        z = self.blocks.times(net.weights) + net.biases
        outputs = np.maximum(z, 0.0) @ net.head.T
        return TwoLayerEvaluation(self, net, z, self.loss(outputs, self.targets))
