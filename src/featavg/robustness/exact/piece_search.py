r"""The exact l2 radius at a point by listing convex pieces, the most promising first.

Why a bound holds. A piece is {up . relu(z) + shift <= down . z_S}, z_S the neurons of S without
ReLUs. For any pattern T, up . relu(z) >= up . z_T, because relu(z) >= z and relu(z) >= 0. So the
piece lies in the half-space up . z_T + shift <= down . z_S, affine in u, whose distance from u = 0
is depth / |slope|; and in the polyhedron of several of them, whose distance is a quadratic program.
Every distance is rounded down: depth loses, and slope gains, what float64 may have added to them.
The radius is the least distance over the pieces, so the least bound is certified at any time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.robustness.exact.budget import SAME_WITHIN, Candidate, Clock, Search
from featavg.robustness.exact.flipped_set import Family, kinks
from featavg.robustness.geometry.qp import nearest
from featavg.robustness.geometry.subspace import Subspace

# A solution that violates an inequality by less than this share of its length needs no further cut.
SATISFIED = 1e-11


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
