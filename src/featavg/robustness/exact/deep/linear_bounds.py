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

from featavg.robustness.exact.layered_network import Layered
from featavg.robustness.exact.step_box import StepBox

SIDES = 2e4  # operations for the least value of a row in a box, for every coordinate


@dataclass(frozen=True, eq=False)
class Lines:
    """For every hidden layer the lower slopes, and the chords above, of all neurons."""

    lower: list[Float[ndarray, " _"]]
    upper: list[Float[ndarray, " _"]]
    offset: list[Float[ndarray, " _"]]  # chord(z) = upper z + offset; lower lines pass through 0

    def add(self, leak: float, low: ndarray, high: ndarray, side: ndarray) -> None:
        """The lines of the next layer; `side` says which lower slopes are one and not the leak."""
        undecided = (low < 0) & (high > 0)
        width = np.where(undecided, high - low, 1.0)
        chord = np.where(undecided, (high - leak * low) / width, 0.0)
        decided = np.where(low >= 0, 1.0, leak)
        self.upper.append(np.where(undecided, chord, decided))
        # The chord meets phi at both ends; take the end where it is the larger number, rounded up
        # by the errors that the caller charges.
        self.offset.append(np.where(undecided, high * (1.0 - chord), 0.0))
        self.lower.append(np.where(undecided, np.where(side, 1.0, leak), decided))


def lines_of(net: Layered, lo: list[ndarray], hi: list[ndarray], at: list[ndarray] | None = None) -> Lines:
    """The lines for these bounds; lower slopes follow the signs of `at`, or the wider side."""
    lines = Lines([], [], [])
    for number in range(len(lo)):
        low, high = lo[number], hi[number]
        lines.add(net.leak, low, high, (low + high if at is None else at[number]) >= 0)
    return lines


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


def extent(rows: Float[ndarray, "p r"], radius: float, normal: ndarray | None, depth: float) -> Float[ndarray, " p"]:
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


def fallen(
    rows: Float[ndarray, "p r"], cap: tuple[float, ndarray | None, float], box: StepBox | None, error: float
) -> Float[ndarray, " p"]:
    """How far each row can fall in the cap, or in the ball that the box cuts."""
    if box is None:
        return extent(rows, *cap)
    # The sums are as long as a row, of products whose sizes add up to less than twice its length.
    return 4.0 * error * extent(rows, *cap) - box.lowest(rows)[0]


def ball_bounds(
    net: Layered, z: Float[ndarray, " m"], limit: float, reach: float
) -> tuple[list[ndarray], list[ndarray], list[ndarray], list[ndarray]]:
    """Bounds of every layer in the ball |u| <= limit by interval arithmetic, and error sizes.

    They are wide, but need no other bound to be trusted: the rounding errors of the linear bounds
    are measured by them.
    """
    spread = net.lengths * limit * (1.0 + 1e-12) + net.error * reach
    lo, hi = [z - spread], [z + spread]
    below_lo, below_hi = np.zeros(0), np.zeros(0)
    for number, (weight, bias) in enumerate(zip(net.weights, net.biases, strict=True)):
        h_lo, h_hi = net.phi(lo[-1]), net.phi(hi[-1])
        if net.skips[number]:
            h_lo, h_hi = h_lo + below_lo, h_hi + below_hi
        below_lo, below_hi = h_lo, h_hi
        up, down = np.maximum(weight, 0.0), np.minimum(weight, 0.0)
        slack = 1e-12 * (np.abs(weight) @ np.maximum(np.abs(h_lo), np.abs(h_hi)) + np.abs(bias))
        lo.append(up @ h_lo + down @ h_hi + bias - slack)
        hi.append(up @ h_hi + down @ h_lo + bias + slack)
    sizes = [np.maximum(np.abs(low), np.abs(high)) for low, high in zip(lo, hi, strict=True)]
    magnitudes, slopes = net.absolute(sizes)
    return lo, hi, magnitudes, slopes


def operations(net: Layered, lo: list[ndarray], hi: list[ndarray], box: StepBox | None = None) -> float:
    """Floating-point operations of `tightened`, roughly: every open neuron goes back to the input."""
    size, count = float(net.rows.size), float(len(net.rows))
    sided, products = count, 0.0
    for weight, low, high in zip(net.weights[:-1], lo[1:-1], hi[1:-1], strict=True):
        size, count = size + weight.size, float(np.sum((low < 0) & (high > 0)))
        sided, products = sided + count, products + count * size
    return 4.0 * products + (0.0 if box is None else 2.0 * SIDES * sided * len(box.low))


def tightened(
    net: Layered,
    z: Float[ndarray, " m"],
    bounds: tuple[list[ndarray], list[ndarray]],
    cap: tuple[float, ndarray | None, float],
    sizes: tuple[list[ndarray], list[ndarray], float],
    outputs: bool,
    box: StepBox | None = None,
) -> tuple[list[ndarray], list[ndarray]] | None:
    """Bounds of every layer in the cap |u| <= limit, normal . u >= depth; None if it is empty.

    Layer by layer, since the lines of a layer need the bounds of those below. Neurons whose sign is
    decided keep the bounds they have: nothing depends on them.

    Args:
        net: the network.
        z: pre-activations of the first layer at u = 0.
        bounds: (lo, hi) of every layer that hold already.
        cap: limit, normal (or None) and depth.
        sizes: magnitudes and slopes of the layers and the reach of the point, for rounding errors.
        outputs: whether bounds of the outputs are wanted too.
        box: that cuts the ball, for a network in all coordinates of the input; the cap is then a ball.
    """
    limit = cap[0]
    magnitudes, slopes, reach = sizes
    lo, hi = list(bounds[0]), list(bounds[1])
    m = len(z)
    fall = fallen(np.concatenate([net.rows, -net.rows]), cap, box, net.error)
    fall = fall + net.error * (reach + limit) * np.tile(np.maximum(net.lengths, 1.0), 2)
    lo[0], hi[0] = np.maximum(lo[0], z - fall[:m]), np.minimum(hi[0], z + fall[m:])
    lines = Lines([], [], [])
    for layer in range(1, net.hidden + outputs):
        low, high = lo[layer - 1], hi[layer - 1]
        lines.add(net.leak, low, high, low + high >= 0)
        wanted = layer == net.hidden or (lo[layer] < 0) & (hi[layer] > 0)
        which = np.flatnonzero(np.broadcast_to(wanted, lo[layer].shape))
        if not len(which):
            continue
        pick = np.zeros((2 * len(which), len(lo[layer])))
        pick[np.arange(len(which)), which] = 1.0
        pick[len(which) + np.arange(len(which)), which] = -1.0
        traced = trace(net, z, lines, layer, pick)
        error = net.error * (magnitudes[layer][which] + limit * slopes[layer][which])
        floor = traced.constants - fallen(traced.rows, cap, box, net.error)
        floor = floor - np.tile(error, 2)
        lo[layer], hi[layer] = lo[layer].copy(), hi[layer].copy()
        lo[layer][which] = np.maximum(lo[layer][which], floor[: len(which)])
        hi[layer][which] = np.minimum(hi[layer][which], -floor[len(which) :])
    empty = any(np.any(low > high) for low, high in zip(lo, hi, strict=True))
    return None if empty else (lo, hi)
