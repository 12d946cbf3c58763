"""The Lipschitz lower bound of a radius: a margin q that is beta-Lipschitz takes |u| >= q/beta to undo."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.errors import InputError
from featavg.nets.two_layer import TwoLayer

# Up to this many neurons every activation pattern is looked at: 2^16 of them are a second's work.
LISTED = 16


def lipschitz_bound(net: TwoLayer) -> float:
    r"""A bound on |f(x) - f(x')| / |x - x'| for a network with one output.

    A gradient of f is sum_{r in S} a_r w_r for the set S of active neurons, so the longest such sum
    over all S bounds it. Up to `LISTED` neurons all sums are formed (exact whenever some point
    activates that set); beyond, |sum| is bounded by sqrt(M) times the spectral norm of (a_r w_r).

    >>> from featavg.nets.two_layer import binary
    >>> round(lipschitz_bound(binary(np.array([[3.0, 0.0], [0.0, 4.0]]))), 12)
    5.0
    """
    if net.outputs != 1 or net.batch:
        raise InputError("net", "has several outputs or seeds", "give one network with one output")
    rows = net.head[0][:, None] * net.weights
    if net.neurons > LISTED:
        return math.sqrt(net.neurons) * float(np.linalg.norm(rows, 2))
    gram = rows @ rows.T
    squares, inner = np.zeros(1), np.zeros((1, net.neurons))
    # Doubling: the sums over subsets of the first r neurons, then the same with neuron r added.
    for r in range(net.neurons):
        squares = np.concatenate([squares, squares + 2 * inner[:, r] + gram[r, r]])
        inner = np.concatenate([inner, inner + gram[r]])
    return math.sqrt(float(squares.max()))


def lipschitz_radii(
    net: TwoLayer, x: Float[ndarray, "n N"], y: Int[ndarray, " n"]
) -> Float[ndarray, " n"]:
    """q_i / beta for every point, zero where it is misclassified: never above the exact radius."""
    q = y * net(x)[:, 0]
    return np.maximum(q, 0.0) / lipschitz_bound(net)
