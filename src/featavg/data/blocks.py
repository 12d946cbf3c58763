"""Products with a data matrix that skip the zeros it is known to have.

A compressed training set is lower triangular behind its first columns: half of it is zeros. Cut into
blocks of rows, each block ends at its last column that is not zero, and both products of a training
step leave the rest alone. A dense matrix is one block, multiplied as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from jaxtyping import Float
from numpy import ndarray

# More blocks skip more zeros (1/2 in the limit, 15/32 with sixteen) but each costs a call to BLAS.
BLOCKS = 16
# Below so many rows the calls cost more than the zeros.
WORTHWHILE = 512


@dataclass(frozen=True, eq=False)
class RowBlocks:
    """A data matrix as blocks of rows that end early.

    >>> x = np.tril(np.ones((1024, 1024)))
    >>> blocks = RowBlocks(x)
    >>> [end for _, _, end in blocks.cuts][:3]
    [64, 128, 192]
    >>> bool(np.allclose(blocks.times(x[:2]), x @ x[:2].T))
    True
    """

    x: Float[ndarray, "*s n N"]

    @cached_property
    def cuts(self) -> list[tuple[int, int, int]]:
        """(first row, row after the last, columns that are not all zero) of each block."""
        n = self.x.shape[-2]
        whole = [(0, n, self.x.shape[-1])]
        if n < WORTHWHILE:
            return whole
        ends = np.linspace(0, n, BLOCKS + 1).astype(int).tolist()
        cuts = [(first, end, self._width(first, end)) for first, end in pairwise(ends)]
        area = sum((b - a) * width for a, b, width in cuts)
        return cuts if area < 0.8 * n * self.x.shape[-1] else whole

    def _width(self, first: int, end: int) -> int:
        rows = self.x[..., first:end, :]
        used = np.atleast_1d(rows.any(axis=tuple(range(rows.ndim - 1))))
        return int(used.size - np.argmax(used[::-1])) if used.any() else 0

    def times(self, weights: Float[ndarray, "*s M N"]) -> Float[ndarray, "*s n M"]:
        """The products X W^T with some weights."""
        parts = [
            # With few neurons, W X^T reads X up to twice as fast as X W^T: BLAS packs the thin side.
            weights[..., :width] @ np.swapaxes(self.x[..., first:end, :width], -1, -2)
            for first, end, width in self.cuts
        ]
        joined = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1)
        return np.swapaxes(joined, -1, -2)

    def gathered(self, slopes: Float[ndarray, "*s n M"]) -> Float[ndarray, "*s M N"]:
        """The sums S^T X over the points."""
        turned = np.swapaxes(slopes, -1, -2)
        if len(self.cuts) == 1:
            return turned @ self.x
        total = np.zeros((*turned.shape[:-1], self.x.shape[-1]))
        for first, end, width in self.cuts:
            total[..., :width] += turned[..., first:end] @ self.x[..., first:end, :width]
        return total
