"""Minimal-norm descent: the direction and the norm of a perturbation are moved apart."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.robustness.attacks.result import AttackEnd
from featavg.robustness.models.model import Model
from featavg.robustness.models.norms import length, steepest, to_ball, to_box, to_halfspace


def ddn(
    model: Model,
    x: Float[ndarray, "n D"],
    label: Int[ndarray, " n"],
    rival: Int[ndarray, " n"],
    norm: str = "l2",
    steps: int = 40,
    start: Float[ndarray, "n D"] | None = None,
    step_size: tuple[float, float] = (0.5, 0.02),
    norm_step: tuple[float, float] = (0.15, 0.003),
) -> AttackEnd:
    r"""Scale-aware decoupled direction and norm (Rony et al. 2019), in l2 and in l_inf.

    With the objective h (own score minus the rival's), its gradient g and a radius r, one step is

        delta <- box(sphere_r(delta - a r u)),   u the direction of g,
        r <- (1 - c) |delta| where the decision has flipped, (1 + c) r where it has not,

    and a, c fall along a half cosine. Nothing has a length of its own: the first radius is the
    linearised distance at x and steps are shares of the radius, so raw inputs of any scale are as
    good as pixels. Until the first flip the radius grows by the linearised distance still to go.

    Args:
        rival: the output each row is aimed at, or ALL.
        steps: gradient evaluations, the one at x included unless `start` is given.
        start: perturbations to begin with; the linearised one unless given.
        step_size, norm_step: first and last a, first and last c.
    """
    if start is None:
        _, value, gradient = model.descend(x, label, rival)
        start, _ = to_halfspace(x, gradient, value, norm, model.bounds)
        steps -= 1
    delta = to_box(x, start, model.bounds)
    radius = length(delta, norm)
    best, best_length = x.copy(), np.full(len(x), np.inf)
    for i in range(steps):
        share = (1 + math.cos(math.pi * i / max(steps, 1))) / 2
        a, c = (last + (first - last) * share for first, last in (step_size, norm_step))
        point = x + delta
        margin, value, gradient = model.descend(point, label, rival)
        now, flipped = length(delta, norm), margin <= 0
        better = flipped & (now < best_length)
        best[better], best_length[better] = point[better], now[better]
        further = now + value / dual_length(gradient, norm)
        never = np.isinf(best_length)
        radius = np.where(
            flipped,
            np.minimum(now, best_length) * (1 - c),
            np.where(never, np.maximum(further, now * (1 + c)), radius * (1 + c)),
        )
        # A radius past the best length can only find something worse.
        radius = np.minimum(radius, best_length)
        step = _direction(gradient, norm) * (a * radius)[:, None].astype(x.dtype)
        delta = to_box(x, _to_sphere(delta - step, radius, norm), model.bounds)
    return AttackEnd(best, np.isfinite(best_length))


def _direction(gradient: Float[ndarray, "n D"], norm: str) -> Float[ndarray, "n D"]:
    """g/|g| in l2; in l_inf twice g over its root mean square, cut off later by the ball.

    A plain sign in l_inf forgets which coordinates matter little, and where the objective has a
    kink it is those that settle in between: 1.5% longer radii on a digits network under `max`.
    """
    unit = steepest(gradient, "l2")
    return (
        unit if norm == "l2" else np.asarray(unit * unit.dtype.type(2 * gradient.shape[1] ** 0.5))
    )


def _to_sphere(
    delta: Float[ndarray, "n D"], radius: Float[ndarray, " n"], norm: str
) -> Float[ndarray, "n D"]:
    """Scaled to the sphere in l2; in l_inf cut off, where scaling would undo whole coordinates."""
    if norm == "linf":
        return to_ball(delta, radius, norm)
    size = length(delta, norm)
    scale = (radius / np.where(size > 0, size, 1.0))[:, None]
    return np.asarray(delta * scale.astype(delta.dtype))


def dual_length(gradient: Float[ndarray, "n D"], norm: str) -> Float[ndarray, " n"]:
    """How fast the objective can fall for a step of length one; infinite where it cannot."""
    wide = gradient.astype(np.float64, copy=False)
    size = np.abs(wide).sum(axis=1) if norm == "linf" else length(wide, "l2")
    return np.where(size > 0, size, np.inf)
