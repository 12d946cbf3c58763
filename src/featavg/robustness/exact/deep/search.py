"""Branch and bound over the neurons of a deep network, for the nearest flipped point."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from itertools import count

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.robustness.exact.budget import SAME_WITHIN, Candidate, Clock, Search
from featavg.robustness.exact.deep.cuts import Cuts, Errors, Part, Relaxed, Split, half_spaces
from featavg.robustness.exact.deep.linear_bounds import ball_bounds, operations, tightened
from featavg.robustness.exact.deep.local_search import LocalSearch
from featavg.robustness.exact.flip_conditions import Condition
from featavg.robustness.exact.layered_network import Layered
from featavg.robustness.exact.step_box import StepBox
from featavg.robustness.geometry.qp import Nearest

ROUNDS = 6  # quadratic programs per part, at most
SATISFIED = 1e-10
FARTHEST = 1e6  # beyond this many times |x| a search without any candidate gives up
KEPT = 24  # cuts that a child inherits
# Solutions of parts are good starts for a local search, but most end in the same place.
EARLY, OFTEN = 12, 12


class DeepSearch:
    r"""min |u| over a union of conditions, by branch and bound over the signs of neurons.

    A part fixes the signs of some neurons. Each of its inequalities (those of the condition, and the
    imposed signs) is replaced by affine functions below it (`linear_bounds`), that is by half-spaces
    that contain every flipped point of the part; their nearest point, one small quadratic program,
    is a lower bound whose proof does not trust the solver (`qp.nearest`). New half-spaces are traced
    at the solution until it satisfies them; what is then lost is lost to chords, and the neuron whose
    chord costs most is split. With all signs fixed nothing is lost, so the search ends.

    Bounds of neurons hold in the ball of the best candidate, beyond the half-space that the
    multipliers of the part prove: both shrink as the search proceeds.
    """

    def __init__(self, net: Layered, conditions: Sequence[Condition], gap: float = SAME_WITHIN) -> None:
        self.net, self.conditions, self.gap = net, conditions, gap
        # Bounds of the outputs are wanted only where a condition is not linear in them.
        self.curved = any(condition.curved for condition in conditions)

    def at(
        self,
        z: Float[ndarray, " m"],
        reach: float,
        clock: Clock,
        radius: float | None = None,
        far: Float[ndarray, " r"] | None = None,
        sides: StepBox | None = None,
    ) -> Search:
        """Search from the first layer's pre-activations `z`.

        Args:
            z: W_1 x + b_1.
            reach: a bound on |x| plus the offsets, which sets the scale.
            clock: the running budget.
            radius: only flipped points within it are of interest (a decision, not a distance).
            far: a step to a flipped point, where a search without it found none.
            sides: of a box that steps stay in, for a network in all coordinates of the input. Then
                `certified` reaches the box's corner where nothing in it flips.
        """
        self.z, self.reach, self.result, self.sides = z, reach, Search(), sides
        corner = math.inf if sides is None else sides.corner(2)
        self.outputs = self.net.forward(z)
        # The scale on which an excess counts as zero: that of the outputs at the point itself.
        self.size = float(np.abs(self.outputs[-1]).max()) or 1.0
        self.radius = math.inf if radius is None else radius
        self.number = count()
        self.local = LocalSearch(self.net, z, reach, self.result, clock, sides)
        for condition in self.conditions:
            if not clock.late:
                self.local.start(condition, far)
        limit = min(self._wanted(), self.radius)
        limit, proven = min(reach if limit == math.inf else limit, corner), 0.0
        while True:
            certified, finished = self._search(limit, clock)
            # A ball that was searched to its end stays searched, whatever the next one costs.
            proven = max(proven, certified)
            # Bounds were cut down to the ball of what was still of interest: no proof goes further.
            self.result.certified = min(proven, self._wanted())
            self.result.finished = finished
            decided = self.result.attack <= self.radius < math.inf
            # A candidate found on the way may be beyond this ball: then the search continues up to it.
            target = min(self._wanted(), self.radius)
            end = target if target < math.inf else min(FARTHEST * reach, corner)
            if decided or not finished or limit >= end:
                return self.result
            limit = min(8.0 * limit, target, corner)

    def _wanted(self) -> float:
        """Only flipped points nearer than this are of interest."""
        return self.result.attack * (1.0 - self.gap)

    def _search(self, limit: float, clock: Clock) -> tuple[float, bool]:
        """No flipped point is nearer than the first result; False if the budget ended it."""
        settled = limit
        lo, hi, magnitudes, slopes = ball_bounds(self.net, self.z, limit, self.reach)
        self.errors = Errors(magnitudes, slopes)
        if self.sides is not None:
            box = self.sides.within(limit)
            if not clock.affords(operations(self.net, lo, hi, box), 1.0):
                return 0.0, False
            sizes = (magnitudes, slopes, self.reach)
            inside = tightened(self.net, self.z, (lo, hi), (limit, None, 0.0), sizes, True, box)
            if inside is None:
                return limit, True
            lo, hi = inside
        nothing = Cuts.none(self.net.rows.shape[1])
        heap = [
            Part(0.0, next(self.number), condition, lo, hi, (), nothing, self.outputs)
            for condition in range(len(self.conditions))
        ]
        while heap:
            part = heapq.heappop(heap)
            limit = min(limit, self._wanted())
            # A decision ends with the first witness inside the radius.
            if part.bound >= limit or self.result.attack <= self.radius < math.inf:
                return min(settled, part.bound), True
            long = clock.left < math.inf and not clock.affords(operations(self.net, part.lo, part.hi), 1.0)
            if long or clock.spent(self.result.nodes):
                return min(settled, part.bound), False
            children, bound = self._branch(part, limit, clock)
            if not children:
                settled = min(settled, bound)
            for child in children:
                heapq.heappush(heap, child)
        return settled, True

    def _branch(self, part: Part, limit: float, clock: Clock) -> tuple[list[Part], float]:
        """Bound one part; its children, or none if nothing nearer than `limit` is left in it."""
        bound, at = part.bound, part.at or self.outputs
        bounds = tightened(
            self.net,
            self.z,
            (part.lo, part.hi),
            (limit, part.normal, bound),
            (self.errors.magnitudes, self.errors.slopes, self.reach),
            self.curved,
        )
        if bounds is None:
            return [], limit
        condition, cuts = self.conditions[part.condition], part.cuts
        answer: Nearest | None = None
        for _ in range(ROUNDS):
            relaxed = half_spaces(self.net, condition, part, bounds, at, self.z, self.errors, limit)
            fresh = relaxed.cuts
            if answer is not None and answer.u is not None:
                violated = fresh.violated(answer.u, SATISFIED)
                if not violated.any() or clock.late:
                    break
            cuts = cuts.joined(fresh)
            cuts, answer = self._solved(cuts)
            if answer.u is None:
                # If the solver says "empty" and its multipliers prove less, the part ends with what
                # is proven: the radius then gets a bracket and not a false certificate.
                return [], min(max(bound, answer.bound), limit)
            bound = max(bound, min(answer.bound, limit))
            self._try(condition, answer, cuts)
            limit = min(limit, self._wanted())
            if bound >= limit:
                return [], bound
            at = self._layers(answer, relaxed, bounds)
        assert answer is not None
        split = self._split(condition, relaxed, answer, bounds, at)
        if split is None:
            return [], bound
        return self._children(part, bounds, split, bound, answer, cuts, at), bound

    def _solved(self, cuts: Cuts) -> tuple[Cuts, Nearest]:
        """The nearest step of all half-spaces, those of the box among them."""
        if self.sides is None:
            self.result.nodes += 1
            return cuts, cuts.solve()
        cuts, answer, programs = cuts.solve_in(self.sides)
        self.result.nodes += programs
        return cuts, answer

    def _children(
        self,
        part: Part,
        bounds: tuple[list[ndarray], list[ndarray]],
        split: tuple[int, int, float],
        bound: float,
        answer: Nearest,
        cuts: Cuts,
        at: list[ndarray],
    ) -> list[Part]:
        direction = -(answer.multipliers @ cuts.rows)
        length = math.sqrt(direction @ direction)
        # The half-space of these multipliers is `bound` away, but only if they are what proved it.
        proven = answer.bound >= bound and length > 0
        normal = direction / length if proven else None
        most = KEPT if self.sides is None else None  # sides of a box are not traced again
        kept = cuts.where(np.flatnonzero(answer.multipliers > 0)[:most])
        layer, neuron, value = split
        children = []
        for side in (1.0, -1.0):
            lo, hi = list(bounds[0]), list(bounds[1])
            ends = hi if side > 0 else lo
            ends[layer] = ends[layer].copy()
            ends[layer][neuron] = value
            imposed = (*part.splits, Split(layer, neuron, side, value))
            number = next(self.number)
            children.append(Part(bound, number, part.condition, lo, hi, imposed, kept, at, normal))
        return children

    def _prices(self, relaxed: Relaxed, answer: Nearest) -> Float[ndarray, " p"]:
        """The multipliers of the newest half-spaces, which say what the bound rests on."""
        newest = answer.multipliers[-len(relaxed.traced.rows) :]
        if newest.any():
            return newest
        # The bound rests on older half-spaces: the condition's own inequality stands for them.
        return np.eye(len(newest))[0]

    def _layers(self, answer: Nearest, relaxed: Relaxed, bounds: tuple[list[ndarray], list[ndarray]]) -> list[ndarray]:
        """Pre-activations of the relaxation at its solution: chords where the bound used them."""
        net, (lo, hi) = self.net, bounds
        prices = self._prices(relaxed, answer)
        layers, below = [self.z + net.rows @ answer.u], np.zeros(0)
        for number in range(net.hidden):
            z = np.clip(layers[-1], lo[number], hi[number])
            chord = relaxed.lines.upper[number] * z + relaxed.lines.offset[number]
            falling = prices @ relaxed.traced.on_hidden[number] < 0
            h = np.where(falling, np.maximum(chord, net.phi(z)), net.phi(z))
            below = h + below if net.skips[number] else h
            layers.append(net.weights[number] @ below + net.biases[number])
        return layers

    def _split(
        self,
        condition: Condition,
        relaxed: Relaxed,
        answer: Nearest,
        bounds: tuple[list[ndarray], list[ndarray]],
        at: list[ndarray],
    ) -> tuple[int, int, float] | None:
        """The neuron, or output, whose relaxation costs most at the solution, and where to split.

        If no chord costs anything there, the one that could cost most anywhere; None if all signs
        are decided.
        """
        prices = self._prices(relaxed, answer)
        most, split, widest, fallback = 0.0, None, 0.0, None
        for number in range(self.net.hidden):
            lo, hi = bounds[0][number], bounds[1][number]
            undecided = (lo < 0) & (hi > 0)
            if not undecided.any():
                continue
            on_h = relaxed.traced.on_hidden[number]
            z = np.clip(at[number], lo, hi)
            gap = relaxed.lines.upper[number] * z + relaxed.lines.offset[number] - self.net.phi(z)
            cost = np.where(undecided, -(prices @ np.minimum(on_h, 0.0)) * np.maximum(gap, 0.0), 0.0)
            j = int(cost.argmax())
            if cost[j] > most:
                most, split = float(cost[j]), (number, j, 0.0)
            width = np.where(undecided, hi - lo, 1.0)
            could = np.where(undecided, (prices @ np.abs(on_h) + 1e-9) * -lo * hi / width, 0.0)
            j = int(could.argmax())
            if could[j] > widest:
                widest, fallback = float(could[j]), (number, j, 0.0)
        if condition.curved:
            lost = condition.loose(bounds[0][-1], bounds[1][-1], at[-1])
            if lost is not None and lost[2] * max(float(prices[0]), 1e-12) > most:
                return self.net.hidden, lost[0], lost[1]
        return split or fallback

    def _try(self, condition: Condition, answer: Nearest, cuts: Cuts) -> None:
        """Keep the solution if it flips; if not, now and then, a few projections from it may."""
        assert answer.u is not None
        length = math.sqrt(answer.u @ answer.u)
        if length >= self.result.attack:
            return
        if self.local.excess(condition, answer.u[None])[0] <= SATISFIED * self.size:
            held = cuts.rows[answer.multipliers > 0]
            self.result.candidates.append(Candidate(length, answer.u, held))
        elif self.result.nodes < EARLY or self.result.nodes % OFTEN == 0:
            self.local.project(condition, answer.u)
