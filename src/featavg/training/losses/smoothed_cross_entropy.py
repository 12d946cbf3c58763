"""The cross-entropy with label smoothing."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy import ndarray

from featavg.errors import finite
from featavg.training.parts import Loss, LossValue, log_mean_and_pulls, log_sum_exp


@dataclass(frozen=True)
class SmoothedCrossEntropy(Loss):
    """l = log sum_j exp F_j - (1 - smoothing) F_t - smoothing / c sum_j F_j for the target t of c.

    Cross-entropy with a label that leaves `smoothing` to all classes alike (Szegedy et al., 2016).
    """

    smoothing: float = 0.1
    name: ClassVar[str] = "smoothed-cross-entropy"
    one_output: ClassVar[bool] = False

    def __post_init__(self) -> None:
        finite("smoothing", self.smoothing, above=0, below=1)

    def __call__(self, outputs: ndarray, targets: ndarray) -> LossValue:
        c = outputs.shape[-1]
        label = np.full(outputs.shape, self.smoothing / c)
        own = targets[..., None]
        np.put_along_axis(label, own, self.smoothing / c + 1 - self.smoothing, axis=-1)
        log_p = outputs - np.expand_dims(log_sum_exp(outputs), -1)
        log_losses = np.log(-(label * log_p).sum(axis=-1))
        log_mean, scale = log_mean_and_pulls(log_losses, 0.0)
        return LossValue(log_losses, log_mean, (np.exp(log_p) - label) * scale)
