"""The logistic loss with label smoothing."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy import ndarray

from featavg.errors import finite
from featavg.training.parts import Loss, LossValue, log_mean_and_pulls


@dataclass(frozen=True)
class SmoothedLogistic(Loss):
    """l(q) = (1 - e) log(1 + exp(-q)) + e log(1 + exp(q)), e = smoothing / 2, q = y f.

    Cross-entropy with a label that gives each of the two classes smoothing / 2 (Szegedy et al., 2016):
    margins beyond log((1 - e) / e) are pulled back.
    """

    smoothing: float = 0.1
    name: ClassVar[str] = "smoothed-logistic"
    one_output: ClassVar[bool] = True

    def __post_init__(self) -> None:
        finite("smoothing", self.smoothing, above=0, below=1)

    def __call__(self, outputs: ndarray, targets: ndarray) -> LossValue:
        e, q = self.smoothing / 2, targets * outputs[..., 0]
        down, up = np.logaddexp(0.0, -q), np.logaddexp(0.0, q)
        log_losses = np.log((1 - e) * down + e * up)
        # l'(q) = -(1 - e) / (1 + exp(q)) + e / (1 + exp(-q)); the loss never vanishes, nothing underflows.
        by_margin = e * np.exp(-down) - (1 - e) * np.exp(-up)
        log_mean, scale = log_mean_and_pulls(log_losses, 0.0)
        return LossValue(log_losses, log_mean, (targets * by_margin)[..., None] * scale)
