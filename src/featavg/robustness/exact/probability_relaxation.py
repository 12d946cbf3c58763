"""Branch and bound on the probability read-out."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from featavg.errors import InputError
from featavg.robustness.exact.relaxation import Affine, Box, Price, Terms

NEWTON = 6
ONE = np.ones((1, 1))
TINY = 1e-30


class ProbabilityRelaxation:
    r"""sum_{o in O} exp f_o <= sum_{i in V} exp f_i, with f_j = b_j + sum_r a_{jr} relu(z_r).

    Convex approximations use the logarithm of it, log sum_O exp f <= log A(z) with A affine, which
    has tangents that reach far; the separable bound uses it as it is, since then every rival
    neuron is a term of its own,

        stiffness s^2 - 2 kappa s - 2 weight exp(c_r + beta_r relu(z_r + s)),

    whose least value over an interval is found from its two ends, its kink and one Newton
    iteration. If a group has several neurons, exp of their sum is at most a weighted sum of
    exponentials of single neurons (Jensen), equal at the point that the price comes from.
    """

    inequalities = 1

    def __init__(self, head: ndarray, constant: ndarray, own: Bool[ndarray, " c"]) -> None:
        if np.any(head < 0):
            raise InputError(
                "net", "has negative weights in its head", "use the read-out max or sum for it"
            )
        if np.any((head > 0).sum(axis=0) > 1):
            raise InputError(
                "net", "has a neuron that feeds two outputs", "use the read-out max or sum for it"
            )
        self.own, self.own_shift = head[own], constant[own]
        self.rival, self.rival_shift = head[~own], constant[~own]
        self.concave = (self.rival > 0).any(axis=0)
        self.slope = head.sum(axis=0)
        self.level = 0.0  # of the outputs, so that exp(f - level) neither overflows nor vanishes
        # Neurons of the rivals, of own groups with one neuron, and of own groups with several.
        own_sizes, rival_sizes = (self.own > 0).sum(axis=1), (self.rival > 0).sum(axis=1)
        self.rivals = np.flatnonzero(self.concave)
        self.rival_of = (self.rival > 0).argmax(axis=0)[self.rivals]
        self.jensen = 1.0 / rival_sizes[self.rival_of]
        self.singles = np.flatnonzero((self.own[own_sizes == 1] > 0).any(axis=0))
        self.single_of = (self.own > 0).argmax(axis=0)[self.singles]
        self.plural = own_sizes != 1
        self.plurals = np.flatnonzero((self.own[self.plural] > 0).any(axis=0))
        self.plural_of = (self.own > 0).argmax(axis=0)[self.plurals]
        self.mute = rival_sizes == 0
        self.alone, self.first = rival_sizes == 1, (self.rival > 0).argmax(axis=1)

    def outer(self, box: Box) -> None:
        """None: branching relies on the separable bound alone."""

    def touching(self, box: Box | None, z: Float[ndarray, " M"]) -> Affine:
        """A(z) / exp(top): tangents of exp f_i at z, chords for single neurons known to be on."""
        on = z > 0
        f = self.rival @ np.where(on, z, 0.0) + self.rival_shift
        top = float(f.max())
        e = np.exp(f - top)
        slopes = self.rival * on * e[:, None]
        constants = e - slopes @ z
        if box is not None:
            lo, hi = box.lo[self.first], box.hi[self.first]
            known = self.alone & (lo >= 0) & (hi > lo)
            if known.any():
                rate = self.slope[self.first]
                ends = np.exp(np.stack([lo, hi]) * rate + self.rival_shift - top)
                rise = np.where(known, (ends[1] - ends[0]) / np.where(known, hi - lo, 1.0), 0.0)
                index = np.flatnonzero(known)
                slopes[index] = 0.0
                slopes[index, self.first[index]] = rise[index]
                constants[index] = (ends[0] - rise * lo)[index]
        return Affine(
            np.stack([slopes.sum(axis=0)]), np.array([constants.sum()]), np.array([[top]]), True
        )

    def starts(self, z: Float[ndarray, " M"]) -> list[Affine]:
        """One rival alone; all rivals alike, by log sum_V exp f >= log |V| + mean f."""
        self.level = float((self.own @ np.maximum(z, 0.0) + self.own_shift).max())
        alike = Affine(
            self.rival.mean(axis=0)[None],
            np.array([np.log(len(self.rival)) + self.rival_shift.mean()]),
            ONE,
        )
        alone = zip(self.rival, self.rival_shift, strict=True)
        return [Affine(row[None], np.array([b]), ONE) for row, b in alone] + [alike]

    def cuts(self, side: Affine, z: Float[ndarray, " M"]) -> Affine:
        """The tangent of log sum_O exp f at z, against side or against the tangent of log side."""
        on = z > 0
        value, weights = log_sum_exp(self.own @ np.where(on, z, 0.0) + self.own_shift)
        slope = (weights @ self.own) * on
        constant = value - slope @ z
        if not side.logarithm:
            return Affine(slope[None] - side.coefficients, constant - side.constants, ONE)
        # log A <= log a + (A - a) / a; exp f_i >= exp b_i keeps the true A away from zero.
        top = side.shares[0, 0]
        a = max(float(side.at(z)[0]), float(np.exp(self.rival_shift - top).sum()), TINY)
        return Affine(
            slope[None] - side.coefficients / a,
            constant - top - np.log(a) + 1.0 - side.constants / a,
            np.array([[np.exp(min(self.level - top, 600.0)) / a]]),
        )

    def excess(self, z: Float[ndarray, " M"]) -> float:
        """log sum_O exp f - log sum_V exp f."""
        on = np.maximum(z, 0.0)
        own, _ = log_sum_exp(self.own @ on + self.own_shift)
        rival, _ = log_sum_exp(self.rival @ on + self.rival_shift)
        return own - rival

    def terms(
        self, box: Box, price: Price, z: Float[ndarray, " M"], stiffness: Float[ndarray, " M"]
    ) -> Terms:
        """Rivals as the class says; own groups by exp itself, or by its tangent plane if larger."""
        weight, kappa = float(price.weights[0]), price.kappa
        near = np.clip(z, box.lo, box.hi)
        on = np.maximum(near, 0.0)
        least = stiffness * 0.0
        here, where = least.copy(), near.copy()
        self._single_terms(box, z, near, kappa, weight, least, here, where)
        f = self.rival @ on + self.rival_shift - self.level
        constant = -2.0 * weight * float(np.exp(f[self.mute]).sum())
        if len(self.plurals):
            constant += self._plural_terms(box, z, near, kappa, weight, least, here, where)
        r = self.rivals
        beta = self.slope[r] / self.jensen
        # Jensen: exp(f) <= exp(f*) sum_r p_r exp((x_r - x_r*) / p_r), p_r the weights.
        log_factor = f[self.rival_of] + np.log(self.jensen) - beta * on[r]
        term = _RivalTerm(z[r], kappa[r], weight, stiffness[r], beta, log_factor)
        here[r] = term.at(near[r])
        least[r], where[r] = term.least(box.lo[r], box.hi[r])
        size = abs(constant) + float(np.abs(least).sum() + np.abs(here).sum())
        return Terms(least, here, where, constant, size)

    def _single_terms(
        self,
        box: Box,
        z: ndarray,
        near: ndarray,
        kappa: ndarray,
        weight: float,
        least: ndarray,
        here: ndarray,
        where: ndarray,
    ) -> None:
        """-2 kappa s + 2 weight exp(b + a relu(z + s)): convex, with its least value in closed form."""
        r = self.singles
        shift, a, k = self.own_shift[self.single_of] - self.level, self.slope[r], kappa[r]
        with np.errstate(divide="ignore", invalid="ignore"):
            root = (np.log(np.maximum(k, 0.0) / (weight * a)) - shift) / a
        place = np.where(k > 0, np.maximum(np.nan_to_num(root, nan=0.0), 0.0), -np.inf)
        where[r] = np.clip(place, box.lo[r], box.hi[r])
        for values, places in ((least, where[r]), (here, near[r])):
            power = np.exp(shift + a * np.maximum(places, 0.0))
            values[r] = 2.0 * (weight * power - k * (places - z[r]))

    def _plural_terms(
        self,
        box: Box,
        z: ndarray,
        near: ndarray,
        kappa: ndarray,
        weight: float,
        least: ndarray,
        here: ndarray,
        where: ndarray,
    ) -> float:
        """exp f >= exp f* (1 + sum a_r (relu(z_r) - relu(z_r*))): two lines a neuron."""
        r, on = self.plurals, np.maximum(near, 0.0)
        power = np.exp(self.own @ on + self.own_shift - self.level)
        slope = weight * power[self.plural_of] * self.slope[r]
        k = kappa[r]
        places = np.stack([box.lo[r], box.hi[r], np.clip(0.0, box.lo[r], box.hi[r]), near[r]])
        values = 2.0 * (slope * np.maximum(places, 0.0) - k * (places - z[r]))
        best, column = values.argmin(axis=0), np.arange(len(r))
        least[r], here[r], where[r] = values[best, column], values[3], places[best, column]
        return 2.0 * weight * float((power * (1.0 - self.own @ on))[self.plural].sum())

    def cut_at(
        self, box: Box, terms: Terms | None, z: Float[ndarray, " M"]
    ) -> tuple[int, float] | None:
        """The rival that loses most, between where it is and where its term is least.

        Without terms, or if none loses, the widest one in its middle.
        """
        lo, hi = box.lo[self.rivals], box.hi[self.rivals]
        width = np.where(hi - lo > 1e-9 * (np.abs(hi) + np.abs(lo)), hi - lo, 0.0)
        if not width.any():
            return None
        lost = np.zeros_like(width)
        if terms is not None:
            lost = np.where(width > 0, (terms.here - terms.least)[self.rivals], 0.0)
        if terms is None or not lost.max() > 1e-12 * terms.size:
            i = int(width.argmax())
            return int(self.rivals[i]), float(0.5 * (lo[i] + hi[i]))
        i = int(lost.argmax())
        r = self.rivals[i]
        at = 0.5 * (min(max(z[r], lo[i]), hi[i]) + terms.where[r])
        return int(r), float(min(max(at, lo[i] + 0.1 * width[i]), hi[i] - 0.1 * width[i]))


class _RivalTerm:
    """h(x) = stiffness (x - z)^2 - 2 kappa (x - z) - 2 weight exp(c + beta relu(x)), elementwise."""

    def __init__(
        self,
        z: ndarray,
        kappa: ndarray,
        weight: float,
        stiffness: ndarray,
        beta: ndarray,
        log_factor: ndarray,
    ) -> None:
        self.z, self.kappa, self.weight, self.stiffness = z, kappa, weight, stiffness
        self.beta, self.log_factor = beta, log_factor

    def at(self, x: ndarray) -> ndarray:
        """h(x)."""
        s = x - self.z
        power = np.exp(self.log_factor + self.beta * np.maximum(x, 0.0))
        return np.asarray((self.stiffness * s - 2.0 * self.kappa) * s - 2.0 * self.weight * power)

    def slope(self, x: ndarray) -> ndarray:
        """h'(x) for x >= 0."""
        power = np.exp(self.log_factor + self.beta * x)
        return np.asarray(
            2.0 * (self.stiffness * (x - self.z) - self.kappa - self.weight * self.beta * power)
        )

    def least(self, lo: ndarray, hi: ndarray) -> tuple[ndarray, ndarray]:
        """A lower bound of h over [lo, hi], exact up to rounding, and where it is nearly attained."""
        vertex = np.clip(self.z + self.kappa / self.stiffness, lo, np.clip(0.0, lo, hi))
        start = np.clip(0.0, lo, hi)
        with np.errstate(divide="ignore"):
            bend = np.log(self.stiffness / (self.weight * self.beta**2)) - self.log_factor
        # Beyond `turn` the term is concave and its least value is at an end.
        turn = np.clip(bend / self.beta, start, hi)
        # Up to there h' is increasing and concave: Newton from the left stays left of its zero.
        x = start.copy()
        for _ in range(NEWTON):
            power = self.weight * self.beta * np.exp(self.log_factor + self.beta * x)
            curvature = self.stiffness - self.beta * power
            step = (self.stiffness * (x - self.z) - self.kappa - power) / np.where(
                curvature > 0, curvature, np.inf
            )
            x = np.clip(x - step, x, turn)
        places = np.stack([lo, vertex, start, hi, turn, x])
        values = self.at(places)
        # A convex function is above its tangent: sound however early Newton stopped.
        values[5] += np.minimum(self.slope(x), 0.0) * (turn - x)
        best, column = values.argmin(axis=0), np.arange(len(lo))
        return values[best, column], places[best, column]


def log_sum_exp(f: Float[ndarray, " c"]) -> tuple[float, Float[ndarray, " c"]]:
    """log sum exp f and its gradient, the softmax."""
    largest = f.max()
    powers = np.exp(f - largest)
    total = powers.sum()
    return float(largest + np.log(total)), powers / total
