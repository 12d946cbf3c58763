"""A learning rate that falls in steps."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from featavg.errors import finite, whole
from featavg.shapes import PerSeed
from featavg.training.parts import Schedule, warmed_up


@dataclass(frozen=True)
class StepDecay(Schedule):
    """rate_t = rate * factor^floor(t / every), after a warm-up.

    Args:
        rate: the first one.
        every: so many steps have the same rate.
        factor: by which it then falls.
        warmup: over so many steps it rises linearly to where it would be.

    >>> import featavg as fa
    >>> decay = fa.controllers.StepDecay(0.01, every=10, factor=0.5)
    >>> bool(fa.train(fa.MultiCluster(k=4, d=100), n=40, controller=decay, steps=20).log_loss[-1] < 0)
    True
    """

    rate: float
    every: int = 30
    factor: float = 0.1
    warmup: int = 0
    name: ClassVar[str] = "step-decay"

    def __post_init__(self) -> None:
        finite("rate", self.rate, above=0)
        whole("every", self.every, least=1)
        finite("factor", self.factor, above=0, below=1)
        whole("warmup", self.warmup, least=0)

    def rate_at(self, step: PerSeed) -> PerSeed:
        stairs = self.factor ** np.floor(step / self.every)
        return self.rate * warmed_up(step, self.warmup) * stairs
