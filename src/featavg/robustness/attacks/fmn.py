"""FMN, the fast minimum-norm attack: a radius that shrinks and grows around the boundary."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.robustness.attacks.attack import Attack, AttackProblem, positive_whole
from featavg.robustness.attacks.ddn import dual_length
from featavg.robustness.attacks.result import AttackEnd
from featavg.robustness.models.model import Model
from featavg.robustness.models.norms import length, steepest, to_ball, to_box, to_halfspace


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
