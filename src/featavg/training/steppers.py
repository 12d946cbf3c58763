"""How parameters move in one step: gradient descent, momentum, Adam, gradient flow.

The driver hands a stepper the logarithm of the learning rate; the true gradient is the normalised
one times the loss, so a step of plain gradient descent multiplies the normalised gradient by
exp(log_rate + log_loss). That product is of moderate size even where both factors are not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy import ndarray

from featavg.shapes import PerSeed
from featavg.training.objective import Evaluation, Objective, Params


class Proposal(NamedTuple):
    """A step that a controller may still reject."""

    params: Params
    evaluation: Evaluation
    state: Params
    log_elapsed: PerSeed  # log of the gradient-flow time that has passed
    error: PerSeed | None  # local error in units of the tolerance, if it is known


@runtime_checkable
class Stepper(Protocol):
    """One way to take a step."""

    @property
    def name(self) -> str:
        """The name it has in settings and results."""

    @property
    def keeps_rotations(self) -> bool:
        """Whether turning the data turns the run: only then does compression leave it unchanged."""

    def init(self, params: Params) -> Params:
        """What it remembers from step to step."""

    def propose(
        self,
        objective: Objective,
        params: Params,
        evaluation: Evaluation,
        state: Params,
        log_rate: PerSeed,
    ) -> Proposal:
        """The next parameters, evaluated."""


def scaled(factor: PerSeed, array: ndarray) -> ndarray:
    """`array` times a factor for each seed."""
    return factor.reshape(factor.shape + (1,) * (array.ndim - factor.ndim)) * array


@dataclass(frozen=True)
class GradientDescent:
    """theta <- theta - rate * dL/dtheta."""

    name: str = "gd"
    keeps_rotations: bool = True

    def init(self, params: Params) -> Params:
        """Nothing to remember."""
        return ()

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


@dataclass(frozen=True)
class Momentum:
    """u <- beta u - rate * dL/dtheta;  theta <- theta + u.

    The memory holds updates rather than gradients: those do not underflow when the loss does.
    """

    beta: float = 0.9
    name: str = "momentum"
    keeps_rotations: bool = True

    def init(self, params: Params) -> Params:
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
        """One step of heavy-ball momentum."""
        factor = np.exp(log_rate + evaluation.log_loss)
        updates = tuple(
            self.beta * u - scaled(factor, g)
            for u, g in zip(state, evaluation.gradient, strict=True)
        )
        moved = tuple(p + u for p, u in zip(params, updates, strict=True))
        return Proposal(moved, objective.evaluate(moved), updates, log_rate, None)


@dataclass(frozen=True)
class Adam:
    """Adam as published (Kingma and Ba, 2015); it looks at single coordinates, so it cannot be compressed."""

    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    name: str = "adam"
    keeps_rotations: bool = False

    def init(self, params: Params) -> Params:
        """First moments, second moments, and the number of steps."""
        zeros = tuple(np.zeros_like(p) for p in params)
        return (*zeros, *(z.copy() for z in zeros), np.zeros(()))

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
        rate = np.exp(log_rate)
        moved = tuple(
            p
            - scaled(rate, m / (1 - self.beta1**step))
            / (np.sqrt(v / (1 - self.beta2**step)) + self.epsilon)
            for p, m, v in zip(params, first, second, strict=True)
        )
        return Proposal(moved, objective.evaluate(moved), (*first, *second, step), log_rate, None)


@dataclass(frozen=True)
class GradientFlow:
    """d theta / dt = -dL/dtheta by the Bogacki-Shampine pair of orders 3 and 2.

    The flow is followed in the time s with dt = ds / L, in which its speed is the normalised gradient:
    many decades of t are then a few hundred steps, and t itself is carried as a logarithm.

    Args:
        tolerance: local error allowed, relative to the size of each parameter array (of its move,
            while it is zero). Where a ReLU hangs on its kink the flow is not smooth and a tighter
            tolerance only takes more steps.
    """

    tolerance: float = 1e-3
    name: str = "flow"
    keeps_rotations: bool = True

    def init(self, params: Params) -> Params:
        """Nothing to remember: the last stage of a step is the first of the next."""
        return ()

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

        def move(*terms: tuple[float, Params]) -> Params:
            return tuple(
                p - scaled(h, np.add.reduce([weight * g[i] for weight, g in terms]))
                for i, p in enumerate(params)
            )

        k1 = evaluation.gradient
        second = objective.evaluate(move((1 / 2, k1)))
        k2 = second.gradient
        third = objective.evaluate(move((3 / 4, k2)))
        k3 = third.gradient
        moved = move((2 / 9, k1), (1 / 3, k2), (4 / 9, k3))
        last = objective.evaluate(moved)
        parts = zip(params, moved, k1, k2, k3, last.gradient, strict=True)
        error = np.max(
            [
                _size(scaled(h, -5 / 72 * a + b / 12 + c / 9 - d / 8), h.ndim)
                / (self.tolerance * _scale(p, q, h.ndim) + 1e-300)
                for p, q, a, b, c, d in parts
            ],
            axis=0,
        )
        log_elapsed = np.log(h) + np.logaddexp.reduce(
            [
                np.log(2 / 9) - evaluation.log_loss,
                np.log(1 / 3) - second.log_loss,
                np.log(4 / 9) - third.log_loss,
            ]
        )
        return Proposal(moved, last, (), log_elapsed, error)


def _size(array: ndarray, batch: int) -> PerSeed:
    """The Euclidean norm of what each seed has of a parameter."""
    return np.sqrt(np.sum(array * array, axis=tuple(range(batch, array.ndim))))


def _scale(start: ndarray, end: ndarray, batch: int) -> PerSeed:
    """What an error is relative to: the array, or where it moves to if it is zero."""
    size = _size(start, batch)
    return np.where(size > 0, size, _size(end, batch))


STEPPERS: dict[str, type[GradientDescent] | type[Momentum] | type[Adam] | type[GradientFlow]] = {
    "gd": GradientDescent,
    "momentum": Momentum,
    "adam": Adam,
    "flow": GradientFlow,
}
