"""l2 radii of two-layer networks: exact for read-outs with pieces, within a gap for curved ones."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray

from featavg.errors import InputError
from featavg.nets.two_layer import TwoLayer
from featavg.robustness.exact.branch_and_bound import TreeSearch
from featavg.robustness.exact.budget import NUDGES, SAME_WITHIN, Candidate, Clock, checked_witness
from featavg.robustness.exact.decision import Decision, attacked
from featavg.robustness.exact.everywhere import Everywhere
from featavg.robustness.exact.flip_conditions import conditions_of, curved_of
from featavg.robustness.exact.flipped_set import Family, ReluRelaxation, flipped
from featavg.robustness.exact.layered_network import layered_of
from featavg.robustness.exact.piece_search import PieceSearch, count_pieces, list_leaves
from featavg.robustness.exact.result import Answer, Solver
from featavg.robustness.geometry.subspace import Subspace, reduce

# Listing all pieces is faster than a tree up to about this many.
LISTED = 1024


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
