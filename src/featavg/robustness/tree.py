"""Branch and bound for the nearest flipped point, where listing all convex pieces is too much."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import count

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.robustness.qp import Nearest, nearest
from featavg.robustness.relaxation import Affine, Box, Price, Relaxation, Terms
from featavg.robustness.search import Candidate, Clock, Search
from featavg.robustness.subspace import Subspace

ROUNDS = 12  # cutting planes for one node; a bound from fewer is lower, and as sound
TOUCHES = 2
SATISFIED = 1e-11
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
    """

    def __init__(self, space: Subspace, relaxations: Sequence[Relaxation], gap: float) -> None:
        self.space, self.relaxations, self.gap = space, relaxations, gap
        self.rows = space.rows
        self.lengths = np.sqrt(np.einsum("mr,mr->m", self.rows, self.rows))
        self.stiffness = [self._stiffness(one.concave) for one in relaxations]

    def _stiffness(self, concave: ndarray) -> Float[ndarray, " M"]:
        """D: the same for all concave neurons, as large as rows^T D rows <= 1 allows."""
        rows = self.rows[concave]
        largest = float(np.linalg.norm(rows, 2)) ** 2 if len(rows) else 1.0
        return np.where(concave, 1.0 / (largest * (1.0 + 1e-10)), 0.0)

    def at(self, z: Float[ndarray, " M"], reach: float, clock: Clock, floor: float = 0.0) -> Search:
        """Search from the pre-activations `z`; `reach` bounds |x| + |offsets|.

        `floor` is a bound that is known already.
        """
        self.z, self.reach, self.found = z, reach, Search(certified=floor)
        self.number = count()
        self.pools: dict[int, list[tuple[float, ndarray]]] = {}
        for relaxation in self.relaxations:
            self._start(relaxation)
        limit = self._goal() if self.found.candidates else reach
        while True:
            certified, finished = self._search(limit, clock)
            # Boxes were cut down to the ball of what was still of interest: no proof goes further.
            certified = min(certified, self._goal())
            self.found.certified = max(floor, certified)
            self.found.finished = finished
            if self.found.candidates or not finished or limit > FARTHEST * reach:
                return self.found
            limit *= 8.0

    def _goal(self) -> float:
        """Only flipped points nearer than this are of interest."""
        return self.found.attack * (1.0 - self.gap)

    def _search(self, limit: float, clock: Clock) -> tuple[float, bool]:
        """No flipped point is nearer than the first result; False if the budget ended it."""
        settled = limit
        heap = [
            _Node(self.found.certified, next(self.number), one, Box.everywhere(len(self.z)), self.z)
            for one in self.relaxations
        ]
        while heap:
            node = heapq.heappop(heap)
            limit = min(limit, self._goal())
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
        box = self._shrink(node.box, normal, bound, limit)
        if box is None:
            return [], limit
        z = node.z
        if price is not None:
            bound = max(bound, self._separable(relaxation, box, price, limit)[0])
        if relaxation.has_outer and bound < limit:
            tightened = self._chords(relaxation, box, z, bound, normal, limit)
            if tightened is None:
                return [], limit
            box, bound, normal, z, settled = tightened
            if settled:
                return [], bound
        if bound >= limit:
            return [], bound
        fresh = self._local(relaxation, box, z, limit)
        price = fresh or price
        terms = None
        if price is not None:
            own, terms, z = self._separable(relaxation, box, price, limit)
            bound = max(bound, own)
        if bound >= limit:
            return [], bound
        split = relaxation.cut_at(box, terms, z)
        if split is None:
            return [], bound
        return [
            _Node(bound, next(self.number), relaxation, part, z, normal, price)
            for part in box.split(*split)
        ], bound

    def _chords(
        self,
        relaxation: Relaxation,
        box: Box,
        z: ndarray,
        bound: float,
        normal: ndarray | None,
        limit: float,
    ) -> tuple[Box, float, ndarray | None, ndarray, bool] | None:
        """The chord bound, repeated while it shrinks the box; None if the box is empty."""
        for _ in range(3):
            side = relaxation.outer(box)
            answer, rows, _ = self._relaxed(relaxation, side, box, [self.z, z], limit)
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
            shrunk = self._shrink(box, normal, bound, limit)
            if shrunk is None:
                return None
            box = shrunk
            if better < 0.1 * (limit - bound):
                break
        return box, bound, normal, z, bound >= limit

    def _local(self, relaxation: Relaxation, box: Box, z: ndarray, limit: float) -> Price | None:
        """The price of a local solution inside the box."""
        inside = [
            (length, place)
            for length, place in self.pools[id(relaxation)]
            if np.all(place >= box.lo) and np.all(place <= box.hi)
        ]
        place = min(inside, key=lambda one: one[0])[1] if inside else np.clip(z, box.lo, box.hi)
        price, last, seen = None, math.inf, [place]
        for _ in range(TOUCHES):
            side = relaxation.touching(box, place)
            answer, rows, cuts = self._relaxed(relaxation, side, box, seen, math.inf)
            price = self._price(answer, rows, cuts, limit) or price
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

    def _price(self, answer: Nearest, rows: ndarray, cuts: Affine, limit: float) -> Price | None:
        """The multipliers of a quadratic program, scaled so that u* = -rows^T kappa is its u."""
        step = answer.multipliers @ rows
        length = math.sqrt(step @ step)
        if not length > 0.0:
            return None
        # An empty problem has a ray instead: any multiple is valid, a long one prunes.
        target = math.sqrt(answer.u @ answer.u) if answer.u is not None else 2.0 * limit
        scaled = answer.multipliers * (target / length)
        return Price(scaled @ cuts.coefficients, scaled @ cuts.shares, self.z)

    def _separable(
        self, relaxation: Relaxation, box: Box, price: Price, limit: float
    ) -> tuple[float, Terms, ndarray]:
        """The separable bound, the terms it is the sum of, and z* = z + rows u*."""
        step = -(price.kappa @ self.rows)
        place = self.z + self.rows @ step
        stiffness = self.stiffness[self.relaxations.index(relaxation)]
        terms = relaxation.terms(box, price, place, stiffness)
        square = float(step @ step)
        total = square + terms.constant + float(terms.least.sum())
        size = square + terms.size + 2.0 * float(np.abs(price.kappa).sum()) * (self.reach + limit)
        total -= 4.0 * self.space.error * size
        return math.sqrt(max(total, 0.0)), terms, place

    def _shrink(self, box: Box, normal: ndarray | None, depth: float, limit: float) -> Box | None:
        """The box, cut down to the ball, to the cap, and to what the last split leaves."""
        spread = np.stack([self.lengths, self.lengths]) * limit
        if normal is not None:
            np.minimum(spread, self._cap(normal, depth, limit), out=spread)
        r = box.last
        if r is not None and self.lengths[r] > 0:
            for sign, end in ((1.0, box.low[r]), (-1.0, -box.high[r])):
                depth = (end - sign * self.z[r]) / self.lengths[r]
                if depth > limit:
                    return None
                if depth > -limit:
                    row = self.rows[r] * (sign / self.lengths[r])
                    np.minimum(spread, self._cap(row, depth, limit), out=spread)
        spread += self.space.error * (self.reach + limit)
        lo = np.maximum(box.lo, self.z - spread[1])
        hi = np.minimum(box.hi, self.z + spread[0])
        return None if np.any(lo > hi) else replace(box, lo=lo, hi=hi)

    def _cap(self, normal: ndarray, depth: float, radius: float) -> Float[ndarray, "2 M"]:
        """The largest rows @ u and -rows @ u over |u| <= radius, normal . u >= depth."""
        along = self.rows @ normal
        along = np.stack([along, -along])
        across = np.sqrt(np.maximum(self.lengths**2 - along[0] ** 2, 0.0))
        edge = depth * along + across * math.sqrt(max(radius**2 - depth**2, 0.0))
        inside = radius * along >= depth * self.lengths
        return np.asarray(np.where(inside, radius * self.lengths, edge))

    def _relaxed(
        self,
        relaxation: Relaxation,
        side: Affine,
        box: Box | None,
        seen: list[ndarray],
        limit: float,
    ) -> tuple[Nearest, ndarray, Affine]:
        """Cutting planes: the nearest point that `side` allows, its rows and their meaning."""
        cuts = _imposed(box, len(self.z), relaxation)
        for z in seen:
            cuts = _both(cuts, relaxation.cuts(side, z))
        for last in range(ROUNDS, 0, -1):
            rows = cuts.coefficients @ self.rows
            limits = -cuts.at(self.z)
            errors = self.space.error * np.abs(cuts.coefficients).sum(axis=1)
            shift = self.space.error * np.abs(cuts.constants)
            self.found.nodes += 1
            answer = nearest(rows, limits, errors, errors * self.reach + shift)
            if answer.u is None or answer.bound >= limit or last == 1:
                break
            z = self.z + self.rows @ answer.u
            new = relaxation.cuts(side, z)
            steep = np.sqrt(np.square(new.coefficients @ self.rows).sum(axis=1))
            violated = new.at(z) > max(SATISFIED, 1e-3 * self.gap) * answer.bound * steep
            if not violated.any():
                break
            cuts = _both(cuts, new, violated)
        return answer, rows, cuts

    def _start(self, relaxation: Relaxation) -> None:
        """Solve the first inner approximations once each, and improve the two best."""
        pool: list[tuple[float, ndarray]] = []
        self.pools[id(relaxation)] = pool
        for side in relaxation.starts(self.z):
            found = self._step(relaxation, side, [self.z])
            if found is not None:
                pool.append(found)
        for index in sorted(range(len(pool)), key=lambda i: pool[i][0])[:2]:
            pool[index] = self._improve(relaxation, *pool[index])

    def _improve(self, relaxation: Relaxation, last: float, z: ndarray) -> tuple[float, ndarray]:
        """The convex-concave procedure: touch the right side at z, solve, repeat."""
        for _ in range(ROUNDS):
            found = self._step(relaxation, relaxation.touching(None, z), [self.z, z])
            if found is None or found[0] > last * (1.0 - max(1e-2 * self.gap, 1e-12)):
                break
            last, z = found
        return last, z

    def _step(
        self, relaxation: Relaxation, side: Affine, seen: list[ndarray]
    ) -> tuple[float, ndarray] | None:
        """Solve one inner approximation and keep its solution as a candidate."""
        answer, rows, _ = self._relaxed(relaxation, side, None, seen, math.inf)
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
                self.found.candidates.append(Candidate((1.0 + push) * length, step, held))
                return


def _imposed(box: Box | None, size: int, relaxation: Relaxation) -> Affine:
    """The bounds imposed by splits as rows: low_r - z_r <= 0 and z_r - high_r <= 0."""
    shares = relaxation.inequalities
    if box is None:
        return Affine(np.zeros((0, size)), np.zeros(0), np.zeros((0, shares)))
    low, high = np.flatnonzero(box.low > -np.inf), np.flatnonzero(box.high < np.inf)
    coefficients = np.zeros((len(low) + len(high), size))
    coefficients[np.arange(len(low)), low] = -1.0
    coefficients[len(low) + np.arange(len(high)), high] = 1.0
    constants = np.concatenate([box.low[low], -box.high[high]])
    return Affine(coefficients, constants, np.zeros((len(constants), shares)))


def _both(first: Affine, second: Affine, chosen: ndarray | slice = slice(None)) -> Affine:
    return Affine(
        np.concatenate([first.coefficients, second.coefficients[chosen]]),
        np.concatenate([first.constants, second.constants[chosen]]),
        np.concatenate([first.shares, second.shares[chosen]]),
    )
