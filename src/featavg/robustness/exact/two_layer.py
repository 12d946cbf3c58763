r"""l2 radii of two-layer networks: exact for read-outs with pieces, within a gap for curved ones.

A flipped set of few convex pieces is searched by listing them, the most promising first; of many, or a
curved one, by branch and bound (`branch_and_bound`).

Why a bound over the list holds. A piece is {up . relu(z) + shift <= down . z_S}, z_S the neurons of S
without ReLUs. For any pattern T, up . relu(z) >= up . z_T, because relu(z) >= z and relu(z) >= 0. So the
piece lies in the half-space up . z_T + shift <= down . z_S, affine in u, whose distance from u = 0
is depth / |slope|; and in the polyhedron of several of them, whose distance is a quadratic program.
Every distance is rounded down: depth loses, and slope gains, what float64 may have added to them.
The radius is the least distance over the pieces, so the least bound is certified at any time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import product
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray

from featavg.errors import InputError
from featavg.nets.two_layer import TwoLayer
from featavg.robustness.exact.branch_and_bound import TreeSearch
from featavg.robustness.exact.budget import NUDGES, SAME_WITHIN, Candidate, Clock, Search, checked_witness
from featavg.robustness.exact.decision import Decision, attacked
from featavg.robustness.exact.everywhere import Everywhere
from featavg.robustness.exact.flip_conditions import conditions_of, curved_of
from featavg.robustness.exact.flipped_set import Family, ReluRelaxation, flipped, kinks
from featavg.robustness.exact.layered_network import layered_of
from featavg.robustness.exact.result import Answer, Solver
from featavg.robustness.geometry.qp import nearest
from featavg.robustness.geometry.subspace import Subspace, reduce

# A solution that violates an inequality by less than this share of its length needs no further cut.
SATISFIED = 1e-11
# Listing all pieces is faster than a tree up to about this many.
LISTED = 1024


@dataclass(frozen=True, eq=False)
class Leaves:
    r"""The convex sets {up_i . relu(z) + shift_i <= down_i . z_S for all i}, one for each subset S.

    A sum of ReLUs is the maximum over subsets S of neurons of the sums over S without ReLUs. So
    the flipped set is the union over S of these sets: 2^m of them for a binary network with m
    neurons a class, where the activation regions are 2^(2m).

    Attributes:
        families: the families, all with I inequalities.
        family: the family of each leaf.
        down: down_i restricted to S.
        slopes: the same in the coordinates u.
    """

    families: list[Family]
    family: Int[ndarray, " K"]
    down: Float[ndarray, "K I M"]
    slopes: Float[ndarray, "K I r"]

    @property
    def up(self) -> Float[ndarray, "F I M"]:
        """The convex sides of all families."""
        return np.stack([family.up for family in self.families])

    @property
    def shift(self) -> Float[ndarray, "F I"]:
        """Their constants."""
        return np.stack([family.shift for family in self.families])


def count_pieces(families: list[Family]) -> int:
    """How many convex pieces `list_leaves` would list."""
    return sum(2 ** int(family.concave.sum()) for family in families)


def list_leaves(space: Subspace, families: list[Family]) -> Leaves:
    """Every convex piece of the flipped set: for networks with few neurons on the far side.

    >>> from featavg.nets.two_layer import binary
    >>> from featavg.robustness.exact.flipped_set import flipped
    >>> from featavg.robustness.geometry.subspace import reduce
    >>> space = reduce(binary(np.eye(6)))
    >>> list_leaves(space, flipped(space, [np.array([[1.0]])])).down.shape
    (8, 1, 6)
    """
    family, down = [], []
    for number, one in enumerate(families):
        chosen = np.flatnonzero(one.concave)
        patterns = np.array(list(product((1.0, 0.0), repeat=len(chosen))))
        mask = np.zeros((len(patterns), one.down.shape[1]))
        mask[:, chosen] = patterns
        down.append(one.down[None] * mask[:, None, :])
        family.append(np.full(len(patterns), number))
    stacked = np.concatenate(down)
    return Leaves(families, np.concatenate(family), stacked, stacked @ space.rows)


class _Cuts:
    """Affine minorants of the convex sides of one family: inequality, slope, value and mass."""

    def __init__(self, slopes: ndarray, values: ndarray, mass: ndarray, active: ndarray) -> None:
        self.which = list(range(len(values)))
        self.slopes, self.values, self.mass = list(slopes), list(values), list(mass)
        self.known = {(i, active.tobytes()) for i in self.which}


class PieceSearch:
    r"""min |u| over the union of the leaves, at one point after another.

    Every leaf has a lower bound. The leaf with the lowest is solved with the cuts known for its
    family: up_i . relu(z) >= sum over T of up_i z for every subset T of its neurons, so each T is
    one linear cut, and T is chosen active at the last solution. A new cut raises at once the bounds
    of all leaves of the family, since each cut alone is a half-space with a distance in closed
    form. The search ends when no leaf has a bound below the best point found.
    """

    def __init__(self, space: Subspace, pieces: Leaves) -> None:
        self.space, self.pieces = space, pieces
        self.up, self.shift = pieces.up, pieces.shift
        self.members = [np.flatnonzero(pieces.family == f) for f in range(len(pieces.families))]
        self.down_mass = pieces.down.sum(axis=2)

    def at(self, z: Float[ndarray, " M"], reach: float, clock: Clock) -> Search:
        """Search from the pre-activations `z`; `reach` bounds |x| + |offsets|."""
        self.z, self.reach = z, reach
        self.values = self.pieces.down @ z
        self.bounds = np.zeros(len(self.values))
        cuts = self._first_cuts()
        # The bounds of leaves that are settled or cannot be settled are out of the race.
        pending = self.bounds.copy()
        found = Search()
        while True:
            leaf = int(pending.argmin())
            if pending[leaf] >= found.attack * (1.0 - SAME_WITHIN):
                break
            if clock.spent(found.nodes):
                found.finished = False
                break
            settled = self._solve(leaf, cuts[self.pieces.family[leaf]], found)
            np.copyto(pending, self.bounds, where=pending < math.inf)
            if settled:
                pending[leaf] = math.inf
        found.certified = float(self.bounds.min())
        return found

    def _first_cuts(self) -> list[_Cuts]:
        """The cuts of the pattern at the point itself, for all families and inequalities at once."""
        active = self.z > 0
        p = self.up * active
        slopes = p @ self.space.rows
        values = p @ self.z + self.shift
        mass = p.sum(axis=2)
        family = self.pieces.family
        self.bounds = self._distances(
            slopes[family] - self.pieces.slopes,
            values[family] - self.values,
            mass[family] + self.down_mass,
            self.shift[family],
        ).max(axis=1)
        return [_Cuts(*one, active) for one in zip(slopes, values, mass, strict=True)]

    def _distances(self, across: ndarray, depth: ndarray, mass: ndarray, shift: ndarray | float) -> ndarray:
        """Distances of half-spaces from the point, rounded down."""
        error = self.space.error
        # A sum of `mass` unit rows has rounding errors up to error * mass in its slope, and as much
        # times |x| + |offsets| in its value.
        depth = depth - error * (mass * self.reach + np.abs(shift))
        length = np.sqrt(np.einsum("...r,...r->...", across, across)) + error * mass
        length[length == 0.0] = np.finfo(float).tiny
        with np.errstate(over="ignore"):  # a half-space of no direction is infinitely far
            return np.asarray(np.maximum(depth, 0.0) / length)

    def _add(self, f: int, i: int, active: ndarray, cuts: _Cuts) -> bool:
        """Add the cut of the pattern `active` and raise the bounds of the family's leaves."""
        key = (i, active.tobytes())
        if key in cuts.known:
            return False
        cuts.known.add(key)
        p = self.up[f, i] * active
        cuts.which.append(i)
        cuts.slopes.append(p @ self.space.rows)
        cuts.values.append(float(p @ self.z) + self.shift[f, i])
        cuts.mass.append(p.sum())
        leaf = self.members[f]
        distance = self._distances(
            cuts.slopes[-1] - self.pieces.slopes[leaf, i],
            cuts.values[-1] - self.values[leaf, i],
            cuts.mass[-1] + self.down_mass[leaf, i],
            self.shift[f, i],
        )
        self.bounds[leaf] = np.maximum(self.bounds[leaf], distance)
        return True

    def _solve(self, leaf: int, cuts: _Cuts, found: Search) -> bool:
        """One quadratic program for one leaf; True if the leaf need not be asked again."""
        found.nodes += 1
        f, which = int(self.pieces.family[leaf]), cuts.which
        rows = np.array(cuts.slopes) - self.pieces.slopes[leaf, which]
        limits = self.values[leaf, which] - np.array(cuts.values)
        errors = self.space.error * (np.array(cuts.mass) + self.down_mass[leaf, which])
        shift_errors = self.space.error * np.abs(self.shift[f, which])
        answer = nearest(rows, limits, errors, errors * self.reach + shift_errors)
        self.bounds[leaf] = max(self.bounds[leaf], answer.bound)
        if answer.u is None:
            # Empty, or so the solver says: what its multipliers prove is in the bound.
            return True
        # Not nearer than what is known: its bound says so for good.
        if answer.bound >= found.attack:
            return True
        u = answer.u
        length = math.sqrt(u @ u)
        z = self.z + self.space.rows @ u
        excess = self.up[f] @ np.maximum(z, 0.0) + self.shift[f] - self.pieces.down[leaf] @ z
        added = False
        for i in np.flatnonzero(excess > SATISFIED * length):
            added |= self._add(f, int(i), z > 0, cuts)
        if added:
            return False
        held, down = rows[answer.multipliers > 0], self.pieces.down[leaf]
        corners = kinks(self.space.rows, self.up[f], down, z, self.reach + length)
        found.candidates.append(Candidate(length, u, held, corners))
        return True


