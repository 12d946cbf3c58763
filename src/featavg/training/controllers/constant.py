"""A constant learning rate."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from featavg.errors import finite
from featavg.shapes import PerSeed
from featavg.training.parts import Controller, Evaluation


@dataclass(frozen=True)
class Constant(Controller):
    """The same learning rate at every step; every step counts.

    >>> import featavg as fa
    >>> run = fa.train(fa.MultiCluster(k=4, d=100), n=40, controller=fa.controllers.Constant(rate=0.01), steps=20)
    >>> bool(run.log_loss[-1] < run.log_loss[0])
    True
    """

    rate: float
    name: ClassVar[str] = "constant"

    def __post_init__(self) -> None:
        finite("rate", self.rate, above=0)

    def init(self, evaluation: Evaluation) -> PerSeed:
        return np.full_like(evaluation.log_loss, math.log(self.rate))
