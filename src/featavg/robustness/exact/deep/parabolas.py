"""Parabolas above |t| between two bounds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

SMOOTH = 1e-4  # of a neuron's range: C is a maximum of two functions, rounded off at their meeting


@dataclass(frozen=True, eq=False)
class Parabolas:
    """A t^2 + B t + C, above |t| between the bounds of each neuron, and the derivatives of C."""

    a: Float[ndarray, " k"]
    b: Float[ndarray, " k"]
    c: Float[ndarray, " k"]
    c_in_a: Float[ndarray, " k"]
    c_in_b: Float[ndarray, " k"]

    def __call__(self, t: Float[ndarray, "*n k"]) -> Float[ndarray, "*n k"]:
        """Their values."""
        return self.a * t**2 + self.b * t + self.c


def parabolas(
    a: Float[ndarray, " k"],
    b: Float[ndarray, " k"],
    low: Float[ndarray, " k"],
    high: Float[ndarray, " k"],
) -> Parabolas:
    """C is the largest |t| - A t^2 - B t between the bounds: on either side of zero a clipped vertex.

    The larger of the two values is rounded off upwards, so that C has a derivative.

    >>> one = np.ones(1)
    >>> parabolas(0.5 * one, 0.0 * one, -2.0 * one, 2.0 * one).c.round(3)
    array([0.5])
    """
    right = np.clip((1.0 - b) / (2.0 * a), 0.0, np.maximum(high, 0.0))
    left = np.clip(-(1.0 + b) / (2.0 * a), np.minimum(low, 0.0), 0.0)
    c_right = (1.0 - b) * right - a * right**2
    c_left = -(1.0 + b) * left - a * left**2
    difference = c_right - c_left
    root = np.sqrt(difference**2 + (SMOOTH * (high - low)) ** 2) + 1e-300
    share = 0.5 * (1.0 + difference / root)
    return Parabolas(
        a,
        b,
        0.5 * (c_right + c_left + root),
        -(share * right**2 + (1.0 - share) * left**2),
        -(share * right + (1.0 - share) * left),
    )