@dataclass(eq=False)
class Searches:
    """The searches for the points of one label.

    Attributes:
        own: the outputs that speak for the label.
        pieces: of the flipped outputs; None for a curved read-out.
        search: for the nearest flipped point; None if there is none, or no relaxation.
        floor: for a curved read-out, the search with the piecewise linear one that it stays near.
    """

    decision: Decision
    net: TwoLayer
    space: Subspace
    own: Bool[ndarray, " c"]
    pieces: list[ndarray] | None
    search: PieceSearch | TreeSearch | None
    floor: PieceSearch | TreeSearch | None = None

    @cached_property
    def dominated(self) -> bool:
        """For a curved read-out, whether nothing flips anywhere; the same for every point."""
        curved = None if self.pieces is not None else curved_of(self.decision.readout)
        return curved is not None and curved.never_flips(self.net, self.space, self.own)


class TwoLayerSolver(Solver):
    """The searches for one network, one for each label, made once and used for all points."""

    def __init__(self, decision: Decision, labels: Iterable[int], gap: float) -> None:
        net = decision.net
        assert isinstance(net, TwoLayer)
        if net.outputs > 1 and not np.all((net.head != 0).any(axis=1)):
            raise InputError("net", "has an empty group", "give every output at least one neuron")
        self.decision, self.net, self.gap, self.space = decision, net, gap, reduce(net)
        self.whole = Everywhere(layered_of(net))
        self.searches = {label: self._searches(label) for label in labels}

    def hints(self, x: Float[ndarray, "n N"], y: Int[ndarray, " n"], where: Int[ndarray, " q"]) -> list[ndarray]:
        """The pre-activations of the points asked for."""
        return list(self.space.preactivations(x)[where])

    def _searches(self, label: int) -> Searches:
        decision, space, own = self.decision, self.space, self.decision.own(label)
        pieces = decision.pieces(label)
        if pieces is not None:
            straight = self._straight(flipped(space, pieces))
            return Searches(decision, self.net, space, own, pieces, straight)
        # Without pieces: score <= hard + slack on the rivals' side. The read-out `hard` with that
        # slack has all flipped points among its own, so its radius is a first bound, and the better
        # the larger the outputs are.
        hard = decision.readout.hard(int(np.sum(~own)))
        near = None if hard is None else hard[0].pieces(own)
        if hard is None or near is None:
            problem = f"is {decision.readout.name}, a curved score without exact radii"
            raise InputError("readout", problem, "use attack_suite, or a read-out with pieces")
        floor, search = self._straight(flipped(space, near, hard[1])), None
        curved = curved_of(decision.readout)
        if curved is not None:
            family = curved.relaxation(space.head, space.constant, own)
            # A little inside the gap, so that the nudge of the witness does not leave it.
            search = TreeSearch(space, [family], 0.999 * self.gap)
        return Searches(decision, self.net, space, own, None, search, floor)

    def _straight(self, families: list[Family]) -> PieceSearch | TreeSearch | None:
        if not families:
            return None
        if count_pieces(families) <= LISTED:
            return PieceSearch(self.space, list_leaves(self.space, families))
        return TreeSearch(self.space, [ReluRelaxation(family) for family in families], SAME_WITHIN)

    def at(
        self, x: Float[ndarray, " N"], label: int, clock: Clock, hint: Any = None, radius: float | None = None
    ) -> Answer:
        """The radius of one correctly classified point."""
        about = self.searches[label]
        search, floor = about.search, about.floor
        if search is None and floor is None:
            return Answer.proven_never(x, 0)
        z: Float[ndarray, " M"] = hint
        reach = float(np.linalg.norm(x) + np.abs(self.space.offsets).max(initial=0.0))
        before = None if floor is None else floor.at(z, reach, clock)
        shown = None  # what the attacks reach; asked once
        if isinstance(search, TreeSearch):
            search.begin(z, reach, before)
            if not search.found.candidates:
                # Nothing flipped is known, so a bound may have to grow without end: check.
                if about.dominated:
                    return Answer.proven_never(x, search.found.nodes)
                shown = attacked(self.decision, x[None], np.array([label]))
                if shown[0][0] < math.inf:
                    search.offer(np.asarray((shown[1][0] - x) @ self.space.basis))
            found = search.run(clock)
        elif search is not None:
            found = search.at(z, reach, clock)
        else:
            assert before is not None
            found = replace(before, candidates=[])
        flip = partial(nudged_flip, self.decision, self.space, x, label)
        attack, witness = checked_witness(x, found, flip)
        if attack == math.inf:
            if found.finished and self._never(label, clock):
                return Answer.proven_never(x, found.nodes)
            radii, points = shown or attacked(self.decision, x[None], np.array([label]))
            attack, witness = float(radii[0]), points[0]
        certified = min(found.certified, attack)
        # Of the size of the nudge of a witness: points on the boundary itself.
        rounding = 1e-12 * reach
        return Answer(certified, attack, witness, found.nodes, found.finished, rounding)

    def _never(self, label: int, clock: Clock) -> bool:
        """Whether it is proven that no point with this label flips."""
        about = self.searches[label]
        if about.pieces is None:
            return about.dominated
        return self.whole.at(label, conditions_of(self.decision, label), clock).never


