"""Attacks along the directions that the theory names, and along random ones where those before failed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.data.streams import stream
from featavg.errors import InputError
from featavg.robustness.attacks.attack import (
    Attack,
    AttackEnd,
    AttackProblem,
    FeatureDirections,
    gradient_is_dead,
    nearer,
)
from featavg.robustness.attacks.ddn import ddn
from featavg.robustness.attacks.deepfool import slide
from featavg.robustness.attacks.line_search import reach, shorten
from featavg.robustness.attacks.pgd import PGD
from featavg.robustness.models.model import Model, TwoLayerModel
from featavg.robustness.models.norms import steepest


@dataclass(frozen=True, repr=False)
class Directions(Attack):
    """A line search along each direction that the theory names, then a short descent from there.

    The directions are those of the features given to `attack_suite`; a two-layer network has its
    own weights as features.

    Attributes:
        steps: gradients per point for the descent.

    >>> import numpy as np
    >>> import featavg as fa
    >>> net = fa.binary(np.eye(2))
    >>> attacks = [fa.attacks.Directions()]
    >>> fa.attack_suite(fa.network_model(net), [[3.0, 1.0]], [1], attacks=attacks).radii.round(3)
    array([1.414])
    """

    name: ClassVar[str] = "directions"
    default: ClassVar[bool] = True
    steps: int = 15

    def expected_gradients(self, budget: int) -> float:
        """The descent, and as much again for the line searches."""
        return 2 * self.steps

    def obstacle(self, model: Model, norm: str = "l2", features: FeatureDirections | None = None) -> InputError | None:
        """Without features there are no directions."""
        if features is None and not isinstance(model, TwoLayerModel):
            return InputError("features", "are missing", 'give class means, or leave out "directions"')
        return super().obstacle(model, norm, features)

    def __call__(self, problem: AttackProblem) -> AttackEnd:
        """The nearest point over all directions, before and after the descent."""
        features = problem.features
        if features is None:
            assert isinstance(problem.model, TwoLayerModel), "refused by `obstacle`"
            features = weight_features(problem.model)
        line = along_directions(problem, features)
        rows = np.flatnonzero(line.flipped)
        if len(rows) == 0:
            return line
        some = problem.take(rows)
        descended = ddn(some, None, self.steps, line.point[rows] - some.x)
        closer = shorten(some, descended, insist=True)
        return nearer(problem.x, line, line.put(rows, closer), problem.norm)


def weight_features(model: TwoLayerModel) -> FeatureDirections:
    """A network's own weights as features: neuron r speaks for the class it raises most."""
    net, groups = model.net, model.decision.groups
    if groups is None:
        return FeatureDirections(net.weights, (net.head[0] > 0).astype(int))
    pulls = np.stack([net.head[groups == g].sum(axis=0) for g in range(model.decision.classes)])
    return FeatureDirections(net.weights, pulls.argmax(axis=0))


def along_directions(problem: AttackProblem, features: FeatureDirections) -> AttackEnd:
    """The nearest flipped point of a line search along each direction.

    In l_inf the sign of each direction is tried as well, which is its steepest form there.
    """
    x, norm = problem.x, problem.norm
    best, scale = AttackEnd.nothing(x), _scale(problem)
    for direction in features.at(x, problem.label).values():
        for way in (direction, steepest(direction, norm)) if norm == "linf" else (direction,):
            far = reach(problem, way, scale / _size(way))
            point = shorten(problem, far).point
            best = nearer(x, best, AttackEnd(point, far.flipped), norm)
    return best


def _scale(problem: AttackProblem) -> Float[ndarray, " n"]:
    """The linearised l2 distance: the length to start a search from, whatever the units are."""
    _, value, gradient = problem.model.descend(problem.x, problem.label)
    size = np.linalg.norm(gradient.astype(float), axis=1)
    distance = value / np.where(size > 0, size, np.nan)
    known = distance[np.isfinite(distance) & (distance > 0)]
    typical = float(np.median(known)) if len(known) else float(np.abs(problem.x).max(initial=1.0))
    return np.where(np.isfinite(distance) & (distance > 0), distance, typical)


def _size(direction: Float[ndarray, "n D"]) -> Float[ndarray, " n"]:
    size = np.linalg.norm(direction.astype(float), axis=1)
    return np.where(size > 0, size, 1.0)


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

    def expected_gradients(self, budget: int) -> float:
        """One look at each gradient; points in need are the exception."""
        return 1

    def __call__(self, problem: AttackProblem) -> AttackEnd:
        """The nearest flipped points over all starts; only of the points in need."""
        rows = _in_need(problem)
        nothing = AttackEnd.nothing(problem.x)
        if len(rows) == 0:
            return nothing
        some, scale = problem.take(rows), _typical_length(problem)
        best, draw = nothing.take(rows), stream(problem.seed, "random starts")
        for number in range(self.starts):
            direction = draw.standard_normal(problem.x.shape)[rows]
            # In l_inf a corner of the cube is the farthest one gets for the price.
            direction = np.sign(direction) if problem.norm == "linf" else direction
            direction = direction.astype(some.x.dtype)
            unit = (direction / _size(direction)[:, None]).astype(some.x.dtype)
            # Lengths from an eighth of what is typical to four times it, where no line flips.
            end = self._along(some, unit, scale * 2.0 ** (number % 6 - 3))
            best = nearer(some.x, best, end, some.norm)
        by_pgd = PGD(restarts=self.starts).within(replace(some, features=None), np.full(len(rows), scale))
        return nothing.put(rows, slide(some, nearer(some.x, best, by_pgd, some.norm)))

    def _along(self, problem: AttackProblem, unit: Float[ndarray, "m D"], length: float) -> AttackEnd:
        """Along one direction for each point, and down from where the line flips or ends."""
        x = problem.x
        far = reach(problem, unit, np.full(len(x), length))
        line = shorten(problem, AttackEnd.of(far.point))
        start = np.where(line.flipped[:, None], line.point - x, unit * x.dtype.type(length))
        return nearer(x, line, ddn(problem, None, self.steps, start), problem.norm)


def _in_need(problem: AttackProblem) -> Int[ndarray, " m"]:
    """Points that nothing has flipped yet, and those whose gradient is zero towards every rival."""
    need = ~problem.nearest.flipped
    rest = np.flatnonzero(~need)
    if len(rest):
        need[rest] = gradient_is_dead(problem.take(rest))
    return np.flatnonzero(need)


def _typical_length(problem: AttackProblem) -> float:
    """A length to begin with, whatever the units are: what flipped other points, else that of x."""
    reached = problem.reached
    finite = reached[np.isfinite(reached)]
    if len(finite):
        return float(np.median(finite))
    return float(np.median(np.linalg.norm(problem.x.astype(float), axis=1))) or 1.0
