r"""The steps that a box, and perhaps a ball, leave from a point: least values and nearest points.

With a <= s <= b and |s| <= radius, a linear function g . s is at least

    sum_i min { g_i s + lambda s^2 : a_i <= s <= b_i } - lambda radius^2        for any lambda >= 0.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray

from featavg.robustness.exact.budget import Clock
from featavg.robustness.exact.result import Answer, RadiusStatus, Solver
from featavg.robustness.models.norms import to_halfspace

HALVINGS = 50  # of the interval in which lambda lies
INSIDE = 1.0 - 1e-12  # of the radius: a projected step stays in the ball whatever is rounded
WITHOUT = 0.3  # of the budget: for what the ball alone decides
FARTHER = 1e-9  # relative: nothing of the box is this much beyond its corner, whatever is rounded

# The lower and the upper sides of a box.
Bounds = tuple[Float[ndarray, " N"], Float[ndarray, " N"]]


@dataclass(frozen=True, eq=False)
class StepBox:
    """The steps s with low <= s <= high and |s| <= radius from a point of the box.

    Attributes:
        low, high: low <= 0 <= high, neither beyond the radius: a side that the ball does not reach is
            as far as the ball.
        radius: of the ball; infinite for the box alone.
    """

    low: Float[ndarray, " N"]
    high: Float[ndarray, " N"]
    radius: float = math.inf

    @classmethod
    def around(cls, x: Float[ndarray, " N"], bounds: Bounds, radius: float = math.inf) -> StepBox:
        """The steps from x that stay within the bounds and the radius.

        >>> StepBox.around(np.array([0.0, 0.9]), (np.zeros(2), np.ones(2)), 0.5).low
        array([ 0. , -0.5])
        """
        # A difference is rounded to nearest: one step outwards, it is not inside of the true one.
        low = np.nextafter(bounds[0] - x, -np.inf, where=bounds[0] < x, out=np.zeros_like(x))
        high = np.nextafter(bounds[1] - x, np.inf, where=bounds[1] > x, out=np.zeros_like(x))
        return cls(low, high).within(radius)

    def within(self, radius: float) -> StepBox:
        """The steps no longer than this."""
        return StepBox(np.maximum(self.low, -radius), np.minimum(self.high, radius), radius)

    @property
    def cuts(self) -> bool:
        """Whether any side is inside of the ball."""
        return bool(np.any(self.low > -self.radius) or np.any(self.high < self.radius))

    def corner(self, order: float) -> float:
        """The length of the longest step in this norm, or a little more.

        >>> box = StepBox.around(np.array([0.0, 0.5]), (np.zeros(2), np.ones(2)))
        >>> round(box.corner(2), 6)
        1.118034
        """
        longest = np.maximum(-self.low, self.high)
        return float(np.linalg.norm(longest, order)) * (1.0 + FARTHER)

    def clip(self, steps: Float[ndarray, "... N"]) -> Float[ndarray, "... N"]:
        """The steps, each coordinate moved between its sides."""
        return np.clip(steps, self.low, self.high)

    def free(self, step: Float[ndarray, " N"]) -> Bool[ndarray, " N"]:
        """The coordinates that are not at a side."""
        return np.asarray((step > self.low) & (step < self.high))

    def toward(self, gradient: Float[ndarray, " N"], gap: float) -> Float[ndarray, " N"]:
        """The shortest step with gradient . s <= -gap between the sides; as far as it goes if none is."""
        sides = cast(Any, (self.low, self.high))
        origin = np.zeros((1, len(gradient)))
        return to_halfspace(origin, gradient[None], np.array([gap]), "l2", sides)[0][0]

    def lowest(self, g: Float[ndarray, "p N"]) -> tuple[Float[ndarray, " p"], ndarray]:
        """A lower bound of g . s for each row, and steps at which it is (nearly) attained.

        >>> box = StepBox(np.array([0.0, -1.0]), np.array([1.0, 1.0]), 1.0)
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


class FirstWithout(Solver):
    """Asks without the box first: its radius is a lower bound, and a witness in the box is the answer.

    Args:
        plain: the solver without the box.
        bounds: the sides of the box, which holds every point.
        order: 2 or infinity, of the norm.
    """

    def __init__(self, plain: Solver, bounds: Bounds, order: float) -> None:
        self.plain, self.bounds, self.order = plain, bounds, order

    def hints(self, x: Float[ndarray, "n N"], y: Int[ndarray, " n"], where: Int[ndarray, " q"]) -> list[object]:
        """Those of the solver without the box."""
        return self.plain.hints(x, y, where)

    def at(
        self, x: Float[ndarray, " N"], label: int, clock: Clock, hint: object = None, radius: float | None = None
    ) -> Answer:
        """The radius of one correctly classified point inside the box, or what is within `radius`."""
        sides = StepBox.around(x, self.bounds, math.inf if radius is None else radius)
        if not sides.cuts:
            return self.plain.at(x, label, clock, hint, radius)
        first = self.plain.at(x, label, clock.part(WITHOUT), hint, radius)
        inside = np.all((first.witness >= self.bounds[0]) & (first.witness <= self.bounds[1]))
        shown = inside and (radius is None or first.attack <= radius)
        if shown or first.known is RadiusStatus.NEVER or (radius is not None and first.certified >= radius):
            return first
        if first.certified > sides.corner(self.order):
            return Answer.proven_never(x, first.nodes)
        rest = replace(clock, nodes=max(clock.nodes - first.nodes, 1))
        found = self.within(x, label, sides, rest, radius)
        if found.known is RadiusStatus.NEVER:
            return replace(found, nodes=first.nodes + found.nodes)
        certified = min(max(first.certified, found.certified), found.attack)
        return replace(found, certified=certified, nodes=first.nodes + found.nodes)

    @abstractmethod
    def within(self, x: Float[ndarray, " N"], label: int, sides: StepBox, clock: Clock, radius: float | None) -> Answer:
        """The same where the box may cut."""