def nudged_flip(
    decision: Decision, space: Subspace, x: Float[ndarray, " N"], label: int, candidate: Candidate
) -> Float[ndarray, " N"] | None:
    """The candidate, nudged until it is flipped however the sums in the network are rounded."""
    weak = None
    for half, full in _nudged(candidate, float(np.linalg.norm(x))):
        points = x + np.stack([full, half]) @ space.basis.T
        alone = decision.margins(points[:1], label)[0] <= 0
        # Flipped half-way through the nudge as well, and in other company: rounding does not decide.
        if alone and np.all(decision.margins(points, label) <= 0):
            return np.asarray(points[0])
        if alone and weak is None:
            weak = np.asarray(points[0])
    if weak is not None:
        return weak
    # A network may reach zero at a corner and turn back: try the corner itself, as at x = 0.
    point = x + space.basis @ candidate.u
    point[np.abs(point) <= 1e-12 * np.abs(x).max()] = 0.0
    return np.asarray(point) if decision.margins(point[None], label)[0] <= 0 else None


def _nudged(candidate: Candidate, reach: float) -> Iterator[tuple[ndarray, ndarray]]:
    """Ever larger nudges: along the step, and away from all constraints that hold it."""
    # Steps as short as rounding errors need a nudge that is not.
    scale = max(candidate.length, 1e-4 * reach)
    ways = [candidate.u * (scale / candidate.length)] if candidate.length > 0 else []
    if len(candidate.rows) > 1 or not ways:
        ways.append(scale * candidate.inwards())
    off = candidate.off()
    if off is not None:
        ways.append(scale * off)
    for nudge in NUDGES:
        for way in ways:
            yield candidate.u + (0.5 * nudge) * way, candidate.u + nudge * way
