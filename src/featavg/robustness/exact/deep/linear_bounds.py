r"""Affine lower bounds of a deep network, valid in a part of the input space.

Inside a part, every neuron has bounds lo <= z <= hi. The activation phi is convex, so there

    slope z <= phi(z) <= chord(z),    slope anywhere in [leak, 1],

with equality for a neuron whose sign is decided. Going backwards from a functional of some layer, a
positive coefficient takes the lower line and a negative one the chord: the result is an affine
function of u below the functional on the whole part (Zhang et al. 2018, "CROWN"). Many functionals,
of different layers, go back together as the rows of one matrix.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.robustness.exact.deep.layered import Layered


@dataclass(frozen=True, eq=False)
class Lines:
    """For every hidden layer the lower slopes, and the chords above, of all neurons."""

    lower: list[Float[ndarray, " _"]]
    upper: list[Float[ndarray, " _"]]
    offset: list[Float[ndarray, " _"]]  # chord(z) = upper z + offset; lower lines pass through 0


def lines_of(
    net: Layered, lo: list[ndarray], hi: list[ndarray], at: list[ndarray] | None = None
) -> Lines:
    """The lines for these bounds; lower slopes follow the signs of `at`, or the wider side."""
    lower, upper, offset = [], [], []
    for number in range(len(lo)):
        low, high = lo[number], hi[number]
        side = (low + high if at is None else at[number]) >= 0
        undecided = (low < 0) & (high > 0)
        width = np.where(undecided, high - low, 1.0)
        chord = np.where(undecided, (high - net.leak * low) / width, 0.0)
        decided = np.where(low >= 0, 1.0, net.leak)
        upper.append(np.where(undecided, chord, decided))
        # The chord meets phi at both ends; take the end where it is the larger number, rounded up
        # by the errors that the caller charges.
        offset.append(np.where(undecided, high * (1.0 - chord), 0.0))
        lower.append(np.where(undecided, np.where(side, 1.0, net.leak), decided))
    return Lines(lower, upper, offset)


@dataclass(frozen=True, eq=False)
class Traced:
    """Affine lower bounds rows @ u + constants, and the coefficients met on the way back."""

    rows: Float[ndarray, "p r"]
    constants: Float[ndarray, " p"]
    on_hidden: list[Float[ndarray, "p _"]]


def trace(
    net: Layered,
    z: Float[ndarray, " m"],
    lines: Lines,
    layer: int,
    functionals: Float[ndarray, "p a"],
    joins: dict[int, tuple[ndarray, ndarray]] | None = None,
) -> Traced:
    """Lower bounds of functionals . z_layer (layers counted from 0, the outputs last).

    Args:
        net: the network.
        z: pre-activations of the first layer at u = 0.
        lines: relaxation of every hidden layer below `layer`.
        layer: where the functionals are read off.
        functionals: one row each; rows of zeros may join further down.
        joins: layer -> (which rows, coefficients): functionals of lower layers.
    """
    p = len(functionals)
    constants = np.zeros(p)
    g, extra = functionals, None
    on_hidden: list[ndarray] = [np.zeros((p, 0))] * layer
    for number in range(layer - 1, -1, -1):
        constants = constants + g @ net.biases[number]
        on_h = g @ net.weights[number]
        if extra is not None:
            on_h = on_h + extra
        on_hidden[number] = on_h
        falling = on_h < 0
        g = on_h * np.where(falling, lines.upper[number], lines.lower[number])
        constants = constants + np.where(falling, on_h, 0.0) @ lines.offset[number]
        if joins is not None and number in joins:
            which, coefficients = joins[number]
            g[which] += coefficients
        extra = on_h if net.skips[number] else None
    return Traced(g @ net.rows, constants + g @ z, on_hidden)


def extent(
    rows: Float[ndarray, "p r"], radius: float, normal: ndarray | None, depth: float
) -> Float[ndarray, " p"]:
    """The largest -rows @ u over |u| <= radius and normal . u >= depth.

    >>> extent(np.eye(2), 1.0, np.array([1.0, 0.0]), 0.6)
    array([-0.6,  0.8])
    """
    square = np.einsum("pr,pr->p", rows, rows)
    length = np.sqrt(square)
    if normal is None or depth <= 0.0:
        return radius * length
    along = -(rows @ normal)
    across = np.sqrt(np.maximum(square - along**2, 0.0))
    edge = depth * along + across * math.sqrt(max(radius**2 - depth**2, 0.0))
    return np.where(radius * along >= depth * length, radius * length, edge)
