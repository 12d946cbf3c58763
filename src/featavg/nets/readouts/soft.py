"""The class with the larger smooth maximum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from featavg.errors import InputError
from featavg.nets.readouts.max import Max
from featavg.nets.readouts.probability import Probability
from featavg.nets.readouts.readout import ReadOut
from featavg.shapes import PerSeed


@dataclass(frozen=True)
class Soft(ReadOut):
    """t log(1/c sum exp(f_j / t)) over the c outputs of a class: the mean at t = inf, the max at 0.

    Args:
        temperature: t, in units of the outputs.

    >>> soft = Soft(temperature=0.1)
    >>> soft.class_score(np.array([1.0, 3.0])).round(3), soft.derivative(np.array([3.0, 3.0]))
    (np.float64(2.931), array([0.5, 0.5]))
    """

    name: ClassVar[str] = "soft"
    temperature: float = 1.0

    def __post_init__(self) -> None:
        if not 0.0 < self.temperature < np.inf:
            problem = f"is {self.temperature}"
            raise InputError("temperature", problem, "give a number above 0, or use max")

    def class_score(self, outputs: Float[ndarray, "*s c"]) -> PerSeed:
        """The smooth maximum."""
        scaled = outputs / self.temperature
        level = Probability().class_score(scaled) - np.log(outputs.shape[-1])
        return np.asarray(self.temperature * level)[()]

    def derivative(self, outputs: Float[ndarray, "*s c"]) -> Float[ndarray, "*s c"]:
        """The softmax over the class."""
        return Probability().derivative(outputs / self.temperature)

    def pieces(self, own: Bool[ndarray, " c"]) -> None:
        """It is curved; `hard` below is for classes with equally many outputs."""
        _require_equal(own)

    def hard(self, count: int) -> tuple[ReadOut, float]:
        """Max f - t log count <= score <= max f: own <= rival only if max own <= max rival + slack."""
        return Max(), self.temperature * float(np.log(count))

    def simpler(self, own: Bool[ndarray, " c"]) -> tuple[ReadOut, float]:
        """`probability` of f / t, where the classes have equally many outputs."""
        _require_equal(own)
        return Probability(), 1.0 / self.temperature


def _require_equal(own: Bool[ndarray, " c"]) -> None:
    if 2 * own.sum() != len(own):
        raise InputError(
            "positive",
            f"has {own.sum()} of {len(own)} outputs",
            "soft needs as many outputs in either class",
        )


READOUT = Soft()
