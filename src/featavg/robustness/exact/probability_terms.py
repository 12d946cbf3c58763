r"""The separable bound for the probability read-out, neuron by neuron.

The bound (`branch_and_bound`) is a sum of one term for each neuron, minimised over its interval:

    rival neurons          stiffness s^2 - 2 kappa s - 2 weight exp(c + beta relu(z + s))
    own groups of one      -2 kappa s + 2 weight exp(b + a relu(z + s))
    own groups of several  -2 kappa s + 2 weight (tangent plane of exp f)

A rival group of several neurons is split among them by Jensen's inequality,

    exp(f) <= exp(f*) sum_r p_r exp((x_r - x_r*) / p_r),   p_r = 1 / size of the group,

which holds for any weights p and is equal at f*, the point that the price comes from. An own group
of several is bounded below by the tangent plane of exp at f*, since exp is convex. Exponentials are
taken relative to a level; where one overflows all the same the term is minus infinity, which proves
nothing and harms nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from featavg.robustness.exact.relaxation import Box, Price, Terms

NEWTON = 6


class ProbabilityTerms:
    """The terms of sum_{o in own} exp f_o <= sum_{v in rival} exp f_v."""

    def __init__(
        self,
        own: Float[ndarray, "o M"],
        own_shift: Float[ndarray, " o"],
        rival: Float[ndarray, "v M"],
        rival_shift: Float[ndarray, " v"],
    ) -> None:
        self.own, self.own_shift, self.rival, self.rival_shift = own, own_shift, rival, rival_shift
        self.slope = own.sum(axis=0) + rival.sum(axis=0)
        self.rivals = np.flatnonzero((rival > 0).any(axis=0))
        self.rival_of = (rival > 0).argmax(axis=0)[self.rivals]
        own_sizes, rival_sizes = (own > 0).sum(axis=1), (rival > 0).sum(axis=1)
        self.jensen = 1.0 / rival_sizes[self.rival_of]
        self.mute: Bool[ndarray, " v"] = rival_sizes == 0
        self.singles = np.flatnonzero((own[own_sizes == 1] > 0).any(axis=0))
        self.single_of = (own > 0).argmax(axis=0)[self.singles]
        self.plural = own_sizes != 1
        self.plurals = np.flatnonzero((own[self.plural] > 0).any(axis=0))
        self.plural_of = (own > 0).argmax(axis=0)[self.plurals]

    def at(
        self, box: Box, price: Price, z: Float[ndarray, " M"], stiffness: Float[ndarray, " M"], level: float
    ) -> Terms:
        """The terms over the box; `level` is subtracted from every exponent."""
        weight, kappa = float(price.weights[0]), price.kappa
        near = np.clip(z, box.lo, box.hi)
        on = np.maximum(near, 0.0)
        least = np.zeros(len(z))
        here, where = least.copy(), near.copy()
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            self._singles(box, z, near, kappa, weight, level, least, here, where)
            f = self.rival @ on + self.rival_shift - level
            constant = -2.0 * weight * float(np.exp(f[self.mute]).sum())
            if self.plural.any():
                constant += self._plurals(box, z, near, kappa, weight, level, least, here, where)
            r = self.rivals
            beta = self.slope[r] / self.jensen
            log_factor = f[self.rival_of] + np.log(self.jensen) - beta * on[r]
            term = RivalTerm(z[r], kappa[r], weight, stiffness[r], beta, log_factor)
            here[r] = term.at(near[r])
            least[r], where[r] = term.least(box.lo[r], box.hi[r])
            size = abs(constant) + float(np.abs(least).sum() + np.abs(here).sum())
        if not np.isfinite(size):
            least, constant = np.where(np.isfinite(least), least, -np.inf), -np.inf
        return Terms(least, here, where, constant, size)

    def _singles(
        self,
        box: Box,
        z: ndarray,
        near: ndarray,
        kappa: ndarray,
        weight: float,
        level: float,
        least: ndarray,
        here: ndarray,
        where: ndarray,
    ) -> None:
        """-2 kappa s + 2 weight exp(b + a relu(z + s)): convex, its least value in closed form."""
        r = self.singles
        shift, a, k = self.own_shift[self.single_of] - level, self.slope[r], kappa[r]
        root = (np.log(np.maximum(k, 0.0) / (weight * a)) - shift) / a
        # kappa > 0 pulls z up against the exponential; kappa <= 0 lets it fall to its lower end.
        place = np.where(k > 0, np.maximum(np.nan_to_num(root, nan=0.0), 0.0), -np.inf)
        where[r] = np.clip(place, box.lo[r], box.hi[r])
        for values, places in ((least, where[r]), (here, near[r])):
            power = np.exp(shift + a * np.maximum(places, 0.0))
            values[r] = 2.0 * (weight * power - k * (places - z[r]))

    def _plurals(
        self,
        box: Box,
        z: ndarray,
        near: ndarray,
        kappa: ndarray,
        weight: float,
        level: float,
        least: ndarray,
        here: ndarray,
        where: ndarray,
    ) -> float:
        """exp f >= exp f* (1 + sum a_r (relu(z_r) - relu(z_r*))): two lines for each neuron."""
        r, on = self.plurals, np.maximum(near, 0.0)
        power = np.exp(self.own @ on + self.own_shift - level)
        slope = weight * power[self.plural_of] * self.slope[r]
        k = kappa[r]
        places = np.stack([box.lo[r], box.hi[r], np.clip(0.0, box.lo[r], box.hi[r]), near[r]])
        values = 2.0 * (slope * np.maximum(places, 0.0) - k * (places - z[r]))
        best, column = values.argmin(axis=0), np.arange(len(r))
        least[r], here[r], where[r] = values[best, column], values[3], places[best, column]
        return 2.0 * weight * float((power * (1.0 - self.own @ on))[self.plural].sum())


@dataclass(frozen=True, eq=False)
class RivalTerm:
    """h(x) = stiffness (x - z)^2 - 2 kappa (x - z) - 2 weight exp(c + beta relu(x)), elementwise."""

    z: Float[ndarray, " q"]
    kappa: Float[ndarray, " q"]
    weight: float
    stiffness: Float[ndarray, " q"]
    beta: Float[ndarray, " q"]
    log_factor: Float[ndarray, " q"]

    def at(self, x: Float[ndarray, "*p q"]) -> Float[ndarray, "*p q"]:
        """The term itself, h(x)."""
        s = x - self.z
        power = np.exp(self.log_factor + self.beta * np.maximum(x, 0.0))
        return np.asarray((self.stiffness * s - 2.0 * self.kappa) * s - 2.0 * self.weight * power)

    def slope(self, x: Float[ndarray, " q"]) -> Float[ndarray, " q"]:
        """h'(x) for x >= 0."""
        power = np.exp(self.log_factor + self.beta * x)
        return np.asarray(2.0 * (self.stiffness * (x - self.z) - self.kappa - self.weight * self.beta * power))

    def least(
        self, lo: Float[ndarray, " q"], hi: Float[ndarray, " q"]
    ) -> tuple[Float[ndarray, " q"], Float[ndarray, " q"]]:
        """A lower bound of h over [lo, hi], exact up to rounding, and where it is nearly attained.

        Below zero h is a parabola. Above, h'' = 2 stiffness - 2 weight beta^2 exp(c + beta x) falls
        with x: h is convex up to `turn`, where h'' = 0, and concave beyond, where its least value
        is at an end. On the convex part h' is increasing and concave, so Newton's steps for h' = 0
        from the left end never overshoot, and the tangent where they stop is below h.
        """
        start = np.clip(0.0, lo, hi)
        vertex = np.clip(self.z + self.kappa / self.stiffness, lo, start)
        with np.errstate(divide="ignore"):
            bend = np.log(self.stiffness / (self.weight * self.beta**2)) - self.log_factor
        turn = np.clip(bend / self.beta, start, hi)
        x = start.copy()
        for _ in range(NEWTON):
            power = self.weight * self.beta * np.exp(self.log_factor + self.beta * x)
            curvature = self.stiffness - self.beta * power
            step = (self.stiffness * (x - self.z) - self.kappa - power) / np.where(curvature > 0, curvature, np.inf)
            x = np.clip(x - step, x, turn)
        places = np.stack([lo, vertex, start, hi, turn, x])
        values = self.at(places)
        # However early Newton stopped: between x and turn h is above its tangent at x.
        values[5] += np.minimum(self.slope(x), 0.0) * (turn - x)
        best, column = values.argmin(axis=0), np.arange(len(lo))
        return values[best, column], places[best, column]
