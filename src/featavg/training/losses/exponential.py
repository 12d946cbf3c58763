"""The exponential loss."""

from dataclasses import dataclass
from typing import ClassVar

from numpy import ndarray

from featavg.training.parts import Loss, LossValue, from_margins


@dataclass(frozen=True)
class Exponential(Loss):
    """l(q) = exp(-q) with the margin q = y f."""

    name: ClassVar[str] = "exponential"
    one_output: ClassVar[bool] = True

    def __call__(self, outputs: ndarray, targets: ndarray) -> LossValue:
        q = targets * outputs[..., 0]
        return from_margins(targets, -q, -q)
