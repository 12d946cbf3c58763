"""The L2-regularised path of a linear classifier, followed to penalties like exp(-10^7).

Rosset, Zhu and Hastie (2004): as the penalty vanishes, the minimiser of logistic loss plus penalty
turns to the max-margin direction. The angle falls like 1/log(1/penalty), so that an angle of 1e-6
needs penalties that no float can hold; their logarithms are no trouble.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.errors import InputError

_MOST_STEPS = 200
# A stage goes from one penalty to the next; a longer leap than this starts too far from its end.
_LEAP = 1.5


def penalty_path(
    x: Float[ndarray, "n N"], y: Int[ndarray, " n"], log_penalties: Sequence[float]
) -> Float[ndarray, "p N"]:
    r"""argmin_w  1/n sum_i log(1 + exp(-y_i <w, x_i>)) + penalty |w|^2 / 2  for each penalty.

    Dividing by the penalty leaves  sum_i exp(log l_i - log(n penalty)) + |w|^2 / 2,  a convex
    function of moderate size, which Newton's method minimises from the solution before.

    Args:
        x, y: separable data.
        log_penalties: log of the penalty, falling.
    """
    targets = [-float(value) for value in log_penalties]
    if sorted(targets) != targets or not targets or not all(map(math.isfinite, targets)):
        raise InputError("log_penalties", "do not fall", "give finite numbers from large to small")
    rows = y[:, None] * x
    w, at = np.zeros(x.shape[1]), min(0.0, targets[0])
    minimisers = []
    for target in targets:
        while True:
            after = min(target, max(at, 1.0) * _LEAP)
            w = _minimise(rows, w * (after / at if at > 1.0 else 1.0), after)
            at = after
            if at >= target:
                break
        minimisers.append(w)
    return np.stack(minimisers)


def _minimise(rows: Float[ndarray, "n N"], w: ndarray, depth: float) -> ndarray:
    """Newton's method with backtracking for  1/n sum_i exp(depth) l(q_i) + |w|^2 / 2."""
    shift = depth - math.log(len(rows))
    value, q = _objective(rows, w, shift)
    for _ in range(_MOST_STEPS):
        first, second = _derivatives(q, shift)
        gradient = w - first @ rows
        hessian = np.eye(len(w)) + (rows.T * second) @ rows
        step = np.linalg.solve(hessian, -gradient)
        slope = float(gradient @ step)
        # The Newton decrement, in the units of |w|: below round-off there is nothing left to gain.
        if -slope <= 1e-22 * (1.0 + float(w @ w)):
            return w + step
        length = 1.0
        # Where the gain drowns in the rounding of the value, Newton's full step is safe.
        while -slope > 1e-9 * value:
            trial, _ = _objective(rows, w + length * step, shift)
            if trial <= value + 1e-4 * length * slope:
                break
            length *= 0.5
        w = w + length * step
        value, q = _objective(rows, w, shift)
    raise ArithmeticError(f"Newton's method did not settle at log penalty {-depth:.3g}")


def _objective(rows: ndarray, w: ndarray, shift: float) -> tuple[float, ndarray]:
    q = rows @ w
    softplus = np.logaddexp(0.0, -q)
    with np.errstate(divide="ignore", over="ignore"):
        log_losses = np.where(q > 40.0, -q, np.log(softplus))
        heights = np.exp(np.minimum(log_losses + shift, 700.0))
    return float(heights.sum() + 0.5 * w @ w), q


def _derivatives(q: ndarray, shift: float) -> tuple[ndarray, ndarray]:
    """exp(shift) times -l'(q) and l''(q)."""
    log_slope = -(q + np.logaddexp(0.0, -q))
    first = np.exp(np.minimum(log_slope + shift, 700.0))
    second = first * np.exp(-np.logaddexp(0.0, -q))
    return first, second
