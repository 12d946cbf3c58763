"""Gradient descent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from featavg.shapes import PerSeed
from featavg.training.objectives.objective import Evaluation, Objective, Params
from featavg.training.steppers._stepper import Proposal, Stepper, scaled


@dataclass(frozen=True)
class GradientDescent(Stepper):
    """theta <- theta - rate * dL/dtheta.

    >>> import featavg as fa
    >>> run = fa.train(fa.MultiCluster(k=4, d=100), n=40, stepper=fa.steppers.GradientDescent(), steps=20)
    >>> bool(run.log_loss[-1] < 0)
    True
    """

    name: ClassVar[str] = "gd"

    def propose(
        self,
        objective: Objective,
        params: Params,
        evaluation: Evaluation,
        state: Params,
        log_rate: PerSeed,
    ) -> Proposal:
        """One plain step."""
        factor = np.exp(log_rate + evaluation.log_loss)
        moved = tuple(
            p - scaled(factor, g) for p, g in zip(params, evaluation.gradient, strict=True)
        )
        return Proposal(moved, objective.evaluate(moved), (), log_rate, None)
