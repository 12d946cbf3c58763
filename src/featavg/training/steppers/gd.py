"""Gradient descent."""

from dataclasses import dataclass
from typing import ClassVar

from featavg.training.parts import Params, Start, Stepper


@dataclass(frozen=True)
class GradientDescent(Stepper):
    """theta <- theta - rate * dL/dtheta.

    >>> import featavg as fa
    >>> run = fa.train(fa.MultiCluster(k=4, d=100), n=40, stepper=fa.steppers.GradientDescent(), steps=20)
    >>> bool(run.log_loss[-1] < 0)
    True
    """

    name: ClassVar[str] = "gd"

    def move(self, start: Start) -> tuple[Params, Params]:
        steps = start.scaled(start.evaluation.gradient)
        return tuple(p - s for p, s in zip(start.params, steps, strict=True)), ()
