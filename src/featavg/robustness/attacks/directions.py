"""The directions that the theory says to attack along."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.errors import InputError
from featavg.robustness.attacks.attack import (
    Attack,
    AttackProblem,
    FeatureDirections,
    positive_whole,
)
from featavg.robustness.attacks.ddn import ddn
from featavg.robustness.attacks.line_search import reach, shorten
from featavg.robustness.attacks.result import AttackEnd, nearer
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


def directions(
    features: FeatureDirections, x: Float[ndarray, "n D"], label: Int[ndarray, " n"]
) -> dict[str, Float[ndarray, "n D"]]:
    r"""The theory's directions for each point, each a unit vector.

    - `universal`: -sum of the own class's features + sum of the others', one vector per class;
    - `own-down-rivals-up`: -mu_own + sum of the rivals', mu_own the own feature x has most of;
    - `swap`: -mu_own + mu_j for the rival feature x has most of;
    - `smallest-margin`: against the samples of smallest margin, if they are known.
    """
    vectors = features.vectors.astype(x.dtype)
    same = (features.classes == label[:, None]).astype(x.dtype)
    most = (x @ vectors.T) / np.maximum(np.linalg.norm(vectors, axis=1), 1e-300)
    own = vectors[np.where(same > 0, most, -np.inf).argmax(axis=1)]
    rival = vectors[np.where(same > 0, -np.inf, most).argmax(axis=1)]
    up = (1 - same) @ vectors
    vectors_of = {
        "universal": up - same @ vectors,
        "own-down-rivals-up": up - own,
        "swap": rival - own,
    }
    if features.nearest_samples is not None:
        vectors_of["smallest-margin"] = -features.nearest_samples.astype(x.dtype)[label]
    return {name: steepest(vector, "l2") for name, vector in vectors_of.items()}


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
    for name, direction in directions(features, x, label).items():
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
