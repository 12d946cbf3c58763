"""A rate that halves at every step."""

from dataclasses import dataclass
from typing import ClassVar

from featavg.training.parts import Schedule


@dataclass(frozen=True)
class Toy(Schedule):
    """rate_t = rate / 2^t."""

    rate: float
    name: ClassVar[str] = "toy"

    def rate_at(self, step):
        """Half of the last one."""
        return self.rate * 0.5**step
