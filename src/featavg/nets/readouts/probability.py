"""The definition: the class with the larger sum of softmax probabilities."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.special import logsumexp, softmax

from featavg.nets.readouts.max import Max
from featavg.nets.readouts.readout import Minorant, ReadOut
from featavg.shapes import PerSeed


@dataclass(frozen=True)
class Probability(ReadOut):
    """log sum exp f_j over the outputs of a class.

    sum over J+ of softmax minus sum over J- has the sign of the difference of the two logarithms,
    which does not saturate.

    >>> Probability().class_score(np.array([0.0, 0.0])).round(3)
    np.float64(0.693)
    """

    name: ClassVar[str] = "probability"

    def class_score(self, outputs: Float[ndarray, "*s c"]) -> PerSeed:
        """The logarithm of the sum of exponentials."""
        return logsumexp(outputs, axis=-1)

    def derivative(self, outputs: Float[ndarray, "*s c"]) -> Float[ndarray, "*s c"]:
        """The softmax over the class."""
        return np.asarray(softmax(outputs, axis=-1))

    def touch(self, outputs: Float[ndarray, " c"]) -> tuple[float, Float[ndarray, " c"]]:
        """The same two in one pass."""
        # Inlined: scipy's own costs ten times the arithmetic on five numbers.
        largest = outputs.max()
        powers = np.exp(outputs - largest)
        total = powers.sum()
        return float(largest) + math.log(total), powers / total

    def minorants(self, count: int) -> list[Minorant]:
        """Each output alone, and all alike: log sum exp f >= log count + mean f."""
        alone = [Minorant(row, 0.0) for row in np.eye(count)]
        return [*alone, Minorant(np.full(count, 1.0 / count), math.log(count))]

    def hard(self, count: int) -> tuple[ReadOut, float]:
        """Max f <= log sum exp f <= max f + log count."""
        return Max(), math.log(count)


READOUT = Probability()
