"""The logistic loss."""

from dataclasses import dataclass
from typing import ClassVar

from numpy import ndarray

from featavg.training.parts import Loss, LossValue, from_margins, log_softplus


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
