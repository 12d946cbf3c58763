"""Branch and bound for the nearest flipped point, where listing all convex pieces is too much."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.robustness.exact.budget import Candidate, Clock, Search
from featavg.robustness.exact.relaxation import (
    Affine,
    Box,
    Planes,
    Price,
    Problem,
    Relaxation,
    Terms,
    cutting_planes,
    price_of,
    shrink,
)
from featavg.robustness.geometry.qp import Nearest
from featavg.robustness.geometry.subspace import Subspace

ROUNDS = 12
SATISFIED = 1e-11
HINTS = 2  # candidates of an easier problem that are improved
FARTHEST = 1e7  # beyond this many times |x| the search without any candidate gives up


@dataclass(order=True)
class _Node:
    bound: float
    number: int
    relaxation: Relaxation = field(compare=False)
    box: Box = field(compare=False)
    z: ndarray = field(compare=False)
    normal: ndarray | None = field(compare=False, default=None)
    price: Price | None = field(compare=False, default=None)


class TreeSearch:
    r"""min |u| over a union of families, each given by a `Relaxation`.

    A node is a box of pre-activations. Two bounds are computed for it, and the larger one counts.

    *Chords.* The convex outer approximation, by cutting planes with one tiny quadratic program
    each. All that matters lies in the ball |u| <= R, R the best candidate, and beyond the
    half-space n . u >= t that the multipliers prove. In that cap

        max c . u  =  t (c . n) + sqrt(|c|^2 - (c . n)^2) sqrt(R^2 - t^2)

    (or R |c| if that end of the ball is in the cap), so boxes shrink as t approaches R.

    *Separable.* For any kappa, and weights >= 0 of the inequalities, let u* = -rows^T kappa. Every
    flipped u of the node, with s = rows (u - u*), has

        |u|^2 >= |u*|^2 + sum_r [ D_r s_r^2 - 2 kappa_r s_r ] + 2 weights . (left - right)

    as long as rows^T D rows <= 1, which lends each concave neuron a share D_r of the quadratic. The
    right side is a sum over neurons: its least value over the box is a handful of one-dimensional
    problems, not convex but easy. With multipliers from a local solution it is tight there, and
    neurons that are better left alone need no splitting at all.

    Why it holds: |u|^2 = |u*|^2 + 2 u* . (u - u*) + |u - u*|^2. The middle term is -2 kappa . s, since
    u* = -rows^T kappa. The last is at least s^T D s = (u - u*)^T rows^T D rows (u - u*), since
    rows^T D rows <= 1. And a flipped u has left <= right, so adding 2 weights . (left - right) <= 0
    only lowers the sum. None of this asks the price to be good: a bad one gives a low bound.
    """

    def __init__(self, space: Subspace, relaxations: Sequence[Relaxation], gap: float) -> None:
        self.space, self.relaxations, self.gap = space, relaxations, gap
        self.rows = space.rows
        self.stiffness = [self._stiffness(one.concave) for one in relaxations]

    def _stiffness(self, concave: ndarray) -> Float[ndarray, " M"]:
        """D: the same for all concave neurons, as large as rows^T D rows <= 1 allows."""
        # rows^T D rows <= 1 is D largest <= 1, largest the squared spectral norm; the margin is far
        # above its rounding.
        rows = self.rows[concave]
        largest = float(np.linalg.norm(rows, 2)) ** 2 if len(rows) else 1.0
        return np.where(concave, 1.0 / (largest * (1.0 + 1e-10)), 0.0)

    def at(self, z: Float[ndarray, " M"], reach: float, clock: Clock, before: Search | None = None) -> Search:
        """`begin` and `run` in one."""
        self.begin(z, reach, before)
        return self.run(clock)

    def begin(self, z: Float[ndarray, " M"], reach: float, before: Search | None = None) -> Search:
        """Look for first candidates from the pre-activations `z`; `reach` bounds |x| + |offsets|.

        `before` is the search for a larger set that holds all flipped points: its bound holds here,
        and its candidates are worth improving.
        """
        self.floor = 0.0 if before is None else before.certified
        self.z, self.reach, self.found = z, reach, Search(certified=self.floor)
        hints = [] if before is None else sorted(before.candidates, key=lambda c: c.length)[:HINTS]
        self.problem = Problem(self.rows, z, reach, self.space.error)
        self.number = count()
        self.pools: dict[int, list[tuple[float, ndarray]]] = {}
        for relaxation in self.relaxations:
            self._start(relaxation, [candidate.u for candidate in hints])
        return self.found

    def offer(self, u: Float[ndarray, " r"]) -> None:
        """A step that flips the network, found elsewhere: the search may stay within its length."""
        length = math.sqrt(u @ u)
        if length < self.found.attack:
            self.found.candidates.append(Candidate(length, u, u[None]))
        for relaxation in self.relaxations:
            place = self._improve(relaxation, math.inf, self.z + self.rows @ u)
            self.pools[id(relaxation)].append(place)

    def run(self, clock: Clock) -> Search:
        """Branch and bound, in ever larger balls while nothing flipped is known."""
        limit = self._goal() if self.found.candidates else self.reach
        while True:
            certified, finished = self._search(limit, clock)
            # Boxes were cut down to the ball of what was still of interest: no proof goes further.
            certified = min(certified, self._goal())
            self.found.certified = max(self.floor, certified)
            self.found.finished = finished
            # A candidate found on the way may be beyond this ball: then the search continues up to it.
            if not finished or limit >= min(self._goal(), FARTHEST * self.reach):
                return self.found
            limit = min(8.0 * limit, self._goal())

    def _goal(self) -> float:
        """Only flipped points nearer than this are of interest."""
        return self.found.attack * (1.0 - self.gap)

    def _search(self, limit: float, clock: Clock) -> tuple[float, bool]:
        """No flipped point is nearer than the first result; False if the budget ended it."""
        # Everything beyond `limit` is of no interest, so a node that is closed settles for it.
        settled = limit
        heap = [
            _Node(self.found.certified, next(self.number), one, Box.everywhere(len(self.z)), self.z)
            for one in self.relaxations
        ]
        while heap:
            node = heapq.heappop(heap)
            limit = min(limit, self._goal())
            # The heap is ordered: no other open node has a lower bound.
            if node.bound >= limit:
                return min(settled, node.bound), True
            if clock.spent(self.found.nodes):
                return min(settled, node.bound), False
            children, bound = self._branch(node, limit)
            if not children:
                settled = min(settled, bound)
            for child in children:
                heapq.heappush(heap, child)
        return settled, True

    def _branch(self, node: _Node, limit: float) -> tuple[list[_Node], float]:
        """Bound one node; its children, or none if nothing nearer than `limit` is left in it."""
        relaxation, bound, normal, price = node.relaxation, node.bound, node.normal, node.price
        box = shrink(self.problem, node.box, normal, bound, limit)
        if box is None:
            return [], limit
        z = node.z
        if price is not None:
            bound = max(bound, self._separable(relaxation, box, price, limit)[0])
        if bound < limit:
            tightened = self._chords(relaxation, box, z, bound, normal, limit)
            if tightened is None:
                return [], limit
            box, bound, normal, z, settled = tightened
            if settled:
                return [], bound
        if bound >= limit:
            return [], bound
        terms = None
        # Any price gives a bound. A few programs find one that mostly is good enough; only where it
        # proves nothing new, or where the bound has to be exact, is a better one worth its cost.
        for careful in (False, True) if self.gap > 1e-6 else (True,):
            price = self._local(relaxation, box, z, limit, careful) or price
            if price is None:
                continue
            own, terms, place = self._separable(relaxation, box, price, limit)
            if own > bound:
                bound = own
                break
        z = place if terms is not None else z
        if bound >= limit:
            return [], bound
        split = relaxation.cut_at(box, terms, z)
        if split is None:
            return [], bound
        return [
            _Node(bound, next(self.number), relaxation, part, z, normal, price) for part in box.split(*split)
        ], bound

    def _chords(
        self, relaxation: Relaxation, box: Box, z: ndarray, bound: float, normal: ndarray | None, limit: float
    ) -> tuple[Box, float, ndarray | None, ndarray, bool] | None:
        """The chord bound, repeated while it shrinks the box; None if the box is empty."""
        for _ in range(3):
            side = relaxation.outer(box)
            if side is None:
                break
            planes = self._relaxed(relaxation, side, box, [self.z, z], limit)
            answer, rows = planes.answer, planes.rows
            better, bound = answer.bound - bound, max(bound, answer.bound)
            if bound >= limit or answer.u is None:
                # If the solver says "empty" and its multipliers prove less, the node ends here with
                # what is proven: the radius then gets a bracket and not a false certificate.
                return box, bound, normal, z, True
            z = self.z + self.rows @ answer.u
            self._keep(relaxation, answer, rows)
            limit = min(limit, self._goal())
            if answer.bound > 0:
                direction = -(answer.multipliers @ rows)
                normal = direction / math.sqrt(direction @ direction)
            shrunk = shrink(self.problem, box, normal, bound, limit)
            if shrunk is None:
                return None
            box = shrunk
            if better < 0.1 * (limit - bound):
                break
        return box, bound, normal, z, bound >= limit

    def _local(self, relaxation: Relaxation, box: Box, z: ndarray, limit: float, careful: bool) -> Price | None:
        """The price of a local solution inside the box; a careful one may be a candidate too."""
        inside = [
            (length, place)
            for length, place in self.pools[id(relaxation)]
            if np.all(place >= box.lo) and np.all(place <= box.hi)
        ]
        place = min(inside, key=lambda one: one[0])[1] if inside else np.clip(z, box.lo, box.hi)
        price, last, seen = None, math.inf, [place]
        touches, rounds = (2, ROUNDS) if careful else (1, 3)
        for _ in range(touches):
            side = relaxation.touching(box, place)
            planes = self._relaxed(relaxation, side, box, seen, math.inf, rounds)
            answer, rows = planes.answer, planes.rows
            price = price_of(planes, limit) or price
            if answer.u is None:
                break
            place = self.z + self.rows @ answer.u
            seen = [*seen[-1:], place]
            length = math.sqrt(answer.u @ answer.u)
            self._keep(relaxation, answer, rows)
            if abs(length - last) <= (1e-1 * self.gap + 1e-12) * length:
                break
            last = length
        return price

    def _separable(self, relaxation: Relaxation, box: Box, price: Price, limit: float) -> tuple[float, Terms, ndarray]:
        """The separable bound, the terms it is the sum of, and z* = z + rows u*."""
        step = -(price.kappa @ self.rows)
        place = self.z + self.rows @ step
        stiffness = self.stiffness[self.relaxations.index(relaxation)]
        terms = relaxation.terms(box, price, place, stiffness)
        square = float(step @ step)
        total = square + terms.constant + float(terms.least.sum())
        # What the sums above may have been rounded up by: each term's size, and kappa times |z|.
        size = square + terms.size + 2.0 * float(np.abs(price.kappa).sum()) * (self.reach + limit)
        total -= 4.0 * self.space.error * size
        return math.sqrt(max(total, 0.0)), terms, place

    def _relaxed(
        self,
        relaxation: Relaxation,
        side: Affine,
        box: Box | None,
        seen: list[ndarray],
        limit: float,
        rounds: int = ROUNDS,
    ) -> Planes:
        """Cutting planes for the nearest point that `side` allows."""
        tolerance = max(SATISFIED, 1e-3 * self.gap)
        planes = cutting_planes(self.problem, relaxation, side, box, seen, limit, rounds, tolerance)
        self.found.nodes += planes.solved
        return planes

    def _start(self, relaxation: Relaxation, hints: list[ndarray]) -> None:
        """Improve the hints; without any, solve the first inner approximations and improve two."""
        pool: list[tuple[float, ndarray]] = []
        self.pools[id(relaxation)] = pool
        sides = relaxation.starts(self.z)
        for u in hints:
            pool.append(self._improve(relaxation, math.inf, self.z + self.rows @ u))
        # Hints already are where one rival alone wins: the last starts, all rivals alike, are left.
        for side in sides[-1:] if self.found.candidates else sides:
            solution = self._step(relaxation, side, [self.z])
            if solution is not None:
                pool.append(solution)
        done = len(hints) if self.found.candidates else 0
        rest = sorted(range(done, len(pool)), key=lambda i: pool[i][0])[:2]
        for index in rest:
            pool[index] = self._improve(relaxation, *pool[index])

    def _improve(self, relaxation: Relaxation, last: float, z: ndarray) -> tuple[float, ndarray]:
        """The convex-concave procedure: touch the right side at z, solve, repeat."""
        for _ in range(ROUNDS):
            found = self._step(relaxation, relaxation.touching(None, z), [self.z, z])
            if found is None or found[0] > last * (1.0 - max(1e-1 * self.gap, 1e-12)):
                break
            last, z = found
        return last, z

    def _step(self, relaxation: Relaxation, side: Affine, seen: list[ndarray]) -> tuple[float, ndarray] | None:
        """Solve one inner approximation and keep its solution as a candidate."""
        planes = self._relaxed(relaxation, side, None, seen, math.inf)
        answer, rows = planes.answer, planes.rows
        if answer.u is None:
            return None
        self._keep(relaxation, answer, rows)
        return math.sqrt(answer.u @ answer.u), self.z + self.rows @ answer.u

    def _keep(self, relaxation: Relaxation, answer: Nearest, rows: ndarray) -> None:
        """Keep a solution that flips, if need be after a push outwards far below the gap."""
        assert answer.u is not None
        length = math.sqrt(answer.u @ answer.u)
        if length >= self.found.attack:
            return
        along = self.rows @ answer.u
        for push in (0.0,) if self.gap < 1e-6 else (0.0, 1e-4 * self.gap, 1e-2 * self.gap):
            if relaxation.excess(self.z + (1.0 + push) * along) <= SATISFIED * length:
                held, step = rows[answer.multipliers > 0], (1.0 + push) * answer.u
                corners = relaxation.kinks(self.rows, self.z + self.rows @ step, self.reach)
                candidate = Candidate((1.0 + push) * length, step, held, corners)
                self.found.candidates.append(candidate)
                return
