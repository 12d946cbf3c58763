"""Gradient flow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy import ndarray

from featavg.errors import finite
from featavg.shapes import PerSeed
from featavg.training.objectives.objective import Evaluation, Objective, Params
from featavg.training.steppers._bogacki_shampine import size, step
from featavg.training.steppers._stepper import Proposal, Stepper


@dataclass(frozen=True)
class GradientFlow(Stepper):
    """d theta / dt = -dL/dtheta by the Bogacki-Shampine pair of orders 3 and 2.

    The flow is followed in the time s with dt = ds / L, in which its speed is the normalised gradient:
    many decades of t are then a few hundred steps, and t itself is carried as a logarithm.

    Args:
        tolerance: local error allowed, relative to the size of each parameter array (of its move,
            while it is zero). Where a ReLU hangs on its kink the flow is not smooth and a tighter
            tolerance only takes more steps.

    >>> import featavg as fa
    >>> run = fa.train(fa.MultiCluster(k=4, d=100), n=40, stepper=fa.steppers.GradientFlow(), time=1.0, steps=500)
    >>> run.outcome
    <Outcome.TIME_REACHED: 'the end of the time span was reached'>
    """

    tolerance: float = 1e-3
    name: ClassVar[str] = "flow"
    estimates_error: ClassVar[bool] = True

    def __post_init__(self) -> None:
        finite("tolerance", self.tolerance, above=0, below=1)

    def propose(
        self,
        objective: Objective,
        params: Params,
        evaluation: Evaluation,
        state: Params,
        log_rate: PerSeed,
    ) -> Proposal:
        """One step with an estimate of its local error."""
        h = np.exp(log_rate + evaluation.log_loss)
        taken = step(objective, params, evaluation, _downhill, h)
        error = np.max(
            [
                size(defect, h.ndim) / (self.tolerance * _scale(p, q, h.ndim) + 1e-300)
                for p, q, defect in zip(params, taken.params, taken.defects, strict=True)
            ],
            axis=0,
        )
        return Proposal(taken.params, taken.evaluation, (), taken.log_elapsed, error)


def _downhill(params: Params, evaluation: Evaluation) -> Params:
    return tuple(-g for g in evaluation.gradient)


def _scale(start: ndarray, end: ndarray, batch: int) -> PerSeed:
    """What an error is relative to: the array, or where it moves to if it is zero."""
    length = size(start, batch)
    return np.where(length > 0, length, size(end, batch))
