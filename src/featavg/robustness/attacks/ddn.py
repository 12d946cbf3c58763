"""Minimal-norm descents, DDN and FMN: the direction and the norm of a perturbation are moved apart."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray

from featavg.robustness.attacks.attack import Attack, AttackEnd, AttackProblem, nearer, targets
from featavg.robustness.attacks.deepfool import slide
from featavg.robustness.attacks.line_search import shorten
from featavg.robustness.models.model import Model, TwoLayerModel
from featavg.robustness.models.norms import length, steepest, to_ball, to_box, to_halfspace


@dataclass(frozen=True, repr=False)
class DDN(Attack):
    """Minimal-norm descent, aimed at every rival and then refined (see `aimed_ddn`).

    Attributes:
        steps: gradients per point; the budget of the suite unless given.
        targeted: share them among the rivals of each point; otherwise all go to the decision.

    >>> import featavg as fa
    >>> fa.attacks.DDN(steps=400, targeted=False)
    DDN(steps=400, targeted=False)
    """

    name: ClassVar[str] = "ddn"
    default: ClassVar[bool] = True
    steps: int | None = None
    targeted: bool = True

    def usual_for(self, model: Model) -> bool:
        """On deep networks several short descents find more (see `MultiStartDDN`)."""
        return isinstance(model, TwoLayerModel)

    def __call__(self, problem: AttackProblem) -> AttackEnd:
        """Descend to the nearest boundary found."""
        steps = self.steps or problem.budget
        return aimed_ddn(problem, steps) if self.targeted else ddn(problem, None, steps)


@dataclass(frozen=True, repr=False)
class FMN(Attack):
    """FMN on the decision (see `fmn`).

    Attributes:
        steps: gradients per point; the budget of the suite unless given.

    >>> import numpy as np
    >>> import featavg as fa
    >>> net = fa.binary(np.eye(2))
    >>> attacks = [fa.attacks.FMN(steps=50)]
    >>> fa.attack_suite(fa.network_model(net), [[3.0, 1.0]], [1], attacks=attacks).radii.round(3)
    array([1.414])
    """

    name: ClassVar[str] = "fmn"
    steps: int | None = None

    def __call__(self, problem: AttackProblem) -> AttackEnd:
        """Descend from the point itself."""
        return fmn(problem, self.steps or problem.budget)


def aimed_ddn(problem: AttackProblem, budget: int = 120, width: int = 6) -> AttackEnd:
    """DDN at every rival, the best two are continued, and the nearer of them slides along the boundary.

    Every rival is linearised once at x and the `width` nearest are run, on two thirds of the
    budget. Rivals matter more than steps: on a digits network 20 steps at each of six rivals come
    within 0.1% of the best known, 400 steps at the margin alone stay 4% above.

    Args:
        budget: gradients per point, at most.
        width: how many rivals are run.
    """
    model, x, norm, n = problem.model, problem.x, problem.norm, len(problem.x)
    rivals = targets(problem)
    count = rivals.shape[1]
    every, aims = problem.take(np.repeat(np.arange(n), count)), rivals.reshape(-1)
    _, value, gradient = model.descend(every.x, every.label, aims)
    first, _ = to_halfspace(every.x, gradient, np.maximum(value, 0.0), norm, model.bounds)
    near = np.where(np.any(gradient != 0, axis=1), length(first, norm), np.inf).reshape(n, -1)
    width = min(width, count)
    kept = np.argsort(near, axis=1, kind="stable")[:, :width]
    rows = np.arange(n)[:, None] * count + kept
    last = max(4, budget // 20)
    steps = max(5, (budget - count - last) * (2 if width > 2 else 3) // 3 // width)
    run, flat = every.take(rows.reshape(-1)), rows.reshape(-1)
    ends = ddn(run, aims[flat], steps, first[flat])
    order = np.argsort(ends.radii(run.x, norm).reshape(n, width), axis=1, kind="stable")[:, :2]
    best = ends.take(np.arange(n) * width + order[:, 0])
    if width > 2:
        spare = (budget - count - last - steps * width) // order.shape[1]
        for column in order.T:
            start = ends.point[np.arange(n) * width + column] - x
            aimed = aims[rows[np.arange(n), column]]
            again = ddn(problem, aimed, max(spare, 1), start, (0.2, 0.01), (0.05, 0.002))
            best = nearer(x, best, again, norm)
    return slide(problem, shorten(problem, best, insist=True), last)


def ddn(
    problem: AttackProblem,
    rival: Int[ndarray, " n"] | None = None,
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
        rival: the output each row is aimed at; the decision itself unless given.
        steps: gradient evaluations, the one at x included unless `start` is given.
        start: perturbations to begin with; the linearised one unless given.
        step_size, norm_step: first and last a, first and last c.
    """
    x, norm, bounds = problem.x, problem.norm, problem.model.bounds
    if start is None:
        _, value, gradient = problem.model.descend(x, problem.label, rival)
        start, _ = to_halfspace(x, gradient, value, norm, bounds)
        steps -= 1
    begin = to_box(x, start, bounds)
    radius = length(begin, norm)

    def move(at: _Step, a: float, c: float) -> Float[ndarray, "n D"]:
        nonlocal radius
        further = at.length + at.value / dual_length(at.gradient, norm)
        radius = np.where(
            at.flipped,
            np.minimum(at.length, at.best) * (1 - c),
            np.where(np.isinf(at.best), np.maximum(further, at.length * (1 + c)), radius * (1 + c)),
        )
        # A radius past the best length can only find something worse.
        radius = np.minimum(radius, at.best)
        step = _direction(at.gradient, norm) * (a * radius)[:, None].astype(x.dtype)
        return _to_sphere(at.delta - step, radius, norm)

    return _descend(problem, rival, begin, steps, step_size, norm_step, move)


