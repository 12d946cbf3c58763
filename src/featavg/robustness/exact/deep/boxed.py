"""l2 radii inside a box: the radius without it where that will do, a search with its sides where not."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.errors import InputError
from featavg.robustness.exact.budget import NUDGES, SAME_WITHIN, Candidate, Clock, checked_witness
from featavg.robustness.exact.decision import Decision, attacked
from featavg.robustness.exact.deep.search import DeepSearch
from featavg.robustness.exact.deep.solver import CLEARLY
from featavg.robustness.exact.flip_conditions import Condition, conditions_of
from featavg.robustness.exact.layered_network import layered_of
from featavg.robustness.exact.result import EXACT_WITHIN, Answer, RadiusStatus, Solver
from featavg.robustness.exact.step_box import Bounds, StepBox

ALONE = 0.5  # of the time: for the radius without its box


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
        alone = replace(clock, deadline=clock.part(ALONE).deadline)
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
