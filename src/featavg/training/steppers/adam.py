"""Adam (Kingma and Ba, 2015)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from featavg.errors import finite
from featavg.shapes import PerSeed
from featavg.training.parts import Evaluation, Params, Start, Stepper, scaled


@dataclass(frozen=True)
class Adam(Stepper):
    """Adam as published (Kingma and Ba, 2015), with g the gradient, t the number of the step:

        m <- beta1 m + (1 - beta1) g,    v <- beta2 v + (1 - beta2) g^2,
        theta <- theta - rate * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon).

    It looks at single coordinates, so its runs cannot be compressed.

    >>> import featavg as fa
    >>> bool(fa.train(fa.MultiCluster(k=4, d=100), n=40, stepper=fa.steppers.Adam(), steps=20).log_loss[-1] < 0)
    True
    """

    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    name: ClassVar[str] = "adam"
    keeps_rotations: ClassVar[bool] = False

    def __post_init__(self) -> None:
        finite("beta1", self.beta1, least=0, below=1)
        finite("beta2", self.beta2, least=0, below=1)
        finite("epsilon", self.epsilon, above=0)

    def init(self, params: Params, evaluation: Evaluation) -> Params:
        """First moments, second moments, and the number of steps of each seed."""
        moments = (np.zeros_like(p) for p in (*params, *params))
        return (*moments, np.zeros(np.shape(evaluation.log_loss)))

    def move(self, start: Start) -> tuple[Params, Params]:
        count, loss = len(start.params), np.exp(start.evaluation.log_loss)
        step = np.asarray(start.memory[-1] + 1.0)
        rate, unbias1, unbias2 = np.exp(start.log_rate), 1 - self.beta1**step, 1 - self.beta2**step
        first, second, moved = [], [], []
        for i, p in enumerate(start.params):
            g = scaled(loss, start.evaluation.gradient[i])
            first.append(self.beta1 * start.memory[i] + (1 - self.beta1) * g)
            second.append(self.beta2 * start.memory[count + i] + (1 - self.beta2) * g * g)
            root = np.sqrt(_divided(second[i], unbias2)) + self.epsilon
            moved.append(p - scaled(rate, _divided(first[i], unbias1)) / root)
        return tuple(moved), (*first, *second, step)


def _divided(array: np.ndarray, by: PerSeed) -> np.ndarray:
    return array / np.reshape(by, np.shape(by) + (1,) * (array.ndim - np.ndim(by)))
