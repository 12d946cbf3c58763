r"""What exact searches have to know of the read-out `probability`; see `flip_conditions.Curved`.

Flipped means, with f_j = b_j + sum_r a_{jr} relu(z_r), a >= 0 and each neuron in one group,

    log sum_{o in own} exp f_o  <=  log sum_{v in rival} exp f_v.

The left side is convex in z: its tangents are below it. The right side is convex too, on the wrong
side, and is replaced by what is above it over a box (for bounds) or below it (for candidates):

- *above*: each exp f_v is convex in its neuron's z, so it is below its chord over the interval; the
  sum of chords A(z) is affine and log A is concave, hence below its own tangents. For a group of
  several neurons, exp is below its chord over the range of f_v and each relu below its chord.
- *below*: tangents of exp f_v, or one rival alone, or the mean of all (see `ReadOut.minorants`).

All exponentials are taken relative to the largest exponent of the rivals, `log_scale`, so that none
overflows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from featavg.errors import InputError
from featavg.nets.readouts.soft import Probability
from featavg.robustness.exact.farkas import dominated as never_flips
from featavg.robustness.exact.probability_terms import ProbabilityTerms
from featavg.robustness.exact.relaxation import Affine, Box, Price, Terms, chord

__all__ = ["condition", "never_flips", "relaxation"]

ONE = np.ones((1, 1))
# A tangent of log A is taken where A is at least this share of its largest term: any is valid.
TINY = 1e-30
# exp(600) is finite with room to multiply.
LARGEST_EXPONENT = 600.0
READOUT = Probability()


class ProbabilityRelaxation:
    """One family of one inequality, in the logarithm."""

    inequalities = 1

    def __init__(self, head: ndarray, constant: ndarray, own: Bool[ndarray, " c"]) -> None:
        if np.any(head < 0):
            raise InputError("net", "has negative weights in its head", "use the read-out max or sum for it")
        if np.any((head > 0).sum(axis=0) > 1):
            raise InputError("net", "has a neuron that feeds two outputs", "use the read-out max or sum for it")
        self.own, self.own_shift = head[own], constant[own]
        self.rival, self.rival_shift = head[~own], constant[~own]
        self.concave = (self.rival > 0).any(axis=0)
        self.separable = ProbabilityTerms(self.own, self.own_shift, self.rival, self.rival_shift)
        self.level = 0.0  # of the outputs at the point, for the exponentials of the terms
        self.slope = head.sum(axis=0)
        self.rivals = self.separable.rivals
        self.rival_of = self.separable.rival_of
        # Rival groups of one neuron, and that neuron.
        self.alone = np.flatnonzero((self.rival > 0).sum(axis=1) == 1)
        self.neuron = (self.rival > 0).argmax(axis=1)[self.alone]

    def outer(self, box: Box) -> Affine | None:
        """The sum of chords over the box; None while the box is unbounded."""
        if not (np.all(np.isfinite(box.lo)) and np.all(np.isfinite(box.hi))):
            return None
        lowest = self.rival @ np.maximum(box.lo, 0.0) + self.rival_shift
        highest = self.rival @ np.maximum(box.hi, 0.0) + self.rival_shift
        scale = float(highest.max())
        bottom, top = np.exp(lowest - scale), np.exp(highest - scale)
        # exp f <= bottom + rise (f - lowest), and f <= rival @ (chords of relu) + shift.
        rise = _ratio(top - bottom, highest - lowest, top)
        relu_slope, relu_offset = chord(box.lo, box.hi)
        slopes = rise[:, None] * self.rival * relu_slope
        constants = bottom + rise * (self.rival @ relu_offset + self.rival_shift - lowest)
        sizes = bottom + rise * (np.abs(self.rival_shift) + np.abs(lowest))
        # One neuron: the chord of exp(a relu(z)) itself, which is lower than the chord of a chord.
        self._chords(box, bottom, top, slopes, constants, sizes)
        return Affine(
            slopes.sum(axis=0)[None],
            np.array([constants.sum()]),
            ONE,
            scale,
            np.array([np.abs(constants).sum() + sizes.sum()]),
        )

    def _chords(
        self, box: Box, bottom: ndarray, top: ndarray, slopes: ndarray, constants: ndarray, sizes: ndarray
    ) -> None:
        """Chords of exp f over the intervals of single neurons, put in the place of others."""
        v, lo, hi = self.alone, box.lo[self.neuron], box.hi[self.neuron]
        # Where the interval is a point up to rounding, the larger value is a chord too.
        rise = _ratio(top[v] - bottom[v], hi - lo, np.zeros(len(v)))
        slopes[v] = 0.0
        slopes[v, self.neuron] = rise
        constants[v] = np.where(rise > 0, bottom[v] - rise * lo, top[v])
        sizes[v] = top[v] + rise * np.abs(lo)

    def touching(self, box: Box | None, z: Float[ndarray, " M"]) -> Affine:
        """The tangents of exp f_v at z; with a box, chords for single neurons known to be on."""
        on = z > 0
        f = self.rival @ np.where(on, z, 0.0) + self.rival_shift
        scale = float(f.max())
        power = np.exp(f - scale)
        slopes = self.rival * on * power[:, None]
        constants = power - slopes @ z
        if box is not None:
            lo, hi = box.lo[self.neuron], box.hi[self.neuron]
            rate, shift = self.slope[self.neuron], self.rival_shift[self.alone]
            ends = np.stack([lo, hi]) * rate + shift - scale
            known = (lo >= 0) & (hi > lo) & (ends[1] < LARGEST_EXPONENT)
            v, at = self.alone[known], self.neuron[known]
            bottom, top = np.exp(ends[:, known])
            rise = (top - bottom) / (hi - lo)[known]
            slopes[v] = 0.0
            slopes[v, at] = rise
            constants[v] = bottom - rise * lo[known]
        return Affine(slopes.sum(axis=0)[None], np.array([constants.sum()]), ONE, scale)

    def starts(self, z: Float[ndarray, " M"]) -> list[Affine]:
        """All rivals off; the read-out's minorants of the rivals without their ReLUs, `alike` last."""
        self.level = float((self.own @ np.maximum(z, 0.0) + self.own_shift).max())
        sides = [
            Affine(
                (below.weights @ self.rival)[None], np.array([below.weights @ self.rival_shift + below.constant]), ONE
            )
            for below in READOUT.minorants(len(self.rival))
        ]
        silent = READOUT.touch(self.rival_shift)[0]
        return [Affine(np.zeros((1, len(z))), np.array([silent]), ONE), *sides]

    def cuts(self, side: Affine, z: Float[ndarray, " M"]) -> Affine:
        """The tangent of log sum exp f_o at z, against side or against the tangent of log side."""
        on = z > 0
        value, weights = READOUT.touch(self.own @ np.where(on, z, 0.0) + self.own_shift)
        slope = (weights @ self.own) * on
        constant = value - slope @ z
        if side.log_scale is None:
            size = abs(value) + float(np.abs(slope) @ np.abs(z)) + side.magnitudes
            return Affine(slope[None] - side.coefficients, constant - side.constants, ONE, None, size)
        # log A <= log a + (A - a) / a for every a > 0, tightest at a = A(z). exp f_v >= exp b_v
        # keeps the true A away from zero, where z is outside what the chords are for.
        silent = np.minimum(self.rival_shift - side.log_scale, 0.0)
        a = max(float(side.at(z)[0]), float(np.exp(silent).sum()), TINY)
        exponent = min(self.level - side.log_scale, LARGEST_EXPONENT)
        log_a = math.log(a)
        return Affine(
            slope[None] - side.coefficients / a,
            constant - side.log_scale - log_a + 1.0 - side.constants / a,
            np.array([[math.exp(exponent) / a]]),
            None,
            abs(value)
            + float(np.abs(slope) @ np.abs(z))
            + (abs(side.log_scale) + abs(log_a) + 1.0)
            + side.magnitudes / a,
        )

    def excess(self, z: Float[ndarray, " M"]) -> float:
        """Own score minus rival score."""
        on = np.maximum(z, 0.0)
        own, _ = READOUT.touch(self.own @ on + self.own_shift)
        rival, _ = READOUT.touch(self.rival @ on + self.rival_shift)
        return own - rival

    def kinks(self, rows: Float[ndarray, "M r"], z: Float[ndarray, " M"], scale: float) -> None:
        """None: the score falls along the step, which is all that a nudge needs here."""

    def terms(self, box: Box, price: Price, z: Float[ndarray, " M"], stiffness: Float[ndarray, " M"]) -> Terms:
        """The separable bound, which uses the inequality itself rather than its logarithm."""
        return self.separable.at(box, price, z, stiffness, self.level)

    def cut_at(self, box: Box, terms: Terms | None, z: Float[ndarray, " M"]) -> tuple[int, float] | None:
        """The rival that loses most, between where it is and where its term is least.

        Without terms, or if none loses, the widest one in its middle.
        """
        lo, hi = box.lo[self.rivals], box.hi[self.rivals]
        width = np.where(hi - lo > 1e-9 * (np.abs(hi) + np.abs(lo)), hi - lo, 0.0)
        if not width.any():
            return None
        lost = np.zeros_like(width)
        if terms is not None and np.isfinite(terms.size):
            lost = np.where(width > 0, (terms.here - terms.least)[self.rivals], 0.0)
        if terms is None or not lost.max() > 1e-12 * terms.size:
            i = int(width.argmax())
            return int(self.rivals[i]), float(0.5 * (lo[i] + hi[i]))
        i = int(lost.argmax())
        r = self.rivals[i]
        at = 0.5 * (min(max(z[r], lo[i]), hi[i]) + terms.where[r])
        return int(r), float(min(max(at, lo[i] + 0.1 * width[i]), hi[i] - 0.1 * width[i]))


def _ratio(rise: ndarray, width: ndarray, otherwise: ndarray) -> ndarray:
    """Rise / width, and `otherwise` where the width is zero up to rounding."""
    wide = width > 1e-12 * (1.0 + np.abs(width))
    return np.where(wide, rise / np.where(wide, width, 1.0), otherwise)


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
        return (int(rival[worst]), float(np.clip(middle, low + share, high - share)), float(gap[worst] / total))

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
