"""The directions that the theory says to attack along."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.errors import InputError
from featavg.robustness.attacks.ddn import Found
from featavg.robustness.attacks.line_search import reach, shorten
from featavg.robustness.attacks.targeted_ddn import nearer
from featavg.robustness.models.model import Model, TwoLayerModel
from featavg.robustness.models.norms import steepest


@dataclass(frozen=True, eq=False)
class Features:
    """Feature vectors and the class of each: of a task, of a network's weights, or class means.

    Attributes:
        vectors: mu_j.
        classes: the class number of each, 0..C-1.
        nearest_samples: a vector for each class to move against, sum of own minus sum of other
            samples with the smallest margin; or None.
    """

    vectors: Float[ndarray, "k D"]
    classes: Int[ndarray, " k"]
    nearest_samples: Float[ndarray, "C D"] | None = None

    def __post_init__(self) -> None:
        if len(self.vectors) != len(self.classes):
            raise InputError("features", "and their classes differ in number", "give one each")
        if not np.all(np.isfinite(self.vectors)):
            raise InputError("features", "hold a NaN or an infinity", "give finite vectors")


def weight_features(model: TwoLayerModel) -> Features:
    """A network's own weights as features: neuron r speaks for the class it raises most."""
    net, groups = model.net, model.decision.groups
    if groups is None:
        return Features(net.weights, (net.head[0] > 0).astype(int))
    pulls = np.stack([net.head[groups == g].sum(axis=0) for g in range(model.decision.classes)])
    return Features(net.weights, pulls.argmax(axis=0))


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
    features: Features, x: Float[ndarray, "n D"], label: Int[ndarray, " n"]
) -> dict[str, Float[ndarray, "n D"]]:
    r"""The theory's directions for each point, each a unit vector.

    - `universal`: -sum of the own class's features + sum of the others', one vector a class;
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
    found = {
        "universal": up - same @ vectors,
        "own-down-rivals-up": up - own,
        "swap": rival - own,
    }
    if features.nearest_samples is not None:
        found["smallest-margin"] = -features.nearest_samples.astype(x.dtype)[label]
    return {name: steepest(vector, "l2") for name, vector in found.items()}


def along_directions(
    model: Model,
    x: Float[ndarray, "n D"],
    label: Int[ndarray, " n"],
    margin: Float[ndarray, " n"],
    features: Features,
    norm: str = "l2",
) -> tuple[Found, list[str]]:
    """A line search along each direction: the nearest flipped point, and whose it was.

    In l_inf the sign of each direction is tried as well, which is its steepest form there.
    """
    best = Found(x.copy(), np.zeros(len(x), dtype=bool))
    names = [""] * len(x)
    scale = _scale(model, x, margin, label)
    for name, direction in directions(features, x, label).items():
        for way in (direction, steepest(direction, norm)) if norm == "linf" else (direction,):
            point = reach(model, x, label, way, scale / _size(way))
            hit = np.any(point != x, axis=1)
            point, _ = shorten(model, x, label, point, margin)
            new = nearer(x, best, Found(point, hit), norm)
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
    typical = float(np.median(known)) if len(known) else max(float(np.abs(x).max()), 1.0)
    return np.where(np.isfinite(distance) & (distance > 0), distance, typical)


def _size(direction: Float[ndarray, "n D"]) -> Float[ndarray, " n"]:
    size = np.linalg.norm(direction.astype(float), axis=1)
    return np.where(size > 0, size, 1.0)
