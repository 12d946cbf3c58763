"""When is the decision of a deep network flipped? Inequalities on its outputs, one goal each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from featavg.errors import InputError
from featavg.nets.readouts.probability import Probability
from featavg.nets.readouts.readout import ReadOut
from featavg.nets.readouts.registry import readout_of


@runtime_checkable
class Goal(Protocol):
    """A set of outputs; the flipped set is the union of one or more goals."""

    @property
    def curved(self) -> bool:
        """Whether the functionals depend on bounds of the outputs, which then are computed."""
        ...

    def excess(self, outputs: Float[ndarray, "... c"]) -> Float[ndarray, "..."] | np.float64:
        """At most zero exactly where the goal is reached."""
        ...

    def functionals(
        self, lo: ndarray | None, hi: ndarray | None, at: Float[ndarray, " c"]
    ) -> tuple[Float[ndarray, "p c"], Float[ndarray, " p"]]:
        """(C, c) with C f + c <= 0 wherever the goal is reached with lo <= f <= hi."""
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

    def clear(self, margin: float) -> Goal:
        """The outputs that reach the goal by at least this much: excess + margin <= 0."""
        ...


@dataclass(frozen=True, eq=False)
class LinearGoal:
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

    def clear(self, margin: float) -> LinearGoal:
        """Every row by the margin."""
        return LinearGoal(self.rows, self.shifts + margin)


@dataclass(frozen=True, eq=False)
class ProbabilityGoal:
    r"""log sum_own exp f <= log sum_rival exp f: the read-out `probability` is flipped.

    The left side is convex, and a tangent at any f* lies below it. On the right side each exp is
    below its chord over [lo, hi], and the logarithm of the sum is below its tangent, so

        sum_own p_i f_i + H(p)  <=  log S + (sum_j chord_j(f_j) - S) / S,   p = softmax(f*_own),

    for any S > 0, which is one linear inequality, tight as the box shrinks.
    """

    own: Bool[ndarray, " c"]
    margin: float = 0.0
    curved: bool = True

    def excess(self, outputs: Float[ndarray, "... c"]) -> Float[ndarray, "..."] | np.float64:
        """log sum_own exp f - log sum_rival exp f, and the margin by which it has to be below zero."""
        ratio = _log_sum(outputs[..., self.own]) - _log_sum(outputs[..., ~self.own])
        return ratio + self.margin

    def functionals(
        self, lo: ndarray | None, hi: ndarray | None, at: Float[ndarray, " c"]
    ) -> tuple[Float[ndarray, "p c"], Float[ndarray, " p"]]:
        """The inequality above, with exponentials taken relative to the largest upper bound."""
        if lo is None or hi is None:
            raise ValueError("the read-out `probability` is bounded only where its outputs are")
        row = np.zeros(len(self.own))
        inside = np.clip(at, lo, hi)
        share = _softmax(inside[self.own])
        row[self.own] = share
        entropy = -float(np.sum(share * np.log(np.maximum(share, 1e-300))))
        rival = ~self.own
        slope, level, top = _chords(lo[rival], hi[rival])
        total = float(np.sum(slope * inside[rival] + level))
        total = max(total, 1e-300)
        row[rival] = -slope / total
        # log S + (sum level + sum slope f - S) / S, with every exponential divided by exp(top).
        constant = entropy - (np.log(total) + top) - (float(level.sum()) - total) / total
        return row[None], np.array([constant + self.margin])

    def linearised(self, outputs: Float[ndarray, " c"]) -> tuple[float, Float[ndarray, " c"]]:
        """The softmax of the own outputs minus that of the rivals."""
        slope = np.zeros(len(outputs))
        slope[self.own] = _softmax(outputs[self.own])
        slope[~self.own] = -_softmax(outputs[~self.own])
        return float(self.excess(outputs)), slope

    def reached(self, outputs: Float[ndarray, " c"]) -> Float[ndarray, "p c"]:
        """The one derivative."""
        return self.linearised(outputs)[1][None]

    def loose(
        self, lo: Float[ndarray, " c"], hi: Float[ndarray, " c"], at: Float[ndarray, " c"]
    ) -> tuple[int, float, float] | None:
        """The rival with the largest gap of its chord, split at the logarithm of the slope."""
        rival = np.flatnonzero(~self.own)
        inside = np.clip(at, lo, hi)[rival]
        slope, level, top = _chords(lo[rival], hi[rival])
        gap = slope * inside + level - np.exp(inside - top)
        total = max(float(np.sum(slope * inside + level)), 1e-300)
        worst = int(np.argmax(gap))
        low, high = float(lo[rival[worst]]), float(hi[rival[worst]])
        if not gap[worst] > 0.0 or not high > low:
            return None
        middle = float(np.log(max(slope[worst], 1e-300))) + top
        share = 0.1 * (high - low)
        return (
            int(rival[worst]),
            float(np.clip(middle, low + share, high - share)),
            float(gap[worst] / total),
        )

    def clear(self, margin: float) -> ProbabilityGoal:
        """The own probability is smaller by a factor, too."""
        return ProbabilityGoal(self.own, self.margin + margin)


def _chords(lo: ndarray, hi: ndarray) -> tuple[ndarray, ndarray, float]:
    """exp(f - top) <= slope f + level on [lo, hi], top = max hi."""
    # exp is convex, so below its chord; where lo = hi up to rounding, the constant exp(hi) is above.
    top = float(hi.max())
    high, low = np.exp(hi - top), np.exp(lo - top)
    width = hi - lo
    slope = np.where(width > 1e-12, (high - low) / np.where(width > 1e-12, width, 1.0), 0.0)
    level = np.where(width > 1e-12, high - slope * hi, high)
    return slope, level, top


def _softmax(f: ndarray) -> ndarray:
    e = np.exp(f - f.max())
    return np.asarray(e / e.sum())


def _log_sum(f: ndarray) -> ndarray:
    top = f.max(axis=-1)
    return np.asarray(top + np.log(np.exp(f - top[..., None]).sum(axis=-1)))


def argmax_goals(classes: int, label: int) -> list[Goal]:
    """f_label <= f_j for some rival j: one goal each."""
    rows = np.eye(classes)
    return [
        LinearGoal((rows[label] - rows[j])[None], np.zeros(1)) for j in range(classes) if j != label
    ]


def decision_goals(
    outputs: int, y: int, readout: str | ReadOut, positive: Bool[ndarray, " c"]
) -> list[Goal]:
    """y * score <= 0 for a coarse decision: one output, or a read-out of several.

    A read-out that is piecewise linear says itself of which half-spaces its flipped set is the union
    (`ReadOut.pieces`); of the curved ones only `probability` has a goal.
    """
    rule = readout_of(readout)
    if outputs == 1:
        return [LinearGoal(np.array([[float(y)]]), np.zeros(1))]
    own = positive if y > 0 else ~positive
    pieces = rule.pieces(own)
    if pieces is not None:
        return [LinearGoal(rows, np.zeros(len(rows))) for rows in pieces]
    if isinstance(rule, Probability):
        return [ProbabilityGoal(own)]
    remedy = "attack the network instead, or use probability or a read-out with pieces"
    raise InputError("readout", f"is {rule.name}, whose score is curved", remedy)
