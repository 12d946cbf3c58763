"""Losses of the margin of two classes."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy import ndarray

from featavg.errors import InputError, finite
from featavg.nets.readouts._readout import readout_of
from featavg.training.parts import Loss, LossValue, from_margins, log_mean_and_pulls, log_softplus, require_signs


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

    def __call__(self, outputs: ndarray, targets: ndarray) -> LossValue:
        return from_margins(targets, *log_softplus(-(targets * outputs[..., 0])))


@dataclass(frozen=True)
class Exponential(Loss):
    """l(q) = exp(-q) with the margin q = y f."""

    name: ClassVar[str] = "exponential"
    one_output: ClassVar[bool] = True

    def __call__(self, outputs: ndarray, targets: ndarray) -> LossValue:
        q = targets * outputs[..., 0]
        return from_margins(targets, -q, -q)


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


@dataclass(frozen=True)
class PooledLogistic(Loss):
    """The logistic loss of y (s_+ - s_-), s the pooled outputs of a class, one output a neuron.

    The first half of the outputs is of the class +1. With the pooling `max` only the neuron that wins a
    point is pulled by it; on a tie it is the first of them.

    Args:
        pooling: a read-out: how the outputs of the neurons of a class become its score.

    >>> import numpy as np
    >>> import featavg as fa
    >>> value = fa.losses.PooledLogistic()(np.array([[3.0, 1.0, 2.0, 0.5]]), np.array([1]))
    >>> (value.slopes != 0).astype(int)
    array([[1, 0, 1, 0]])
    """

    pooling: str = "max"
    name: ClassVar[str] = "pooled-logistic"
    one_output: ClassVar[bool] = False
    pools: ClassVar[bool] = True

    def check_targets(self, targets: ndarray, outputs: int) -> None:
        """Refuse labels other than -1 and +1, and outputs that are not as many for each class."""
        require_signs(targets)
        if outputs % 2:
            raise InputError("net", f"has {outputs} outputs", "give each class as many")

    def __call__(self, outputs: ndarray, targets: ndarray) -> LossValue:
        pool, half = readout_of(self.pooling), outputs.shape[-1] // 2
        own, other = outputs[..., :half], outputs[..., half:]
        score = pool.class_score(own) - pool.class_score(other)
        value = Logistic()(np.asarray(score)[..., None], targets)
        parts = np.concatenate([pool.derivative(own), -pool.derivative(other)], axis=-1)
        return LossValue(value.log_losses, value.log_mean, value.slopes * parts)
