"""The public call: robust radii of points, exact where that is possible and bracketed elsewhere."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np
from numpy import ndarray

from featavg.cores import cores
from featavg.data.clusters import Sample
from featavg.errors import InputError
from featavg.nets.readouts.probability import Probability
from featavg.nets.readouts.readout import ReadOut
from featavg.nets.readouts.registry import readout_of
from featavg.nets.two_layer import TwoLayer
from featavg.progress import Progress
from featavg.robustness.attacks.suite import attack_suite
from featavg.robustness.exact.branch_and_bound import TreeSearch
from featavg.robustness.exact.budget import SAME_WITHIN, Budget, Search
from featavg.robustness.exact.domination import dominated
from featavg.robustness.exact.farkas import never_flips
from featavg.robustness.exact.flipped_set import Family, flipped, output_mask, output_pieces
from featavg.robustness.exact.piece_search import PieceSearch, count_pieces, list_leaves
from featavg.robustness.exact.probability_relaxation import ProbabilityRelaxation
from featavg.robustness.exact.relu_relaxation import ReluRelaxation
from featavg.robustness.exact.result import EXACT_WITHIN, Radii, RadiusStatus
from featavg.robustness.exact.subspace import reduce
from featavg.robustness.exact.witness import checked_witness, decision_margins
from featavg.robustness.models.model import TwoLayerModel, network_model

# Listing all pieces is faster than a tree up to about this many.
LISTED = 1024
# Starting processes costs a second or two; work that takes less stays in this one.
WORTH_A_POOL = 4.0
TRIAL = 8  # points
# Parts per process where somebody watches: enough for a bar that moves.
PARTS = 10


def radii(
    net: TwoLayer,
    points: Sample | ndarray,
    y: ndarray | None = None,
    readout: str | ReadOut = "probability",
    positive: Sequence[int] | Sequence[bool] | ndarray | None = None,
    budget: Budget | None = None,
    gap: float = 0.01,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Radii:
    r"""The l2 distance from each point to the nearest point that the network decides otherwise.

        radius(x, y) = min { |u| : y * score(x + u) <= 0 },

    zero if x itself is on the wrong side (a score of exactly zero is), infinite if nothing is.
    Exact for one output and for the read-outs `sum`, `max`, `mean` and `top`, up to rounding; within
    `gap` for `probability` and `soft`; and where the budget ends first, or the pieces of `top` are too
    many to list, an honest bracket.

    Args:
        net: one network, not a batch.
        points: a sample of a task (it brings y and the positive clusters), or n rows of N numbers.
        y: n labels, -1 or +1.
        readout: how k outputs become one decision; a network with one output has no choice.
        positive: J+ over the outputs, as a mask or as indices.
        budget: what one point may cost.
        gap: for `probability`, 1 - certified / attack at which a search may stop.
        jobs: processes; by default all cores if there is work for some seconds, otherwise none.
        progress: called with the share done and a note, such as a `ProgressBar`.

    >>> import numpy as np
    >>> import featavg as fa
    >>> found = fa.radii(fa.binary(np.eye(2)), np.array([[3.0, 1.0], [1.0, 3.0]]), y=np.array([1, 1]))
    >>> found.certified.round(6), [outcome.value for outcome in found.outcomes]
    (array([1.414214, 0.      ]), ['exact', 'misclassified'])
    """
    x, labels, mask = _inputs(net, points, y, positive)
    given = output_mask(net.outputs, mask)
    rule = readout_of(readout)
    if net.outputs > 1:
        rule, factor = rule.simpler(given)
        net = replace(net, head=factor * net.head)
    task = _Task(net, rule, given, budget or Budget(), gap)
    if not 0.0 < gap < 1.0:
        raise InputError("gap", f"is {gap}", "give a share between 0 and 1")
    workers, trial = _workers(jobs, task, x, labels)
    if workers == 1:
        return _solve(task, x, labels, trial, progress)
    from joblib import Parallel, delayed, parallel_config

    # Interleaved, so that hard points, which come in runs of one cluster, spread over the cores.
    count = workers if progress is None else min(workers * PARTS, len(x))
    parts = [slice(i, None, count) for i in range(count)]
    # One BLAS thread each: the matrices are tiny, and two threads on them would fight.
    with parallel_config(backend="loky", inner_max_num_threads=1):
        pool = Parallel(n_jobs=workers, return_as="generator")
        solved = pool(delayed(_solve)(task, x[p], labels[p]) for p in parts)
        result = Radii.blank(x)
        for i, (part, radii_of_part) in enumerate(zip(parts, solved, strict=True)):
            result.put(part, radii_of_part)
            if progress is not None:
                progress((i + 1) / count, f"{len(x)} points")
    return result


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
    positive: Sequence[int] | Sequence[bool] | ndarray | None,
) -> tuple[ndarray, ndarray, Sequence[int] | Sequence[bool] | ndarray | None]:
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
    if jobs is not None or len(x) <= TRIAL:
        return max(1, min(jobs or 1, len(x))), None
    start = perf_counter()
    trial = _solve(task, x[:TRIAL], y[:TRIAL])
    expected = (perf_counter() - start) / TRIAL * (len(x) - TRIAL)
    workers = 1 if expected < WORTH_A_POOL else min(cores(), len(x))
    return workers, trial if workers == 1 else None


@dataclass(frozen=True, eq=False)
class _Answer:
    """What is known of one point."""

    certified: float
    attack: float
    witness: ndarray
    nodes: int
    status: RadiusStatus


class _Solver:
    """The searches for one network, one for each label, made once and used for all points."""

    def __init__(self, task: _Task) -> None:
        self.task, self.space = task, reduce(task.net)
        self.pieces = {y: output_pieces(y, task.readout, task.positive) for y in (-1, 1)}
        self.search: dict[int, PieceSearch | TreeSearch | None] = {}
        # For a curved read-out: the search with the piecewise linear read-out that it stays near.
        self.floor: dict[int, PieceSearch | TreeSearch | None] = {}
        self.dominated: dict[int, bool] = {}
        for y in (-1, 1):
            pieces = self.pieces[y]
            if pieces is not None:
                self.search[y] = self._straight(flipped(self.space, pieces))
            else:
                self._curved(y)

    def _curved(self, y: int) -> None:
        """Searches for a read-out without pieces: score <= hard + slack on the rivals' side.

        The read-out `hard` with that slack has all flipped points among its own, so its radius is a
        first bound, and the better the larger the outputs are.
        """
        task, own = self.task, self._own(y)
        hard = task.readout.hard(int(np.sum(~own)))
        straight = None if hard is None else output_pieces(y, hard[0], task.positive)
        if hard is None or straight is None:
            raise InputError(
                "readout", f"{task.readout.name} has no exact radii", "use attack_suite"
            )
        self.floor[y] = self._straight(flipped(self.space, straight, hard[1]))
        self.search[y] = None
        if isinstance(task.readout, Probability):
            family = ProbabilityRelaxation(self.space.head, self.space.constant, own)
            # A little inside the gap, so that the nudge of the witness does not leave it.
            self.search[y] = TreeSearch(self.space, [family], 0.999 * task.gap)

    def _own(self, y: int) -> ndarray:
        return np.asarray(self.task.positive if y > 0 else ~self.task.positive)

    def _straight(self, families: list[Family]) -> PieceSearch | TreeSearch | None:
        if not families:
            return None
        if count_pieces(families) <= LISTED:
            return PieceSearch(self.space, list_leaves(self.space, families))
        return TreeSearch(self.space, [ReluRelaxation(family) for family in families], SAME_WITHIN)

    def at(self, x: ndarray, z: ndarray, y: int) -> _Answer:
        """The radius of one correctly classified point."""
        task, search, floor = self.task, self.search[y], self.floor.get(y)
        if search is None and floor is None:
            return self._never(x, 0)
        reach = float(np.linalg.norm(x) + np.abs(self.space.offsets).max(initial=0.0))
        clock = task.budget.start()
        before = None if floor is None else floor.at(z, reach, clock)
        attacked = (
            None  # what the attacks reach; asked once, and only where the search knows nothing
        )
        if isinstance(search, TreeSearch):
            search.begin(z, reach, before)
            if not search.found.candidates:
                # Nothing flipped is known, so a bound may have to go on for ever: is it so?
                if self._dominated(y):
                    return self._never(x, search.found.nodes)
                attacked = self._attacked(x, y)
                if attacked[0] < math.inf:
                    search.offer(np.asarray((attacked[1] - x) @ self.space.basis))
            found = search.run(clock)
        elif search is not None:
            found = search.at(z, reach, clock)
        else:
            assert before is not None
            found = replace(before, candidates=[])
        attack, witness = checked_witness(
            task.net, self.space, x, y, task.positive, task.readout, found
        )
        if attack == math.inf:
            if found.finished and self._empty(y):
                return self._never(x, found.nodes)
            attack, witness = attacked or self._attacked(x, y)
        certified = min(found.certified, attack)
        # Of the size of the nudge of a witness: points on the boundary itself.
        rounding = 1e-12 * reach
        status = self._status(certified, attack - rounding, found)
        return _Answer(certified, attack, witness, found.nodes, status)

    def _never(self, x: ndarray, nodes: int) -> _Answer:
        nowhere = np.full_like(x, np.nan)
        return _Answer(math.inf, math.inf, nowhere, nodes, RadiusStatus.NEVER)

    def _dominated(self, y: int) -> bool:
        """For a curved read-out, whether nothing flips anywhere; the same for every point."""
        if self.pieces[y] is not None:
            return False
        if y not in self.dominated:
            proven = isinstance(self.task.readout, Probability)
            self.dominated[y] = proven and dominated(self.task.net, self.space, self._own(y))
        return self.dominated[y]

    def _empty(self, y: int) -> bool:
        """Whether the list of pieces that was just searched is proven to be empty."""
        pieces, search = self.pieces[y], self.search[y]
        if pieces is None or not isinstance(search, PieceSearch):
            return self._dominated(y)
        return never_flips(self.task.net, pieces, search)

    def _attacked(self, x: ndarray, y: int) -> tuple[float, ndarray]:
        """An upper end by attacks where the search has no candidate that flips: then any will do."""
        model = self._model()
        try:
            result = attack_suite(model, x[None], np.array([y]), "l2")
        except InputError:  # no gradient anywhere
            return math.inf, np.full_like(x, np.nan)
        return float(result.radii[0]), np.asarray(result.witness[0])

    def _model(self) -> TwoLayerModel:
        positive = self.task.positive if self.task.net.outputs > 1 else None
        return network_model(self.task.net, positive, self.task.readout)

    def _status(self, certified: float, attack: float, found: Search) -> RadiusStatus:
        if attack < math.inf and certified >= attack * (1.0 - EXACT_WITHIN):
            return RadiusStatus.EXACT
        if attack < math.inf and certified >= attack * (1.0 - self.task.gap):
            return RadiusStatus.BRACKET
        return RadiusStatus.OPEN if found.finished else RadiusStatus.BUDGET


def _solve(
    task: _Task,
    x: ndarray,
    y: ndarray,
    trial: Radii | None = None,
    progress: Progress | None = None,
) -> Radii:
    """All points in this process; `trial` has the first few already."""
    solver = _Solver(task)
    result = Radii.blank(x)
    right = decision_margins(task.net, x, y, task.positive, task.readout) > 0
    result.outcome[~right] = RadiusStatus.MISCLASSIFIED.code
    z = solver.space.preactivations(x)
    done = 0
    if trial is not None:
        done = len(trial)
        result.put(slice(done), trial)
    for i in np.flatnonzero(right[done:]) + done:
        if progress is not None:
            progress(int(i) / len(x), f"point {i} of {len(x)}")
        answer = solver.at(x[i], z[i], int(y[i]))
        result.certified[i], result.attack[i] = answer.certified, answer.attack
        result.witness[i], result.nodes[i] = answer.witness, answer.nodes
        result.outcome[i] = answer.status.code
    return result
