"""The class with the larger mean output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from featavg.nets.readouts.readout import ReadOut
from featavg.shapes import PerSeed


@dataclass(frozen=True)
class Mean(ReadOut):
    """1/c sum f_j over the c outputs of a class: with one output a neuron, the binary network.

    >>> Mean().derivative(np.array([2.0, 5.0]))
    array([0.5, 0.5])
    """

    name: ClassVar[str] = "mean"

    def class_score(self, outputs: Float[ndarray, "*s c"]) -> PerSeed:
        """The mean of the outputs."""
        return outputs.mean(axis=-1)

    def derivative(self, outputs: Float[ndarray, "*s c"]) -> Float[ndarray, "*s c"]:
        """The same for every output."""
        return np.full_like(outputs, 1.0 / outputs.shape[-1])

    def pieces(self, own: Bool[ndarray, " c"]) -> list[Float[ndarray, "I c"]]:
        """One piece of one inequality, in whole numbers."""
        return [np.where(own, float((~own).sum()), -float(own.sum()))[None]]


READOUT = Mean()
