"""The class with the larger sum of outputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from featavg.nets.readouts.readout import ReadOut
from featavg.shapes import PerSeed


@dataclass(frozen=True)
class Sum(ReadOut):
    """sum f_j over the outputs of a class.

    >>> Sum().pieces(np.array([True, True, False]))
    [array([[ 1.,  1., -1.]])]
    """

    name: ClassVar[str] = "sum"

    def class_score(self, outputs: Float[ndarray, "*s c"]) -> PerSeed:
        """The sum of the outputs."""
        return outputs.sum(axis=-1)

    def derivative(self, outputs: Float[ndarray, "*s c"]) -> Float[ndarray, "*s c"]:
        """One for every output."""
        return np.ones_like(outputs)

    def pieces(self, own: Bool[ndarray, " c"]) -> list[Float[ndarray, "I c"]]:
        """One piece of one inequality."""
        return [np.where(own, 1.0, -1.0)[None]]


READOUT = Sum()
