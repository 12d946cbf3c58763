"""Minimal-norm descent: the direction and the norm of a perturbation are moved apart."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.robustness.attacks.attack import (
    Attack,
    AttackEnd,
    AttackProblem,
    nearer,
    positive_whole,
    targets,
)
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

    def __post_init__(self) -> None:
        if self.steps is not None:
            positive_whole("steps", self.steps)

    def usual_for(self, model: Model) -> bool:
        """On deep networks several short descents find more (see `MultiStartDDN`)."""
        return isinstance(model, TwoLayerModel)

    def expected_gradients(self, budget: int) -> float:
        """The whole budget."""
        return budget if self.steps is None else self.steps

    def __call__(self, problem: AttackProblem) -> AttackEnd:
        """Descend to the nearest boundary found."""
        model, x, label, norm = problem.model, problem.x, problem.label, problem.norm
        steps = problem.budget if self.steps is None else self.steps
        if self.targeted:
            return aimed_ddn(model, x, label, problem.margin, norm, steps)
        return ddn(model, x, label, problem.whole_decision, norm, steps)


def aimed_ddn(
    model: Model,
    x: Float[ndarray, "n D"],
    label: Int[ndarray, " n"],
    margin: Float[ndarray, " n"],
    norm: str = "l2",
    budget: int = 120,
    most: int = 9,
    width: int = 6,
) -> AttackEnd:
    """DDN at every rival, the best two go on, and the nearer of them slides along the boundary.

    Every rival is linearised once at x and the `width` nearest are run, on two thirds of the
    budget. Rivals matter more than steps: on a digits network 20 steps at each of six rivals come
    within 0.1% of the best known, 400 steps at the margin alone stay 4% above.

    Args:
        margin: that of x, positive.
        budget: gradients per point, at most.
        most: how many rivals are linearised.
        width: how many are run.
    """
    n = len(x)
    rivals = targets(model, x, label, most)
    runs = np.repeat(np.arange(n), rivals.shape[1])
    aims = rivals.reshape(-1)
    _, value, gradient = model.descend(x[runs], label[runs], aims)
    first, _ = to_halfspace(x[runs], gradient, np.maximum(value, 0.0), norm, model.bounds)
    near = np.where(np.any(gradient != 0, axis=1), length(first, norm), np.inf).reshape(n, -1)
    width = min(width, rivals.shape[1])
    kept = np.argsort(near, axis=1, kind="stable")[:, :width]
    rows = (np.arange(n)[:, None] * rivals.shape[1] + kept).reshape(-1)
    last = max(4, budget // 20)
    steps = max(5, (budget - rivals.shape[1] - last) * (2 if width > 2 else 3) // 3 // width)
    ends = ddn(model, x[runs[rows]], label[runs[rows]], aims[rows], norm, steps, first[rows])
    near = np.where(ends.flipped, length(ends.point - x[runs[rows]], norm), np.inf)
    order = np.argsort(near.reshape(n, width), axis=1, kind="stable")[:, :2]
    best = ends.take(np.arange(n) * width + order[:, 0])
    if width > 2:
        rows = rows.reshape(n, width)
        spare = (budget - rivals.shape[1] - last - steps * width) // order.shape[1]
        for column in range(order.shape[1]):
            column_rows = np.arange(n) * width + order[:, column]
            again = ddn(
                model,
                x,
                label,
                aims[rows[np.arange(n), order[:, column]]],
                norm,
                max(spare, 1),
                ends.point[column_rows] - x,
                step_size=(0.2, 0.01),
                norm_step=(0.05, 0.002),
            )
            best = nearer(x, best, again, norm)
    point, flipped = shorten(model, x, label, best.point, margin, insist=True)
    return slide(model, x, label, AttackEnd(point, flipped & best.flipped), margin, norm, last)


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

    def __post_init__(self) -> None:
        if self.steps is not None:
            positive_whole("steps", self.steps)

    def expected_gradients(self, budget: int) -> float:
        """The whole budget."""
        return budget if self.steps is None else self.steps

    def __call__(self, problem: AttackProblem) -> AttackEnd:
        """Descend from the point itself."""
        steps = problem.budget if self.steps is None else self.steps
        return fmn(problem.model, problem.x, problem.label, problem.norm, steps)


def fmn(
    model: Model,
    x: Float[ndarray, "n D"],
    label: Int[ndarray, " n"],
    norm: str = "l2",
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
    positive_whole("steps", steps)
    delta = np.zeros_like(x) if start is None else to_box(x, start, model.bounds)
    size = length(delta, "l2")
    radius = np.full(len(x), np.inf)
    best, best_length = x.copy(), np.full(len(x), np.inf)
    for i in range(steps):
        share = (1 + math.cos(math.pi * i / steps)) / 2
        a, c = (last + (first - last) * share for first, last in (step_size, norm_step))
        point = x + delta
        margin, value, gradient = model.descend(point, label)
        now, flipped = length(delta, norm), margin <= 0
        if i == 0:
            first, _ = to_halfspace(x, gradient, np.maximum(value, 0.0), norm, model.bounds)
            size = np.maximum(size, length(first, "l2"))
        better = flipped & (now < best_length)
        best[better], best_length[better] = point[better], now[better]
        estimate = now + np.maximum(value, 0.0) / dual_length(gradient, norm)
        # The estimate may land on the boundary again and again, short of it by a rounding.
        unflipped_yet = np.maximum(estimate, now * (1 + c))
        grown = np.where(np.isinf(best_length), unflipped_yet, radius * (1 + c))
        shrunk = np.minimum(best_length, np.minimum(radius, now) * (1 - c))
        radius = np.minimum(np.where(flipped, shrunk, grown), best_length)
        step = steepest(gradient, "l2") * (a * size)[:, None].astype(x.dtype)
        delta = to_box(x, to_ball(delta - step, radius, norm), model.bounds)
    return AttackEnd(best, np.isfinite(best_length))
