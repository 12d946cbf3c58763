"""The cross-entropy loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.training.losses._loss import FLAT, Loss, LossValue, log_sum_exp


@dataclass(frozen=True)
class CrossEntropy(Loss):
    """l = -log softmax(F)_t for the target output t.

    With s = log sum_{j != t} exp(F_j - F_t) the loss is softplus(s), which is exp(s) long after the
    probability of t has rounded to 1.

    >>> import numpy as np
    >>> import featavg as fa
    >>> value = fa.losses.CrossEntropy()(np.array([[900.0, 0.0, 0.0]]), np.array([0]))
    >>> round(float(value.log_mean), 4)
    -899.3069
    """

    name: ClassVar[str] = "cross-entropy"
    one_output: ClassVar[bool] = False

    def __call__(
        self, outputs: Float[ndarray, "*s n c"], targets: Int[ndarray, "*s n"]
    ) -> LossValue:
        """Value and normalised derivative."""
        index = targets[..., None]
        rivals = outputs - np.take_along_axis(outputs, index, axis=-1)
        np.put_along_axis(rivals, index, -np.inf, axis=-1)
        top = rivals.max(axis=-1, keepdims=True)
        shares = np.exp(rivals - top)
        total = shares.sum(axis=-1, keepdims=True)
        s = (top + np.log(total))[..., 0]
        softplus = np.logaddexp(0.0, s)
        with np.errstate(divide="ignore"):
            log_losses = np.where(s < -FLAT, s, np.log(softplus))
        log_total = log_sum_exp(log_losses)
        # 1 - p_t = sum of the rivals' probabilities = exp(s - softplus(s)), shared out among them.
        missing = np.exp(s - softplus - np.expand_dims(log_total, -1))[..., None]
        slopes = missing * shares / total
        np.put_along_axis(slopes, index, -missing, axis=-1)
        log_mean = np.asarray(log_total - np.log(log_losses.shape[-1]))
        return LossValue(log_losses, log_mean, slopes)
