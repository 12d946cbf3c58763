"""Compressed training sets too large for a matrix: the triangle alone, in blocks, in single precision.

Behind its first columns a compressed sample is lower triangular (see `compress`), so half of its
matrix is zeros. For n = 78,125 points, the theorems' regime at k = 5, the matrix has 49 GB and its
triangle in float32 has 12. Blocks of rows that end at their last entry hold it nearly without loss, and
both products of a training step go through them one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray
from scipy.linalg import solve_triangular

from featavg.data.clusters import MultiCluster, Sample
from featavg.data.compress import fill_bartlett
from featavg.data.memory import require
from featavg.data.streams import stream

# Rows in a block: large enough for BLAS, small enough to waste little above the diagonal.
ROWS = 512
Precision = Literal["float32", "float64"]


@dataclass(frozen=True, eq=False)
class PackedTriangle:
    """n rows that are lower triangular behind their first `before` columns.

    Products are computed in the precision of the blocks and added up in float64.

    Attributes:
        blocks: rows one after the other; each block ends at the diagonal entry of its last row.
        before: columns in front of the triangle.

    >>> x = np.tril(np.ones((5, 7)), 2)
    >>> packed = PackedTriangle.of(x, before=2, rows=2)
    >>> [block.shape for block in packed.blocks], packed.shape
    ([(2, 4), (2, 6), (1, 7)], (5, 7))
    >>> bool(np.allclose(packed.times(x[:2]), x @ x[:2].T))
    True
    """

    blocks: tuple[Float[ndarray, "_ _"], ...]
    before: int

    @classmethod
    def of(cls, x: Float[ndarray, "n N"], before: int, rows: int = ROWS) -> PackedTriangle:
        """Pack a matrix, whose entries above the triangle are left out."""
        starts = range(0, len(x), rows)
        ends = [min(start + rows, len(x)) for start in starts]
        parts = (x[a:b, : before + b].copy() for a, b in zip(starts, ends, strict=True))
        return cls(tuple(parts), before)

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
        """Of all blocks."""
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


@dataclass(frozen=True, eq=False, repr=False)
class PackedSet:
    """A compressed training set as a packed triangle; `TrainingSet` is the same as a matrix.

    Attributes:
        x: the points.
        clusters: of the points.
        unit_weights: standard normal directions in the same frame, zero behind the first columns.
    """

    task: MultiCluster
    seed: int
    x: PackedTriangle
    clusters: Int[ndarray, " n"]
    unit_weights: Float[ndarray, "M N"]

    def __repr__(self) -> str:
        n, width = self.x.shape
        return (
            f"PackedSet({n:,} points of {self.task.k} clusters in {self.task.d:,} dimensions, "
            f"in {width:,} coordinates of {self.x.dtype}, seed {self.seed})"
        )

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


def draw_packed(
    task: MultiCluster, n: int, neurons: int, seed: int, precision: Precision = "float32"
) -> PackedSet:
    """A training set with the law of `draw(..., coordinates="compressed")`, from other draws.

    Args:
        task: the clusters.
        n: training points.
        neurons: initial directions, of all networks together.
        seed: of noise and weights.
        precision: of the stored numbers, "float32" or "float64".

    >>> import featavg as fa
    >>> task = fa.MultiCluster(k=4, d=10**6)
    >>> data = fa.draw_packed(task, n=600, neurons=4, seed=0)
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
