r"""Where flipped points can still be: the ball of the best candidate, cut by half-spaces.

A search looks for points nearer than the best candidate, |u| < R, and a certificate is a half-space
n . u >= t, |n| = 1, that holds everything left of a node. So each pre-activation z_r + c . u stays
between its least and largest value over the cap {|u| <= R, n . u >= t}. Write u = s n + v with v
orthogonal to n; then s >= t and |v| <= sqrt(R^2 - s^2), and

    max c . u  =  max over s in [t, R] of  s (c . n) + |c - (c . n) n| sqrt(R^2 - s^2).

Without the lower end of s the maximum is R |c|, at s = R (c . n) / |c|. If that s is at least t it
is allowed; otherwise the expression, concave in s, falls from there on and its maximum is at s = t.
As t approaches R the cap shrinks to a point and boxes with it: this is what makes the search end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.robustness.exact.relaxation import Box


@dataclass(frozen=True, eq=False)
class Problem:
    """One point: pre-activations are z + rows @ u; `reach` and `error` bound rounding errors."""

    rows: Float[ndarray, "M r"]
    z: Float[ndarray, " M"]
    reach: float
    error: float

    @cached_property
    def lengths(self) -> Float[ndarray, " M"]:
        """The length of each row, which is one up to rounding."""
        return np.sqrt(np.einsum("mr,mr->m", self.rows, self.rows))


def shrink(
    problem: Problem, box: Box, normal: ndarray | None, depth: float, limit: float
) -> Box | None:
    """The box, cut down to |u| <= limit, to normal . u >= depth, and to what the last split leaves.

    None if nothing is left of it.
    """
    spread = np.stack([problem.lengths, problem.lengths]) * limit
    if normal is not None:
        np.minimum(spread, cap(problem, normal, depth, limit), out=spread)
    r = box.last
    if r is not None and problem.lengths[r] > 0:
        # The last split is a half-space as well: +-c_r . u >= what the imposed end asks for.
        for sign, end in ((1.0, box.low[r]), (-1.0, -box.high[r])):
            away = (end - sign * problem.z[r]) / problem.lengths[r]
            if away > limit:
                return None
            if away > -limit:
                row = problem.rows[r] * (sign / problem.lengths[r])
                np.minimum(spread, cap(problem, row, away, limit), out=spread)
    # Rounding of z = normals @ x + offsets, of size reach, and of rows @ u, of size limit.
    spread += problem.error * (problem.reach + limit)
    lo = np.maximum(box.lo, problem.z - spread[1])
    hi = np.minimum(box.hi, problem.z + spread[0])
    return None if np.any(lo > hi) else replace(box, lo=lo, hi=hi)


def cap(
    problem: Problem, normal: Float[ndarray, " r"], depth: float, radius: float
) -> Float[ndarray, "2 M"]:
    r"""The largest rows @ u and -rows @ u over |u| <= radius, normal . u >= depth.

    For one row c it is depth (c . n) + sqrt(|c|^2 - (c . n)^2) sqrt(radius^2 - depth^2), or
    radius |c| if that end of the ball is in the cap.

    >>> problem = Problem(np.eye(2), np.zeros(2), 1.0, 0.0)
    >>> cap(problem, np.array([1.0, 0.0]), 0.6, 1.0)
    array([[ 1. ,  0.8],
           [-0.6,  0.8]])
    """
    along = problem.rows @ normal
    along = np.stack([along, -along])
    across = np.sqrt(np.maximum(problem.lengths**2 - along[0] ** 2, 0.0))
    edge = depth * along + across * math.sqrt(max(radius**2 - depth**2, 0.0))
    inside = radius * along >= depth * problem.lengths
    return np.where(inside, radius * problem.lengths, edge)
