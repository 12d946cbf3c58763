"""Gradient flow, by steps of the Bogacki-Shampine pair of orders 3 and 2.

In the time s with dt = ds / L a gradient flow has the speed v = -(dL/dtheta) / L, of moderate size at
any loss. A step of length h takes the stages

    k1 = v(theta),  k2 = v(theta + h k1 / 2),  k3 = v(theta + 3 h k2 / 4),
    theta' = theta + h (2 k1 + 3 k2 + 4 k3) / 9,  k4 = v(theta'),

and its local error is estimated by h |-5/72 k1 + k2/12 + k3/9 - k4/8| (Bogacki and Shampine, 1989).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy import ndarray

from featavg.errors import finite
from featavg.shapes import PerSeed
from featavg.training.parts import Evaluation, Objective, Params, Proposal, Start, Stepper, scaled

Velocity = Callable[[Params, Evaluation], Params]


class Step(NamedTuple):
    """Where a step of the pair leads."""

    params: Params
    evaluation: Evaluation
    defects: Params  # h (-5/72 k1 + k2/12 + k3/9 - k4/8), the difference of the two orders
    log_elapsed: PerSeed  # log of the time t that has passed


def step(objective: Objective, params: Params, evaluation: Evaluation, velocity: Velocity, h: PerSeed) -> Step:
    """Move `params` by the time h along `velocity`."""

    def moved(*terms: tuple[float, Params]) -> Params:
        return tuple(p + scaled(h, np.add.reduce([weight * v[i] for weight, v in terms])) for i, p in enumerate(params))

    k1 = velocity(params, evaluation)
    halfway = moved((1 / 2, k1))
    second = objective.evaluate(halfway)
    k2 = velocity(halfway, second)
    later = moved((3 / 4, k2))
    third = objective.evaluate(later)
    k3 = velocity(later, third)
    end = moved((2 / 9, k1), (1 / 3, k2), (4 / 9, k3))
    last = objective.evaluate(end)
    k4 = velocity(end, last)
    defects = tuple(scaled(h, -5 / 72 * a + b / 12 + c / 9 - d / 8) for a, b, c, d in zip(k1, k2, k3, k4, strict=True))
    # dt = ds / L, by the same quadrature as the step.
    log_elapsed = np.log(h) + np.logaddexp.reduce(
        [np.log(2 / 9) - evaluation.log_loss, np.log(1 / 3) - second.log_loss, np.log(4 / 9) - third.log_loss]
    )
    return Step(end, last, defects, log_elapsed)


def size(array: ndarray, batch: int) -> PerSeed:
    """The Euclidean norm of what each seed has of a parameter."""
    return np.sqrt(np.sum(array * array, axis=tuple(range(batch, array.ndim))))


@dataclass(frozen=True)
class GradientFlow(Stepper):
    """d theta / dt = -dL/dtheta by the Bogacki-Shampine pair of orders 3 and 2.

    The flow is followed in the time s with dt = ds / L, in which its speed is the normalised gradient:
    many decades of t are then a few hundred steps, and t itself is carried as a logarithm.

    Args:
        tolerance: local error allowed, relative to the size of each parameter array (of its move,
            while it is zero). Where a ReLU hangs on its kink the flow is not smooth and a tighter
            tolerance only takes more steps.
    """

    tolerance: float = 1e-3
    name: ClassVar[str] = "flow"
    estimates_error: ClassVar[bool] = True

    def __post_init__(self) -> None:
        finite("tolerance", self.tolerance, above=0, below=1)

    def propose(self, objective: Objective, start: Start) -> Proposal:
        h = np.exp(start.log_rate + start.evaluation.log_loss)
        taken = step(objective, start.params, start.evaluation, _downhill, h)
        error = np.max(
            [
                size(defect, h.ndim) / (self.tolerance * _scale(p, q, h.ndim) + 1e-300)
                for p, q, defect in zip(start.params, taken.params, taken.defects, strict=True)
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