def fmn(
    problem: AttackProblem,
    steps: int = 100,
    start: Float[ndarray, "n D"] | None = None,
    step_size: tuple[float, float] = (1.0, 0.01),
    norm_step: tuple[float, float] = (0.05, 0.001),
) -> AttackEnd:
    r"""The fast minimum-norm attack (Pintor et al. 2021), in l2 and in l_inf.

    With the margin h, its gradient g, the dual norm |.|_* and a radius r, one step is

        r     <- min(|delta_best|, (1 - c) r)        where the decision has flipped,
                 |delta| + h / |g|_*                 where it has never flipped yet,
                 (1 + c) r                           otherwise,
        delta <- box(ball_r(delta - a s g / |g|_2)),

    and a, c fall along a half cosine. Unlike DDN it may stay inside the ball, and the step does
    not shrink with the radius. The published step is 1 in units of the input; here s is the l2 size
    of the first linearised perturbation, so that the units do not matter.

    Args:
        steps: gradients per point.
        start: perturbations to begin with; none unless given.
        step_size, norm_step: first and last a, first and last c.
    """
    x, norm, bounds = problem.x, problem.norm, problem.model.bounds
    begin = np.zeros_like(x) if start is None else to_box(x, start, bounds)
    size, radius = None, np.full(len(x), np.inf)

    def move(at: _Step, a: float, c: float) -> Float[ndarray, "n D"]:
        nonlocal size, radius
        gap = np.maximum(at.value, 0.0)
        if size is None:
            first, _ = to_halfspace(x, at.gradient, gap, norm, bounds)
            size = np.maximum(length(begin, "l2"), length(first, "l2"))
        estimate = at.length + gap / dual_length(at.gradient, norm)
        # The estimate may land on the boundary again and again, short of it by a rounding.
        unflipped_yet = np.maximum(estimate, at.length * (1 + c))
        grown = np.where(np.isinf(at.best), unflipped_yet, radius * (1 + c))
        shrunk = np.minimum(at.best, np.minimum(radius, at.length) * (1 - c))
        radius = np.minimum(np.where(at.flipped, shrunk, grown), at.best)
        step = steepest(at.gradient, "l2") * (a * size)[:, None].astype(x.dtype)
        return to_ball(at.delta - step, radius, norm)

    return _descend(problem, None, begin, steps, step_size, norm_step, move)


@dataclass(frozen=True, eq=False)
class _Step:
    """What a descent knows after a look at x + delta; `best` is the least length that flipped."""

    delta: Float[ndarray, "n D"]
    length: Float[ndarray, " n"]
    flipped: Bool[ndarray, " n"]
    value: Float[ndarray, " n"]
    gradient: Float[ndarray, "n D"]
    best: Float[ndarray, " n"]


def _descend(
    problem: AttackProblem,
    rival: Int[ndarray, " n"] | None,
    delta: Float[ndarray, "n D"],
    steps: int,
    step_size: tuple[float, float],
    norm_step: tuple[float, float],
    move: Callable[[_Step, float, float], Float[ndarray, "n D"]],
) -> AttackEnd:
    """The nearest flipped point of all that `move` leads to, with a and c along a half cosine."""
    x, norm, model = problem.x, problem.norm, problem.model
    point, best = x.copy(), np.full(len(x), np.inf)
    for i in range(steps):
        share = (1 + math.cos(math.pi * i / steps)) / 2
        a, c = (last + (first - last) * share for first, last in (step_size, norm_step))
        here = x + delta
        margin, value, gradient = model.descend(here, problem.label, rival)
        now, flipped = length(delta, norm), margin <= 0
        better = flipped & (now < best)
        point[better], best[better] = here[better], now[better]
        at = _Step(delta, now, flipped, value, gradient, best)
        delta = to_box(x, move(at, a, c), model.bounds)
    return AttackEnd(point, np.isfinite(best))


def _direction(gradient: Float[ndarray, "n D"], norm: str) -> Float[ndarray, "n D"]:
    """g/|g| in l2; in l_inf twice g over its root mean square, cut off later by the ball.

    A plain sign in l_inf forgets which coordinates matter little, and where the objective has a
    kink it is those that settle in between: 1.5% longer radii on a digits network under `max`.
    """
    unit = steepest(gradient, "l2")
    return unit if norm == "l2" else np.asarray(unit * unit.dtype.type(2 * gradient.shape[1] ** 0.5))


def _to_sphere(delta: Float[ndarray, "n D"], radius: Float[ndarray, " n"], norm: str) -> Float[ndarray, "n D"]:
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
