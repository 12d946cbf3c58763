"""Smooth maxima: the sum of softmax probabilities, which is the definition, and one with a temperature."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from featavg.errors import InputError
from featavg.nets.readouts._readout import Max, Minorant, ReadOut
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
            "positive", f"has {own.sum()} of {len(own)} outputs", "soft needs as many outputs in either class"
        )


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


def _powers(outputs: Float[ndarray, "*s c"]) -> tuple[Float[ndarray, "*s 1"], Float[ndarray, "*s c"]]:
    """The largest output, and exp of how far the others are below it: nothing overflows.

    Not scipy's logsumexp and softmax: on the few numbers of an attack or a branch they cost thirty
    times the arithmetic.
    """
    largest = outputs.max(axis=-1, keepdims=True)
    return largest, np.exp(outputs - largest)
