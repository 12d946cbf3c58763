r"""Steps inside a ball that a box cuts: least values of linear functions, and terms of the dual.

With a <= s <= b and |s| <= radius, a linear function g . s is at least

    sum_i min { g_i s + lambda s^2 : a_i <= s <= b_i } - lambda radius^2        for any lambda >= 0,

and for multipliers mu >= 0 every term mu_i (s_i - a_i) (s_i - b_i) is at most zero.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.robustness.exact.deep.layered_network import Layered

HALVINGS = 50  # of the interval in which lambda lies
INSIDE = 1.0 - 1e-12  # of the radius: a projected step stays in the ball whatever is rounded


@dataclass(frozen=True, eq=False)
class Box:
    """The steps s with low <= s <= high and |s| <= radius.

    Attributes:
        low, high: low <= 0 <= high, neither beyond the radius: a side that the ball does not reach is
            as far as the ball.
        radius: of the ball.
        basis: columns of an orthonormal basis in which steps are written; None for all coordinates.
    """

    low: Float[ndarray, " N"]
    high: Float[ndarray, " N"]
    radius: float
    basis: Float[ndarray, "N r"] | None = None

    @classmethod
    def around(
        cls,
        x: Float[ndarray, " N"],
        bounds: tuple[Float[ndarray, " N"], Float[ndarray, " N"]],
        radius: float,
    ) -> Box:
        """The steps from x that stay within the bounds and the radius.

        >>> Box.around(np.array([0.0, 0.9]), (np.zeros(2), np.ones(2)), 0.5).low
        array([ 0. , -0.5])
        """
        # A difference is rounded to nearest: one step outwards, it is not inside of the true one.
        low = np.nextafter(bounds[0] - x, -np.inf, where=bounds[0] < x, out=np.zeros_like(x))
        high = np.nextafter(bounds[1] - x, np.inf, where=bounds[1] > x, out=np.zeros_like(x))
        return cls(np.maximum(low, -radius), np.minimum(high, radius), radius)

    @property
    def cuts(self) -> bool:
        """Whether any side is inside of the ball."""
        return bool(np.any(self.low > -self.radius) or np.any(self.high < self.radius))

    @property
    def whole(self) -> Box:
        """The same in all coordinates."""
        return replace(self, basis=None)

    def lowest(self, g: Float[ndarray, "p N"]) -> tuple[Float[ndarray, " p"], ndarray]:
        """A lower bound of g . s for each row, and steps at which it is (nearly) attained.

        >>> box = Box(np.array([0.0, -1.0]), np.array([1.0, 1.0]), 1.0)
        >>> box.lowest(np.array([[3.0, 4.0], [-3.0, -4.0]]))[0].round(9)
        array([-4., -5.])
        """
        small, large = np.zeros(len(g)), np.sqrt(np.einsum("pn,pn->p", g, g)) / (2.0 * self.radius)
        corner = np.where(g > 0, self.low, self.high)
        within = np.einsum("pn,pn->p", corner, corner) <= self.radius**2
        for _ in range(HALVINGS):
            middle = 0.5 * (small + large)
            s = self._at(g, middle)
            far = np.einsum("pn,pn->p", s, s) > self.radius**2
            small, large = np.where(far, middle, small), np.where(far, large, middle)
        multiplier = np.where(within, 0.0, large)
        s = np.where(within[:, None], corner, self._at(g, large))
        values = np.einsum("pn,pn->p", g + multiplier[:, None] * s, s)
        return values - multiplier * self.radius**2, s

    def _at(self, g: Float[ndarray, "p N"], multiplier: Float[ndarray, " p"]) -> ndarray:
        """Where g . s + multiplier |s|^2 is least between the sides."""
        return np.clip(g / np.minimum(-2.0 * multiplier, -1e-300)[:, None], self.low, self.high)

    def projected(self, s: Float[ndarray, "n N"]) -> Float[ndarray, "n N"]:
        """The nearest points of the ball and the box."""
        small, large = np.zeros(len(s)), np.ones(len(s))
        limit = (INSIDE * self.radius) ** 2
        clipped = np.clip(s, self.low, self.high)
        far = np.einsum("pn,pn->p", clipped, clipped) > limit
        for _ in range(HALVINGS if far.any() else 0):
            share = 0.5 * (small + large)
            tried = np.clip(share[:, None] * s, self.low, self.high)
            out = np.einsum("pn,pn->p", tried, tried) > limit
            small, large = np.where(out, small, share), np.where(out, share, large)
        shorter = np.clip(small[:, None] * s, self.low, self.high)
        return np.asarray(np.where(far[:, None], shorter, clipped))

    def terms(self, multiplier: float, shares: Float[ndarray, " N"]) -> BoxTerms:
        """lambda (|s|^2 - radius^2) + sum_i mu_i (s_i - low_i) (s_i - high_i), mu = lambda shares^2."""
        mu = multiplier * shares**2
        weights, slopes = multiplier + mu, -mu * (self.low + self.high)
        constant = float(mu @ (self.low * self.high)) - multiplier * self.radius**2
        if self.basis is None:
            return BoxTerms(self, shares, weights, slopes, np.diag(weights), slopes, constant)
        # The least value over all steps with the same u = basis^T s: (u - v)^T K^-1 (u - v) + rest.
        scaled = self.basis / np.sqrt(weights)[:, None]
        inverse = np.linalg.inv(scaled.T @ scaled)
        v = -0.5 * (slopes / weights) @ self.basis
        constant += float(v @ inverse @ v) - 0.25 * float(slopes @ (slopes / weights))
        return BoxTerms(self, shares, weights, slopes, inverse, -2.0 * inverse @ v, constant)


@dataclass(frozen=True, eq=False)
class BoxTerms:
    """The form u^T matrix u + linear . u + constant that stands for the ball and the box.

    Attributes:
        box: where the steps are.
        shares: roots of mu over lambda.
        weights, slopes: the terms weights . s^2 + slopes . s in all coordinates.
        matrix, linear, constant: the form.
    """

    box: Box
    shares: Float[ndarray, " N"]
    weights: Float[ndarray, " N"]
    slopes: Float[ndarray, " N"]
    matrix: Float[ndarray, "r r"]
    linear: Float[ndarray, " r"]
    constant: float

    def step(self, u: Float[ndarray, " r"]) -> Float[ndarray, " N"]:
        """The step in all coordinates at which the terms are least, given u."""
        if self.box.basis is None:
            return u
        push = self.box.basis @ (2.0 * self.matrix @ u + self.linear)
        return np.asarray(0.5 * (push - self.slopes) / self.weights)

    def gradient(
        self, u: Float[ndarray, " r"], multiplier: float
    ) -> tuple[float, Float[ndarray, " N"]]:
        """The derivatives of the form at u, in log lambda and in the shares."""
        s, box = self.step(u), self.box
        terms = (s - box.low) * (s - box.high)
        first = float(s @ s) - box.radius**2 + float(self.shares**2 @ terms)
        return multiplier * first, 2.0 * multiplier * self.shares * terms

    def curving(
        self, inverse: Float[ndarray, "r r"], multiplier: float
    ) -> tuple[float, Float[ndarray, " N"]]:
        """The derivatives of trace(inverse matrix), the inverse being held."""
        basis = self.box.basis
        assert basis is not None, "only the short form is ascended"
        around = self.matrix @ inverse @ self.matrix
        each = np.einsum("nr,nr->n", basis @ around, basis) / self.weights**2
        return float(each @ self.weights), 2.0 * multiplier * self.shares * each


def unturned(net: Layered) -> Layered:
    """The network in all coordinates of the input: a box has no sides in the span of a layer."""
    return replace(net, rows=net.first, basis=np.zeros((net.first.shape[1], 0)))
