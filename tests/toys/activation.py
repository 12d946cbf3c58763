"""The absolute value."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from featavg.nets.activations._activation import Activation


@dataclass(frozen=True)
class Toy(Activation):
    """phi(z) = |z|."""

    name: ClassVar[str] = "toy"

    def value(self, z):
        """|z|."""
        return np.abs(z)

    def slope(self, z):
        """Its sign."""
        return np.where(z >= 0, 1.0, -1.0)
