"""Aim a minimal-norm attack at every rival, and spend its budget where it pays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.robustness.attacks.attack import Attack, AttackProblem, positive_whole, targets
from featavg.robustness.attacks.ddn import ddn
from featavg.robustness.attacks.deepfool import slide
from featavg.robustness.attacks.line_search import shorten
from featavg.robustness.attacks.result import AttackEnd, nearer
from featavg.robustness.models.model import Model, TwoLayerModel
from featavg.robustness.models.norms import length, to_halfspace


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
        """On deep networks several short descents find more (see `Strongest`)."""
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
