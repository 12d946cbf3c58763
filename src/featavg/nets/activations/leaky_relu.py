"""The rectifier that lets a little through."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.errors import finite
from featavg.nets.activations._activation import Activation


@dataclass(frozen=True)
class LeakyReLU(Activation):
    """phi(z) = z for z >= 0 and leak * z below.

    Args:
        leak: the slope for negative z, in [0, 1).

    >>> import numpy as np
    >>> import featavg as fa
    >>> fa.activations.LeakyReLU(0.1).value(np.array([2.0, -1.0]))
    array([ 2. , -0.1])
    """

    leak: float = 0.01
    name: ClassVar[str] = "leaky-relu"

    def __post_init__(self) -> None:
        finite("leak", self.leak, least=0, below=1)

    @property
    def negative_slope(self) -> float:
        """The leak itself."""
        return self.leak

    @property
    def degree(self) -> float:
        """1 in z and 0 in |w|: it is one of the activations of `featavg.paper.connections.power_relu` too."""
        return 1.0

    def value(
        self, z: Float[ndarray, "..."], r: Float[ndarray, "..."] | None = None
    ) -> Float[ndarray, "..."]:
        """The larger of z and leak * z; the norm r of the weights does not enter."""
        return np.maximum(z, self.leak * z)

    def slope(
        self, z: Float[ndarray, "..."], r: Float[ndarray, "..."] | None = None
    ) -> Float[ndarray, "..."]:
        """One for z >= 0, the leak below."""
        return np.where(z >= 0.0, 1.0, self.leak)
