"""Does anything flip within a radius? Branch and bound over signs, with bounds that know the ball."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.robustness.exact.budget import UNLIMITED, Clock, Search
from featavg.robustness.exact.deep.ascent import SdpValue
from featavg.robustness.exact.deep.cuts import Split
from featavg.robustness.exact.deep.linear_bounds import ball_bounds, fallen, lines_of, operations, tightened, trace
from featavg.robustness.exact.deep.local_search import BoxAttack, LocalSearch
from featavg.robustness.exact.deep.sdp_bound import SdpBound
from featavg.robustness.exact.deep.sdp_chain import Ball
from featavg.robustness.exact.flip_conditions import Condition
from featavg.robustness.exact.layered_network import Layered
from featavg.robustness.exact.step_box import StepBox

# Steps of ascent behind each barrier, for a condition in the whole ball, for a part of it, and for the
# bound of one neuron.
FIRST, LATER, EACH = 150, 60, 40
SHARPER = 0.4  # of the time: for bounds of neurons
FEW = 24  # undecided signs, up to which `DeepSearch` is faster: its programs end exactly
# Of the time left: what a step may take, so that an ascent ends with it, and what its start may take, or
# lines through all layers.
STEP, BEGIN = 0.05, 0.5
OFTEN = 8  # so often the solution of a part starts a local search
CLEARLY = 1e-9  # of the outputs: an ascent stops when its bound is above zero by so much


@dataclass(order=True)
class _Part:
    bound: float
    number: int
    condition: Condition = field(compare=False)
    relaxation: SdpBound = field(compare=False)
    theta: ndarray = field(compare=False)
    value: SdpValue = field(compare=False)


class _InBall:
    """The local search in the whole ball."""

    def __init__(self, net: Layered, z: ndarray, reach: float, kept: Search, clock: Clock, radius: float) -> None:
        self.search, self.radius = LocalSearch(net, z, reach, kept, clock), radius

    def start(self, condition: Condition) -> None:
        """From the centre."""
        zero = np.zeros(self.search.net.rows.shape[1])
        self.search.project(condition, zero)
        self.search.descend(condition, zero, self.radius)

    def descend(self, condition: Condition, steps: Float[ndarray, " r"]) -> None:
        """From where a relaxation is least."""
        self.search.descend(condition, steps, self.radius)
        self.search.project(condition, steps)


_Local = _InBall | BoxAttack


class BallSearch:
    """Whether one of the conditions is reached within a radius of a point.

    Conditions that lines already exclude are done at once. For the others there is `SdpBound`; what it
    leaves open is split at the neuron whose relaxation loses most. A local search starts from the
    solutions of the parts. Where few signs are undecided, nothing of this is done, and the result is
    unfinished.

    Only conditions that are linear in the outputs are searched for.
    """

    def __init__(self, net: Layered, conditions: Sequence[Condition]) -> None:
        if any(condition.curved for condition in conditions):
            raise ValueError("a condition is not linear in the outputs: use DeepSearch")
        self.net, self.conditions = net, conditions
        self.box: StepBox | None = None
        self.lines_net = net

    def at(
        self,
        z: Float[ndarray, " m"],
        reach: float,
        radius: float,
        clock: Clock,
        box: StepBox | None = None,
        shown: Callable[[ndarray], float | None] | None = None,
    ) -> Search:
        """Search from the first layer's pre-activations `z`; `reach` is at least |x| + |offsets|.

        The result's `certified` is the radius if nothing flips within it, and zero otherwise. In a
        box, candidates are steps in all coordinates of the input, and `shown` evaluates them.
        """
        self.result, self.radius, self.clock, self.box = Search(), radius, clock, box
        self.reach = reach
        self.lines_net = self.net if box is None else self.net.unturned()
        self.local: _Local = _InBall(self.net, z, reach, self.result, clock, radius)
        if box is not None:
            assert shown is not None, "a flip in a box is evaluated"
            self.local = BoxAttack(self.lines_net, z, box, self.result, clock, shown)
        ball, left = self._ball(z, reach, clock=clock), list(self.conditions)
        outputs = self.net.forward(z)
        self.clear = CLEARLY * (float(np.abs(outputs[-1]).max()) or 1.0)
        if ball is not None:
            left = [condition for condition in left if not self._by_lines(ball, outputs, condition)]
        for condition in left:
            if clock.late:
                self.result.finished = False
                return self.result
            self.local.start(condition)
            if self._flipped:
                return self.result
        if ball is None:
            return self._too_long(clock)
        undecided = sum(int(np.sum((a < 0) & (b > 0))) for a, b in zip(ball.lo[:-1], ball.hi[:-1], strict=True))
        if left and undecided <= FEW and box is None:
            self.result.finished = False
            return self.result
        self.result.finished = self._search(ball, left, clock)
        if self.result.finished and not self._flipped:
            self.result.certified = radius
        return self.result

    def _too_long(self, clock: Clock) -> Search:
        """The budget is spent: other searches of a network as large as this take longer still."""
        self.result.nodes, self.result.finished = clock.nodes, False
        return self.result

    @property
    def _flipped(self) -> bool:
        return self.result.attack <= self.radius

    def _ball(
        self,
        z: Float[ndarray, " m"],
        reach: float,
        known: tuple[list[ndarray], list[ndarray]] | None = None,
        clock: Clock = UNLIMITED,
    ) -> Ball | None:
        """The ball with the bounds that lines give, and those that are known; None if there is no time."""
        net, radius = self.lines_net, self.radius
        lo, hi, magnitudes, slopes = ball_bounds(net, z, radius, reach)
        if not clock.affords(operations(net, *(known or (lo, hi)), self.box), BEGIN):
            return None
        sizes = (magnitudes, slopes, reach)
        bounds = tightened(net, z, known or (lo, hi), (radius, None, 0.0), sizes, False, self.box)
        assert bounds is not None, "the centre is in the ball"
        short = _shortened(self.net, *bounds) if clock.affords(8.0 * self.net.rows.size * z.size, BEGIN) else self.net
        # W x itself is rounded: an error of its size enters every slope.
        errors = [
            short.error * (size + (radius + reach) * slope) for size, slope in zip(magnitudes, slopes, strict=True)
        ]
        return Ball(short, z, radius, *bounds, errors, self.box)

    def _sharpened(self, ball: Ball, outputs: list[ndarray], clock: Clock) -> Ball:
        """The ball with joint bounds of the neurons above the first layer whose signs lines leave open."""
        for layer in range(1, self.net.hidden):
            below = _below(ball, layer)
            low, high = below.lo[layer].copy(), below.hi[layer].copy()
            for neuron in np.flatnonzero((low < 0) & (high > 0)):
                # First the side that would decide the sign.
                first = 1.0 if outputs[layer][neuron] > 0 else -1.0
                for side in (first, -first):
                    least = -math.inf
                    if not clock.late:
                        row = np.zeros((1, len(low)))
                        row[0, neuron] = side
                        relaxation = SdpBound(below, row, np.zeros(1))
                        theta, _ = relaxation.climbed(relaxation.start(), EACH, self.clear, clock)
                        least = relaxation.proven(theta)
                    if side > 0:
                        low[neuron] = max(low[neuron], least)
                    else:
                        high[neuron] = min(high[neuron], -least)
                    if least > 0.0:
                        break
            lo, hi = list(ball.lo), list(ball.hi)
            lo[layer], hi[layer] = low, high
            ball = self._ball(ball.z, self.reach, (lo, hi), clock) or ball
        return ball

    def _by_lines(self, ball: Ball, outputs: list[ndarray], condition: Condition) -> bool:
        """Whether one inequality of the condition is above zero in the whole ball, by lines alone."""
        last = self.net.hidden
        rows, shifts = condition.functionals(None, None, outputs[-1])
        lines = lines_of(self.net, ball.lo[:last], ball.hi[:last], outputs)
        traced = trace(self.lines_net, ball.z, lines, last, rows)
        fall = fallen(traced.rows, (self.radius, None, 0.0), self.box, self.net.error)
        error = np.abs(rows) @ ball.errors[-1] + self.net.error * np.abs(shifts)
        return bool(np.any(traced.constants + shifts - fall - error > 0.0))

    def _search(self, ball: Ball, conditions: Sequence[Condition], clock: Clock) -> bool:
        """True if every part of every condition is excluded, or if something flips."""
        self.number, self.given_up = count(), False
        step = self._operations(ball)
        if not clock.affords(step, STEP) or not clock.affords(8.0 * self.net.hidden * step, BEGIN):
            return self._too_long(clock).finished
        heap = self._roots(ball, conditions)
        if heap and self.net.hidden > 1 and not self._flipped:
            outputs = self.net.forward(ball.z)
            ball = self._sharpened(ball, outputs, clock.part(SHARPER))
            left = [part.condition for part in heap]
            left = [condition for condition in left if not self._by_lines(ball, outputs, condition)]
            heap = self._roots(ball, left)
        if heap is None:
            return False
        heapq.heapify(heap)
        while heap and not self._flipped:
            if clock.spent(self.result.nodes):
                return False
            part = heapq.heappop(heap)
            for child in self._halves(part):
                heapq.heappush(heap, child)
        return self._flipped or not self.given_up

    def _roots(self, ball: Ball, conditions: Sequence[Condition]) -> list[_Part] | None:
        """The whole ball for every condition that its bound does not exclude; None out of budget."""
        roots: list[_Part] = []
        for condition in conditions:
            if self.clock.spent(self.result.nodes):
                return None
            rows, shifts = condition.functionals(None, None, np.zeros(len(ball.lo[-1])))
            relaxation = SdpBound(ball, rows, shifts)
            roots += self._bounded(condition, relaxation, relaxation.start(), FIRST)
        return roots

    def _operations(self, ball: Ball) -> float:
        """Of one step of an ascent, roughly: forms of all open neurons, a factor and an inverse."""
        opened = [int(np.sum((a < 0) & (b > 0))) for a, b in zip(ball.lo, ball.hi, strict=True)]
        every, r = float(sum(opened[:-1])), ball.net.rows.shape[1]
        size = r + float(sum(opened[:-2]))
        sides = 0.0 if self.box is None else 4.0 * len(self.box.low) * r**2 + 2.0 * r**3
        return 2.0 * every * size**2 + 4.0 * size**3 + sides

    def _bounded(
        self, condition: Condition, relaxation: SdpBound, theta: Float[ndarray, " n"], steps: int
    ) -> list[_Part]:
        """The part with its bound, or nothing if it holds no flipped point."""
        theta, value = relaxation.climbed(theta, steps, self.clear, self.clock)
        self.result.nodes += 1
        if value is None:  # the parent's lambda is too small for one parabola less: start anew
            theta, value = relaxation.climbed(relaxation.start(), steps, self.clear, self.clock)
        if value is None:
            self.given_up = True
            return []
        if relaxation.proven(theta) > 0.0:
            return []
        if self.result.nodes <= OFTEN or self.result.nodes % OFTEN == 0:
            u = relaxation.step(value, theta)
            if self.box is None:
                u = relaxation.ball.net.basis @ u @ self.net.basis
            self.local.descend(condition, u)
        return [_Part(value.bound, next(self.number), condition, relaxation, theta, value)]

    def _halves(self, part: _Part) -> Iterator[_Part]:
        """The part on both sides of the neuron that loses most; given up if no sign is open."""
        gaps = part.value.gaps
        layer = int(np.argmax([gap.max() for gap in gaps]))
        neuron = int(gaps[layer].argmax())
        if not gaps[layer][neuron] > 0.0:
            self.given_up = True
            return
        for side in (1.0, -1.0):
            split = Split(layer, neuron, side, 0.0)
            relaxation, theta = part.relaxation.child(part.theta, part.value, split)
            yield from self._bounded(part.condition, relaxation, theta, LATER)


def _shortened(net: Layered, lo: list[ndarray], hi: list[ndarray]) -> Layered:
    """The network in as few coordinates as its first layer needs in the ball.

    A neuron that is off adds nothing to any layer. With one hidden layer those of known sign add one
    linear function to every output, and no other direction.
    """
    opened = (lo[0] < 0) & (hi[0] > 0)
    slopes = np.where(opened, 0.0, np.where(lo[0] >= 0, 1.0, net.leak))
    asked = net.rows[opened | (slopes != 0.0)]
    if net.hidden == 1 and len(net.weights[0]) < np.count_nonzero(slopes):
        asked = np.concatenate([net.rows[opened], (net.weights[0] * slopes) @ net.rows])
    q, r = asked.shape
    if not 0 < q < r:
        return net
    basis = np.linalg.qr(asked.T)[0]
    # The rounding of the rotation is charged like that of the rows themselves.
    error = net.error + (r + q) * 2.0**-52
    return replace(net, rows=net.rows @ basis, basis=net.basis @ basis, error=error)


def _below(ball: Ball, layer: int) -> Ball:
    """The ball for the network whose outputs are the pre-activations of this layer."""
    net, up = ball.net, layer + 1
    weights, biases, skips = net.weights[:layer], net.biases[:layer], net.skips[:layer]
    cut = replace(net, weights=weights, biases=biases, skips=skips)
    bounds = ball.lo[:up], ball.hi[:up], ball.errors[:up]
    return Ball(cut, ball.z, ball.radius, *bounds)
