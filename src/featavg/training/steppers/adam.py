"""Adam (Kingma and Ba, 2015)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from featavg.errors import finite
from featavg.shapes import PerSeed
from featavg.training.objectives.objective import Evaluation, Objective, Params
from featavg.training.steppers._stepper import Proposal, Stepper, scaled


@dataclass(frozen=True)
class Adam(Stepper):
    """Adam as published (Kingma and Ba, 2015), with g the gradient, t the number of the step:

        m <- beta1 m + (1 - beta1) g,    v <- beta2 v + (1 - beta2) g^2,
        theta <- theta - rate * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon).

    It looks at single coordinates, so its runs cannot be compressed.

    >>> import featavg as fa
    >>> bool(fa.train(fa.MultiCluster(k=4, d=100), n=40, stepper=fa.steppers.Adam(), steps=20).log_loss[-1] < 0)
    True
    """

    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    name: ClassVar[str] = "adam"

    @property
    def keeps_rotations(self) -> bool:
        """No: it looks at single coordinates."""
        return False

    def __post_init__(self) -> None:
        finite("beta1", self.beta1, least=0, below=1)
        finite("beta2", self.beta2, least=0, below=1)
        finite("epsilon", self.epsilon, above=0)

    def init(self, params: Params, evaluation: Evaluation) -> Params:
        """First moments, second moments, and the number of steps of each seed."""
        zeros = tuple(np.zeros_like(p) for p in params)
        return (*zeros, *(z.copy() for z in zeros), np.zeros(np.shape(evaluation.log_loss)))

    def propose(
        self,
        objective: Objective,
        params: Params,
        evaluation: Evaluation,
        state: Params,
        log_rate: PerSeed,
    ) -> Proposal:
        """One bias-corrected step."""
        count = len(params)
        step = np.asarray(state[-1] + 1.0)
        loss = np.exp(evaluation.log_loss)
        gradient = [scaled(loss, g) for g in evaluation.gradient]
        first = [
            self.beta1 * m + (1 - self.beta1) * g
            for m, g in zip(state[:count], gradient, strict=True)
        ]
        second = [
            self.beta2 * v + (1 - self.beta2) * g * g
            for v, g in zip(state[count : 2 * count], gradient, strict=True)
        ]
        rate, unbias1, unbias2 = np.exp(log_rate), 1 - self.beta1**step, 1 - self.beta2**step
        moved = tuple(
            p - scaled(rate, _divided(m, unbias1)) / (np.sqrt(_divided(v, unbias2)) + self.epsilon)
            for p, m, v in zip(params, first, second, strict=True)
        )
        return Proposal(moved, objective.evaluate(moved), (*first, *second, step), log_rate, None)


def _divided(array: np.ndarray, by: PerSeed) -> np.ndarray:
    return array / np.reshape(by, np.shape(by) + (1,) * (array.ndim - np.ndim(by)))
