"""The cross-entropy loss."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy import ndarray

from featavg.training.parts import Loss, LossValue, log_mean_and_pulls, log_softplus


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

    def __call__(self, outputs: ndarray, targets: ndarray) -> LossValue:
        index = targets[..., None]
        rivals = outputs - np.take_along_axis(outputs, index, axis=-1)
        np.put_along_axis(rivals, index, -np.inf, axis=-1)
        top = rivals.max(axis=-1, keepdims=True)
        shares = np.exp(rivals - top)
        total = shares.sum(axis=-1, keepdims=True)
        log_losses, log_slopes = log_softplus((top + np.log(total))[..., 0])
        # 1 - p_t = the sum of the rivals' probabilities, divided among them.
        log_mean, missing = log_mean_and_pulls(log_losses, log_slopes)
        slopes = missing * shares / total
        np.put_along_axis(slopes, index, -missing, axis=-1)
        return LossValue(log_losses, log_mean, slopes)
