"""Gradient descent with momentum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from featavg.errors import finite
from featavg.shapes import PerSeed
from featavg.training.objectives.objective import Evaluation, Objective, Params
from featavg.training.steppers._stepper import Proposal, Stepper, scaled


@dataclass(frozen=True)
class Momentum(Stepper):
    """u <- beta u - rate * dL/dtheta;  theta <- theta + u  (heavy ball, Polyak 1964).

    The memory holds updates rather than gradients: those do not underflow when the loss does.

    Args:
        beta: the share of the last update that goes on, in [0, 1).

    >>> import featavg as fa
    >>> run = fa.train(fa.MultiCluster(k=4, d=100), n=40, stepper=fa.steppers.Momentum(beta=0.9), steps=20)
    >>> bool(run.log_loss[-1] < 0)
    True
    """

    beta: float = 0.9
    name: ClassVar[str] = "momentum"

    def __post_init__(self) -> None:
        finite("beta", self.beta, least=0, below=1)

    def init(self, params: Params, evaluation: Evaluation) -> Params:
        """No update yet."""
        return tuple(np.zeros_like(p) for p in params)

    def propose(
        self,
        objective: Objective,
        params: Params,
        evaluation: Evaluation,
        state: Params,
        log_rate: PerSeed,
    ) -> Proposal:
        """One step of the heavy ball."""
        factor = np.exp(log_rate + evaluation.log_loss)
        updates = tuple(
            self.beta * u - scaled(factor, g)
            for u, g in zip(state, evaluation.gradient, strict=True)
        )
        moved = tuple(p + u for p, u in zip(params, updates, strict=True))
        return Proposal(moved, objective.evaluate(moved), updates, log_rate, None)
