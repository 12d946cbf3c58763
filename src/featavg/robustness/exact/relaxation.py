"""What branch and bound asks of a flipped set: convex approximations and a separable bound.

Which of them are proofs? `outer` and `cuts` are outer approximations: bounds rest on them. `terms`
is a lower bound, whatever the price. `touching` and `starts` are inner approximations, and good for
candidates and prices only; a candidate counts after `excess` has confirmed it, and as a witness
after the network itself has been evaluated there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray


@dataclass(frozen=True, eq=False)
class Box:
    """A part of the search space: lo <= z <= hi.

    `low` and `high` are the bounds that were imposed by a split, infinite elsewhere; `last` is the
    neuron that was split last. The bounds lo and hi are the tighter ones: they hold for every point
    of the part that is near enough to matter.
    """

    lo: Float[ndarray, " M"]
    hi: Float[ndarray, " M"]
    low: Float[ndarray, " M"]
    high: Float[ndarray, " M"]
    last: int | None

    @staticmethod
    def everywhere(size: int) -> Box:
        """No bound at all."""
        wide = np.full(size, np.inf)
        return Box(-wide, wide, -wide, wide, None)

    def split(self, r: int, at: float) -> tuple[Box, Box]:
        """The part with z_r <= at and the part with z_r >= at."""
        hi, high, lo, low = self.hi.copy(), self.high.copy(), self.lo.copy(), self.low.copy()
        hi[r] = high[r] = lo[r] = low[r] = at
        return (Box(self.lo, hi, self.low, high, r), Box(lo, self.hi, low, self.high, r))


@dataclass(frozen=True, eq=False)
class Affine:
    """coefficients @ z + constants, one for each of q rows.

    Attributes:
        shares: how much of each inequality of the family is in each row, so that multipliers of
            rows become multipliers of inequalities.
        log_scale: None where the rows themselves are meant; a number c where the function is
            c + log(row), as for the probability read-out.
        magnitude: the sizes of what the constants are sums of, where that is more than they are
            themselves: rounding errors are charged by it.
    """

    coefficients: Float[ndarray, "q M"]
    constants: Float[ndarray, " q"]
    shares: Float[ndarray, "q I"]
    log_scale: float | None = None
    magnitude: Float[ndarray, " q"] | None = None

    @property
    def magnitudes(self) -> Float[ndarray, " q"]:
        """The sizes by which rounding errors of the constants are charged."""
        return np.abs(self.constants) if self.magnitude is None else self.magnitude

    def at(self, z: Float[ndarray, " M"]) -> Float[ndarray, " q"]:
        """The values at z."""
        return np.asarray(self.coefficients @ z + self.constants)


@dataclass(frozen=True, eq=False)
class Price:
    """Multipliers: kappa for the pre-activations, weights for the inequalities."""

    kappa: Float[ndarray, " M"]
    weights: Float[ndarray, " I"]


@dataclass(frozen=True, eq=False)
class Terms:
    """One term for each neuron: its least value over the box, its value at s = 0, and where.

    `constant` is what belongs to no neuron and `size` the sum of magnitudes, for rounding errors.
    """

    least: Float[ndarray, " M"]
    here: Float[ndarray, " M"]
    where: Float[ndarray, " M"]
    constant: float
    size: float


@runtime_checkable
class Relaxation(Protocol):
    """One family of flipped points, as branch and bound sees it.

    The family is {left_i(z) <= right_i(z) for all i}, with both sides convex.
    """

    concave: Bool[ndarray, " M"]
    inequalities: int

    def outer(self, box: Box) -> Affine | None:
        """Affine functions above the right sides everywhere in the box, if such are of use."""

    def touching(self, box: Box | None, z: Float[ndarray, " M"]) -> Affine:
        """Affine functions that touch the right sides at z; without a box, from below."""

    def starts(self, z: Float[ndarray, " M"]) -> list[Affine]:
        """Affine functions below the right sides that are worth trying first."""

    def cuts(self, side: Affine, z: Float[ndarray, " M"]) -> Affine:
        """Rows that are <= 0 wherever left <= side, and the tightest such at z."""

    def excess(self, z: Float[ndarray, " M"]) -> float:
        """Not positive exactly where z is flipped."""

    def kinks(self, rows: Float[ndarray, "M r"], z: Float[ndarray, " M"], scale: float) -> Float[ndarray, "p r"] | None:
        """What must fall for a candidate at z to move inwards, if z is at the kinks of neurons."""

    def terms(self, box: Box, price: Price, z: Float[ndarray, " M"], stiffness: Float[ndarray, " M"]) -> Terms:
        """stiffness s^2 - 2 kappa s + 2 weights . (left - right), neuron by neuron, s from z."""

    def cut_at(self, box: Box, terms: Terms | None, z: Float[ndarray, " M"]) -> tuple[int, float] | None:
        """The neuron to split and where, or None if nothing is left to split."""


def chord(lo: Float[ndarray, " M"], hi: Float[ndarray, " M"]) -> tuple[Float[ndarray, " M"], Float[ndarray, " M"]]:
    """Slope and offset with relu(z) <= slope * z + offset for lo <= z <= hi, tight at both ends.

    >>> [part.tolist() for part in chord(np.array([-1.0, 1.0]), np.array([3.0, 2.0]))]
    [[0.75, 1.0], [0.75, 0.0]]
    """
    mixed = (lo < 0) & (hi > 0)
    slope = (lo >= 0).astype(float)
    np.divide(hi, hi - lo, out=slope, where=mixed)
    return slope, np.where(mixed, -lo * slope, 0.0)
