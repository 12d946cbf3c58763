"""The public call: robust radii of points, exact where that is possible and bracketed elsewhere."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from time import perf_counter

import numpy as np
from numpy import ndarray

from featavg.data.clusters import Sample
from featavg.errors import InputError
from featavg.nets.readouts.probability import Probability
from featavg.nets.readouts.readout import ReadOut
from featavg.nets.readouts.registry import readout_of
from featavg.nets.two_layer import TwoLayer
from featavg.robustness.exact.branch_and_bound import TreeSearch
from featavg.robustness.exact.budget import SAME, Budget, Search
from featavg.robustness.exact.farkas import never_flips
from featavg.robustness.exact.flipped_set import Family, flipped, output_mask, output_pieces
from featavg.robustness.exact.piece_search import PieceSearch
from featavg.robustness.exact.pieces import count, leaves
from featavg.robustness.exact.probability_relaxation import ProbabilityRelaxation
from featavg.robustness.exact.relu_relaxation import ReluRelaxation
from featavg.robustness.exact.result import EXACT_WITHIN, Outcome, Radii
from featavg.robustness.exact.subspace import reduce
from featavg.robustness.exact.witness import checked, margins

# Listing all pieces is faster than a tree up to about this many.
LISTED = 1024
# Starting processes costs a second or two; work that takes less stays in this one.
WORTH_A_POOL = 4.0
TRIAL = 8  # points
_COLUMNS = ("certified", "attack", "witness", "nodes", "outcome")


def radii(
    net: TwoLayer,
    points: Sample | ndarray,
    y: ndarray | None = None,
    readout: str | ReadOut = "probability",
    positive: ndarray | None = None,
    budget: Budget | None = None,
    gap: float = 0.01,
    jobs: int | None = None,
) -> Radii:
    r"""The l2 distance from each point to the nearest point that the network decides otherwise.

        radius(x, y) = min { |u| : y * score(x + u) <= 0 },

    zero if x itself is on the wrong side (a score of exactly zero is), infinite if nothing is.
    Exact for one output and for the read-outs `sum` and `max`, up to rounding; within `gap` for
    `probability`; and where the budget ends first, an honest bracket.

    Args:
        net: one network, not a batch.
        points: a sample of a task (it brings y and the positive clusters), or n rows of N numbers.
        y: n labels, -1 or +1.
        readout: how k outputs become one decision; a network with one output has no choice.
        positive: J+ over the outputs, as a mask or as indices.
        budget: what one point may cost.
        gap: for `probability`, 1 - certified / attack at which a search may stop.
        jobs: processes; by default all cores if there is work for some seconds, otherwise none.

    >>> from featavg.nets.two_layer import binary
    >>> found = radii(binary(np.eye(2)), np.array([[3.0, 1.0], [1.0, 3.0]]), y=np.array([1, 1]))
    >>> found.certified.round(6), [outcome.value for outcome in found.outcomes]
    (array([1.414214, 0.      ]), ['exact', 'misclassified'])
    """
    x, labels, mask = _inputs(net, points, y, positive)
    given = output_mask(net.outputs, mask)
    task = _Task(net, readout_of(readout), given, budget or Budget(), gap)
    if not 0.0 < gap < 1.0:
        raise InputError("gap", f"is {gap}", "give a share between 0 and 1")
    workers, trial = _workers(jobs, task, x, labels)
    if workers == 1:
        return _solve(task, x, labels, trial)
    from joblib import Parallel, delayed, parallel_config

    # Interleaved, so that hard points, which come in runs of one cluster, spread over the cores.
    parts = [slice(i, None, workers) for i in range(workers)]
    # One BLAS thread each: the matrices are tiny, and two threads on them would fight.
    with parallel_config(backend="loky", inner_max_num_threads=1):
        found = Parallel(n_jobs=workers)(delayed(_solve)(task, x[p], labels[p]) for p in parts)
    return _merged(found, parts, len(x), net.dimension)


@dataclass(frozen=True, eq=False)
class _Task:
    net: TwoLayer
    readout: ReadOut
    positive: ndarray
    budget: Budget
    gap: float


def _inputs(
    net: TwoLayer,
    points: Sample | ndarray,
    y: ndarray | None,
    positive: ndarray | None,
) -> tuple[ndarray, ndarray, ndarray | None]:
    """Points, labels and mask as arrays, each checked."""
    if net.batch:
        raise InputError("net", "is a batch of networks", "pick one of them by index")
    if net.outputs > 1 and not np.all((net.head != 0).any(axis=1)):
        raise InputError("net", "has an empty group", "give every output at least one neuron")
    if isinstance(points, Sample):
        x, labels = points.coordinates(net.dimension), points.y if y is None else np.asarray(y)
        if positive is None and net.outputs == points.task.k:
            positive = points.task.positive_clusters
    elif y is None:
        raise InputError("y", "is missing", "give a label, -1 or +1, for each point")
    else:
        x, labels = np.asarray(points, dtype=float), np.asarray(y)
    if x.ndim != 2 or x.shape[1] != net.dimension:
        raise InputError(
            "points", f"have shape {x.shape}", f"give rows of {net.dimension} coordinates"
        )
    if not np.all(np.isfinite(x)):
        raise InputError("points", "are not all finite", "remove NaN and infinity")
    if labels.shape != (len(x),):
        raise InputError("y", f"has shape {labels.shape}", f"give one label for {len(x)} points")
    if not np.all(np.isin(labels, (-1, 1))):
        raise InputError("y", "has labels other than -1 and +1", "give the coarse labels")
    return x, labels.astype(int), positive


def _workers(jobs: int | None, task: _Task, x: ndarray, y: ndarray) -> tuple[int, Radii | None]:
    """How many processes; on trial, the first few points are solved here and timed."""
    if jobs is not None and jobs < 1:
        raise InputError("jobs", f"is {jobs}", "give the number of processes, at least one")
    cores = os.cpu_count() or 1
    if jobs is not None or len(x) <= TRIAL or cores == 1:
        return max(1, min(jobs or 1, len(x))), None
    start = perf_counter()
    trial = _solve(task, x[:TRIAL], y[:TRIAL])
    expected = (perf_counter() - start) / TRIAL * (len(x) - TRIAL)
    return (1, trial) if expected < WORTH_A_POOL else (min(cores, len(x)), None)


class _Solver:
    """The searches for one network, one a label, made once and used for all points."""

    def __init__(self, task: _Task) -> None:
        self.task, self.space = task, reduce(task.net)
        self.pieces = {y: output_pieces(y, task.readout, task.positive) for y in (-1, 1)}
        self.search: dict[int, PieceSearch | TreeSearch | None] = {}
        self.floor: dict[int, PieceSearch | TreeSearch | None] = {}
        for y in (-1, 1):
            pieces = self.pieces[y]
            if pieces is not None:
                self.search[y] = self._pieces(flipped(self.space, pieces))
                continue
            own = task.positive if y > 0 else ~task.positive
            hard = task.readout.hard(int(np.sum(~own)))
            if not isinstance(task.readout, Probability) or hard is None:
                raise InputError(
                    "readout", f"{task.readout.name} has no exact radii", "use attack_suite"
                )
            family = ProbabilityRelaxation(self.space.head, self.space.constant, own)
            # A little inside the gap, so that the nudge of the witness does not leave it.
            self.search[y] = TreeSearch(self.space, [family], 0.999 * task.gap)
            # score <= hard + slack on the side of the rivals: the read-out `hard` with that slack
            # is a first bound, and the better the larger the outputs are.
            straight, slack = output_pieces(y, hard[0], task.positive), hard[1]
            assert straight is not None
            self.floor[y] = self._pieces(flipped(self.space, straight, slack))

    def _pieces(self, families: list[Family]) -> PieceSearch | TreeSearch | None:
        if not families:
            return None
        if count(families) <= LISTED:
            return PieceSearch(self.space, leaves(self.space, families))
        return TreeSearch(self.space, [ReluRelaxation(one) for one in families], SAME)

    def at(self, x: ndarray, z: ndarray, y: int) -> tuple[float, float, ndarray, int, Outcome]:
        """Certified, attack, witness, nodes and outcome at one correctly classified point."""
        task, search = self.task, self.search[y]
        nothing = np.full_like(x, np.nan)
        if search is None:
            return math.inf, math.inf, nothing, 0, Outcome.NEVER
        reach = float(np.linalg.norm(x) + np.abs(self.space.offsets).max(initial=0.0))
        clock = task.budget.start()
        if isinstance(search, TreeSearch) and y in self.floor:
            floor = self.floor[y]
            before = None if floor is None else floor.at(z, reach, clock)
            found = search.at(z, reach, clock, before)
        else:
            found = search.at(z, reach, clock)
        attack, witness = checked(task.net, self.space, x, y, task.positive, task.readout, found)
        listed = isinstance(search, PieceSearch) and found.finished
        if attack == math.inf and listed and self._never(y, search):
            return math.inf, math.inf, nothing, found.nodes, Outcome.NEVER
        certified = min(found.certified, attack)
        # Of the size of the nudge of a witness: points on the boundary itself.
        rounding = 1e-12 * reach
        outcome = self._outcome(certified, attack - rounding, found)
        return certified, attack, witness, found.nodes, outcome

    def _never(self, y: int, search: PieceSearch | TreeSearch) -> bool:
        pieces = self.pieces[y]
        assert isinstance(search, PieceSearch)
        return pieces is not None and never_flips(self.task.net, pieces, search)

    def _outcome(self, certified: float, attack: float, found: Search) -> Outcome:
        if certified >= attack * (1.0 - EXACT_WITHIN) and attack < math.inf:
            return Outcome.EXACT
        if certified >= attack * (1.0 - self.task.gap) and attack < math.inf:
            return Outcome.BRACKET
        return Outcome.OPEN if found.finished else Outcome.BUDGET


def _solve(task: _Task, x: ndarray, y: ndarray, trial: Radii | None = None) -> Radii:
    """All points in this process; `trial` has the first few already."""
    solver = _Solver(task)
    n = len(x)
    found = Radii(
        np.zeros(n), np.zeros(n), x.copy(), np.zeros(n, dtype=int), np.zeros(n, dtype=int)
    )
    right = margins(task.net, x, y, task.positive, task.readout) > 0
    found.outcome[~right] = Outcome.MISCLASSIFIED.code
    z = solver.space.preactivations(x)
    done = 0
    if trial is not None:
        done = len(trial)
        for name in _COLUMNS:
            getattr(found, name)[:done] = getattr(trial, name)
    for i in np.flatnonzero(right[done:]) + done:
        certified, attack, witness, nodes, outcome = solver.at(x[i], z[i], int(y[i]))
        found.certified[i], found.attack[i], found.nodes[i] = certified, attack, nodes
        found.witness[i], found.outcome[i] = witness, outcome.code
    return found


def _merged(parts: list[Radii], where: list[slice], n: int, dimension: int) -> Radii:
    whole = Radii(
        np.zeros(n),
        np.zeros(n),
        np.zeros((n, dimension)),
        np.zeros(n, dtype=int),
        np.zeros(n, dtype=int),
    )
    for part, place in zip(parts, where, strict=True):
        for name in _COLUMNS:
            getattr(whole, name)[place] = getattr(part, name)
    return whole
