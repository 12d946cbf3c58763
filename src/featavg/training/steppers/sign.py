"""Sign descent."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from featavg.training.parts import Params, Start, Stepper, scaled


@dataclass(frozen=True)
class SignDescent(Stepper):
    """theta <- theta - rate * sign(dL/dtheta): what Adam does without a memory.

    It looks at single coordinates, so its runs cannot be compressed.

    >>> import featavg as fa
    >>> run = fa.train(fa.MultiCluster(k=4, d=100), n=40, stepper=fa.steppers.SignDescent(), lr=1e-3, steps=20)
    >>> bool(run.log_loss[-1] < 0)
    True
    """

    name: ClassVar[str] = "sign"
    keeps_rotations: ClassVar[bool] = False

    def move(self, start: Start) -> tuple[Params, Params]:
        rate, gradient = np.exp(start.log_rate), start.evaluation.gradient
        moved = (p - scaled(rate, np.sign(g)) for p, g in zip(start.params, gradient, strict=True))
        return tuple(moved), ()
