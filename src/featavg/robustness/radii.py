"""The public call: robust radii of points, exact where that is possible and bracketed elsewhere."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter, thread_time
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.boundary.kinds import Count, NotNegative
from featavg.boundary.public import public
from featavg.data.clusters import Sample
from featavg.errors import InputError
from featavg.machine import cores, one_blas_thread
from featavg.nets.deep import Deep
from featavg.nets.readouts._readout import ReadOut
from featavg.nets.two_layer import TwoLayer
from featavg.progress import Progress, part
from featavg.robustness.exact.budget import Budget
from featavg.robustness.exact.decision import Decision, Net, Positive, check_ambient, decision_of
from featavg.robustness.exact.deep.solver import BoxedSolver, DeepSolver
from featavg.robustness.exact.linf import PROGRAMS, BoxedLinfSolver, LinfSolver
from featavg.robustness.exact.result import Answer, Radii, Solver
from featavg.robustness.exact.step_box import Bounds
from featavg.robustness.exact.two_layer import TwoLayerSolver

# Hidden neurons beyond which most searches spend any budget: 6 layers of 20 trained neurons do.
MOST_NEURONS = 100


@public
def radii(
    net: Net,
    points: Sample | ndarray,
    y: ndarray | None = None,
    *,
    norm: str = "l2",
    bounds: tuple[Any, Any] | None = None,
    readout: str | ReadOut | None = None,
    positive: Positive | None = None,
    budget: Budget | None = None,
    gap: NotNegative = 0.01,
    jobs: Count | None = None,
    progress: Progress | None = None,
) -> Radii:
    r"""The distance from each point to the nearest point that the network decides otherwise.

        radius(x, y) = min { |u| : y * score(x + u) <= 0 },

    zero if x itself is on the wrong side (a score of exactly zero is), infinite if nothing is. With
    `bounds`, x + u stays in a box; where the box does not cut, the radius is that without it.
    Exact for one output and for the read-outs `sum`, `mean`, `max`, `top` and `argmax`, up to
    rounding; within `gap` for `probability` and `soft`; and where the budget ends first, or the
    pieces of `top` are too many to list, an honest bracket. Deep networks of more than about a
    hundred hidden neurons mostly end there, and a warning says so; `certify` decides one radius of
    them.

    Args:
        net: one two-layer, grouped or deep network, or the result of training one. In l_inf two
            layers only, in the coordinates of R^d (coordinates="ambient"): compression turns them.
        points: a sample of a task (it brings y and the positive clusters), or n rows of N numbers.
        y: n labels: -1 or +1, or the numbers of outputs for `argmax`.
        norm: "l2" or "linf", of the distance.
        bounds: the least and the largest value of each coordinate, two numbers such as (0, 1) or two
            rows of N: only flips between them count, as for the pixels of an image.
        readout: how several outputs decide: `probability`, `max`, `sum` or one of your own between
            the positive outputs and the others, or `argmax` between all of them. By default
            `probability`; for a deep network whose positive outputs are not given, `argmax`. One
            output decides by its sign. In l_inf a piecewise linear one.
        positive: the outputs of class +1, as a mask or as indices.
        budget: what one point may cost (20,000 programs unless given, 2000 in l_inf).
        gap: for `probability`, 1 - certified / attack at which a search may stop.
        jobs: processes; by default all cores if there is work for some seconds, otherwise none.
        progress: called with the share done and a note, such as a `ProgressBar`.

    >>> import numpy as np
    >>> import featavg as fa
    >>> x = np.array([[3.0, 1.0], [1.0, 3.0]])
    >>> found = fa.radii(fa.binary(np.eye(2)), x, y=np.array([1, 1]))
    >>> found.certified.round(6), [outcome.value for outcome in found.outcomes]
    (array([1.414214, 0.      ]), ['exact', 'misclassified'])
    >>> fa.radii(fa.binary(np.eye(2)), x, y=np.array([1, 1]), norm="linf").certified.round(6)
    array([1., 0.])
    >>> net = fa.Deep((np.eye(2), np.eye(2), np.eye(2)))
    >>> fa.radii(net, x, np.array([0, 1])).certified.round(6)
    array([1.414214, 1.414214])
    >>> fa.radii(net, x[:1], np.array([0]), bounds=([0.0, 0.0], [4.0, 1.5])).certified.round(6)
    array([1.581139])
    """
    decision, x, labels = decision_of(net, points, y, readout, positive, norm)
    if not 0.0 < gap < 1.0:
        raise InputError("gap", f"is {gap}", "give a share between 0 and 1")
    allowance = budget or (Budget(nodes=PROGRAMS) if norm == "linf" else Budget())
    beyond = (
        f"exact radii are out of reach, and what {allowance.nodes} programs per point leave open is "
        "given as a bracket. To decide one radius, use certify."
    )
    announce(decision.net, MOST_NEURONS, beyond)
    sides = None if bounds is None else sides_of(bounds, x, net, points)
    each = tuple(sorted(set(labels.tolist())))
    task = Task(decision, each, norm, allowance, gap, sides=sides)
    return Radii.of(solve(task, x, labels, jobs, progress), x, gap, norm)


def announce(net: TwoLayer | Deep, most: int, beyond: str) -> None:
    """Say beforehand what a deep network of more than `most` hidden neurons is too large for."""
    neurons = sum(net.widths[:-1]) if isinstance(net, Deep) else 0
    if neurons > most:
        logging.getLogger(__name__).warning(f"The network has {neurons} hidden neurons: beyond about {most} {beyond}")


def sides_of(bounds: tuple[Any, Any], x: Float[ndarray, "n N"], net: Net, points: Sample | ndarray) -> Bounds:
    """The sides of the box, one number for each coordinate of R^d; every point must be in it."""
    check_ambient(net, points, "turns the sides of a box")
    ends = []
    for end in bounds:
        side = np.asarray(end, dtype=float)
        if side.shape not in ((), x.shape[1:]):
            remedy = f"give a number, or {x.shape[1]} numbers"
            raise InputError("bounds", f"have a side of shape {side.shape}", remedy)
        if np.isnan(side).any():
            raise InputError("bounds", "hold a NaN", "give numbers")
        ends.append(np.broadcast_to(side, x.shape[1:]).copy())
    low, high = ends
    if np.any(low > high):
        raise InputError("bounds", "are an empty box", "give the lower side first")
    outside = (x < low) | (x > high)
    if outside.any():
        wide = np.array_equal(low, 0.0 * low) and np.array_equal(high, 0.0 * high + 1.0)
        pixels = wide and x.min() >= 0.0 and x.max() > 2.0
        remedy = "divide the images by 255" if pixels else "give bounds that hold every point"
        problem = f"exclude {int(outside.any(axis=1).sum())} of {len(x)} points"
        raise InputError("bounds", problem, remedy)
    return low, high


# Starting processes costs a second or two; work that takes less stays in this one.
WORTH_A_POOL = 4.0
TRIAL = 8  # points
# Parts per process where a caller watches: enough for a bar that moves.
PARTS = 10


@dataclass(frozen=True, eq=False)
class Task:
    """What is asked of every point.

    Attributes:
        decision: the network and its decision.
        labels: all labels that occur.
        norm: of the distance.
        budget: what one point may cost.
        gap: for a curved read-out, 1 - certified / attack at which a search may stop.
        radius: None for the radius itself; a number for the decision at that radius.
        sides: of a box that flips are in.
    """

    decision: Decision
    labels: tuple[int, ...]
    norm: str
    budget: Budget
    gap: float
    radius: float | None = None
    sides: Bounds | None = None

    def solver(self) -> Solver:
        """In l2, two layers have a faster search for the radius; one for any depth decides at a radius."""
        asked = self.decision, self.labels, self.gap
        if self.norm == "linf":
            return LinfSolver(self.decision) if self.sides is None else BoxedLinfSolver(self.decision, self.sides)
        net = self.decision.net
        two = isinstance(net, TwoLayer) and self.radius is None
        curved = self.decision.readout.exact and any(self.decision.pieces(label) is None for label in self.labels)
        if isinstance(net, TwoLayer) and two and curved:
            # Of a curved score the faster search wants neurons that raise one output; one output is not curved.
            two = bool((net.head >= 0).all() and ((net.head > 0).sum(axis=0) <= 1).all())
        plain = TwoLayerSolver(*asked) if two else DeepSolver(*asked)
        return plain if self.sides is None else BoxedSolver(plain, *asked, self.sides)


# A point that is right, its label, and what its solver found out about all points together.
Point = tuple[ndarray, int, Any]


def solve(
    task: Task, x: Float[ndarray, "n N"], y: Int[ndarray, " n"], jobs: int | None, progress: Progress | None
) -> list[Answer]:
    """The answers for all points; those that are wrong as they are have the answer zero."""
    if jobs is not None and jobs < 1:
        raise InputError("jobs", f"is {jobs}", "give the number of processes, at least one")
    answers = [Answer.wrong(row) for row in x]
    with one_blas_thread():
        solver = task.solver()
        where = np.flatnonzero(~task.decision.wrong(x, y))
        # One product for all points: its last bits do not depend on how many processes share them.
        hints = solver.hints(x, y, where)
        points = [(x[i], int(y[i]), hint) for i, hint in zip(where, hints, strict=True)]
        for i, answer in zip(where, _all(task, solver, points, jobs, progress), strict=True):
            answers[i] = answer
    return answers


def _all(task: Task, solver: Solver, points: list[Point], jobs: int | None, progress: Progress | None) -> list[Answer]:
    """In this process, unless the first few points say that several are worth their start."""
    first = TRIAL if jobs is None else 0 if jobs > 1 else len(points)
    begun = perf_counter()
    answers: list[Answer] = []
    for i, point in enumerate(points):
        expected = (perf_counter() - begun) / max(i, 1) * (len(points) - i)
        if i == first and (jobs is not None or expected >= WORTH_A_POOL):
            workers = min(cores() if jobs is None else jobs, len(points) - i)
            if workers > 1:
                rest = None if progress is None else part(progress, i / len(points), 1.0)
                return answers + _pooled(task, points[i:], workers, rest)
        if progress is not None:
            progress(i / len(points), f"point {i} of {len(points)}")
        answers.append(_one(task, solver, point))
    return answers


def _pooled(task: Task, points: list[Point], workers: int, progress: Progress | None) -> list[Answer]:
    from joblib import Parallel, delayed, parallel_config

    # Interleaved, so that hard points, which come in runs of one cluster, spread over the cores.
    count = workers if progress is None else min(workers * PARTS, len(points))
    answers: dict[int, Answer] = {}
    # One BLAS thread each: the matrices are tiny, and two threads on them would fight.
    with parallel_config(backend="loky", inner_max_num_threads=1):
        pool = Parallel(n_jobs=workers, return_as="generator")
        solved = pool(delayed(_several)(task, points[i::count]) for i in range(count))
        for i, some in enumerate(solved):
            answers |= zip(range(i, len(points), count), some, strict=True)
            if progress is not None:
                progress((i + 1) / count, f"{len(points)} points")
    return [answers[i] for i in range(len(points))]


def _several(task: Task, points: Sequence[Point]) -> list[Answer]:
    solver = task.solver()
    return [_one(task, solver, point) for point in points]


def _one(task: Task, solver: Solver, point: Point) -> Answer:
    x, label, hint = point
    begun = thread_time()
    answer = solver.at(x, label, task.budget.start(), hint, task.radius)
    return answer.after(thread_time() - begun)
