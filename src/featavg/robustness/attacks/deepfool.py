"""DeepFool: walk to the linearised boundary until the decision flips; then along the boundary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from featavg.robustness.attacks.attack import Attack, AttackEnd, AttackProblem
from featavg.robustness.attacks.line_search import shorten
from featavg.robustness.models.norms import length, to_box, to_halfspace


@dataclass(frozen=True, repr=False)
class DeepFool(Attack):
    r"""DeepFool (Moosavi-Dezfooli et al. 2016) on the decision, with the overshoot on the total perturbation.

    Step t linearises the objective h at x_t = x + (1 + overshoot) delta_t and adds the shortest
    step that reaches the zero of the linearisation inside the bounds:

        delta_{t+1} = delta_t + argmin { |s| : h(x_t) + <g_t, s> <= 0, x_t + s in the box }.

    An overshoot on each step alone would leave the sum of many short steps short of the boundary.

    Attributes:
        steps: gradients per point, at most.
        overshoot: a share of the total perturbation.

    >>> import featavg as fa
    >>> fa.attacks.DeepFool(steps=50)
    DeepFool(steps=50)
    """

    name: ClassVar[str] = "deepfool"
    default: ClassVar[bool] = True
    steps: int = 20
    overshoot: float = 0.02

    def expected_gradients(self, budget: int) -> float:
        """It stops at the first flip, usually long before the last step."""
        return min(self.steps, 8)

    def __call__(self, problem: AttackProblem) -> AttackEnd:
        """Walk to the boundary of the decision itself, whatever rivals there are."""
        model, x, label, norm = problem.model, problem.x, problem.label, problem.norm
        total = np.zeros_like(x)
        best, flipped = x.copy(), np.zeros(len(x), dtype=bool)
        left = np.arange(len(x))
        for _ in range(self.steps):
            here = x[left] + to_box(x[left], (1 + self.overshoot) * total[left], model.bounds)
            margin, value, gradient = model.descend(here, label[left])
            hit = margin <= 0
            best[left[hit]], flipped[left[hit]] = here[hit], True
            step, possible = to_halfspace(here, gradient, np.maximum(value, 0.0), norm, model.bounds)
            total[left] += step
            # Where the linearisation has no way on (a dead gradient, a corner), stop asking.
            left = left[~hit & possible & np.any(step != 0, axis=1)]
            if len(left) == 0:
                break
        return AttackEnd(best, flipped)


def slide(problem: AttackProblem, end: AttackEnd, steps: int = 8) -> AttackEnd:
    r"""Slide a flipped point along the boundary towards x.

    At a boundary point x + delta with gradient g, the point of the tangent plane nearest to x is
    t = argmin { |s| : <g, s> <= <g, delta>, x + s in the box }. Go from delta towards t, by a share
    that is cut when the boundary curves away, find the boundary again on the ray, repeat. It ends
    where delta is its own projection: the condition for a nearest point of the boundary.
    """
    model, x, norm = problem.model, problem.x, problem.norm
    best = end.point.copy()
    share = np.ones(len(x))
    size = length(best - x, norm)
    live = np.flatnonzero(end.flipped)
    for _ in range(steps):
        if len(live) == 0:
            break
        some, delta = problem.take(live), best[live] - x[live]
        _, _, gradient = model.descend(best[live], some.label)
        gap = -np.einsum("nd,nd->n", gradient.astype(float), delta.astype(float))
        tangent, _ = to_halfspace(x[live], gradient, gap, norm, model.bounds)
        step = delta + share[live, None].astype(x.dtype) * (tangent - delta)
        gain = np.maximum(1.0 - length(step, norm) / size[live], 0.0)
        # Beyond the tangent plane by half of what is to be gained: the boundary may curve away.
        step *= (1 + np.minimum(0.5 * gain, 0.02))[:, None].astype(x.dtype)
        trial = x[live] + to_box(x[live], step, model.bounds)
        near = shorten(some, AttackEnd.of(trial), steps=5)
        now = length(near.point - x[live], norm)
        better = near.flipped & (now < size[live])
        progress = np.where(better, 1.0 - now / size[live], np.inf)
        best[live[better]], size[live[better]] = near.point[better], now[better]
        share[live[~better]] /= 3
        live = live[(progress > 1e-6) & (gain > 1e-6) & (share[live] > 0.02)]
    return AttackEnd(best, end.flipped)
