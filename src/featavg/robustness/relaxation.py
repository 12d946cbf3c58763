"""Convex outer and inner approximations of a flipped set, on a box of pre-activations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.robustness.question import Family


@dataclass(frozen=True, eq=False)
class Box:
    """A part of the search space.

    Attributes:
        lo, hi: bounds on the pre-activations.
        sign: +1 or -1 where z_r >= 0 or z_r <= 0 was imposed, otherwise 0.
        last: the neuron whose sign was imposed last.
        low, high: bounds on further quantities of the relaxation's own.
    """

    lo: Float[ndarray, " M"]
    hi: Float[ndarray, " M"]
    sign: Float[ndarray, " M"]
    last: int | None
    low: Float[ndarray, " V"]
    high: Float[ndarray, " V"]


@dataclass(frozen=True, eq=False)
class Affine:
    """coefficients @ z + constants, one for each of q rows."""

    coefficients: Float[ndarray, "q M"]
    constants: Float[ndarray, " q"]

    def __call__(self, z: Float[ndarray, " M"]) -> Float[ndarray, " q"]:
        return np.asarray(self.coefficients @ z + self.constants)


class Relaxation(Protocol):
    """What branch and bound needs to know of one family of flipped points."""

    extra: int

    def outer(self, box: Box) -> Affine:
        """Affine functions above the concave-making side, everywhere in the box."""

    def inner(self, z: Float[ndarray, " M"]) -> Affine:
        """Affine functions below that side, touching it at z: what they allow is flipped."""

    def cuts(self, side: Affine, box: Box | None, z: Float[ndarray, " M"]) -> Affine:
        """Rows that are <= 0 on everything `side` allows, and > 0 at z if z is not allowed."""

    def excess(self, z: Float[ndarray, " M"]) -> float:
        """Not positive exactly where z is flipped and of this family."""

    def split(self, box: Box, side: Affine, z: Float[ndarray, " M"]) -> tuple[Box, ...]:
        """Parts that cover the box, or none if `side` is tight at z."""

    def starts(self, z: Float[ndarray, " M"]) -> list[Affine]:
        """Inner approximations worth trying first."""


def chord(
    lo: Float[ndarray, " M"], hi: Float[ndarray, " M"]
) -> tuple[Float[ndarray, " M"], Float[ndarray, " M"]]:
    """Slope and offset with relu(z) <= slope * z + offset for lo <= z <= hi, tight at both ends.

    >>> [part.tolist() for part in chord(np.array([-1.0, 1.0]), np.array([3.0, 2.0]))]
    [[0.75, 1.0], [0.75, 0.0]]
    """
    mixed = (lo < 0) & (hi > 0)
    slope = (lo >= 0).astype(float)
    np.divide(hi, hi - lo, out=slope, where=mixed)
    return slope, np.where(mixed, -lo * slope, 0.0)


def halves(box: Box, r: int) -> tuple[Box, Box]:
    """The part where neuron r is on, and the part where it is off."""
    lo, hi, on, off = box.lo.copy(), box.hi.copy(), box.sign.copy(), box.sign.copy()
    lo[r] = hi[r] = 0.0
    on[r], off[r] = 1.0, -1.0
    return (
        Box(lo, box.hi, on, r, box.low, box.high),
        Box(box.lo, hi, off, r, box.low, box.high),
    )


class ReluRelaxation:
    """A family up_i . relu(z) + shift_i <= down_i . relu(z): chords above relu on the right."""

    extra = 0

    def __init__(self, family: Family) -> None:
        self.family, self.weight = family, family.down.sum(axis=0)

    def outer(self, box: Box) -> Affine:
        """Chords over the box."""
        slope, offset = chord(box.lo, box.hi)
        return Affine(self.family.down * slope, self.family.down @ offset)

    def inner(self, z: Float[ndarray, " M"]) -> Affine:
        """The neurons that are active at z, without their ReLUs."""
        return Affine(self.family.down * (z > 0), np.zeros(len(self.family.shift)))

    def starts(self, z: Float[ndarray, " M"]) -> list[Affine]:
        """All rivals on; only those on at z."""
        return [self.inner(np.ones_like(z)), self.inner(z)]

    def cuts(self, side: Affine, box: Box | None, z: Float[ndarray, " M"]) -> Affine:
        """The left sides without ReLUs, with the pattern of z."""
        return Affine(
            self.family.up * (z > 0) - side.coefficients, self.family.shift - side.constants
        )

    def excess(self, z: Float[ndarray, " M"]) -> float:
        """The largest left side minus right side."""
        on = np.maximum(z, 0.0)
        return float(np.max((self.family.up - self.family.down) @ on + self.family.shift))

    def split(self, box: Box, side: Affine, z: Float[ndarray, " M"]) -> tuple[Box, ...]:
        """At zero, the neuron whose chord is furthest above its ReLU at z."""
        slope, offset = chord(box.lo, box.hi)
        gaps = self.weight * (slope * z + offset - np.maximum(z, 0.0))
        gaps[(box.lo >= 0) | (box.hi <= 0)] = 0.0
        r = int(gaps.argmax())
        return halves(box, r) if gaps[r] > 0.0 else ()
