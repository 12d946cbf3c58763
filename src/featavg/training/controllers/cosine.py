"""A learning rate that falls along half a cosine."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from featavg.errors import finite, whole
from featavg.shapes import PerSeed
from featavg.training.parts import Schedule, warmed_up


@dataclass(frozen=True)
class Cosine(Schedule):
    """rate_t = rate (1 + cos(pi t / steps)) / 2 (Loshchilov and Hutter, 2017), after a warm-up.

    Args:
        rate: the first one.
        steps: where it would be zero; a run of so many steps ends just before.
        warmup: over so many steps it rises linearly to where it would be.

    >>> import featavg as fa
    >>> rule = fa.controllers.Cosine(0.01, steps=20)
    >>> run = fa.train(fa.MultiCluster(k=4, d=100), n=40, controller=rule, steps=20)
    >>> bool(run.log_loss[-1] < 0)
    True
    """

    rate: float
    steps: int = 100
    warmup: int = 0
    name: ClassVar[str] = "cosine"

    def __post_init__(self) -> None:
        finite("rate", self.rate, above=0)
        whole("steps", self.steps, least=1)
        whole("warmup", self.warmup, least=0)

    def rate_at(self, step: PerSeed) -> PerSeed:
        share = np.minimum(step / max(self.steps, 1), 1.0)
        return self.rate * warmed_up(step, self.warmup) * (1.0 + np.cos(np.pi * share)) / 2.0
