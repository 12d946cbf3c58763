"""The geometry attacks share: lengths, balls, and the nearest point of a half-space in a box."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from featavg.errors import one_of

NORMS = ("l2", "linf")
Bounds = tuple[float, float] | None


def length(delta: Float[ndarray, "n D"], norm: str) -> Float[ndarray, " n"]:
    """|delta| of every row, in float64 whatever the rows are stored in.

    >>> length(np.array([[3.0, -4.0]]), "l2"), length(np.array([[3.0, -4.0]]), "linf")
    (array([5.]), array([4.]))
    """
    one_of("norm", norm, NORMS)
    wide = delta.astype(np.float64, copy=False)
    if norm == "linf":
        return np.asarray(np.abs(wide).max(axis=1, initial=0.0))
    return np.asarray(np.sqrt(np.einsum("nd,nd->n", wide, wide)))


def steepest(gradient: Float[ndarray, "n D"], norm: str) -> Float[ndarray, "n D"]:
    """The direction of length one that climbs fastest: g/|g| in l2, sign(g) in l_inf."""
    if norm == "linf":
        return np.asarray(np.sign(gradient))
    size = length(gradient, "l2")[:, None]
    return (gradient / np.where(size > 0, size, 1.0)).astype(gradient.dtype, copy=False)


def to_ball(delta: Float[ndarray, "n D"], radius: Float[ndarray, " n"], norm: str) -> Float[ndarray, "n D"]:
    """The nearest perturbation that is no longer than `radius`."""
    if norm == "linf":
        limit = radius[:, None].astype(delta.dtype)
        return np.asarray(np.clip(delta, -limit, limit))
    size = length(delta, norm)
    shrink = np.minimum(1.0, radius / np.where(size > 0, size, 1.0))
    return np.asarray(delta * shrink[:, None].astype(delta.dtype))


def to_box(x: Float[ndarray, "n D"], delta: Float[ndarray, "n D"], bounds: Bounds) -> Float[ndarray, "n D"]:
    """The perturbation that is left when x + delta is clipped to the input bounds."""
    return delta if bounds is None else np.clip(x + delta, *bounds) - x


def to_halfspace(
    x: Float[ndarray, "n D"], gradient: Float[ndarray, "n D"], gap: Float[ndarray, " n"], norm: str, bounds: Bounds
) -> tuple[Float[ndarray, "n D"], Bool[ndarray, " n"]]:
    r"""The shortest delta with <g, delta> <= -gap and x + delta in the box; where there is one.

    It is delta(s) = clip(-s u, lo - x, hi - x) with u = g in l2 and u = sign(g) in l_inf, for the
    s that solves <g, delta(s)> = -gap. The left side is convex, decreasing and piecewise linear
    in s, so Newton's steps from below reach the root exactly, after as many steps as there are
    pieces on the way; a handful in practice.

    >>> x, g = np.array([[0.0, 0.5]]), np.array([[1.0, 1.0]])
    >>> to_halfspace(x, g, np.array([0.4]), "l2", (0.0, 1.0))[0]  # the first pixel is at its face
    array([[ 0. , -0.4]])
    """
    slope = np.abs(gradient) if norm == "linf" else gradient**2
    total = slope.sum(axis=1, dtype=np.float64)
    moving = gap > 0
    with np.errstate(divide="ignore"):
        scale = np.where(moving & (total > 0), gap / np.where(total > 0, total, 1.0), 0.0)
    towards = np.sign(gradient) if norm == "linf" else gradient
    found = ~moving | (total > 0)
    if bounds is None:
        return (-scale[:, None] * towards).astype(x.dtype), found
    for _ in range(100):
        step = -scale[:, None] * towards
        low, high = bounds[0] - x, bounds[1] - x
        delta = np.clip(step, low, high)
        short = gap + np.einsum("nd,nd->n", gradient, delta)
        left = np.where(step == delta, slope, 0.0).sum(axis=1, dtype=np.float64)
        # Relative to what had to be covered: the radius inherits this precision.
        behind = moving & (short > 1e-9 * np.abs(gap))
        found &= ~behind | (left > 0)
        if not np.any(behind & (left > 0)):
            break
        scale += np.where(behind & (left > 0), short / np.where(left > 0, left, 1.0), 0.0)
    return delta.astype(x.dtype), found
