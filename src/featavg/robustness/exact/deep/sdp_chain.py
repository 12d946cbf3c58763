r"""A part of a ball, every pre-activation in it in few variables, and forms of open activations.

Between its bounds, a neuron's pre-activation t and activation a are on one of two straight pieces:
a = leak t for lo <= t <= 0, and a = t for 0 <= t <= hi. On a piece that ends in t = end, a form
A t^2 + B t has its largest value at a clipped vertex or at the end, in closed form; minus the largest
over the pieces, it is nowhere above zero on the graph (Shor's relaxation, with exact bounds).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.robustness.exact.deep.cuts import Split
from featavg.robustness.exact.layered_network import Layered
from featavg.robustness.exact.step_box import StepBox


@dataclass(frozen=True, eq=False)
class Ball:
    """The ball around a point, and what holds in it.

    Attributes:
        net: the network, perhaps in fewer coordinates.
        z: pre-activations of the first layer in the centre.
        radius: of the ball.
        lo, hi: bounds of the pre-activations of every layer in the ball.
        errors: for every layer, the rounding errors of a bound of each pre-activation.
        box: that cuts the ball; None if none does.
    """

    net: Layered
    z: Float[ndarray, " m"]
    radius: float
    lo: list[Float[ndarray, " _"]]
    hi: list[Float[ndarray, " _"]]
    errors: list[Float[ndarray, " _"]]
    box: StepBox | None = None


def imposed(
    ball: Ball, layer: int, splits: Sequence[Split]
) -> tuple[list[Float[ndarray, " _"]], list[Float[ndarray, " _"]]]:
    """The bounds of the layers below `layer` on the part of the ball where the signs are these."""
    lo, hi = list(ball.lo[:layer]), list(ball.hi[:layer])
    for split in splits:
        ends = hi if split.side > 0 else lo
        ends[split.layer] = ends[split.layer].copy()
        ends[split.layer][split.neuron] = 0.0
    return lo, hi


@dataclass(frozen=True, eq=False)
class Neurons:
    """Some neurons of several layers, with t = rows v + offsets.

    Attributes:
        layer, number: which ones.
        rows, offsets: t in the variables v of a `Chain`.
        lo, hi: bounds of t.
        error: by how much rounding may move t.
    """

    layer: Int[ndarray, " n"]
    number: Int[ndarray, " n"]
    rows: Float[ndarray, "n v"]
    offsets: Float[ndarray, " n"]
    lo: Float[ndarray, " n"]
    hi: Float[ndarray, " n"]
    error: Float[ndarray, " n"]

    def __len__(self) -> int:
        return len(self.layer)


@dataclass(frozen=True, eq=False)
class Chain:
    """The network in the variables v = (u, activations of the open neurons below the last layer).

    A neuron of known sign is linear and needs no variable. Those of the last hidden layer need none
    either: what is asked for is linear in their activations.

    Attributes:
        step: how many coordinates u has.
        inner: open neurons below the last hidden layer; the i-th has the variable step + i.
        outer: open neurons of the last hidden layer.
        held: neurons whose sign is imposed, in the order of the splits.
        rows, offsets: the last hidden layer's outputs in v, those of open neurons left out.
    """

    step: int
    inner: Neurons
    outer: Neurons
    held: Neurons
    rows: Float[ndarray, "m v"]
    offsets: Float[ndarray, " m"]


def chain(ball: Ball, layer: int, splits: Sequence[Split]) -> Chain:
    """The affine maps of all layers below `layer` (counted from 0), with these signs imposed."""
    net = ball.net
    lo, hi = imposed(ball, layer, splits)
    opened = [np.flatnonzero((low < 0) & (high > 0)) for low, high in zip(lo, hi, strict=True)]
    r = net.rows.shape[1]
    size = r + sum(len(some) for some in opened[:-1])
    rows, offsets = np.zeros((len(ball.z), size)), ball.z.copy()
    rows[:, :r] = net.rows
    layers, below, free = [], (np.zeros((0, 0)), np.zeros(0)), r
    for number in range(layer):
        layers.append((rows, offsets))
        slope = np.where(lo[number] >= 0, 1.0, net.leak)
        slope[opened[number]] = 0.0
        h, shift = slope[:, None] * rows, slope * offsets
        if number < layer - 1:
            variables = free + np.arange(len(opened[number]))
            h[opened[number], variables] = 1.0
            free += len(variables)
        if net.skips[number]:
            h, shift = h + below[0], shift + below[1]
        below = h, shift
        if number < layer - 1:
            rows = net.weights[number] @ h
            offsets = net.weights[number] @ shift + net.biases[number]

    def neurons(chosen: list[tuple[int, int]]) -> Neurons:
        which = np.array(chosen, dtype=int).reshape(-1, 2)
        pick = [(int(a), int(b)) for a, b in which]
        return Neurons(
            which[:, 0],
            which[:, 1],
            np.array([layers[a][0][b] for a, b in pick]).reshape(-1, size),
            np.array([layers[a][1][b] for a, b in pick]),
            np.array([lo[a][b] for a, b in pick]),
            np.array([hi[a][b] for a, b in pick]),
            np.array([ball.errors[a][b] for a, b in pick]),
        )

    return Chain(
        r,
        neurons([(a, int(b)) for a in range(layer - 1) for b in opened[a]]),
        neurons([(layer - 1, int(b)) for b in opened[-1]]),
        neurons([(split.layer, split.neuron) for split in splits]),
        *below,
    )


@dataclass(frozen=True, eq=False)
class Tops:
    """The largest values of forms over their two pieces, rounded off upwards, and where they are.

    A maximum of three numbers (left piece, right piece, zero) has kinks, at which an ascent stops
    short; rounded off, it is a mean over the three, and its derivatives are moments.

    Attributes:
        exact: the largest values themselves.
        soft: rounded off: never smaller.
        shares: of the two pieces in the mean.
        at: where the form is largest on each piece.
        bends: how fast that place moves with B; zero at an end.
        rounding: the maximum is rounded off by at most log 3 times this.
    """

    exact: Float[ndarray, " n"]
    soft: Float[ndarray, " n"]
    shares: Float[ndarray, "2 n"]
    at: Float[ndarray, "2 n"]
    bends: Float[ndarray, "2 n"]
    rounding: Float[ndarray, " n"]

    def mean(self, leak: float = 1.0) -> Float[ndarray, " n"]:
        """Of t; of the activation with the leak."""
        left, right = self.shares * self.at
        return np.asarray(leak * left + right)

    def square(self, leak: float = 1.0) -> Float[ndarray, " n"]:
        """Of t^2; of t times the activation with the leak; of its square with leak^2."""
        left, right = self.shares * self.at**2
        return np.asarray(leak * left + right)

    def lost(self) -> Float[ndarray, " n"]:
        """How far the mean activation is above the activation of the mean, for a leak of 0."""
        left, right = self.shares * self.at
        return np.minimum(right, -left)

    def curvature(self, leak: float, forms: bool) -> Float[ndarray, "n k k"]:
        """Second derivatives of `soft`: in A and B, or in the five coefficients of t, a and products.

        On either piece the value has the gradient (t^2, t) in (A, B), t being where it is largest.
        """
        nothing = np.zeros_like(self.soft)
        matrix, mean = np.zeros((len(nothing), 5, 5)), np.zeros((len(nothing), 5))
        for slope, share, t, bend in zip((leak, 1.0), self.shares, self.at, self.bends, strict=True):
            gradient = np.stack([t**2, slope * t**2, slope**2 * t**2, t, slope * t], axis=1)
            one = nothing + 1.0
            moves = np.stack([2 * t, 2 * slope * t, 2 * slope**2 * t, one, slope * one], axis=1)
            matrix += (share / self.rounding)[:, None, None] * _squares(gradient)
            matrix += (share * bend)[:, None, None] * _squares(moves)
            mean += share[:, None] * gradient
        matrix -= _squares(mean) / self.rounding[:, None, None]
        return matrix if forms else matrix[:, ::3, ::3]


def _squares(rows: Float[ndarray, "n k"]) -> Float[ndarray, "n k k"]:
    return np.asarray(rows[:, :, None] * rows[:, None, :])


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
    pieces = _highest(*left, lo), _highest(*right, hi)
    values, at, bends = (np.stack(some) for some in zip(*pieces, strict=True))
    exact = np.maximum(values.max(axis=0), 0.0)
    shares = np.exp((values - exact) / rounding)
    total = shares.sum(axis=0) + np.exp(-exact / rounding)
    soft = exact + rounding * np.log(total)
    return Tops(exact, soft, shares / total, at, bends, rounding)


def _highest(a: ndarray, b: ndarray, end: ndarray) -> tuple[ndarray, ndarray, ndarray]:
    """The largest a t^2 + b t with t between 0 and the end, and where: at the end if it is convex."""
    bent = a < 0
    below = np.where(bent, a, -1.0)
    vertex = np.where(bent, -b / (2.0 * below), end)
    t = np.clip(vertex, np.minimum(end, 0.0), np.maximum(end, 0.0))
    return (a * t + b) * t, t, np.where(bent & (t == vertex), -0.5 / below, 0.0)
