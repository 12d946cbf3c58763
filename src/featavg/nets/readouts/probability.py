"""The definition: the class with the larger sum of softmax probabilities."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float
from numpy import ndarray

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
    exact: ClassVar[str | None] = "featavg.robustness.exact.probability"

    def class_score(self, outputs: Float[ndarray, "*s c"]) -> PerSeed:
        """The logarithm of the sum of exponentials."""
        largest, powers = _powers(outputs)
        return largest[..., 0] + np.log(powers.sum(axis=-1))

    def derivative(self, outputs: Float[ndarray, "*s c"]) -> Float[ndarray, "*s c"]:
        """The softmax over the class."""
        _, powers = _powers(outputs)
        return powers / powers.sum(axis=-1, keepdims=True)

    def touch(self, outputs: Float[ndarray, " c"]) -> tuple[float, Float[ndarray, " c"]]:
        """The same two in one pass."""
        largest, powers = _powers(outputs)
        total = powers.sum()
        return float(largest[0]) + math.log(total), powers / total

    def minorants(self, count: int) -> list[Minorant]:
        """Each output alone, and all alike: log sum exp f >= log count + mean f."""
        alone = [Minorant(row, 0.0) for row in np.eye(count)]
        return [*alone, Minorant(np.full(count, 1.0 / count), math.log(count))]

    def hard(self, count: int) -> tuple[ReadOut, float]:
        """Max f <= log sum exp f <= max f + log count."""
        return Max(), math.log(count)


def _powers(
    outputs: Float[ndarray, "*s c"],
) -> tuple[Float[ndarray, "*s 1"], Float[ndarray, "*s c"]]:
    """The largest output, and exp of how far the others are below it: nothing overflows.

    Not scipy's logsumexp and softmax: on the few numbers of an attack or a branch they cost thirty
    times the arithmetic.
    """
    largest = outputs.max(axis=-1, keepdims=True)
    return largest, np.exp(outputs - largest)


READOUT = Probability()
