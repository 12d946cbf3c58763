"""The probability read-out: brackets by branch and bound, one family for each dominant rival."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from featavg.errors import InputError
from featavg.robustness.relaxation import Affine, Box, chord, halves
from featavg.robustness.subspace import Subspace


class ProbabilityRelaxation:
    r"""Flipped, with j the largest of the rivals: log sum_O exp f_o <= log sum_V exp f_i, f_i <= f_j.

    Take the dominant rival out of both sides. With g_i = f_i - f_j <= 0 the condition is

        log sum_{o in O} exp f_o - f_j  <=  log (1 + sum_{i in V, i != j} exp g_i).

    The left side is convex in the own outputs. On the right exp g_i is at most its chord over
    [low_i, high_i], which lies within [0, 1] whatever the size of the outputs, and the logarithm of
    an affine function is concave, so it has tangents above. Outputs are sums of ReLUs: f_j and the
    f_i are bounded above by chords and, inside -f_j, below by tangents. A box is split in g_i where
    exp is furthest below its chord, at log of the chord's slope, or at the kink of a ReLU,
    whichever costs more.
    """

    def __init__(self, space: Subspace, own: Bool[ndarray, " c"], j: int) -> None:
        if np.any(space.head < 0):
            raise InputError(
                "net", "has negative weights in its head", "use the read-out max or sum for it"
            )
        rivals = ~own
        rivals[j] = False
        self.own, self.own_shift = space.head[own], space.constant[own]
        self.others, self.others_shift = space.head[rivals], space.constant[rivals]
        self.top, self.top_shift = space.head[j], float(space.constant[j])
        self.all = np.vstack([self.top[None], self.others])
        self.all_shift = np.concatenate([[self.top_shift], self.others_shift])
        self.extra = len(self.others)
        self.concave = (self.all > 0).any(axis=0)

    def outer(self, box: Box) -> Affine:
        """Rows: f_j from above; 1 + sum exp g_i from above; each g_i from above."""
        slope, offset = chord(box.lo, box.hi)
        # relu(z) >= 0 and relu(z) >= z: the one that is better over most of the box.
        below = self.top * (box.lo + box.hi > 0)
        g = self.others * slope - below
        g_shift = self.others @ offset + self.others_shift - self.top_shift
        rise, start = exp_chord(*self._ranges(box))
        return Affine(
            np.vstack([self.top * slope, rise @ g, g]),
            np.concatenate(
                [
                    [self.top @ offset + self.top_shift, 1.0 + rise @ g_shift + start.sum()],
                    g_shift,
                ]
            ),
        )

    def _ranges(self, box: Box) -> tuple[ndarray, ndarray]:
        """Bounds on every g_i: from the box, and those imposed."""
        on_lo, on_hi = np.maximum(box.lo, 0.0), np.maximum(box.hi, 0.0)
        shift = self.others_shift - self.top_shift
        low = np.maximum(self.others @ on_lo - self.top @ on_hi + shift, box.low)
        high = np.minimum(self.others @ on_hi - self.top @ on_lo + shift, box.high)
        high = np.minimum(high, 0.0)
        return np.minimum(low, high), high

    def inner(self, z: Float[ndarray, " M"]) -> Affine:
        """The tangent of log sum_V exp f_i at z: it is below, since that function is convex."""
        on = z > 0
        value, weights = _log_sum_exp(self.all @ np.where(on, z, 0.0) + self.all_shift)
        slope = (weights @ self.all) * on
        return Affine(slope[None], np.array([value - slope @ z]))

    def starts(self, z: Float[ndarray, " M"]) -> list[Affine]:
        """The dominant rival alone; all rivals alike, by log sum_V exp f >= log |V| + mean f."""
        size = len(self.all)
        alike = self.all.mean(axis=0)
        return [
            Affine(self.top[None], np.array([self.top_shift])),
            Affine(alike[None], np.array([np.log(size) + self.all_shift.mean()])),
        ]

    def cuts(self, side: Affine, box: Box | None, z: Float[ndarray, " M"]) -> Affine:
        """The tangent of the left side at z against `side`, and the bounds imposed on the g_i."""
        on = z > 0
        active = np.where(on, z, 0.0)
        value, weights = _log_sum_exp(self.own @ active + self.own_shift)
        slope = (weights @ self.own) * on
        constant = value - slope @ z
        if box is None:
            return Affine(slope[None] - side.coefficients, constant - side.constants)
        top, sums, g = side.coefficients[0], side.coefficients[1], side.coefficients[2:]
        # log s <= log a + (s - a) / a for every a > 0; the true s is between 1 and |V|.
        a = min(max(float(sums @ z + side.constants[1]), 1.0), 1.0 + self.extra)
        main = slope - top - sums / a
        main_constant = constant - side.constants[0] - np.log(a) + 1.0 - side.constants[1] / a
        high = np.minimum(box.high, 0.0)
        below = self.others * on - top
        below_constant = self.others_shift - side.constants[0] - high
        imposed = np.isfinite(box.low)
        return Affine(
            np.vstack([main[None], below, -g[imposed]]),
            np.concatenate(
                [
                    [main_constant],
                    below_constant,
                    box.low[imposed] - side.constants[2:][imposed],
                ]
            ),
        )

    def excess(self, z: Float[ndarray, " M"]) -> float:
        """log sum_O exp f - log sum_V exp f."""
        active = np.maximum(z, 0.0)
        own, _ = _log_sum_exp(self.own @ active + self.own_shift)
        rivals, _ = _log_sum_exp(self.all @ active + self.all_shift)
        return own - rivals

    def split(self, box: Box, side: Affine, z: Float[ndarray, " M"]) -> tuple[Box, ...]:
        """Where the relaxation is loosest at z: in one g_i, or at the kink of one neuron."""
        slope, offset = chord(box.lo, box.hi)
        active = np.maximum(z, 0.0)
        low, high = self._ranges(box)
        rise, start = exp_chord(low, high)
        g = np.clip(
            self.others @ active - self.top @ active + self.others_shift - self.top_shift, low, high
        )
        # In units of the logarithm: what sits inside it counts divided by its argument.
        inside = 1.0 + np.exp(g).sum()
        curved = (rise * g + start - np.exp(g)) / inside
        above = slope * z + offset - active
        below = active - z * (box.lo + box.hi > 0)
        kinks = (rise @ self.others * above + rise.sum() * self.top * below) / inside
        kinks += self.top * above
        kinks[(box.lo >= 0) | (box.hi <= 0)] = 0.0
        i, r = int(curved.argmax()) if len(curved) else 0, int(kinks.argmax())
        if len(curved) and curved[i] >= kinks[r] and curved[i] > 0.0:
            middle = np.log(rise[i])
            first, second = box.high.copy(), box.low.copy()
            first[i] = second[i] = middle
            return replace(box, high=first, last=None), replace(box, low=second, last=None)
        return halves(box, r) if kinks[r] > 0.0 else ()


def probability(space: Subspace, own: Bool[ndarray, " c"]) -> list[ProbabilityRelaxation]:
    """One family for each rival that may be the largest."""
    return [ProbabilityRelaxation(space, own, int(j)) for j in np.flatnonzero(~own)]


def exp_chord(
    low: Float[ndarray, " V"], high: Float[ndarray, " V"]
) -> tuple[Float[ndarray, " V"], Float[ndarray, " V"]]:
    """Slope and offset with exp(g) <= slope * g + offset for low <= g <= high.

    >>> slope, offset = exp_chord(np.array([-1.0]), np.array([0.0]))
    >>> bool(slope[0] * -0.5 + offset[0] > np.exp(-0.5))
    True
    """
    width = high - low
    top = np.exp(high)
    # (1 - exp(-w)) / w without cancellation; a chord of no width is a constant.
    rise = np.where(width > 1e-9, -np.expm1(-width) / np.maximum(width, 1e-9), 0.0) * top
    return rise, top - rise * high


def _log_sum_exp(f: Float[ndarray, " c"]) -> tuple[float, Float[ndarray, " c"]]:
    """log sum exp f and its gradient, the softmax."""
    largest = f.max()
    powers = np.exp(f - largest)
    total = powers.sum()
    return float(largest + np.log(total)), powers / total
