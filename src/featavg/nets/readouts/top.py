"""The class whose q largest outputs have the larger mean."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from featavg.errors import InputError
from featavg.nets.readouts._readout import Minorant, ReadOut
from featavg.shapes import PerSeed

# Pieces times inequalities a piece: ten neurons a class and any q take about a second a point.
LISTED = 100_000
# The same for a bracket, whose pieces are of one kind and hold many neurons.
LISTED_ABOVE = 10_000


@dataclass(frozen=True)
class Top(ReadOut):
    """The mean of the q largest outputs of a class: q = 1 is `max`, q = c is `mean`.

    On a tie the first of the equal outputs count.

    Args:
        q: how many outputs of a class count.

    >>> Top(q=2).class_score(np.array([1.0, 4.0, 2.0])), Top(q=2).derivative(np.array([4.0, 4.0, 4.0]))
    (np.float64(3.0), array([0.5, 0.5, 0. ]))
    """

    name: ClassVar[str] = "top"
    q: int = 1

    def __post_init__(self) -> None:
        if self.q < 1:
            raise InputError("q", f"is {self.q}", "give a number of outputs, at least one")

    def class_score(self, outputs: Float[ndarray, "*s c"]) -> PerSeed:
        """The mean of the q largest."""
        self.check(outputs.shape[-1])
        return np.sort(outputs, axis=-1)[..., -self.q :].mean(axis=-1)

    def derivative(self, outputs: Float[ndarray, "*s c"]) -> Float[ndarray, "*s c"]:
        """1/q at the q largest; on a tie at the first of them."""
        self.check(outputs.shape[-1])
        order = np.argsort(-outputs, axis=-1, kind="stable")[..., : self.q]
        slopes = np.zeros(outputs.shape)
        np.put_along_axis(slopes, order, 1.0 / self.q, axis=-1)
        return slopes

    def minorants(self, count: int) -> list[Minorant]:
        """The mean of q neighbours, from every start: each output counts in q of them."""
        return [Minorant(row / self.q, 0.0) for row in _windows(count, self.q)]

    def pieces(self, own: Bool[ndarray, " c"]) -> list[Float[ndarray, "I c"]] | None:
        """One piece for each q rivals T: the sum over any q own outputs is at most the sum over T.

        None where pieces times inequalities are more than `LISTED`.
        """
        mine, rivals = int(own.sum()), int((~own).sum())
        self.check(min(mine, rivals))
        if comb(mine, self.q) * comb(rivals, self.q) > LISTED:
            return None
        left = _placed(_subsets(mine, self.q), own)
        return [left - right for right in _placed(_subsets(rivals, self.q), ~own)]

    def hard(self, count: int) -> tuple[ReadOut, float]:
        """What stays near it where the pieces are too many to list."""
        self.check(count)
        return _TopAbove(self.q), 0.0

    def check(self, count: int) -> None:
        """q is at most the number of outputs."""
        if self.q > count:
            raise InputError("q", f"is {self.q} for a class of {count}", f"give at most {count}")


@dataclass(frozen=True)
class _TopAbove(Top):
    """Fewer pieces, which together hold all points that `Top` flips, and others.

    Own outputs: q neighbours have at most the sum of the q largest. Rivals: the q largest have at
    most the sum of the p - 1 largest plus q - p + 1 times the p-th.
    """

    def pieces(self, own: Bool[ndarray, " c"]) -> list[Float[ndarray, "I c"]]:
        mine, rivals = int(own.sum()), int((~own).sum())
        left = _placed(_windows(mine, self.q), own)
        sizes = [comb(rivals, p - 1) * (rivals - p + 1) for p in range(1, self.q + 1)]
        levels = max([p for p, size in enumerate(sizes, 1) if size * mine <= LISTED_ABOVE], default=1)
        bounds = np.array(list(_levels(rivals, self.q, levels)))
        return [left - right for right in _placed(bounds, ~own)]


def _subsets(count: int, size: int) -> Float[ndarray, "r c"]:
    """A row of zeros and ones for each subset of this size."""
    chosen = np.array(list(combinations(range(count), size)))
    rows = np.zeros((len(chosen), count))
    np.put_along_axis(rows, chosen, 1.0, axis=1)
    return rows


def _windows(count: int, size: int) -> Float[ndarray, "c c"]:
    """`size` ones in a row, from every start and around the end."""
    first = np.arange(count) < size
    return np.array([np.roll(first, shift) for shift in range(count)], dtype=float)


def _levels(count: int, q: int, levels: int) -> Iterator[Float[ndarray, " c"]]:
    """Ones at the first `levels` - 1 largest, and what is left of q at the next."""
    for row in _subsets(count, levels - 1) if levels > 1 else np.zeros((1, count)):
        for last in np.flatnonzero(row == 0):
            yield row + (q - levels + 1) * np.eye(count)[last]


def _placed(rows: Float[ndarray, "r c"], where: Bool[ndarray, " C"]) -> Float[ndarray, "r C"]:
    """Rows over some outputs as rows over all."""
    placed = np.zeros((len(rows), len(where)))
    placed[:, where] = rows
    return placed
