"""l2 radii of networks of any depth, the decision at a radius, and both inside of a box."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.errors import InputError
from featavg.robustness.exact.budget import NUDGES, SAME_WITHIN, Candidate, Clock, Search, checked_witness
from featavg.robustness.exact.decision import Decision, attacked
from featavg.robustness.exact.deep.ball_search import BallSearch
from featavg.robustness.exact.deep.search import DeepSearch
from featavg.robustness.exact.everywhere import Everywhere
from featavg.robustness.exact.flip_conditions import Condition, conditions_of
from featavg.robustness.exact.layered_network import layered_of
from featavg.robustness.exact.result import EXACT_WITHIN, Answer, RadiusStatus, Solver
from featavg.robustness.exact.step_box import Bounds, StepBox

# Of the outputs: what flips by this much flips however its sums are rounded, and the search's own
# tolerance (`search.SATISFIED`) is half of it.
CLEARLY = 2e-10
# Coordinates of a witness below this, relative to the point's largest, are tried as zeros too: what a
# program's solution has there instead is its rounding.
ROUNDED = 1e-9
ALONE = 0.3  # of the time: for the ball without its box
WITHOUT = 0.5  # of the time: for the radius without its box


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
        # How far from zero the farthest kink of the first layer is; a weight of zero has none.
        lengths = self.layered.lengths
        self.kinks = float(np.max(np.abs(self.layered.offset[lengths > 0]) / lengths[lengths > 0], initial=0.0))

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
        reach = float(np.linalg.norm(x)) + self.kinks
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
        attack, witness = self._witness(x, label, found)
        if attack <= found.attack * (1.0 + EXACT_WITHIN):
            return _answer(found, attack, witness, reach)
        # The nearest flipped point is the tip of a cone that no nudge hits, or touches zero and turns
        # back. What can be shown is the nearest point that flips by more than rounding.
        margin = CLEARLY * (float(np.abs(self.layered.forward(z)[-1]).max()) or 1.0)
        clearly = [one.clear(margin) for one in search.conditions]
        rest = replace(clock, nodes=clock.nodes - found.nodes)
        clear = DeepSearch(self.layered, clearly, search.gap).at(z, reach, rest, radius)
        found.nodes += clear.nodes
        found.finished &= clear.finished
        other, point = self._witness(x, label, clear)
        return _answer(found, *((other, point) if other < attack else (attack, witness)), reach)

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


class Certifier(DeepSolver):
    """Whether anything flips within a radius, for networks of any depth.

    Args:
        decision: the network and its decision.
        labels: all labels that occur.
        gap: of a curved read-out.
        bounds: the lower and upper sides of a box that flips must be in.
    """

    def __init__(self, decision: Decision, labels: Iterable[int], gap: float, bounds: Bounds | None) -> None:
        super().__init__(decision, labels, gap)
        self.bounds = bounds

    def at(
        self, x: Float[ndarray, " N"], label: int, clock: Clock, hint: None = None, radius: float | None = None
    ) -> Answer:
        """What is within `radius` of one correctly classified point.

        What is certified without the box is certified with it, and a flip that happens to be in the
        box is one. Where a box cuts nothing, nothing else is asked.
        """
        assert radius is not None, "a decision is at a radius"
        box = None if self.bounds is None else StepBox.around(x, self.bounds, radius)
        if box is None or not box.cuts:
            return super().at(x, label, clock, hint, radius)
        search = self.balls.get(label)
        first = super().at(x, label, clock if search is None else clock.part(ALONE), hint, radius)
        if first.certified >= radius or self._in_box(first.witness, x, radius):
            return first
        nowhere, rest = np.full_like(x, np.nan), replace(clock, nodes=clock.nodes - first.nodes)
        if search is None or rest.spent(0):
            return Answer(0.0, np.inf, nowhere, first.nodes, finished=False)
        z, reach = self.layered.start(x[None])[0], float(np.linalg.norm(x)) + self.kinks
        shown = partial(self._shown, x, label, radius)
        found = search.at(z, reach, radius, rest, box, shown)
        nodes = first.nodes + found.nodes
        if found.attack <= radius:
            point = self._point(x, min(found.candidates, key=lambda one: one.length).u)
            return Answer(0.0, found.attack, point, nodes)
        return Answer(found.certified, np.inf, nowhere, nodes, found.finished)

    def _point(self, x: Float[ndarray, " N"], s: Float[ndarray, " N"]) -> Float[ndarray, " N"]:
        """x + s, inside of the box whatever is rounded."""
        assert self.bounds is not None
        return np.clip(x + s, *self.bounds)

    def _shown(self, x: ndarray, label: int, radius: float, s: ndarray) -> float | None:
        point = self._point(x, s)
        length = float(np.linalg.norm(point - x))
        flips = length <= radius and self.decision.margins(point[None], label)[0] <= 0
        return length if flips else None

    def _in_box(self, point: Float[ndarray, " N"], x: ndarray, radius: float) -> bool:
        assert self.bounds is not None
        inside = np.all((point >= self.bounds[0]) & (point <= self.bounds[1]))
        return bool(inside) and float(np.linalg.norm(point - x)) <= radius


def _answer(found: Search, attack: float, witness: ndarray, reach: float) -> Answer:
    certified, rounding = min(found.certified, attack), 1e-12 * reach
    return Answer(certified, attack, witness, found.nodes, found.finished, rounding)


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
        """The radius of one correctly classified point inside the box."""
        alone = replace(clock, deadline=clock.part(WITHOUT).deadline)
        first = self.plain.at(x, label, alone, hint, radius)
        inside = np.all((first.witness >= self.bounds[0]) & (first.witness <= self.bounds[1]))
        if inside or first.known is RadiusStatus.NEVER:
            return first
        sides = StepBox.around(x, self.bounds)
        if first.certified > sides.corner(self.order):
            return Answer.proven_never(x, first.nodes)
        rest = replace(clock, nodes=max(clock.nodes - first.nodes, 1))
        found = self.within(x, label, sides, rest)
        if found.known is RadiusStatus.NEVER:
            return replace(found, nodes=first.nodes + found.nodes)
        certified = min(max(first.certified, found.certified), found.attack)
        return replace(found, certified=certified, nodes=first.nodes + found.nodes)

    @abstractmethod
    def within(self, x: Float[ndarray, " N"], label: int, sides: StepBox, clock: Clock) -> Answer:
        """The radius where the box may cut."""


class BoxedSolver(FirstWithout):
    """The nearest flip in the box in l2, for networks of any depth."""

    def __init__(self, plain: Solver, decision: Decision, labels: Iterable[int], gap: float, bounds: Bounds) -> None:
        super().__init__(plain, bounds, 2)
        self.decision, self.gap = decision, gap
        net = layered_of(decision.net).unturned()
        # A coordinate whose sides are the same cannot move.
        self.net = replace(net, rows=net.first * (bounds[0] < bounds[1]))
        self.flips = {label: self._conditions(label) for label in labels}
        lengths = np.linalg.norm(net.first, axis=1)
        some = lengths > 0
        self.kinks = float(np.max(np.abs(net.offset[some]) / lengths[some], initial=0.0))

    def _conditions(self, label: int) -> list[Condition] | None:
        try:
            return conditions_of(self.decision, label)
        except InputError:  # a curved score that no search knows: attacks are left
            return None

    def within(self, x: Float[ndarray, " N"], label: int, sides: StepBox, clock: Clock) -> Answer:
        """What the search in all coordinates finds, and its shortest witness, re-checked."""
        flips = self.flips[label]
        if flips is None:
            radii, points = attacked(self.decision, x[None], np.array([label]), bounds=self.bounds)
            return Answer(0.0, float(radii[0]), points[0], 0)
        z, reach = self.net.start(x[None])[0], float(np.linalg.norm(x)) + self.kinks
        gap = 0.999 * self.gap if any(one.curved for one in flips) else SAME_WITHIN
        found = DeepSearch(self.net, flips, gap).at(z, reach, clock, sides=sides)
        if not found.candidates and found.finished and found.certified >= sides.corner(2):
            return Answer.proven_never(x, found.nodes)
        shown = partial(self._flipped, x, label, sides)
        attack, witness = checked_witness(x, found, shown)
        if attack > found.attack * (1.0 + EXACT_WITHIN) or attack == math.inf:
            # On the boundary rounding decides: what can be shown is a point that flips by more.
            margin = CLEARLY * (float(np.abs(self.net.forward(z)[-1]).max()) or 1.0)
            clearly = [one.clear(margin) for one in flips]
            rest = replace(clock, nodes=max(clock.nodes - found.nodes, 1))
            clear = DeepSearch(self.net, clearly, gap).at(z, reach, rest, sides=sides)
            found.nodes += clear.nodes
            found.finished &= clear.finished
            ends = [(attack, witness), checked_witness(x, clear, shown)]
            attack, witness = min(ends, key=lambda end: end[0])
        if attack == math.inf:
            radii, points = attacked(self.decision, x[None], np.array([label]), bounds=self.bounds)
            attack, witness = float(radii[0]), points[0]
        rounding = 1e-12 * reach
        return Answer(found.certified, attack, witness, found.nodes, found.finished, rounding)

    def _flipped(self, x: ndarray, label: int, sides: StepBox, candidate: Candidate) -> Float[ndarray, " N"] | None:
        """The candidate, nudged inwards between the sides until the network flips."""
        for step in _nudged(candidate, sides):
            point = np.clip(x + step, *self.bounds)
            if self.decision.margins(point[None], label)[0] <= 0:
                return np.asarray(point)
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
