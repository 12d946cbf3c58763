"""Every pre-activation of a network as an affine function of the step and of the open activations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.robustness.exact.deep.ball import Ball
from featavg.robustness.exact.deep.cuts import Split


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
