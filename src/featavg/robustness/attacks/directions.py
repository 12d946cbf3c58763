"""The directions that the theory says to attack along."""

from __future__ import annotations

from dataclasses import dataclass
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
    positive_whole,
    targets,
)
from featavg.robustness.attacks.ddn import ddn
from featavg.robustness.attacks.deepfool import slide
from featavg.robustness.attacks.line_search import reach, shorten
from featavg.robustness.attacks.pgd import minimal_pgd
from featavg.robustness.models.decision import ALL
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

    def __post_init__(self) -> None:
        positive_whole("steps", self.steps)

    def expected_gradients(self, budget: int) -> float:
        """The descent, and as much again for the line searches."""
        return 2 * self.steps

    def obstacle(
        self, model: Model, norm: str = "l2", features: FeatureDirections | None = None
    ) -> InputError | None:
        """Without features there are no directions."""
        if features is None and not isinstance(model, TwoLayerModel):
            return InputError(
                "features", "are missing", 'give class means, or leave out "directions"'
            )
        return super().obstacle(model, norm, features)

    def __call__(self, problem: AttackProblem) -> AttackEnd:
        """The nearest point over all directions, before and after the descent."""
        model, x, label, norm = problem.model, problem.x, problem.label, problem.norm
        features = problem.features
        if features is None:
            assert isinstance(model, TwoLayerModel), "refused by `obstacle`"
            features = weight_features(model)
        line, _ = along_directions(model, x, label, problem.margin, features, norm)
        rows = np.flatnonzero(line.flipped)
        if len(rows) == 0:
            return line
        start = line.point[rows] - x[rows]
        aims = problem.whole_decision[rows]
        descended = ddn(model, x[rows], label[rows], aims, norm, self.steps, start)
        point, flipped = shorten(
            model, x[rows], label[rows], descended.point, problem.margin[rows], insist=True
        )
        closer = AttackEnd(point, flipped & descended.flipped)
        return nearer(x, line, line.put(rows, closer), norm)


def weight_features(model: TwoLayerModel) -> FeatureDirections:
    """A network's own weights as features: neuron r speaks for the class it raises most."""
    net, groups = model.net, model.decision.groups
    if groups is None:
        return FeatureDirections(net.weights, (net.head[0] > 0).astype(int))
    pulls = np.stack([net.head[groups == g].sum(axis=0) for g in range(model.decision.classes)])
    return FeatureDirections(net.weights, pulls.argmax(axis=0))


def smallest_margin_direction(
    model: Model, x: Float[ndarray, "n D"], label: Int[ndarray, " n"], count: int = 100
) -> Float[ndarray, "C D"]:
    """For each class, the sum of its own samples minus that of others, over the smallest margins.

    With two classes and labels y this is y * sum_i y_i x_i. In a network at a stationary point of
    margin maximisation these samples carry the multipliers, so their sum is close to its weights.
    """
    margin = model.margins(x, label)
    right = np.flatnonzero(margin > 0)
    chosen = right[np.argsort(margin[right], kind="stable")[:count]]
    signs = np.where(label[chosen] == np.arange(model.decision.classes)[:, None], 1.0, -1.0)
    return np.asarray(signs @ x[chosen])


def along_directions(
    model: Model,
    x: Float[ndarray, "n D"],
    label: Int[ndarray, " n"],
    margin: Float[ndarray, " n"],
    features: FeatureDirections,
    norm: str = "l2",
) -> tuple[AttackEnd, list[str]]:
    """A line search along each direction: the nearest flipped point, and whose it was.

    In l_inf the sign of each direction is tried as well, which is its steepest form there.
    """
    best = AttackEnd.nothing(x)
    names = [""] * len(x)
    scale = _scale(model, x, margin, label)
    for name, direction in features.at(x, label).items():
        for way in (direction, steepest(direction, norm)) if norm == "linf" else (direction,):
            point = reach(model, x, label, way, scale / _size(way))
            hit = np.any(point != x, axis=1)
            point, _ = shorten(model, x, label, point, margin)
            new = nearer(x, best, AttackEnd(point, hit), norm)
            changed = np.any(new.point != best.point, axis=1)
            names = [name if c else old for c, old in zip(changed, names, strict=True)]
            best = new
    return best, names


def _scale(
    model: Model, x: Float[ndarray, "n D"], margin: Float[ndarray, " n"], label: Int[ndarray, " n"]
) -> Float[ndarray, " n"]:
    """The linearised l2 distance: the length to start a search from, whatever the units are."""
    _, value, gradient = model.descend(x, label)
    size = np.linalg.norm(gradient.astype(float), axis=1)
    distance = np.where(size > 0, value / np.where(size > 0, size, 1.0), np.nan)
    known = distance[np.isfinite(distance) & (distance > 0)]
    typical = float(np.median(known)) if len(known) else float(np.abs(x).max(initial=1.0))
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
