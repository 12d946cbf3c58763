"""The logistic loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.training.losses._loss import FLAT, Loss, LossValue, from_margins


@dataclass(frozen=True)
class Logistic(Loss):
    """l(q) = log(1 + exp(-q)) with the margin q = y f, y in {-1, +1}.

    >>> import numpy as np
    >>> import featavg as fa
    >>> value = fa.losses.Logistic()(np.array([[0.0], [2000.0]]), np.array([1, 1]))
    >>> np.round(value.log_losses, 4)
    array([-3.665e-01, -2.000e+03])
    """

    name: ClassVar[str] = "logistic"
    one_output: ClassVar[bool] = True

    def __call__(
        self, outputs: Float[ndarray, "*s n 1"], targets: Int[ndarray, "*s n"]
    ) -> LossValue:
        """Value and normalised derivative."""
        q = targets * outputs[..., 0]
        softplus = np.logaddexp(0.0, -q)
        with np.errstate(divide="ignore"):
            log_losses = np.where(q > FLAT, -q, np.log(softplus))
        return from_margins(targets, log_losses, -(q + softplus))
