"""What exact searches have to know of the read-out `probability`; see `relaxation.Curved`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from featavg.robustness.exact.domination import dominated as never_flips
from featavg.robustness.exact.probability_relaxation import ProbabilityRelaxation

__all__ = ["condition", "never_flips", "relaxation"]


@dataclass(frozen=True, eq=False)
class ProbabilityCondition:
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

    def clear(self, margin: float) -> ProbabilityCondition:
        """The own probability is smaller by a factor, too."""
        return ProbabilityCondition(self.own, self.margin + margin)


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


relaxation, condition = ProbabilityRelaxation, ProbabilityCondition
