"""Read-outs, from the outputs of a class to its score: the interface, and those that are piecewise linear."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from featavg.boundary.public import public
from featavg.data.clusters import positive_mask
from featavg.errors import InputError, one_of
from featavg.registry import POOLINGS, READOUTS
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
    >>> readout_of("sum").class_score(np.array([1.0, 3.0, 2.0]))
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


@dataclass(frozen=True)
class Max(ReadOut):
    """max f_j over the outputs of a class.

    >>> Max().derivative(np.array([2.0, 5.0]))
    array([0., 1.])
    """

    name: ClassVar[str] = "max"

    def class_score(self, outputs: Float[ndarray, "*s c"]) -> PerSeed:
        """The largest output."""
        return outputs.max(axis=-1)

    def derivative(self, outputs: Float[ndarray, "*s c"]) -> Float[ndarray, "*s c"]:
        """One at the largest output; at the first of them on a tie."""
        return np.eye(outputs.shape[-1])[outputs.argmax(axis=-1)]

    def minorants(self, count: int) -> list[Minorant]:
        """Each output alone."""
        return [Minorant(row, 0.0) for row in np.eye(count)]

    def pieces(self, own: Bool[ndarray, " c"]) -> list[Float[ndarray, "I c"]]:
        """One piece for each rival j: f_i <= f_j for every own output i."""
        outputs = np.eye(len(own))
        return [outputs[own] - outputs[j] for j in np.flatnonzero(~own)]


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


def readout_of(readout: str | ReadOut) -> ReadOut:
    """The read-out or pooling of this name, perhaps with options; an object is its own.

    >>> readout_of("max"), readout_of("top:q=3")
    (Max(), Top(q=3))
    """
    if isinstance(readout, ReadOut):
        return readout
    if readout.partition(":")[0] not in POOLINGS:
        one_of("readout", readout, dict.fromkeys((*READOUTS, *POOLINGS)))
    rule: ReadOut = POOLINGS.build(readout)
    return rule


@public
def score(
    outputs: Float[ndarray, "*s n c"],
    positive: Sequence[int] | Sequence[bool] | ndarray | None,
    readout: str | ReadOut = "probability",
) -> Float[ndarray, "*s n"]:
    """The number whose sign is the coarse decision: class score of J+ minus class score of J-.

    A network with one output is its own score.

    Args:
        outputs: f_1 .. f_c at n points, of any number of networks.
        positive: J+, as c truth values or as the indices of its outputs.
        readout: a name from `fa.readouts.NAMES` or POOLINGS, or a read-out of your own.

    >>> import numpy as np
    >>> import featavg as fa
    >>> f = np.array([[2.0, 0.0, 1.5, 1.4]])
    >>> readouts = ("probability", "max", "sum")
    >>> [round(float(fa.score(f, [True, True, False, False], r)[0]), 2) for r in readouts]
    [-0.02, 0.5, -0.9]
    """
    return coarse_score(outputs, positive, readout)


def coarse_score(
    outputs: Float[ndarray, "*s n c"], positive: Sequence[int] | Sequence[bool] | ndarray | None, readout: str | ReadOut
) -> Float[ndarray, "*s n"]:
    """`score` for the library itself: those of a network that diverged are NaN."""
    rule = readout_of(readout)
    if outputs.shape[-1] == 1:
        return outputs[..., 0]
    if positive is None:
        raise InputError("positive", "is missing", f"say which of the {outputs.shape[-1]} outputs are positive")
    mask = positive_mask(positive, outputs.shape[-1], "outputs")
    return np.asarray(rule.class_score(outputs[..., mask]) - rule.class_score(outputs[..., ~mask]))
