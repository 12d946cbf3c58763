"""l2 radii of networks of any depth, the decision at a radius, and both inside a box."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.errors import InputError
from featavg.robustness.exact.budget import NUDGES, SAME_WITHIN, Candidate, Clock, Search, checked_witness
from featavg.robustness.exact.decision import Decision, attacked
from featavg.robustness.exact.deep.ball_search import BallSearch
from featavg.robustness.exact.deep.search import DeepSearch
from featavg.robustness.exact.everywhere import Everywhere
from featavg.robustness.exact.flip_conditions import Condition, conditions_of
from featavg.robustness.exact.layered_network import layered_of
from featavg.robustness.exact.result import EXACT_WITHIN, Answer, Solver
from featavg.robustness.exact.step_box import Bounds, FirstWithout, StepBox

# Of the outputs: what flips by this much flips however its sums are rounded, and the search's own
# tolerance (`search.SATISFIED`) is half of it.
CLEARLY = 2e-10
# Coordinates of a witness below this, relative to the point's largest, are tried as zeros too: what a
# program's solution has there instead is its rounding.
ROUNDED = 1e-9


class DeepSolver(Solver):
    """The searches for one network, one for each label, made once and used for all points."""

    def __init__(self, decision: Decision, labels: Iterable[int], gap: float) -> None:
        self.decision, self.layered = decision, layered_of(decision.net)
        self.searches: dict[int, DeepSearch] = {}
        self.balls: dict[int, BallSearch] = {}
        self.whole = Everywhere(self.layered)
        for label in labels:
            flips = conditions_of(decision, label)
            curved = any(one.curved for one in flips)
            within = 0.999 * gap if curved else SAME_WITHIN
            self.searches[label] = DeepSearch(self.layered, flips, within)
            if not curved:
                self.balls[label] = BallSearch(self.layered, flips)

    def at(
        self, x: Float[ndarray, " N"], label: int, clock: Clock, hint: None = None, radius: float | None = None
    ) -> Answer:
        """The radius of one correctly classified point, or what is within `radius`.

        For the decision at a radius, bounds of the ball come first: most neurons keep their sign in
        a small ball, and its bounds decide wide networks at once. A part that they cannot close,
        because all of its signs are decided and the boundary is as far as the radius itself, is one
        for the search that ends exactly.
        """
        z = self.layered.start(x[None])[0]
        reach = self.layered.reach(x)
        if radius is not None and label in self.balls:
            found = self.balls[label].at(z, reach, radius, clock)
            attack, witness = math.inf, np.full_like(x, np.nan)
            if found.attack <= radius * (1.0 + EXACT_WITHIN):
                attack, witness = self._witness(x, label, found)
            if attack <= radius or found.certified >= radius or clock.spent(found.nodes):
                return _answer(found, attack, witness, reach)
            clock = replace(clock, nodes=clock.nodes - found.nodes)
        return self._nearest(x, z, reach, label, clock, radius)

    def _nearest(
        self,
        x: Float[ndarray, " N"],
        z: Float[ndarray, " m"],
        reach: float,
        label: int,
        clock: Clock,
        radius: float | None,
    ) -> Answer:
        """What the search finds, and its shortest witness, re-checked."""
        search = self.searches[label]
        if self.whole.never(label):
            return Answer.proven_never(x, 0)
        found = search.at(z, reach, clock, radius)
        if radius is None and not found.candidates:
            # Nothing flips as far as balls were searched: does anything, anywhere?
            whole = self.whole.at(label, search.conditions, clock)
            if whole.never:
                return Answer.proven_never(x, found.nodes)
            if whole.flip is not None:
                far = np.linalg.lstsq(self.layered.rows, whole.flip - z)[0]
                rest = replace(clock, nodes=clock.nodes - found.nodes)
                first, found = found, search.at(z, reach, rest, None, far)
                found.nodes += first.nodes
                found.certified = max(found.certified, first.certified)
        witness = partial(self._witness, x, label)
        return _witnessed(search, found, witness, clock, z, reach, radius)

    def _witness(self, x: Float[ndarray, " N"], label: int, found: Search) -> tuple[float, Float[ndarray, " N"]]:
        return checked_witness(x, found, partial(self._flipped, x, label))

    def _flipped(self, x: ndarray, label: int, candidate: Candidate) -> ndarray | None:
        """The candidate, nudged outwards and away from its constraints until the network flips."""
        for nudge, way in self._nudged(x, label, candidate):
            point = np.asarray(x + self.layered.basis @ (candidate.u + nudge * way))
            # A tie at the origin or on an axis is there only where coordinates are really zero.
            zeroed = np.where(np.abs(point) <= ROUNDED * np.abs(x).max(), 0.0, point)
            for tried in (point, zeroed):
                if self.decision.margins(tried[None], label)[0] <= 0:
                    return tried
        return None

    def _nudged(self, x: ndarray, label: int, candidate: Candidate) -> Iterator[tuple[float, Float[ndarray, " r"]]]:
        ways = [candidate.u]
        yield 0.0, candidate.u
        if len(candidate.rows) > 1:
            ways.append(candidate.length * candidate.inwards())
        yield from product(NUDGES[:1], ways)
        # Seldom needed, and long in a large network.
        kinks = self._off_kinks(x, self.searches[label].conditions, candidate)
        yield from product(NUDGES[:1], kinks)
        yield from product(NUDGES[1:], ways + kinks)

    def _off_kinks(self, x: ndarray, flips: Sequence[Condition], candidate: Candidate) -> list[Float[ndarray, " r"]]:
        """Ways that leave the neurons at their kinks on the sides where the outputs are flipped."""
        start = self.layered.start(x[None])[0]
        scales = self.layered.forward(start)
        layers = self.layered.forward(start + self.layered.rows @ candidate.u)
        rows = [self.layered.kinks(layers, scales, one.reached(layers[-1])) for one in flips]
        return [candidate.length * replace(candidate, rows=some).inwards() for some in rows]


def _witnessed(
    search: DeepSearch,
    found: Search,
    witness: Callable[[Search], tuple[float, Float[ndarray, " N"]]],
    clock: Clock,
    z: Float[ndarray, " m"],
    reach: float,
    radius: float | None,
    sides: StepBox | None = None,
) -> Answer:
    """What was found, with its shortest witness."""
    attack, point = witness(found)
    if attack > found.attack * (1.0 + EXACT_WITHIN):
        # The nearest flipped point is the tip of a cone that no nudge hits, or touches zero and turns
        # back. What can be shown is the nearest point that flips by more than rounding.
        margin = CLEARLY * (float(np.abs(search.net.forward(z)[-1]).max()) or 1.0)
        clearly = [one.clear(margin) for one in search.conditions]
        rest = replace(clock, nodes=clock.nodes - found.nodes)
        clear = DeepSearch(search.net, clearly, search.gap).at(z, reach, rest, radius, sides=sides)
        found.nodes += clear.nodes
        found.finished &= clear.finished
        attack, point = min((attack, point), witness(clear), key=lambda end: end[0])
    return _answer(found, attack, point, reach)


def _answer(found: Search, attack: float, witness: ndarray, reach: float) -> Answer:
    certified, rounding = min(found.certified, attack), 1e-12 * reach
    return Answer(certified, attack, witness, found.nodes, found.finished, rounding)


class BoxedSolver(FirstWithout):
    """The nearest flip in the box in l2, or what is within a radius there, for networks of any depth."""

    def __init__(self, plain: Solver, decision: Decision, labels: Iterable[int], gap: float, bounds: Bounds) -> None:
        super().__init__(plain, bounds, 2)
        self.decision, self.gap = decision, gap
        net = layered_of(decision.net).unturned()
        # A coordinate whose sides are the same cannot move.
        self.net = replace(net, rows=net.first * (bounds[0] < bounds[1]))
        self.flips = {label: self._conditions(label) for label in labels}
        self.balls = plain.balls if isinstance(plain, DeepSolver) else {}

    def _conditions(self, label: int) -> list[Condition] | None:
        try:
            return conditions_of(self.decision, label)
        except InputError:  # a curved score that no search knows: attacks are left
            return None

    def within(self, x: Float[ndarray, " N"], label: int, sides: StepBox, clock: Clock, radius: float | None) -> Answer:
        """What the search in all coordinates finds, and its shortest witness, re-checked."""
        flips = self.flips[label]
        if flips is None:
            return self._attacked(x, label, Search())
        z, reach = self.net.start(x[None])[0], self.net.reach(x)
        if radius is not None and label in self.balls:
            ball = self.balls[label].at(z, reach, radius, clock, sides, partial(self._shown, x, label, radius))
            if ball.attack <= radius:
                step = min(ball.candidates, key=lambda one: one.length).u
                return _answer(ball, ball.attack, self._point(x, step), reach)
            if ball.certified >= radius or clock.spent(ball.nodes):
                return _answer(ball, math.inf, np.full_like(x, np.nan), reach)
            clock = replace(clock, nodes=clock.nodes - ball.nodes)
        search = DeepSearch(self.net, flips, 0.999 * self.gap if any(one.curved for one in flips) else SAME_WITHIN)
        found = search.at(z, reach, clock, radius, sides=sides)
        if not found.candidates and found.finished and found.certified >= sides.corner(2):
            return Answer.proven_never(x, found.nodes)
        flipped = partial(self._flipped, x, label, sides)
        witness = partial(checked_witness, x, shown=flipped)
        answer = _witnessed(search, found, witness, clock, z, reach, radius, sides)
        return self._attacked(x, label, found) if answer.attack == math.inf and radius is None else answer

    def _attacked(self, x: Float[ndarray, " N"], label: int, found: Search) -> Answer:
        """Where no search shows a flip, attacks may."""
        radii, points = attacked(self.decision, x[None], np.array([label]), bounds=self.bounds)
        return _answer(found, float(radii[0]), points[0], 0.0)

    def _point(self, x: Float[ndarray, " N"], s: Float[ndarray, " N"]) -> Float[ndarray, " N"]:
        """x + s, inside the box whatever is rounded."""
        return np.clip(x + s, *self.bounds)

    def _shown(self, x: ndarray, label: int, radius: float, s: ndarray) -> float | None:
        point = self._point(x, s)
        length = float(np.linalg.norm(point - x))
        flips = length <= radius and self.decision.margins(point[None], label)[0] <= 0
        return length if flips else None

    def _flipped(self, x: ndarray, label: int, sides: StepBox, candidate: Candidate) -> Float[ndarray, " N"] | None:
        """The candidate, nudged inwards between the sides until the network flips."""
        for step in _nudged(candidate, sides):
            point = self._point(x, step)
            if self.decision.margins(point[None], label)[0] <= 0:
                return point
        return None


def _nudged(candidate: Candidate, sides: StepBox) -> Iterator[Float[ndarray, " N"]]:
    """The step itself and ever larger nudges: along it, and inwards in the coordinates that are free."""
    free = sides.free(candidate.u)
    ways = [candidate.u]
    rows = candidate.rows * free
    rows = rows[np.abs(rows).max(axis=1, initial=0.0) > 0]
    if len(rows):
        ways.append(candidate.length * replace(candidate, rows=rows).inwards())
    yield candidate.u
    for nudge in NUDGES:
        for way in ways:
            yield sides.clip(candidate.u + nudge * way)
