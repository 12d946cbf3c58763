"""When is a decision flipped? Inequalities on the outputs, one condition each."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from featavg.errors import InputError
from featavg.nets.readouts._readout import ReadOut
from featavg.nets.two_layer import TwoLayer
from featavg.robustness.exact.decision import Decision
from featavg.robustness.exact.relaxation import Relaxation
from featavg.robustness.geometry.subspace import Subspace


@runtime_checkable
class Condition(Protocol):
    """A set of outputs; the flipped set is the union of one or more conditions."""

    @property
    def curved(self) -> bool:
        """Whether the functionals depend on bounds of the outputs, which then are computed."""
        ...

    def excess(self, outputs: Float[ndarray, "... c"]) -> Float[ndarray, "..."] | np.float64:
        """At most zero exactly where the condition is reached."""
        ...

    def functionals(
        self, lo: ndarray | None, hi: ndarray | None, at: Float[ndarray, " c"]
    ) -> tuple[Float[ndarray, "p c"], Float[ndarray, " p"]]:
        """(C, c) with C f + c <= 0 wherever the condition is reached with lo <= f <= hi."""
        ...

    def linearised(self, outputs: Float[ndarray, " c"]) -> tuple[float, Float[ndarray, " c"]]:
        """The excess and its derivative in the outputs."""
        ...

    def reached(self, outputs: Float[ndarray, " c"]) -> Float[ndarray, "p c"]:
        """The derivatives of all inequalities, some of which hold with equality at a witness."""
        ...

    def loose(
        self, lo: Float[ndarray, " c"], hi: Float[ndarray, " c"], at: Float[ndarray, " c"]
    ) -> tuple[int, float, float] | None:
        """The output whose bounds cost most, where to split it, and how much it costs."""
        ...

    def clear(self, margin: float) -> Condition:
        """The outputs that reach the condition by at least this much: excess + margin <= 0."""
        ...


@dataclass(frozen=True, eq=False)
class LinearCondition:
    """rows f + shifts <= 0, every row at once: binary, `sum`, `max`, or a rival of argmax."""

    rows: Float[ndarray, "p c"]
    shifts: Float[ndarray, " p"]
    curved: bool = False

    def excess(self, outputs: Float[ndarray, "... c"]) -> Float[ndarray, "..."] | np.float64:
        """The largest left side."""
        return np.max(outputs @ self.rows.T + self.shifts, axis=-1)

    def functionals(
        self, lo: ndarray | None, hi: ndarray | None, at: Float[ndarray, " c"]
    ) -> tuple[Float[ndarray, "p c"], Float[ndarray, " p"]]:
        """They are what they are, everywhere."""
        return self.rows, self.shifts

    def linearised(self, outputs: Float[ndarray, " c"]) -> tuple[float, Float[ndarray, " c"]]:
        """The row that is farthest from being reached."""
        values = self.rows @ outputs + self.shifts
        worst = int(values.argmax())
        return float(values[worst]), self.rows[worst]

    def reached(self, outputs: Float[ndarray, " c"]) -> Float[ndarray, "p c"]:
        """The rows."""
        return self.rows

    def loose(self, lo: ndarray, hi: ndarray, at: ndarray) -> tuple[int, float, float] | None:
        """Nothing is lost here."""
        return None

    def clear(self, margin: float) -> LinearCondition:
        """Every row by the margin."""
        return LinearCondition(self.rows, self.shifts + margin)


@runtime_checkable
class Curved(Protocol):
    """What exact searches have to know of a curved read-out: the functions of `ReadOut.exact`."""

    def relaxation(
        self, head: Float[ndarray, "c M"], constant: Float[ndarray, " c"], own: Bool[ndarray, " c"]
    ) -> Relaxation:
        """For two layers: bounds of own score <= rival score over a box of pre-activations."""
        ...

    def condition(self, own: Bool[ndarray, " c"]) -> Condition:
        """For any depth: own score <= rival score as a condition on the outputs."""
        ...

    def never_flips(self, net: TwoLayer, space: Subspace, own: Bool[ndarray, " c"]) -> bool:
        """Whether own score > rival score everywhere, proven exactly."""
        ...


def curved_of(readout: ReadOut) -> Curved | None:
    """The module that the read-out names, or None."""
    return None if readout.exact is None else import_module(readout.exact)


def conditions_of(decision: Decision, label: int) -> list[Condition]:
    """The flipped outputs of a point with this label, as a union."""
    pieces = decision.pieces(label)
    if pieces is not None:
        return [LinearCondition(rows, np.zeros(len(rows))) for rows in pieces]
    curved = curved_of(decision.readout)
    if curved is None:
        problem = f"is {decision.readout.name}, a curved score without exact radii"
        raise InputError("readout", problem, "use attack_suite, or a read-out with pieces")
    return [curved.condition(decision.own(label))]
