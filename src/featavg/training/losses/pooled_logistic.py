"""The logistic loss of a network whose neurons compete."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy import ndarray

from featavg.errors import InputError
from featavg.nets.readouts._readout import readout_of
from featavg.training.losses.logistic import Logistic
from featavg.training.parts import Loss, LossValue, require_signs


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
