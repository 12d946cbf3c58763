"""The exponential loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Float, Int
from numpy import ndarray

from featavg.training.losses._loss import Loss, LossValue, from_margins


@dataclass(frozen=True)
class Exponential(Loss):
    """l(q) = exp(-q) with the margin q = y f."""

    name: ClassVar[str] = "exponential"
    one_output: ClassVar[bool] = True

    def __call__(
        self, outputs: Float[ndarray, "*s n 1"], targets: Int[ndarray, "*s n"]
    ) -> LossValue:
        """Value and normalised derivative."""
        q = targets * outputs[..., 0]
        return from_margins(targets, -q, -q)
