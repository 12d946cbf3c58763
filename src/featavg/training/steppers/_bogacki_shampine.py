"""One step of the Bogacki-Shampine pair of orders 3 and 2, for the flows.

In the time s with dt = ds / L a gradient flow has the speed v = -(dL/dtheta) / L, of moderate size at
any loss. A step of length h takes the stages

    k1 = v(theta),  k2 = v(theta + h k1 / 2),  k3 = v(theta + 3 h k2 / 4),
    theta' = theta + h (2 k1 + 3 k2 + 4 k3) / 9,  k4 = v(theta'),

and its local error is estimated by h |-5/72 k1 + k2/12 + k3/9 - k4/8| (Bogacki and Shampine, 1989).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy import ndarray

from featavg.shapes import PerSeed
from featavg.training.objectives.objective import Evaluation, Objective, Params
from featavg.training.steppers._stepper import scaled

Velocity = Callable[[Params, Evaluation], Params]


class Step(NamedTuple):
    """Where a step of the pair leads."""

    params: Params
    evaluation: Evaluation
    defects: Params  # h (-5/72 k1 + k2/12 + k3/9 - k4/8), the difference of the two orders
    log_elapsed: PerSeed  # log of the time t that has passed


def step(
    objective: Objective, params: Params, evaluation: Evaluation, velocity: Velocity, h: PerSeed
) -> Step:
    """Move `params` by the time h along `velocity`."""

    def moved(*terms: tuple[float, Params]) -> Params:
        return tuple(
            p + scaled(h, np.add.reduce([weight * v[i] for weight, v in terms]))
            for i, p in enumerate(params)
        )

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
    defects = tuple(
        scaled(h, -5 / 72 * a + b / 12 + c / 9 - d / 8)
        for a, b, c, d in zip(k1, k2, k3, k4, strict=True)
    )
    # dt = ds / L, by the same quadrature as the step.
    log_elapsed = np.log(h) + np.logaddexp.reduce(
        [
            np.log(2 / 9) - evaluation.log_loss,
            np.log(1 / 3) - second.log_loss,
            np.log(4 / 9) - third.log_loss,
        ]
    )
    return Step(end, last, defects, log_elapsed)


def size(array: ndarray, batch: int) -> PerSeed:
    """The Euclidean norm of what each seed has of a parameter."""
    return np.sqrt(np.sum(array * array, axis=tuple(range(batch, array.ndim))))
