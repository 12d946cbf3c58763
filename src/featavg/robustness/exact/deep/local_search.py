"""Flipped points near zero: projections on the linearised boundary, and line searches."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.robustness.exact.budget import Candidate, Clock, Search
from featavg.robustness.exact.flip_conditions import Condition
from featavg.robustness.exact.layered_network import Layered
from featavg.robustness.exact.step_box import StepBox

# Random starts: at these multiples of |x|, how many each, and how many of those that flip are
# followed.
RANGES, STARTS, TRIED = (0.25, 0.5, 1.0, 2.0, 4.0, 16.0), 48, 3
# Where the line search looks: most boundaries are at, or just beyond, the linearised one, which is
# two thirds of the way to its end.
GRID = np.concatenate([np.linspace(0.05, 0.65, 7), [2 / 3 * (1 + 1e-9), 0.7, 0.75, 0.8, 0.9, 1.0]])
DESCENTS = 30  # steps inside a ball
FARTHEST = 1e3  # times |x|: a projection beyond it is not followed

BOX_STARTS, BOX_STEPS = 24, 80  # of the attack in a box
SHRINK = 0.95  # of a step, each time
LONGEST = 0.5  # of the radius: the first step


class LocalSearch:
    """Upper ends for branch and bound; everything it keeps flips the network, between the sides."""

    def __init__(
        self,
        net: Layered,
        z: Float[ndarray, " m"],
        reach: float,
        kept: Search,
        clock: Clock,
        sides: StepBox | None = None,
    ) -> None:
        self.net, self.z, self.reach, self.kept, self.clock, self.sides = net, z, reach, kept, clock, sides

    def excess(self, condition: Condition, steps: Float[ndarray, "n r"]) -> Float[ndarray, " n"]:
        """The condition's excess at each step: at most zero where it is reached."""
        outputs = self.net.forward(self.z + steps @ self.net.rows.T)[-1]
        return np.asarray(condition.excess(outputs))

    def start(self, condition: Condition, far: Float[ndarray, " r"] | None = None) -> None:
        """First candidates: from zero, and from random flips, the nearest first; or from a far one."""
        r = self.net.rows.shape[1]
        if far is not None:
            if self.excess(condition, far[None])[0] <= 0:
                self._line(condition, far / 1.5, math.sqrt(far @ far) / 1.5)
            return
        self.project(condition, np.zeros(r))
        # Where gradients are dead or point elsewhere, a random flip is a start.
        draws = np.random.default_rng(0).standard_normal((len(RANGES) * STARTS, r))
        lengths = np.repeat(RANGES, STARTS) * self.reach
        steps = draws * (lengths / np.sqrt(np.einsum("nr,nr->n", draws, draws)))[:, None]
        flipped = np.flatnonzero(self.excess(condition, self._inside(steps)) <= 0)
        for index in flipped[np.argsort(lengths[flipped], kind="stable")][:TRIED]:
            self._line(condition, steps[index] / 1.5, lengths[index] / 1.5)
            nearest_flip = min(self.kept.candidates, key=lambda kept: kept.length, default=None)
            self.project(condition, steps[index] if nearest_flip is None else nearest_flip.u)

    def project(self, condition: Condition, u: Float[ndarray, " r"]) -> None:
        """Project zero on the linearised condition, again and again, with a line search each time."""
        for _ in range(8):
            if self.clock.late:
                return
            layers = self.net.forward(self.z + self.net.rows @ u)
            excess, functional = condition.linearised(layers[-1])
            gradient = self.net.gradient(layers, functional)
            square = float(gradient @ gradient)
            if not square > 0.0:
                return
            # The nearest point of {excess + gradient . (v - u) <= 0} to zero.
            level = excess - float(gradient @ u)
            if self.sides is None:
                step = gradient * (-max(level, 0.0) / square)
            else:
                step = self.sides.toward(gradient, max(level, 0.0))
            length = math.sqrt(step @ step)
            if not 0.0 < length <= FARTHEST * self.reach:
                return
            self._line(condition, step, length)
            if float(np.abs(step - u).max()) <= 1e-9 * length:
                return
            u = step

    def descend(self, condition: Condition, u: Float[ndarray, " r"], radius: float) -> None:
        """Go down inside the ball of this radius, in ever shorter steps, until something flips."""
        for number in range(DESCENTS):
            if self.clock.late:
                return
            layers = self.net.forward(self.z + self.net.rows @ u)
            excess, functional = condition.linearised(layers[-1])
            length = math.sqrt(u @ u)
            if excess <= 0.0:
                self._line(condition, u / 1.5, length / 1.5)
                return
            gradient = self.net.gradient(layers, functional)
            size = math.sqrt(gradient @ gradient)
            if not size > 0.0:
                return
            u = u - gradient * (0.5 * radius * 0.9**number / size)
            u = u * min(1.0, radius / math.sqrt(u @ u))

    def _line(self, condition: Condition, step: Float[ndarray, " r"], length: float) -> None:
        """Keep the first flip along the step, and a little beyond it, if that is shorter."""
        low, high = 0.0, 1.5 if self.sides is not None else min(1.5, self.kept.attack / length)
        for _ in range(4):
            factors = low + (high - low) * GRID
            flips = self.excess(condition, self._inside(factors[:, None] * step)) <= 0
            if not flips.any():
                return
            first = int(flips.argmax())
            low, high = (float(factors[first - 1]) if first else low), float(factors[first])
        found, size = self._inside(high * step), high * length
        if self.sides is not None:
            size = math.sqrt(found @ found)
        if size < self.kept.attack:
            self.kept.candidates.append(Candidate(size, found, -step[None] / length))

    def _inside(self, steps: ndarray) -> ndarray:
        """The steps, clipped to the sides."""
        return steps if self.sides is None else self.sides.clip(steps)


