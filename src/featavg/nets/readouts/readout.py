"""What a read-out has to say about itself, for measures, attacks and exact radii alike."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from featavg.shapes import PerSeed


@dataclass(frozen=True, eq=False)
class Minorant:
    """An affine function of the outputs of a class that is nowhere above its score."""

    weights: Float[ndarray, " c"]
    constant: float


@dataclass(frozen=True)
class ReadOut(ABC):
    """The score of a class from the outputs that belong to it; the best class is the decision.

    The score is convex and does not decrease in any output: affine functions that touch it are
    below it, which is what attacks polish with and exact searches cut with.

    Exact radii need one thing more: `pieces`, for a score that is piecewise linear, or `hard`, for
    one that stays near such a score, with `exact`, the module that bounds it (its functions are
    those of `Curved` in `robustness/exact/relaxation`). Without either there are attacks only.

    >>> import numpy as np
    >>> from featavg.nets.readouts.registry import READOUTS
    >>> READOUTS["sum"].class_score(np.array([1.0, 3.0, 2.0]))
    np.float64(6.0)
    """

    name: ClassVar[str]
    exact: ClassVar[str | None] = None

    @abstractmethod
    def class_score(self, outputs: Float[ndarray, "*s c"]) -> PerSeed:
        """The score of a class with these outputs, over the last axis."""

    @abstractmethod
    def derivative(self, outputs: Float[ndarray, "*s c"]) -> Float[ndarray, "*s c"]:
        """The derivative of the class score (a subgradient where it has a kink)."""

    def check(self, count: int) -> None:
        """Refuse a class of `count` outputs for which the options make no sense."""
        return

    def touch(self, outputs: Float[ndarray, " c"]) -> tuple[float, Float[ndarray, " c"]]:
        """Class score and derivative at once, for one point: the inner loop of searches."""
        return float(self.class_score(outputs)), self.derivative(outputs)

    def minorant(self, outputs: Float[ndarray, " c"]) -> Minorant:
        """The affine function that touches the class score here."""
        value, weights = self.touch(outputs)
        return Minorant(weights, value - float(weights @ outputs))

    def minorants(self, count: int) -> list[Minorant]:
        """Minorants for a class of `count` outputs that are worth trying before any is known."""
        return [self.minorant(np.zeros(count))]

    def pieces(self, own: Bool[ndarray, " c"]) -> list[Float[ndarray, "I c"]] | None:
        """{own score <= rival score} as a union of {rows @ outputs <= 0}; None if it is curved.

        Whole numbers in the rows let the proof that nothing flips be exact.
        """
        return None

    def hard(self, count: int) -> tuple[ReadOut, float] | None:
        """A read-out with pieces, and slack: own score <= rival score only if hard own <= hard rival
        + slack, for `count` outputs a class, as where hard <= score <= hard + slack.
        """
        return None

    def simpler(self, own: Bool[ndarray, " c"]) -> tuple[ReadOut, float]:
        """A read-out and a factor > 0: it decides as this one does when all outputs are multiplied."""
        return self, 1.0
