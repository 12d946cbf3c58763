"""Branch and bound for the nearest flipped point, where listing all convex pieces is too much."""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, field, replace
from itertools import count

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.robustness.qp import Nearest, nearest
from featavg.robustness.relaxation import Affine, Box, Relaxation
from featavg.robustness.search import Candidate, Clock, Search
from featavg.robustness.subspace import Subspace

ROUNDS = 12  # cutting planes for one node; a bound from fewer is lower, and as sound
SATISFIED = 1e-11
FARTHEST = 1e7  # beyond this many times |x| the search without any candidate gives up


@dataclass(order=True)
class _Node:
    bound: float
    number: int
    relaxation: Relaxation = field(compare=False)
    box: Box = field(compare=False)
    seen: list[ndarray] = field(compare=False)
    normal: ndarray | None = field(compare=False, default=None)


class TreeSearch:
    r"""min |u| over a union of families, each given by a `Relaxation`.

    A node is a box of pre-activations. Its relaxation is a convex problem, solved by cutting planes
    with one tiny quadratic program each. All that matters lies in the ball |u| <= R, R the best
    candidate, and beyond the half-space n . u >= t that the node's multipliers prove: in that cap

        max c . u  =  t (c . n) + sqrt(|c|^2 - (c . n)^2) sqrt(R^2 - t^2)

    (or R |c| if that end of the ball is in the cap), so boxes shrink as t approaches R and the
    chords over them tighten by themselves. Nodes are taken in the order of their bounds.
    """

    def __init__(self, space: Subspace, relaxations: list[Relaxation], gap: float) -> None:
        self.space, self.relaxations, self.gap = space, relaxations, gap
        self.rows = space.rows
        self.lengths = np.sqrt(np.einsum("mr,mr->m", self.rows, self.rows))

    def at(self, z: Float[ndarray, " M"], reach: float, clock: Clock) -> Search:
        """Search from the pre-activations `z`; `reach` bounds |x| + |offsets|."""
        self.z, self.reach, self.found = z, reach, Search()
        self.number = count()
        for relaxation in self.relaxations:
            for side in relaxation.starts(z):
                self._improve(relaxation, side)
        limit = self._goal() if self.found.candidates else reach
        while True:
            certified, finished = self._search(limit, clock)
            self.found.certified = max(self.found.certified, certified)
            self.found.finished = finished
            if self.found.candidates or not finished or limit > FARTHEST * reach:
                return self.found
            limit *= 8.0

    def _goal(self) -> float:
        """Only flipped points nearer than this are of interest."""
        return self.found.attack * (1.0 - self.gap)

    def _search(self, limit: float, clock: Clock) -> tuple[float, bool]:
        """No flipped point is nearer than the first result; False if the budget ended it."""
        size = len(self.z)
        heap, settled = [], limit
        for relaxation in self.relaxations:
            wide = np.full(relaxation.extra, np.inf)
            everywhere = Box(
                np.full(size, -np.inf), np.full(size, np.inf), np.zeros(size), None, -wide, wide
            )
            heap.append(_Node(0.0, next(self.number), relaxation, everywhere, [self.z]))
        heapq.heapify(heap)
        while heap:
            node = heapq.heappop(heap)
            limit = min(limit, self._goal())
            if node.bound >= limit:
                settled = min(settled, node.bound)
                break
            if clock.spent(self.found.nodes):
                return min(settled, node.bound), False
            children, bound = self._branch(node, limit)
            if not children:
                settled = min(settled, max(bound, node.bound))
            for child in children:
                heapq.heappush(heap, child)
        return min(settled, *(node.bound for node in heap[:1]), math.inf), True

    def _branch(self, node: _Node, limit: float) -> tuple[list[_Node], float]:
        """Bound one node; its children, or none if nothing nearer than `limit` is left in it."""
        box, bound, normal = node.box, node.bound, node.normal
        for _ in range(3):
            shrunk = self._shrink(box, normal, bound, limit)
            if shrunk is None:
                return [], limit
            side = node.relaxation.outer(shrunk)
            answer, rows = self._relaxed(node.relaxation, side, shrunk, node.seen, limit)
            better, bound = answer.bound - bound, max(bound, answer.bound)
            if bound >= limit or answer.u is None:
                # If the solver says "empty" and its multipliers prove less, the node ends here with
                # what is proven: the radius then gets a bracket and not a false certificate.
                return [], bound
            box, normal = shrunk, _direction(rows, answer) if answer.bound > 0 else normal
            if better < 0.1 * (limit - bound):
                break
        z = self.z + self.rows @ answer.u
        if node.relaxation.excess(z) <= SATISFIED * bound:
            self._keep(answer, rows)
        elif node.number < len(self.relaxations) or node.number % 8 == 0:
            self._improve(node.relaxation, node.relaxation.inner(z))
        seen = [*node.seen[-2:], z]
        return [
            _Node(bound, next(self.number), node.relaxation, part, seen, normal)
            for part in node.relaxation.split(box, side, z)
        ], bound

    def _shrink(self, box: Box, normal: ndarray | None, depth: float, limit: float) -> Box | None:
        """The box, cut down to the ball, to the cap, and to what the last imposed sign leaves."""
        spread = np.full((2, len(self.z)), limit) * self.lengths
        if normal is not None:
            np.minimum(spread, self._cap(normal, depth, limit), out=spread)
        if box.last is not None:
            row = self.rows[box.last] * box.sign[box.last]
            length = self.lengths[box.last]
            depth = -self.z[box.last] * box.sign[box.last] / length
            if depth > limit:
                return None
            np.minimum(spread, self._cap(row / length, depth, limit), out=spread)
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
        return np.where(radius * along >= depth * self.lengths, radius * self.lengths, edge)

    def _relaxed(
        self,
        relaxation: Relaxation,
        side: Affine,
        box: Box | None,
        seen: list[ndarray],
        limit: float,
    ) -> tuple[Nearest, ndarray]:
        """Cutting planes: the nearest point that `side` allows, and the rows that hold it."""
        coefficients, constants = _signs(box, len(self.z))
        for z in seen:
            cuts = relaxation.cuts(side, box, z)
            coefficients = np.vstack([coefficients, cuts.coefficients])
            constants = np.concatenate([constants, cuts.constants])
        for _ in range(ROUNDS):
            rows = coefficients @ self.rows
            limits = -(coefficients @ self.z + constants)
            mass = np.abs(coefficients).sum(axis=1)
            errors = self.space.error * mass
            shift = self.space.error * np.abs(constants)
            self.found.nodes += 1
            answer = nearest(rows, limits, errors, errors * self.reach + shift)
            if answer.u is None or answer.bound >= limit:
                break
            z = self.z + self.rows @ answer.u
            cuts = relaxation.cuts(side, box, z)
            violated = cuts(z) > SATISFIED * answer.bound
            if not violated.any():
                break
            coefficients = np.vstack([coefficients, cuts.coefficients[violated]])
            constants = np.concatenate([constants, cuts.constants[violated]])
        return answer, rows

    def _improve(self, relaxation: Relaxation, side: Affine) -> None:
        """The convex-concave procedure: solve an inner approximation, touch again, repeat."""
        last = math.inf
        for _ in range(ROUNDS):
            answer, rows = self._relaxed(relaxation, side, None, [self.z], math.inf)
            if answer.u is None:
                return
            z = self.z + self.rows @ answer.u
            length = math.sqrt(answer.u @ answer.u)
            if relaxation.excess(z) <= SATISFIED * length:
                self._keep(answer, rows)
            if length > last * (1.0 - max(1e-3 * self.gap, 1e-12)):
                return
            last, side = length, relaxation.inner(z)

    def _keep(self, answer: Nearest, rows: ndarray) -> None:
        assert answer.u is not None
        length = math.sqrt(answer.u @ answer.u)
        if length < self.found.attack:
            held = rows[answer.multipliers > 0]
            self.found.candidates.append(Candidate(length, answer.u, held))


def _direction(rows: ndarray, answer: Nearest) -> ndarray:
    normal = -(answer.multipliers @ rows)
    return np.asarray(normal / math.sqrt(normal @ normal))


def _signs(box: Box | None, size: int) -> tuple[ndarray, ndarray]:
    """The imposed signs as rows -sign_r z_r <= 0."""
    chosen = np.flatnonzero(box.sign) if box is not None else np.zeros(0, dtype=int)
    coefficients = np.zeros((len(chosen), size))
    if box is not None:
        coefficients[np.arange(len(chosen)), chosen] = -box.sign[chosen]
    return coefficients, np.zeros(len(chosen))
