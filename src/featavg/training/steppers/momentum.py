"""Gradient descent with momentum."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from featavg.errors import finite
from featavg.training.parts import Evaluation, Params, Start, Stepper


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
