"""One question about many points: which solver answers it, here or in several processes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.cores import cores
from featavg.errors import InputError
from featavg.nets.two_layer import TwoLayer
from featavg.progress import Progress, part
from featavg.robustness.exact.budget import Budget
from featavg.robustness.exact.decision import Decision
from featavg.robustness.exact.deep.boxed import BoxedSolver
from featavg.robustness.exact.deep.solver import DeepSolver
from featavg.robustness.exact.result import Answer, Solver
from featavg.robustness.exact.step_box import Bounds
from featavg.robustness.exact.two_layer import TwoLayerSolver
from featavg.robustness.linf import BoxedLinfSolver, LinfSolver

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
        sides: of a box that flips are in, for the radius itself.
    """

    decision: Decision
    labels: tuple[int, ...]
    norm: str
    budget: Budget
    gap: float
    radius: float | None = None
    sides: Bounds | None = None

    def solver(self) -> Solver:
        """Two layers have a faster search for the radius; a decision in l2 is for the deep one."""
        if self.norm == "linf":
            boxed = None if self.sides is None else BoxedLinfSolver(self.decision, self.sides)
            return boxed or LinfSolver(self.decision)
        plain = self._plain()
        if self.sides is None:
            return plain
        return BoxedSolver(plain, self.decision, self.labels, self.gap, self.sides)

    def _plain(self) -> Solver:
        """In l2 without a box."""
        if isinstance(self.decision.net, TwoLayer) and self.radius is None:
            return TwoLayerSolver(self.decision, self.labels, self.gap)
        return DeepSolver(self.decision, self.labels, self.gap)


# A point that is right, its label, and what its solver found out about all points together.
Point = tuple[ndarray, int, Any]


def solve(
    task: Task,
    x: Float[ndarray, "n N"],
    y: Int[ndarray, " n"],
    jobs: int | None,
    progress: Progress | None,
) -> list[Answer]:
    """The answers for all points; those that are wrong as they are have the answer zero."""
    if jobs is not None and jobs < 1:
        raise InputError("jobs", f"is {jobs}", "give the number of processes, at least one")
    solver = task.solver()
    wrong = task.decision.wrong(x, y)
    answers = [Answer.wrong(row) for row in x]
    where = np.flatnonzero(~wrong)
    # One product for all points: its last bits do not depend on how many processes share them.
    hints = solver.hints(x, y, where)
    points = [(x[i], int(y[i]), hint) for i, hint in zip(where, hints, strict=True)]
    for i, answer in zip(where, _all(task, solver, points, jobs, progress), strict=True):
        answers[i] = answer
    return answers


def _all(
    task: Task,
    solver: Solver,
    points: list[Point],
    jobs: int | None,
    progress: Progress | None,
) -> list[Answer]:
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


def _pooled(
    task: Task, points: list[Point], workers: int, progress: Progress | None
) -> list[Answer]:
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
    begun = perf_counter()
    answer = solver.at(x, label, task.budget.start(), hint, task.radius)
    return answer.after(perf_counter() - begun)
