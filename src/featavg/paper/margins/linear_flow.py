"""Gradient flow of a linear classifier in logarithmic time, out to t = exp(10^6).

In u = log t the flow is  dw/du = exp(u) * (-dL/dw),  whose size stays moderate for ever: the loss falls
as fast as exp(u) grows. Its fast modes settle at once and the rest drifts, so an implicit method
takes a few hundred steps where an explicit one takes as many as log t is large.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.errors import InputError


def linear_flow(
    x: Float[ndarray, "n N"],
    y: Int[ndarray, " n"],
    log_times: Sequence[float],
    tolerance: float = 1e-9,
) -> Float[ndarray, "p N"]:
    r"""w(t) for dw/dt = -dL/dw, L = 1/n sum_i log(1 + exp(-y_i <w, x_i>)), from w(0) = 0.

    Args:
        x, y: the data.
        log_times: log t at which to stop, rising.
        tolerance: relative and absolute accuracy of w.

    >>> w = linear_flow(np.array([[1.0]]), np.array([1]), [0.0])
    >>> round(float(w[0, 0]), 4)  # w + exp(w) = 1 + t
    0.4429
    """
    from scipy.integrate import solve_ivp

    times = np.asarray(log_times, dtype=float)
    if not len(times) or np.any(np.diff(times) <= 0) or not np.all(np.isfinite(times)):
        raise InputError("log_times", "do not rise", "give finite numbers from small to large")
    rows = y[:, None] * x
    shift = -math.log(len(rows))
    start = min(times[0], 0.0) - 30.0  # by then w has moved by less than round-off

    def slopes(u: float, w: ndarray) -> tuple[ndarray, ndarray]:
        q = rows @ w
        softplus = np.logaddexp(0.0, -q)
        first = np.exp(np.minimum(u + shift - q - softplus, 700.0))
        return first, first * np.exp(-softplus)

    def velocity(u: float, w: ndarray) -> ndarray:
        return np.asarray(slopes(u, w)[0] @ rows)

    def jacobian(u: float, w: ndarray) -> ndarray:
        return np.asarray(-(rows.T * slopes(u, w)[1]) @ rows)

    solution = solve_ivp(
        velocity,
        (start, times[-1]),
        np.zeros(x.shape[1]),
        method="Radau",
        t_eval=times,
        jac=jacobian,
        rtol=tolerance,
        atol=tolerance,
    )
    if not solution.success:
        raise ArithmeticError(f"the flow could not be followed ({solution.message})")
    return np.asarray(solution.y.T)
