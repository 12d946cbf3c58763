r"""Quadratic functions of a neuron that are nowhere above zero on the graph of its activation.

Between its bounds, a neuron's pre-activation t and activation a are on one of two straight pieces:
a = leak t for lo <= t <= 0, and a = t for 0 <= t <= hi. On a piece that ends in t = end, a form
A t^2 + B t has its largest value at a clipped vertex or at the end, in closed form; minus the largest
over the pieces, it is nowhere above zero on the graph (Shor's relaxation, with exact bounds).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray


@dataclass(frozen=True, eq=False)
class Tops:
    """The largest values of forms over their two pieces, rounded off upwards, and where they are.

    A maximum of three numbers (left piece, right piece, zero) has kinks, at which an ascent stops
    short; rounded off, it is a mean over the three, and its derivatives are moments.

    Attributes:
        exact: the largest values themselves.
        soft: rounded off: never smaller.
        left, right: the shares of the two pieces in the mean.
        at_left, at_right: where the form is largest on each piece.
    """

    exact: Float[ndarray, " n"]
    soft: Float[ndarray, " n"]
    left: Float[ndarray, " n"]
    right: Float[ndarray, " n"]
    at_left: Float[ndarray, " n"]
    at_right: Float[ndarray, " n"]

    def mean(self, leak: float = 1.0) -> Float[ndarray, " n"]:
        """Of t; of the activation with the leak."""
        return leak * self.left * self.at_left + self.right * self.at_right

    def square(self, leak: float = 1.0) -> Float[ndarray, " n"]:
        """Of t^2; of t times the activation with the leak; of its square with leak^2."""
        return leak * self.left * self.at_left**2 + self.right * self.at_right**2

    def lost(self) -> Float[ndarray, " n"]:
        """How far the mean activation is above the activation of the mean, for a leak of 0."""
        return np.minimum(self.right * self.at_right, -self.left * self.at_left)


def tops(
    left: tuple[ndarray, ndarray],
    right: tuple[ndarray, ndarray],
    lo: Float[ndarray, " n"],
    hi: Float[ndarray, " n"],
    rounding: Float[ndarray, " n"],
) -> Tops:
    """The largest values of A t^2 + B t, with (A, B) = `left` below zero and `right` above it.

    Args:
        left, right: the coefficients on the two pieces.
        lo, hi: the ends; lo <= 0 <= hi.
        rounding: the maximum is rounded off by at most log 3 times this.

    >>> zero = np.zeros(1)
    >>> tops((zero - 1.0, zero - 2.0), (zero, zero + 0.5), zero - 3.0, zero + 4.0, zero + 1e-9).exact
    array([2.])
    """
    value_left, at_left = _highest(*left, lo)
    value_right, at_right = _highest(*right, hi)
    exact = np.maximum(np.maximum(value_left, value_right), 0.0)
    e_left = np.exp((value_left - exact) / rounding)
    e_right = np.exp((value_right - exact) / rounding)
    total = e_left + e_right + np.exp(-exact / rounding)
    soft = exact + rounding * np.log(total)
    return Tops(exact, soft, e_left / total, e_right / total, at_left, at_right)


def _highest(a: ndarray, b: ndarray, end: ndarray) -> tuple[ndarray, ndarray]:
    """The largest a t^2 + b t with t between 0 and the end, and where: at the end if it is convex."""
    bent = a < 0
    vertex = np.where(bent, -b / (2.0 * np.where(bent, a, -1.0)), end)
    t = np.clip(vertex, np.minimum(end, 0.0), np.maximum(end, 0.0))
    return (a * t + b) * t, t
