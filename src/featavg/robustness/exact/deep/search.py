"""Branch and bound over the neurons of a deep network, for the nearest flipped point."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.robustness.exact.budget import SAME, Candidate, Clock, Search
from featavg.robustness.exact.deep.goals import Goal
from featavg.robustness.exact.deep.layered import Layered
from featavg.robustness.exact.deep.linear_bounds import Lines, Traced, extent, lines_of, trace
from featavg.robustness.exact.qp import Nearest, nearest

ROUNDS = 6  # quadratic programs per node, at most
SATISFIED = 1e-10
FARTHEST = 1e6  # beyond this many times |x| a search without any candidate gives up
KEPT = 24  # cuts that a child inherits
# Random starts of the first local search: at these multiples of |x|, so many each, and how many of
# those that flip are followed.
RANGES, STARTS, TRIED = (0.25, 0.5, 1.0, 2.0, 4.0, 16.0), 48, 3
# Solutions of parts are good starts for a local search, but most end in the same place.
EARLY, OFTEN = 12, 12
# Where the line search looks: most boundaries are at, or just beyond, the linearised one.
GRID = np.concatenate([np.linspace(0.05, 0.65, 7), [2 / 3 * (1 + 1e-9), 0.7, 0.75, 0.8, 0.9, 1.0]])


@dataclass(frozen=True, eq=False)
class Cuts:
    """Half-spaces rows @ u <= limits that hold every flipped point of a part, with their errors."""

    rows: Float[ndarray, "q r"]
    limits: Float[ndarray, " q"]
    row_errors: Float[ndarray, " q"]
    limit_errors: Float[ndarray, " q"]

    def joined(self, other: Cuts) -> Cuts:
        """Both."""
        return Cuts(
            np.concatenate([self.rows, other.rows]),
            np.concatenate([self.limits, other.limits]),
            np.concatenate([self.row_errors, other.row_errors]),
            np.concatenate([self.limit_errors, other.limit_errors]),
        )

    def where(self, kept: ndarray) -> Cuts:
        """Some of them."""
        return Cuts(
            self.rows[kept], self.limits[kept], self.row_errors[kept], self.limit_errors[kept]
        )

    def solve(self) -> Nearest:
        """The nearest point, in as few coordinates as there are cuts."""
        q, r = self.rows.shape
        if q >= r:
            return nearest(self.rows, self.limits, self.row_errors, self.limit_errors)
        basis, triangle = np.linalg.qr(self.rows.T)
        answer = nearest(
            np.ascontiguousarray(triangle.T),
            self.limits,
            self.row_errors + 1e-15 * np.abs(triangle).sum(axis=0),
            self.limit_errors,
        )
        u = None if answer.u is None else basis @ answer.u
        return Nearest(u, answer.bound, answer.multipliers)


@dataclass(order=True)
class Part:
    """A part of the search space: bounds of every layer, some of them imposed by splits."""

    bound: float
    number: int
    goal: int = field(compare=False)
    lo: list[ndarray] = field(compare=False)
    hi: list[ndarray] = field(compare=False)
    # (layer, neuron, side, value): side * (z - value) <= 0 was imposed.
    splits: tuple[tuple[int, int, float, float], ...] = field(compare=False)
    cuts: Cuts | None = field(compare=False, default=None)
    at: list[ndarray] | None = field(compare=False, default=None)
    normal: ndarray | None = field(compare=False, default=None)


class DeepSearch:
    r"""min |u| over a union of goals, by branch and bound over the signs of neurons.

    A part fixes the signs of some neurons. Each of its inequalities (those of the goal, and the
    imposed signs) is replaced by affine functions below it (`linear_bounds`), that is by half-spaces
    that contain every flipped point of the part; their nearest point, one small quadratic program,
    is a lower bound whose proof does not trust the solver (`qp.nearest`). New half-spaces are traced
    at the solution until it satisfies them; what is then lost is lost to chords, and the neuron whose
    chord costs most is split. With all signs fixed nothing is lost, so the search ends.

    Bounds of neurons hold in the ball of the best candidate, beyond the half-space that the
    multipliers of the part prove: both shrink as the search goes on.
    """

    def __init__(self, net: Layered, goals: Sequence[Goal], gap: float = SAME) -> None:
        self.net, self.goals, self.gap = net, goals, gap

    def at(
        self, z: Float[ndarray, " m"], reach: float, clock: Clock, radius: float | None = None
    ) -> Search:
        """Search from the first layer's pre-activations `z`.

        Args:
            z: W_1 x + b_1.
            reach: a bound on |x| plus the offsets, which sets the scale.
            clock: the running budget.
            radius: only flipped points within it are of interest (a decision, not a distance).
        """
        self.z, self.reach, self.found = z, reach, Search()
        # The scale on which an excess counts as zero: that of the outputs at the point itself.
        self.size = float(np.abs(self.net.forward(z)[-1]).max()) or 1.0
        self.radius = math.inf if radius is None else radius
        self.number = count()
        for index in range(len(self.goals)):
            self._descend(index)
        limit = min(self._goal(), self.radius)
        if limit == math.inf:
            limit = reach
        while True:
            certified, finished = self._search(limit, clock)
            self.found.certified = min(certified, self._goal())
            self.found.finished = finished
            stop = self.found.candidates or not finished or limit >= self.radius
            if stop or limit > FARTHEST * reach:
                return self.found
            limit = min(8.0 * limit, self.radius)

    def _goal(self) -> float:
        return self.found.attack * (1.0 - self.gap)

    def _search(self, limit: float, clock: Clock) -> tuple[float, bool]:
        """No flipped point is nearer than the first result; False if the budget ended it."""
        settled = limit
        self._measure(limit)
        heap = [
            Part(0.0, next(self.number), goal, self.root_lo, self.root_hi, ())
            for goal in range(len(self.goals))
        ]
        while heap:
            part = heapq.heappop(heap)
            limit = min(limit, self._goal())
            if part.bound >= limit:
                return min(settled, part.bound), True
            # A decision ends with the first witness inside the radius.
            if self.radius < math.inf and self.found.attack <= self.radius:
                return min(settled, part.bound), True
            if clock.spent(self.found.nodes):
                return min(settled, part.bound), False
            children, bound = self._branch(part, limit)
            if not children:
                settled = min(settled, bound)
            for child in children:
                heapq.heappush(heap, child)
        return settled, True

    def _measure(self, limit: float) -> None:
        """Bounds of all neurons in the ball, and from them how large rounding errors can be."""
        spread = self.net.lengths * limit * (1.0 + 1e-12) + self.net.error * self.reach
        lo, hi = [self.z - spread], [self.z + spread]
        sizes = [np.abs(self.z) + spread]
        for layer in range(1, self.net.hidden + 1):
            # Interval arithmetic first, for the error of the linear bounds that follow.
            h_lo, h_hi = self._hidden_interval(lo, hi, layer - 1)
            weight, bias = self.net.weights[layer - 1], self.net.biases[layer - 1]
            up, down = np.maximum(weight, 0.0), np.minimum(weight, 0.0)
            low = up @ h_lo + down @ h_hi + bias
            high = up @ h_hi + down @ h_lo + bias
            slack = 1e-12 * (np.abs(weight) @ np.maximum(np.abs(h_lo), np.abs(h_hi)) + np.abs(bias))
            lo.append(low - slack)
            hi.append(high + slack)
            sizes.append(np.maximum(np.abs(lo[-1]), np.abs(hi[-1])))
        self.magnitudes, self.slopes = self.net.absolute(sizes)
        tight = self._tighten(lo, hi, limit, None, 0.0)
        assert tight is not None
        self.root_lo, self.root_hi = tight

    def _hidden_interval(
        self, lo: list[ndarray], hi: list[ndarray], layer: int
    ) -> tuple[ndarray, ndarray]:
        low, high = self.net.phi(lo[layer]), self.net.phi(hi[layer])
        if self.net.skips[layer]:
            below = self._hidden_interval(lo, hi, layer - 1)
            low, high = low + below[0], high + below[1]
        return low, high

    def _tighten(
        self,
        lo: list[ndarray],
        hi: list[ndarray],
        limit: float,
        normal: ndarray | None,
        depth: float,
        at: list[ndarray] | None = None,
    ) -> tuple[list[ndarray], list[ndarray]] | None:
        """Bounds of every layer in the cap |u| <= limit, normal . u >= depth; None if it is empty."""
        net = self.net
        both = np.concatenate([net.rows, -net.rows])
        fall = extent(both, limit, normal, depth) + net.error * (self.reach + limit)
        m = len(self.z)
        new_lo = [np.maximum(lo[0], self.z - fall[:m])]
        new_hi = [np.minimum(hi[0], self.z + fall[m:])]
        last = net.hidden if self.curved else net.hidden - 1
        for layer in range(1, net.hidden + 1):
            if layer > last:
                new_lo.append(lo[layer])
                new_hi.append(hi[layer])
                break
            undecided = (lo[layer] < 0) & (hi[layer] > 0)
            if layer == net.hidden:
                undecided = np.ones_like(undecided)
            which = np.flatnonzero(undecided)
            low, high = lo[layer].copy(), hi[layer].copy()
            if len(which):
                pick = np.zeros((2 * len(which), len(low)))
                pick[np.arange(len(which)), which] = 1.0
                pick[len(which) + np.arange(len(which)), which] = -1.0
                lines = lines_of(net, new_lo, new_hi, at)
                traced = trace(net, self.z, lines, layer, pick)
                size = self.magnitudes[layer][which] + limit * self.slopes[layer][which]
                error = net.error * np.concatenate([size, size])
                floor = traced.constants - extent(traced.rows, limit, normal, depth) - error
                low[which] = np.maximum(low[which], floor[: len(which)])
                high[which] = np.minimum(high[which], -floor[len(which) :])
            new_lo.append(low)
            new_hi.append(high)
        if any(np.any(low > high) for low, high in zip(new_lo, new_hi, strict=True)):
            return None
        return new_lo, new_hi

    @property
    def curved(self) -> bool:
        """Whether bounds of the outputs are wanted."""
        return any(goal.curved for goal in self.goals)

    def _branch(self, part: Part, limit: float) -> tuple[list[Part], float]:
        """Bound one part; its children, or none if nothing nearer than `limit` is left in it."""
        bound, normal, at = part.bound, part.normal, part.at
        bounds = self._tighten(part.lo, part.hi, limit, normal, bound, at)
        if bounds is None:
            return [], limit
        lo, hi = bounds
        cuts, split, relaxed = part.cuts, None, at
        for turn in range(ROUNDS):
            traced, fresh, lines, wanted = self._cuts(part, lo, hi, relaxed, limit)
            if cuts is not None and turn:
                violated = fresh.rows @ answer.u - fresh.limits > SATISFIED * (
                    np.sqrt(np.einsum("qr,qr->q", fresh.rows, fresh.rows)) * max(bound, 1e-300)
                    + fresh.limit_errors
                )
                if not violated.any():
                    break
                fresh = fresh.where(violated)
            cuts = fresh if cuts is None else cuts.joined(fresh)
            answer = cuts.solve()
            self.found.nodes += 1
            bound = max(bound, min(answer.bound, limit))
            if bound >= limit or answer.u is None:
                return [], bound if answer.u is not None else min(answer.bound, limit)
            self._try(part.goal, answer.u, cuts, answer)
            limit = min(limit, self._goal())
            if bound >= limit:
                return [], bound
            relaxed = self._relaxed_layers(answer, traced, lines, lo, hi, wanted, cuts)
        if answer.bound > 0:
            direction = -(answer.multipliers @ cuts.rows)
            length = math.sqrt(direction @ direction)
            normal = direction / length if length > 0 else normal
        split = self._split(part, lo, hi, relaxed, answer, traced, wanted, cuts)
        if split is None:
            return [], bound
        active = np.flatnonzero(answer.multipliers > 0)[:KEPT]
        return self._children(
            part, lo, hi, split, bound, cuts.where(active), relaxed, normal
        ), bound

    def _children(
        self,
        part: Part,
        lo: list[ndarray],
        hi: list[ndarray],
        split: tuple[int, int, float],
        bound: float,
        cuts: Cuts,
        at: list[ndarray] | None,
        normal: ndarray | None,
    ) -> list[Part]:
        layer, neuron, value = split
        children = []
        for side in (1.0, -1.0):
            low, high = list(lo), list(hi)
            ends = high if side > 0 else low
            ends[layer] = ends[layer].copy()
            ends[layer][neuron] = value
            splits = (*part.splits, (layer, neuron, side, value))
            children.append(
                Part(bound, next(self.number), part.goal, low, high, splits, cuts, at, normal)
            )
        return children

    def _cuts(
        self,
        part: Part,
        lo: list[ndarray],
        hi: list[ndarray],
        at: list[ndarray] | None,
        limit: float,
    ) -> tuple[Traced, Cuts, Lines, ndarray]:
        """Half-spaces from the goal's inequalities and from the imposed signs."""
        net, goal, last = self.net, self.goals[part.goal], self.net.hidden
        lines = lines_of(net, lo[:last], hi[:last], at)
        outputs = net.forward(self.z)[-1] if at is None else at[-1]
        rows, shifts = goal.functionals(lo[-1], hi[-1], outputs)
        p, s = len(rows), len(part.splits)
        functionals = np.zeros((p + s, rows.shape[1]))
        functionals[:p] = rows
        constants = np.concatenate([shifts, np.zeros(s)])
        joins: dict[int, tuple[ndarray, ndarray]] = {}
        sizes = np.zeros(p + s)
        slopes = np.zeros(p + s)
        sizes[:p] = np.abs(rows) @ self.magnitudes[-1] + np.abs(shifts)
        slopes[:p] = np.abs(rows) @ self.slopes[-1]
        by_layer: dict[int, list[int]] = {}
        for i, (layer, neuron, side, value) in enumerate(part.splits):
            constants[p + i] = -side * value
            sizes[p + i] = self.magnitudes[layer][neuron] + abs(value)
            slopes[p + i] = self.slopes[layer][neuron]
            if layer == last:
                functionals[p + i, neuron] = side
            else:
                by_layer.setdefault(layer, []).append(i)
        for layer, members in by_layer.items():
            coefficients = np.zeros((len(members), len(lo[layer])))
            for row, i in enumerate(members):
                coefficients[row, part.splits[i][1]] = part.splits[i][2]
            joins[layer] = (np.array(members) + p, coefficients)
        traced = trace(net, self.z, lines, last, functionals, joins)
        cuts = Cuts(
            traced.rows,
            -(traced.constants + constants),
            net.error * slopes,
            net.error * (sizes + limit * slopes),
        )
        return traced, cuts, lines, functionals

    def _relaxed_layers(
        self,
        answer: Nearest,
        traced: Traced,
        lines: Lines,
        lo: list[ndarray],
        hi: list[ndarray],
        functionals: ndarray,
        cuts: Cuts,
    ) -> list[ndarray]:
        """Pre-activations of the relaxation at its solution: chords where the cut used them."""
        net = self.net
        # The newest rows are those of `traced`; those with a price decide which side is used.
        fresh = answer.multipliers[-len(traced.rows) :]
        weights = fresh if len(fresh) == len(traced.rows) and fresh.any() else None
        layers = [self.z + net.rows @ answer.u]
        below: ndarray | None = None
        for number in range(net.hidden):
            z = np.clip(layers[-1], lo[number], hi[number])
            on_h = (
                traced.on_hidden[number][0]
                if weights is None
                else weights @ traced.on_hidden[number]
            )
            chord = lines.upper[number] * z + lines.offset[number]
            h = np.where(on_h < 0, np.maximum(chord, net.phi(z)), net.phi(z))
            if net.skips[number]:
                h = h + below
            below = h
            layers.append(net.weights[number] @ h + net.biases[number])
        return layers

    def _split(
        self,
        part: Part,
        lo: list[ndarray],
        hi: list[ndarray],
        at: list[ndarray],
        answer: Nearest,
        traced: Traced,
        functionals: ndarray,
        cuts: Cuts,
    ) -> tuple[int, int, float] | None:
        """The neuron, or output, whose relaxation costs most at the solution."""
        net = self.net
        fresh = answer.multipliers[-len(traced.rows) :]
        usable = len(fresh) == len(traced.rows) and bool(fresh.any())
        best, split = 0.0, None
        widest, fallback = 0.0, None
        for number in range(net.hidden):
            low, high = lo[number], hi[number]
            undecided = (low < 0) & (high > 0)
            if not undecided.any():
                continue
            on_h = traced.on_hidden[number]
            size = fresh @ np.abs(on_h) if usable else np.abs(on_h).max(axis=0)
            fall = fresh @ np.minimum(on_h, 0.0) if usable else np.minimum(on_h, 0.0).sum(axis=0)
            width = np.where(undecided, high - low, 1.0)
            slope = (high - net.leak * low) / width
            chord = slope * np.clip(at[number], low, high) + high * (1.0 - slope)
            gap = chord - net.phi(np.clip(at[number], low, high))
            cost = np.where(undecided, -fall * np.maximum(gap, 0.0), 0.0)
            j = int(cost.argmax())
            if cost[j] > best:
                best, split = float(cost[j]), (number, j, 0.0)
            whole = np.where(undecided, (size + 1e-9) * -low * high / width, 0.0)
            j = int(whole.argmax())
            if whole[j] > widest:
                widest, fallback = float(whole[j]), (number, j, 0.0)
        goal = self.goals[part.goal]
        if goal.curved:
            lost = goal.loose(lo[-1], hi[-1], at[-1])
            if lost is not None:
                output, value, cost_of_output = lost
                weight = float(fresh[0]) if usable else 1.0
                if cost_of_output * max(weight, 1e-12) > best:
                    return net.hidden, output, value
        return split if split is not None else fallback

    def _try(self, goal: int, u: ndarray, cuts: Cuts, answer: Nearest) -> None:
        """Keep the solution if it flips; if not, now and then, a few projections from it may."""
        length = math.sqrt(u @ u)
        if length >= self.found.attack:
            return
        if self._excess(goal, u[None])[0] <= SATISFIED * self.size:
            self.found.candidates.append(Candidate(length, u, cuts.rows[answer.multipliers > 0]))
        elif self.found.nodes < EARLY or self.found.nodes % OFTEN == 0:
            self._project(goal, u)

    def _excess(self, goal: int, steps: Float[ndarray, "n r"]) -> Float[ndarray, " n"]:
        outputs = self.net.forward(self.z + steps @ self.net.rows.T)[-1]
        return np.asarray(self.goals[goal].excess(outputs))

    def _descend(self, goal: int) -> None:
        """A first candidate: projections onto the linearised boundary, from a few starts."""
        r = self.net.rows.shape[1]
        self._project(goal, np.zeros(r))
        # Where gradients are dead or point elsewhere, a random flip is a start; the nearest first.
        draws = np.random.default_rng(0).standard_normal((len(RANGES) * STARTS, r))
        lengths = np.repeat(RANGES, STARTS) * self.reach
        steps = draws * (lengths / np.sqrt(np.einsum("nr,nr->n", draws, draws)))[:, None]
        flipped = np.flatnonzero(self._excess(goal, steps) <= 0)
        for index in flipped[np.argsort(lengths[flipped], kind="stable")][:TRIED]:
            self._line(goal, steps[index] / 1.5, lengths[index] / 1.5)
            nearest_flip = min(self.found.candidates, key=lambda kept: kept.length, default=None)
            self._project(goal, steps[index] if nearest_flip is None else nearest_flip.u)

    def _project(self, goal: int, u: ndarray) -> None:
        """Project zero on the linearised goal, again and again, with a line search each time."""
        for _ in range(8):
            layers = self.net.forward(self.z + self.net.rows @ u)
            excess, gradient = self._linearised(goal, layers)
            square = float(gradient @ gradient)
            if not square > 0.0:
                return
            # The nearest point of {excess + gradient . (v - u) <= 0} to zero.
            level = excess - float(gradient @ u)
            step = gradient * (-max(level, 0.0) / square)
            length = math.sqrt(step @ step)
            if not 0.0 < length <= 1e3 * self.reach:
                return
            self._line(goal, step, length)
            if float(np.abs(step - u).max()) <= 1e-9 * length:
                return
            u = step

    def _line(self, goal: int, step: ndarray, length: float) -> None:
        """Keep the first flip along the step, and a little beyond it, if that is shorter."""
        low, high = 0.0, min(1.5, self.found.attack / length)
        for _ in range(4):
            factors = low + (high - low) * GRID
            flips = self._excess(goal, factors[:, None] * step) <= 0
            if not flips.any():
                return
            first = int(flips.argmax())
            low, high = (factors[first - 1] if first else low), factors[first]
        if high * length < self.found.attack:
            self.found.candidates.append(
                Candidate(high * length, high * step, -step[None] / length)
            )

    def _linearised(self, goal: int, layers: list[ndarray]) -> tuple[float, ndarray]:
        """The goal's excess and its gradient in u."""
        wanted = self.goals[goal]
        outputs = layers[-1]
        if wanted.curved:
            own = wanted.own  # type: ignore[attr-defined]
            weights = np.zeros(len(outputs))
            for sign, side in ((1.0, own), (-1.0, ~own)):
                e = np.exp(outputs[side] - outputs[side].max())
                weights[side] = sign * e / e.sum()
            return float(wanted.excess(outputs)), self.net.gradient(layers, weights)
        rows, shifts = wanted.functionals(None, None, outputs)
        values = rows @ outputs + shifts
        worst = int(values.argmax())
        return float(values[worst]), self.net.gradient(layers, rows[worst])
