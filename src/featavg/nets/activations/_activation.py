"""What a neuron makes of its pre-activation. Every other file of this folder is an activation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from jaxtyping import Float
from numpy import ndarray


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
