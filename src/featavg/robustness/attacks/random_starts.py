"""Random starts, where a gradient is dead or nothing was found: no silence is taken for robustness."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.data.streams import stream
from featavg.robustness.attacks.attack import (
    Attack,
    AttackProblem,
    gradient_is_dead,
    positive_whole,
    targets,
)
from featavg.robustness.attacks.ddn import ddn
from featavg.robustness.attacks.deepfool import slide
from featavg.robustness.attacks.line_search import reach, shorten
from featavg.robustness.attacks.pgd import minimal_pgd
from featavg.robustness.attacks.result import AttackEnd, nearer
from featavg.robustness.models.decision import ALL


@dataclass(frozen=True, repr=False)
class RandomStarts(Attack):
    """From random directions: a search along the line, then a descent; PGD; the nearest slides.

    Only for points that no attack before it has flipped, or whose gradient is zero: where every
    ReLU in reach is off, a descent that begins at the point itself never moves, and one whose
    gradient misleads never arrives. Elsewhere it costs nothing.

    Attributes:
        starts: random directions tried.
        steps: gradients per point and start.

    >>> import numpy as np
    >>> import featavg as fa
    >>> net = fa.binary(np.eye(2))
    >>> attacks = [fa.attacks.DDN(), fa.attacks.RandomStarts()]
    >>> fa.attack_suite(fa.network_model(net), [[3.0, 1.0]], [1], attacks=attacks).radii.round(3)
    array([1.414])
    """

    name: ClassVar[str] = "random-starts"
    default: ClassVar[bool] = True
    starts: int = 6
    steps: int = 20

    def __post_init__(self) -> None:
        positive_whole("starts", self.starts)
        positive_whole("steps", self.steps)

    def expected_gradients(self, budget: int) -> float:
        """One look at each gradient; points in need are the exception."""
        return 1

    def __call__(self, problem: AttackProblem) -> AttackEnd:
        """The nearest flipped points over all starts; only of the points in need."""
        rows = _in_need(problem)
        if len(rows) == 0:
            return AttackEnd.nothing(problem.x)
        best = AttackEnd.nothing(problem.x[rows])
        draw = stream(problem.seed, "random starts")
        scale = _typical_length(problem)
        for number in range(self.starts):
            direction = draw.standard_normal((len(problem.x), problem.x.shape[1]))[rows]
            # In l_inf a corner of the cube is the farthest one gets for the price.
            direction = np.sign(direction) if problem.norm == "linf" else direction
            # Lengths from an eighth of what is typical to four times it, where no line flips.
            length = scale * 2.0 ** (number % 6 - 3)
            end = self._from(problem, rows, direction.astype(problem.x.dtype), length)
            best = nearer(problem.x[rows], best, end, problem.norm)
        best = nearer(problem.x[rows], best, self._pgd(problem, rows, scale), problem.norm)
        best = slide(
            problem.model,
            problem.x[rows],
            problem.label[rows],
            best,
            problem.margin[rows],
            problem.norm,
        )
        return AttackEnd.nothing(problem.x).put(rows, best)

    def _from(
        self,
        problem: AttackProblem,
        rows: Int[ndarray, " m"],
        direction: Float[ndarray, "m D"],
        length: float,
    ) -> AttackEnd:
        """Along one direction for each point, and down from where the line flips or ends."""
        model, x, label = problem.model, problem.x[rows], problem.label[rows]
        unit = direction / np.linalg.norm(direction.astype(float), axis=1)[:, None]
        unit = unit.astype(x.dtype)
        point = reach(model, x, label, unit, np.full(len(x), length))
        line, flipped = shorten(model, x, label, point, problem.margin[rows])
        start = np.where(flipped[:, None], line - x, unit * x.dtype.type(length))
        aims = np.full(len(x), ALL)
        descended = ddn(model, x, label, aims, problem.norm, self.steps, start)
        return nearer(x, AttackEnd(line, flipped), descended, problem.norm)

    def _pgd(self, problem: AttackProblem, rows: Int[ndarray, " m"], scale: float) -> AttackEnd:
        return minimal_pgd(
            problem.model,
            problem.x[rows],
            problem.label[rows],
            problem.margin[rows],
            np.full(len(rows), scale),
            problem.norm,
            restarts=self.starts,
            seed=problem.seed,
        )


def _in_need(problem: AttackProblem) -> Int[ndarray, " m"]:
    """Points that nothing has flipped yet, and those whose gradient is zero towards every rival."""
    model, x, label = problem.model, problem.x, problem.label
    need = ~problem.nearest.flipped
    rest = np.flatnonzero(~need)
    if len(rest):
        rivals = targets(model, x[rest], label[rest], most=9)
        need[rest] = gradient_is_dead(model, x[rest], label[rest], rivals)
    return np.flatnonzero(need)


def _typical_length(problem: AttackProblem) -> float:
    """A length to begin with, whatever the units are: what flipped other points, else that of x."""
    reached = problem.reached
    finite = reached[np.isfinite(reached)]
    if len(finite):
        return float(np.median(finite))
    return float(np.median(np.linalg.norm(problem.x.astype(float), axis=1))) or 1.0
