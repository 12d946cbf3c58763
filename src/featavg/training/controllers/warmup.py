"""A learning rate that rises to its value."""

from dataclasses import dataclass
from typing import ClassVar

from featavg.errors import finite, whole
from featavg.shapes import PerSeed
from featavg.training.parts import Schedule, warmed_up


@dataclass(frozen=True)
class WarmUp(Schedule):
    """rate_t = rate * min(1, (t + 1) / warmup).

    >>> import featavg as fa
    >>> rise = fa.controllers.WarmUp(0.01, warmup=5)
    >>> bool(fa.train(fa.MultiCluster(k=4, d=100), n=40, controller=rise, steps=20).log_loss[-1] < 0)
    True
    """

    rate: float
    warmup: int = 10
    name: ClassVar[str] = "warmup"

    def __post_init__(self) -> None:
        finite("rate", self.rate, above=0)
        whole("warmup", self.warmup, least=0)

    def rate_at(self, step: PerSeed) -> PerSeed:
        return self.rate * warmed_up(step, self.warmup)