class BoxAttack:
    """Upper ends for branch and bound in a box; everything it keeps was evaluated.

    Args:
        net: the network in all coordinates of the input.
        z: pre-activations of its first layer in the centre.
        box: where steps may be.
        kept: where a flip goes.
        clock: a step of many starts in a large network is long.
        shown: the length of a step that, evaluated plainly, flips inside of box and ball; or None.
    """

    def __init__(
        self,
        net: Layered,
        z: Float[ndarray, " m"],
        box: StepBox,
        kept: Search,
        clock: Clock,
        shown: Callable[[ndarray], float | None],
    ) -> None:
        self.net, self.z, self.box, self.kept, self.clock, self.shown = net, z, box, kept, clock, shown

    def start(self, condition: Condition) -> None:
        """From the centre, from where its slope is least, and from random points."""
        draws = np.random.default_rng(0).standard_normal((BOX_STARTS, len(self.box.low)))
        draws *= self.box.radius / np.sqrt(np.einsum("nd,nd->n", draws, draws))[:, None]
        draws[0] = 0.0
        self.descend(condition, draws)

    def descend(self, condition: Condition, steps: Float[ndarray, "n N"]) -> None:
        """Go down from all of these at once, in ever shorter steps, until something flips."""
        box = self.box
        s = box.projected(np.atleast_2d(steps))
        # The least point of the slope at each start is a start of its own.
        s = np.concatenate([s, box.projected(box.lowest(self._slopes(condition, s)[1])[1])])
        for number in range(BOX_STEPS):
            if self.clock.late:
                return
            excess, slopes = self._slopes(condition, s)
            for i in np.argsort(excess)[: int(np.sum(excess <= 0.0))]:
                if self._keep(s[i]):
                    return
            sizes = np.sqrt(np.einsum("nd,nd->n", slopes, slopes))
            length = LONGEST * box.radius * SHRINK**number
            s = box.projected(s - slopes * (length / np.maximum(sizes, 1e-300))[:, None])
        excess, _ = self._slopes(condition, s)
        if float(excess.min()) <= 0.0:
            self._keep(s[int(excess.argmin())])

    def _slopes(
        self, condition: Condition, s: Float[ndarray, "n N"]
    ) -> tuple[Float[ndarray, " n"], Float[ndarray, "n N"]]:
        """How far the condition is from being reached at each step, and in which direction."""
        layers = self.net.forward(self.z + s @ self.net.rows.T)
        rows, shifts = condition.functionals(None, None, layers[-1][0])
        values = layers[-1] @ rows.T + shifts
        functional = rows[values.argmax(axis=1)]
        return values.max(axis=1), self.net.gradient(layers, functional)

    def _keep(self, s: Float[ndarray, " N"]) -> bool:
        length = self.shown(s)
        if length is None:
            return False
        row = s[None] / max(math.sqrt(s @ s), 1e-300)
        self.kept.candidates.append(Candidate(length, s, -row))
        return True
