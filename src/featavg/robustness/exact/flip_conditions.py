"""When is the decision of a deep network flipped? Inequalities on its outputs, one condition each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float
from numpy import ndarray


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
