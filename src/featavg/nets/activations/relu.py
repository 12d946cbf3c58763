"""The rectifier."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.nets.activations._activation import Activation


@dataclass(frozen=True)
class ReLU(Activation):
    """phi(z) = max(z, 0), with the derivative 1[z >= 0].

    >>> import numpy as np
    >>> import featavg as fa
    >>> relu = fa.activations.ReLU()
    >>> relu.value(np.array([2.0, -1.0])), relu.slope(np.array([0.0, -1.0]))
    (array([2., 0.]), array([1., 0.]))
    """

    name: ClassVar[str] = "relu"

    @property
    def negative_slope(self) -> float:
        """Nothing is let through."""
        return 0.0

    def value(self, z: Float[ndarray, "..."]) -> Float[ndarray, "..."]:
        """The larger of z and zero."""
        return np.maximum(z, 0.0)

    def slope(self, z: Float[ndarray, "..."]) -> Float[ndarray, "..."]:
        """One for z >= 0, zero below."""
        return (z >= 0.0).astype(float)
