"""Stochastic gradient descent on mini-batches."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from featavg.data.streams import stream
from featavg.errors import InputError, finite, whole
from featavg.shapes import PerSeed
from featavg.training.objectives import MeanOverPoints
from featavg.training.parts import Evaluation, Objective, Params, Proposal, Start, Stepper


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

    >>> import featavg as fa
    >>> sgd = fa.steppers.StochasticGradientDescent(batch=8)
    >>> bool(fa.train(fa.MultiCluster(k=4, d=100), n=40, stepper=sgd, steps=20).log_loss[-1] < 0)
    True
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
        """The points of the next mini-batch, after so many steps of each seed."""
        size = min(self.batch, n)
        batches = n // size

        def after(step: int) -> ndarray:
            epoch, number = divmod(step, batches)
            shuffled = stream(self.order, f"sgd epoch {epoch}").permutation(n)
            return shuffled[number * size : (number + 1) * size]

        known = {int(step): after(int(step)) for step in np.unique(steps)}
        batch_of_each = [known[int(step)] for step in np.ravel(steps)]
        return np.reshape(batch_of_each, (*np.shape(steps), size))
