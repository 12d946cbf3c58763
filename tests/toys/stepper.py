"""Gradient descent at half the rate."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from featavg.training.steppers._stepper import Proposal, Stepper, scaled


@dataclass(frozen=True)
class Toy(Stepper):
    """theta <- theta - share * rate * dL/dtheta."""

    share: float = 0.5
    name: ClassVar[str] = "toy"

    def propose(self, objective, params, evaluation, state, log_rate):
        """A shorter step."""
        factor = self.share * np.exp(log_rate + evaluation.log_loss)
        moved = tuple(
            p - scaled(factor, g) for p, g in zip(params, evaluation.gradient, strict=True)
        )
        return Proposal(moved, objective.evaluate(moved), (), log_rate, None)
