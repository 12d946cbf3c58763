"""The implicit step of gradient descent on the log-loss: the samples' weights are those after it.

Gradient descent with the loss-based rate moves theta by -rate sum_i p_i g_i, with g_i = d log l_i /
d theta and p_i the share of sample i in the loss. Taken before the step, the shares pull at the few
heaviest samples until others are heavier: a step can gain about as much as separates their
log-losses, however small the loss has become. Taken after it, p = softmax(log l - rate K p) with
K_ij = <g_i, g_j>, the step is backward Euler on the same flow and may be as long as the network is
nearly linear along it. In a linear model the step is

    argmin over v of log sum_i exp(log l_i + <g_i, v>) + |v|^2 / (2 rate),

which never raises the loss.
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float
from numpy import ndarray

# Shares below this change no step in float32.
_NOTHING = 1e-12
_MOST_STEPS = 60
# How the temperature falls, and how well the smoothed problems are solved: found by trying random
# problems up to rate K = 4e8.
_COOLING, _LOOSE = 3.0, 1e-4


def shares_after(
    log_losses: Float[ndarray, " n"],
    products: Float[ndarray, "n n"],
    rate: float,
    tolerance: float = 1e-6,
) -> Float[ndarray, " n"]:
    """The shares p of the samples in the loss after the step: p = softmax(log_losses - rate K p).

    K is `products`, the inner products of the samples' gradients. Newton's method on the convex
    function log sum exp(log_losses - rate K a) + rate/2 <a, K a> of a, whose minimum is a = p, in
    the coordinates that matter. Where rate K is large that has corners nearly everywhere, so the
    function is first smoothed, log_losses and rate divided by a temperature that falls to one.

    >>> shares_after(np.array([0.0, -1.0]), np.diag([4.0, 1.0]), 0.0).round(3)
    array([0.731, 0.269])
    >>> shares_after(np.array([0.0, -1.0]), np.diag([4.0, 1.0]), 1e9).round(3)
    array([0.2, 0.8])
    """
    spread = float(np.ptp(log_losses))
    temperature = max(1.0, rate * float(products.diagonal().max()), spread)
    shares = np.full(len(log_losses), 1.0 / len(log_losses))
    while temperature > 1.0:
        shares = _minimum(log_losses / temperature, products, rate / temperature, shares, _LOOSE)
        temperature /= _COOLING
    return _minimum(log_losses, products, rate, shares, tolerance)


def _minimum(
    log_losses: Float[ndarray, " n"],
    products: Float[ndarray, "n n"],
    rate: float,
    at: Float[ndarray, " n"],
    tolerance: float,
) -> Float[ndarray, " n"]:
    products_at = products @ at
    value, shares = _value(log_losses, at, products_at, rate)
    for _ in range(_MOST_STEPS):
        rest = at - shares
        if np.abs(rest).sum() <= tolerance:
            break
        direction = _newton(products, shares, rest, rate)
        along = products @ direction
        slope, length = rate * float(rest @ along), 1.0
        while True:
            tried, moved = at + length * direction, products_at + length * along
            new, after = _value(log_losses, tried, moved, rate)
            if new <= value + 1e-4 * length * slope or length < 1e-9:
                break
            length /= 2
        at, products_at, value, shares = tried, moved, new, after
    return shares


def _newton(
    products: Float[ndarray, "n n"],
    shares: Float[ndarray, " n"],
    rest: Float[ndarray, " n"],
    rate: float,
) -> Float[ndarray, " n"]:
    """d with (I + rate (diag p - p p^T) K) d = -rest; a row with p_i = 0 is solved already."""
    inside = shares > _NOTHING
    p, direction = shares[inside], -rest
    outside = products[np.ix_(inside, ~inside)] @ direction[~inside]
    right = direction[inside] - rate * p * (outside - p @ outside)
    block = products[np.ix_(inside, inside)]
    matrix = rate * p[:, None] * (block - p @ block)
    matrix[np.diag_indices(len(p))] += 1.0
    direction[inside] = np.linalg.solve(matrix, right)
    return direction


def _shares(log_losses: Float[ndarray, " n"]) -> tuple[Float[ndarray, " n"], float]:
    """softmax and log sum exp."""
    top = float(log_losses.max())
    weights = np.exp(log_losses - top)
    total = float(weights.sum())
    return weights / total, top + math.log(total)


def _value(
    log_losses: Float[ndarray, " n"],
    at: Float[ndarray, " n"],
    products_at: Float[ndarray, " n"],
    rate: float,
) -> tuple[float, Float[ndarray, " n"]]:
    shares, log_sum = _shares(log_losses - rate * products_at)
    return log_sum + 0.5 * rate * float(at @ products_at), shares
