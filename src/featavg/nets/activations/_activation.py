"""Activations: the interface, and the rectifiers. Every other file of this folder is an activation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.errors import finite


class Activation(ABC):
    """phi, applied to single numbers; a frozen dataclass whose fields are its options.

    Attributes:
        name: in settings and results; the name of its file.
    """

    name: ClassVar[str]

    @property
    def negative_slope(self) -> float | None:
        """phi(z) / z for z < 0 if phi(z) = z for z >= 0 and phi is linear below; None for any other.

        Exact radii need a network that is piecewise linear, with its kinks at zero.
        """
        return None

    @abstractmethod
    def value(self, z: Float[ndarray, "..."]) -> Float[ndarray, "..."]:
        """phi(z)."""

    @abstractmethod
    def slope(self, z: Float[ndarray, "..."]) -> Float[ndarray, "..."]:
        """phi'(z); at a kink the value from the right."""


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

    def value(self, z: Float[ndarray, "..."], r: Float[ndarray, "..."] | None = None) -> Float[ndarray, "..."]:
        """The larger of z and leak * z; the norm r of the weights does not enter."""
        return np.maximum(z, self.leak * z)

    def slope(self, z: Float[ndarray, "..."], r: Float[ndarray, "..."] | None = None) -> Float[ndarray, "..."]:
        """One for z >= 0, the leak below."""
        return np.where(z >= 0.0, 1.0, self.leak)
