"""Steppers that take one gradient at each step."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from featavg.data.streams import stream
from featavg.errors import InputError, finite, whole
from featavg.registry import STEPPERS
from featavg.shapes import PerSeed
from featavg.training.objectives import MeanOverPoints
from featavg.training.parts import Evaluation, Objective, Params, Proposal, Start, Stepper, scaled


@dataclass(frozen=True)
class GradientDescent(Stepper):
    """theta <- theta - rate * dL/dtheta."""

    name: ClassVar[str] = "gd"

    def move(self, start: Start) -> tuple[Params, Params]:
        steps = start.scaled(start.evaluation.gradient)
        return tuple([p - s for p, s in zip(start.params, steps, strict=True)]), ()


@dataclass(frozen=True)
class Momentum(Stepper):
    """u <- beta u - rate * dL/dtheta;  theta <- theta + u  (heavy ball, Polyak 1964).

    The memory holds updates rather than gradients: those do not underflow when the loss does.

    Args:
        beta: the share of the last update that is kept, in [0, 1).

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
        return tuple(np.zeros_like(p) for p in params)

    def move(self, start: Start) -> tuple[Params, Params]:
        steps = start.scaled(start.evaluation.gradient)
        updates = tuple(self.beta * u - s for u, s in zip(start.memory, steps, strict=True))
        return tuple(p + u for p, u in zip(start.params, updates, strict=True)), updates


@dataclass(frozen=True)
class StochasticGradientDescent(Stepper):
    """u <- beta u - rate * dL_B/dtheta;  theta <- theta + u, with L_B the mean loss of a mini-batch.

    Every epoch goes through the points in a new order and leaves out what does not fill a batch. The
    order is the same for all seeds, whose points are independent anyway, so that a seed's run does
    not depend on its companions. The loss that a run reports is that of all points.

    Args:
        batch: points in each mini-batch.
        beta: momentum, in [0, 1).
        order: seed of the orders.
    """

    batch: int = 32
    beta: float = 0.0
    order: int = 0
    name: ClassVar[str] = "sgd"

    def __post_init__(self) -> None:
        whole("batch", self.batch, least=1)
        whole("order", self.order, least=0)
        finite("beta", self.beta, least=0, below=1)

    def init(self, params: Params, evaluation: Evaluation) -> Params:
        """No update yet, and no step of any seed."""
        return (*(np.zeros_like(p) for p in params), np.zeros(np.shape(evaluation.log_loss)))

    def propose(self, objective: Objective, start: Start) -> Proposal:
        if not isinstance(objective, MeanOverPoints):
            raise InputError("stepper", "is sgd", "this objective has no points to choose from")
        *memory, count = start.memory
        part = objective.on(self.rows(count, objective.points)).evaluate(start.params)
        steps = start._replace(evaluation=part).scaled(part.gradient)
        updates = [self.beta * u - s for u, s in zip(memory, steps, strict=True)]
        moved = tuple(p + u for p, u in zip(start.params, updates, strict=True))
        state = (*updates, np.asarray(count + 1.0))
        return Proposal(moved, objective.evaluate(moved), state, start.log_rate, None)

    def rows(self, steps: PerSeed, n: int) -> Int[ndarray, "*s b"]:
        """The points of the next mini-batch, given the steps taken by each seed."""
        size = min(self.batch, n)
        batches = n // size

        def after(step: int) -> ndarray:
            epoch, number = divmod(step, batches)
            shuffled = stream(self.order, f"sgd epoch {epoch}").permutation(n)
            return shuffled[number * size : (number + 1) * size]

        known = {int(step): after(int(step)) for step in np.unique(steps)}
        batch_of_each = [known[int(step)] for step in np.ravel(steps)]
        return np.reshape(batch_of_each, (*np.shape(steps), size))


@dataclass(frozen=True)
class SignDescent(Stepper):
    """theta <- theta - rate * sign(dL/dtheta): what Adam does without a memory.

    It looks at single coordinates, so its runs cannot be compressed.
    """

    name: ClassVar[str] = "sign"
    keeps_rotations: ClassVar[bool] = False

    def move(self, start: Start) -> tuple[Params, Params]:
        rate, gradient = np.exp(start.log_rate), start.evaluation.gradient
        moved = (p - scaled(rate, np.sign(g)) for p, g in zip(start.params, gradient, strict=True))
        return tuple(moved), ()


@dataclass(frozen=True)
class Adam(Stepper):
    """Adam as published (Kingma and Ba, 2015), with g the gradient, t the number of the step:

        m <- beta1 m + (1 - beta1) g,    v <- beta2 v + (1 - beta2) g^2,
        theta <- theta - rate * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon).

    It looks at single coordinates, so its runs cannot be compressed.
    """

    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    name: ClassVar[str] = "adam"
    keeps_rotations: ClassVar[bool] = False

    def __post_init__(self) -> None:
        finite("beta1", self.beta1, least=0, below=1)
        finite("beta2", self.beta2, least=0, below=1)
        finite("epsilon", self.epsilon, above=0)

    def init(self, params: Params, evaluation: Evaluation) -> Params:
        """First moments, second moments, and the number of steps of each seed."""
        moments = (np.zeros_like(p) for p in (*params, *params))
        return (*moments, np.zeros(np.shape(evaluation.log_loss)))

    def move(self, start: Start) -> tuple[Params, Params]:
        count, loss = len(start.params), np.exp(start.evaluation.log_loss)
        step = np.asarray(start.memory[-1] + 1.0)
        rate, unbias1, unbias2 = np.exp(start.log_rate), 1 - self.beta1**step, 1 - self.beta2**step
        first, second, moved = [], [], []
        for i, p in enumerate(start.params):
            g = scaled(loss, start.evaluation.gradient[i])
            first.append(self.beta1 * start.memory[i] + (1 - self.beta1) * g)
            second.append(self.beta2 * start.memory[count + i] + (1 - self.beta2) * g * g)
            root = np.sqrt(_divided(second[i], unbias2)) + self.epsilon
            moved.append(p - scaled(rate, _divided(first[i], unbias1)) / root)
        return tuple(moved), (*first, *second, step)


def _divided(array: np.ndarray, by: PerSeed) -> np.ndarray:
    return array / np.reshape(by, np.shape(by) + (1,) * (array.ndim - np.ndim(by)))


@dataclass(frozen=True)
class WeightDecay(Stepper):
    """theta <- (step of another stepper from theta) - rate * decay * theta.

    With gradient descent this is the gradient of L + decay |theta|^2 / 2; with Adam it is AdamW
    (Loshchilov and Hutter, 2019). Everything that is trained decays, biases too.

    Args:
        decay: zero or more.
        stepper: the name of the other one.
    """

    decay: float = 1e-2
    stepper: str = "gd"
    name: ClassVar[str] = "weight-decay"

    def __post_init__(self) -> None:
        finite("decay", self.decay, least=0)
        STEPPERS.build(self.stepper)

    @property
    def inner(self) -> Stepper:
        """The other stepper."""
        return STEPPERS.build(self.stepper)

    @property
    def keeps_rotations(self) -> bool:
        return self.inner.keeps_rotations

    def init(self, params: Params, evaluation: Evaluation) -> Params:
        return self.inner.init(params, evaluation)

    def propose(self, objective: Objective, start: Start) -> Proposal:
        taken = self.inner.propose(objective, start)
        shrink = self.decay * np.exp(start.log_rate)
        pairs = zip(start.params, taken.params, strict=True)
        moved = tuple(q - scaled(shrink, p) for p, q in pairs)
        return taken._replace(params=moved, evaluation=objective.evaluate(moved))
