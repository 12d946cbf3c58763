"""Weight decay, on top of any other stepper."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from featavg.errors import finite
from featavg.registry import STEPPERS
from featavg.training.parts import (
    Evaluation,
    Objective,
    Params,
    Proposal,
    Start,
    Stepper,
    scaled,
)


@dataclass(frozen=True)
class WeightDecay(Stepper):
    """theta <- (step of another stepper from theta) - rate * decay * theta.

    With gradient descent this is the gradient of L + decay |theta|^2 / 2; with Adam it is AdamW
    (Loshchilov and Hutter, 2019). Everything that is trained decays, biases too.

    Args:
        decay: zero or more.
        stepper: the name of the other one.

    >>> import featavg as fa
    >>> run = fa.train(fa.MultiCluster(k=4, d=100), n=40, stepper=fa.steppers.WeightDecay(decay=0.1), steps=20)
    >>> bool(run.log_loss[-1] < 0)
    True
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
