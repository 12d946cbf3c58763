"""Sign descent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from featavg.shapes import PerSeed
from featavg.training.objectives.objective import Evaluation, Objective, Params
from featavg.training.steppers._stepper import Proposal, Stepper, scaled


@dataclass(frozen=True)
class SignDescent(Stepper):
    """theta <- theta - rate * sign(dL/dtheta): what Adam does without a memory.

    It looks at single coordinates, so its runs cannot be compressed.

    >>> import featavg as fa
    >>> run = fa.train(fa.MultiCluster(k=4, d=100), n=40, stepper=fa.steppers.SignDescent(), lr=1e-3, steps=20)
    >>> bool(run.log_loss[-1] < 0)
    True
    """

    name: ClassVar[str] = "sign"

    @property
    def keeps_rotations(self) -> bool:
        """No: it looks at single coordinates."""
        return False

    def propose(
        self,
        objective: Objective,
        params: Params,
        evaluation: Evaluation,
        state: Params,
        log_rate: PerSeed,
    ) -> Proposal:
        """One step of the same length in every coordinate."""
        rate = np.exp(log_rate)
        moved = tuple(
            p - scaled(rate, np.sign(g)) for p, g in zip(params, evaluation.gradient, strict=True)
        )
        return Proposal(moved, objective.evaluate(moved), (), log_rate, None)
