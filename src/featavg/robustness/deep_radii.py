"""Radii of networks of any depth and any number of classes: the entrance to `exact/deep`."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.data.partition import positive_mask
from featavg.errors import InputError, one_of
from featavg.nets.deep import Deep
from featavg.nets.readouts.readout import ReadOut
from featavg.nets.readouts.registry import READOUTS, readout_of
from featavg.nets.two_layer import TwoLayer
from featavg.progress import Progress
from featavg.robustness.exact.budget import SAME_WITHIN, Budget, Candidate, Clock, Search
from featavg.robustness.exact.deep.ball_search import BallSearch
from featavg.robustness.exact.deep.goals import Goal, argmax_goals, decision_goals
from featavg.robustness.exact.deep.layered_network import Layered, layered
from featavg.robustness.exact.deep.search import DeepSearch
from featavg.robustness.exact.result import EXACT_WITHIN, Radii, RadiusStatus
from featavg.robustness.exact.witness import NUDGES

ARGMAX = "argmax"
# Of the outputs: what flips by this much flips however its sums are rounded, and the search's own
# tolerance (`search.SATISFIED`) is half of it.
CLEARLY = 2e-10
# Coordinates of a witness below this, relative to the point's largest, are tried as zeros too: what a
# program's solution has there instead is its rounding.
ROUNDED = 1e-9
# Hidden neurons beyond which most searches spend any budget: 6 layers of 20 trained neurons do.
MOST_NEURONS = 100


def layered_of(net: Deep | TwoLayer) -> Layered:
    """A network of featavg in the form that the deep search takes."""
    if isinstance(net, TwoLayer):
        if net.batch:
            raise InputError("net", "is a batch of networks", "pick one of them by index")
        return layered([net.weights, net.head], [net.biases, None])
    if net.weights[0].ndim != 2:
        raise InputError("net", "is a batch of networks", "pick one of them by index")
    leak = net.phi.negative_slope
    if leak is None:
        problem = f"has the activation {net.phi.name}, which is not linear on both sides of zero"
        raise InputError("net", problem, "exact radii need a ReLU or a leaky one")
    return layered(net.weights, net.biases, [layer.skip for layer in net.layers[:-1]], leak)


@dataclass(frozen=True, eq=False)
class DeepDecision:
    """A network, how its outputs decide, and which points count as flipped."""

    net: Deep | TwoLayer
    readout: str | ReadOut
    positive: ndarray

    def goals(self, label: int) -> list[Goal]:
        """The flipped outputs of a point with this label, as a union."""
        if self.readout == ARGMAX and self.net.outputs > 1:
            return list(argmax_goals(self.net.outputs, label))
        # One output decides by its sign, whatever the read-out.
        rule = "sum" if self.readout == ARGMAX else self.readout
        return decision_goals(self.net.outputs, label, rule, self.positive)

    def excess(self, x: Float[ndarray, "n N"], goals: list[Goal]) -> Float[ndarray, " n"]:
        """At most zero where the network itself, evaluated plainly, is flipped."""
        outputs = self.net(x)
        return np.min([goal.excess(outputs) for goal in goals], axis=0)


def deep_case(
    net: Deep | TwoLayer,
    x: Float[ndarray, "n N"],
    y: Int[ndarray, " n"],
    readout: str | ReadOut,
    positive: ndarray | None,
) -> tuple[DeepDecision, Float[ndarray, "n N"], Int[ndarray, " n"]]:
    """The decision, points and labels, checked: a label that is none would give a false radius."""
    if isinstance(readout, str):
        one_of("readout", readout, (ARGMAX, *READOUTS))
    if readout != ARGMAX:
        readout = readout_of(readout)
    points, labels = np.asarray(x, dtype=float), np.asarray(y)
    if points.ndim != 2 or points.shape[1] != net.dimension:
        remedy = f"give rows of {net.dimension} coordinates"
        raise InputError("x", f"has shape {points.shape}", remedy)
    if not np.all(np.isfinite(points)):
        raise InputError("x", "holds a NaN or an infinity", "give finite points")
    if labels.shape != (len(points),):
        remedy = f"give one label for each of {len(points)} points"
        raise InputError("y", f"has shape {labels.shape}", remedy)
    classes = readout == ARGMAX and net.outputs > 1
    allowed = np.arange(net.outputs) if classes else np.array([-1, 1])
    if not np.all(np.isin(labels, allowed)):
        names = f"0 to {net.outputs - 1}" if classes else "-1 and +1"
        raise InputError("y", f"has labels other than {names}", "give the labels of the decision")
    if classes and positive is not None:
        remedy = f"choose readout among {', '.join(READOUTS)}, or leave it out"
        raise InputError("positive", "means nothing to the largest of the outputs", remedy)
    mask = np.ones(1, dtype=bool)
    if net.outputs > 1 and not classes:
        if positive is None:
            name = readout if isinstance(readout, str) else readout.name
            problem = f"is missing for the read-out {name}"
            raise InputError("positive", problem, f"say which of {net.outputs} outputs are +1")
        mask = positive_mask(positive, net.outputs, "outputs")
    return DeepDecision(net, readout, mask), points, labels.astype(int)


class DeepSolver:
    """The searches for one network, one for each label, made once and used for all points."""

    def __init__(self, decision: DeepDecision, gap: float) -> None:
        self.decision, self.gap = decision, gap
        self.layered = layered_of(decision.net)
        self.searches: dict[int, DeepSearch] = {}
        self.balls: dict[int, BallSearch] = {}
        # How far from zero the farthest kink of the first layer is; a weight of zero has none.
        lengths = self.layered.lengths
        self.kinks = float(
            np.max(np.abs(self.layered.offset[lengths > 0]) / lengths[lengths > 0], initial=0.0)
        )

    def search(self, label: int) -> DeepSearch:
        """The search for points with this label."""
        if label not in self.searches:
            goals = self.decision.goals(label)
            gap = 0.999 * self.gap if any(goal.curved for goal in goals) else SAME_WITHIN
            self.searches[label] = DeepSearch(self.layered, goals, gap)
        return self.searches[label]

    def at(
        self, x: Float[ndarray, " N"], label: int, clock: Clock, radius: float | None = None
    ) -> tuple[Search, float, Float[ndarray, " N"]]:
        """What the search found at one point, and its shortest witness, re-checked."""
        search = self.search(label)
        reach = float(np.linalg.norm(x)) + self.kinks
        z = self.layered.start(x[None])[0]
        found = search.at(z, reach, clock, radius)
        attack, witness = self._witness(x, list(search.goals), found)
        if attack <= found.attack * (1.0 + EXACT_WITHIN):
            return found, attack, witness
        # The nearest flipped point is the tip of a cone that no nudge hits, or touches zero and turns
        # back. What can be shown is the nearest point that flips by more than rounding.
        margin = CLEARLY * (float(np.abs(self.layered.forward(z)[-1]).max()) or 1.0)
        goals = [goal.clear(margin) for goal in search.goals]
        rest = replace(clock, nodes=clock.nodes - found.nodes)
        clear = DeepSearch(self.layered, goals, search.gap).at(z, reach, rest, radius)
        found.nodes += clear.nodes
        found.finished &= clear.finished
        other, point = self._witness(x, list(search.goals), clear)
        return (found, other, point) if other < attack else (found, attack, witness)

    def within(
        self, x: Float[ndarray, " N"], label: int, budget: Budget, radius: float
    ) -> tuple[Search, float, Float[ndarray, " N"]]:
        """The same for the decision at a radius: bounds of the ball first, the radius if they fail.

        In a small ball most neurons keep their sign, and its bounds decide wide networks at once. A
        part that they cannot close, because all of its signs are decided and the boundary is as far
        as the radius itself, is one for the search that ends exactly.
        """
        clock, goals = budget.start(), self.decision.goals(label)
        if not any(goal.curved for goal in goals):
            if label not in self.balls:
                self.balls[label] = BallSearch(self.layered, goals)
            reach = float(np.linalg.norm(x)) + self.kinks
            found = self.balls[label].at(self.layered.start(x[None])[0], reach, radius, clock)
            attack, witness = self._witness(x, goals, found)
            if attack <= radius or found.certified >= radius or clock.spent(found.nodes):
                return found, attack, witness
            clock = replace(clock, nodes=clock.nodes - found.nodes)
        return self.at(x, label, clock, radius)

    def _witness(
        self, x: ndarray, goals: list[Goal], found: Search
    ) -> tuple[float, Float[ndarray, " N"]]:
        best, where = math.inf, np.full_like(x, np.nan)
        for candidate in sorted(found.candidates, key=lambda kept: kept.length):
            if candidate.length >= best:
                break
            point = self._flipped(x, goals, candidate)
            if point is not None and (distance := float(np.linalg.norm(point - x))) < best:
                best, where = distance, point
        return best, where

    def _flipped(self, x: ndarray, goals: list[Goal], candidate: Candidate) -> ndarray | None:
        """The candidate, nudged outwards and away from its constraints until the network flips."""
        ways = [candidate.u]
        if len(candidate.rows) > 1:
            ways.append(candidate.length * candidate.inwards())
        start = self.layered.start(x[None])[0]
        scales = self.layered.forward(start)
        layers = self.layered.forward(start + self.layered.rows @ candidate.u)
        for goal in goals:
            rows = self.layered.kinks(layers, scales, goal.reached(layers[-1]))
            ways.append(candidate.length * replace(candidate, rows=rows).inwards())
        for nudge in (0.0, *NUDGES):
            for way in ways:
                point = np.asarray(x + self.layered.basis @ (candidate.u + nudge * way))
                # A tie at the origin or on an axis is there only where coordinates are really zero.
                zeroed = np.where(np.abs(point) <= ROUNDED * np.abs(x).max(), 0.0, point)
                for tried in (point, zeroed):
                    if self.decision.excess(tried[None], goals)[0] <= 0:
                        return tried
        return None


def deep_radii(
    net: Deep | TwoLayer,
    x: Float[ndarray, "n N"],
    y: Int[ndarray, " n"],
    readout: str | ReadOut = ARGMAX,
    positive: ndarray | None = None,
    budget: Budget | None = None,
    gap: float = 0.01,
    progress: Progress | None = None,
) -> Radii:
    r"""The l2 distance from each point to the nearest one that a deep network decides otherwise.

    Exact for one output, `sum`, `max` and `argmax`; within `gap` for `probability`; where the budget
    ends first, an honest bracket. With more than about a hundred hidden neurons it mostly does, which
    is said beforehand.

    Args:
        net: any fully connected network of featavg, not a batch.
        x: the points.
        y: class numbers for `argmax` over several outputs, -1 and +1 for every other decision.
        readout: `argmax` over all outputs, or how k outputs become one coarse decision; a network
            with one output decides by its sign.
        positive: for a coarse decision of several outputs, a mask of those of class +1.
        budget: what one point may cost.
        gap: for `probability`, 1 - certified / attack at which a search may stop.
        progress: called with the share done and a note, such as a `ProgressBar`.

    >>> import numpy as np
    >>> import featavg as fa
    >>> net = fa.Deep((np.eye(2), np.eye(2), np.eye(2)))
    >>> deep_radii(net, np.array([[3.0, 1.0]]), np.array([0])).certified.round(6)
    array([1.414214])
    """
    if not 0.0 < gap < 1.0:
        raise InputError("gap", f"is {gap}", "give a share between 0 and 1")
    decision, x, y = deep_case(net, x, y, readout, positive)
    solver = DeepSolver(decision, gap)
    allowance = budget or Budget()
    _announce(solver.layered, allowance)
    n = len(x)
    radii = Radii(
        np.zeros(n), np.zeros(n), x.copy(), np.zeros(n, dtype=int), np.zeros(n, dtype=int)
    )
    for i in range(n):
        if progress is not None:
            progress(i / n, f"point {i} of {n}")
        label = int(y[i])
        if solver.decision.excess(x[i : i + 1], solver.decision.goals(label))[0] <= 0:
            radii.outcome[i] = RadiusStatus.MISCLASSIFIED.code
            continue
        found, attack, witness = solver.at(x[i], label, allowance.start())
        certified = min(found.certified, attack)
        radii.certified[i], radii.attack[i], radii.nodes[i] = certified, attack, found.nodes
        radii.witness[i] = witness
        radii.outcome[i] = _status(certified, attack, gap, found.finished).code
    return radii


def _announce(net: Layered, budget: Budget) -> None:
    """Say beforehand that most radii will be brackets, where the network is too large for more."""
    neurons = sum(w.shape[1] for w in net.weights)
    if neurons > MOST_NEURONS:
        logging.getLogger(__name__).warning(
            "The network has %d hidden neurons: beyond about %d exact radii are out of reach, and what "
            "%d programs per point leave open is given as a bracket. To decide one radius, use certify.",
            neurons,
            MOST_NEURONS,
            budget.nodes,
        )


def _status(certified: float, attack: float, gap: float, finished: bool) -> RadiusStatus:
    if attack < math.inf and certified >= attack * (1.0 - EXACT_WITHIN):
        return RadiusStatus.EXACT
    if attack < math.inf and certified >= attack * (1.0 - gap):
        return RadiusStatus.BRACKET
    return RadiusStatus.OPEN if finished else RadiusStatus.BUDGET
