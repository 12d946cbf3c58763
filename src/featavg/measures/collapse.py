"""Neural collapse of features, for classes and for the sub-classes inside them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray

from featavg.boundary.kinds import Seed
from featavg.boundary.public import public
from featavg.data.streams import stream
from featavg.errors import InputError
from featavg.measures.alignment import cosine_matrix
from featavg.training.heads import class_features


@dataclass(frozen=True)
class Collapse:
    """The four signs of Papyan, Han and Donoho (2020), for one set of labels; 0 is full collapse.

    Attributes:
        nc1: within-class against between-class variability, tr(S_W pinv(S_B)) / C.
        nc2: how far class means are from a simplex: the deviation of their lengths over their mean
            length, plus the mean distance of their cosines from -1/(C-1).
        nc3: distance of the last layer's weights from the class means, both at length one; None without
            a linear layer with a row per class.
        nc4: share of samples that the nearest class mean decides otherwise than the network, if known.
    """

    nc1: float
    nc2: float
    nc3: float | None
    nc4: float | None

    def to_json(self) -> dict[str, float | None]:
        """Plain values."""
        return asdict(self)


@dataclass(frozen=True)
class SubclassCollapse:
    """Whether features still tell the sub-classes of a class apart.

    Attributes:
        same_class_cosine: mean cosine between the means of sub-classes of one class; near 1 the
            sub-classes lie in one place.
        other_class_cosine: the same across classes.
        probe: accuracy of a linear probe for the sub-class, inside its class, on held-out samples.
        chance: what guessing the largest sub-class of the class gives.
        classes: collapse at the level of classes.
        subclasses: collapse at the level of sub-classes.
    """

    same_class_cosine: float
    other_class_cosine: float
    probe: float
    chance: float
    classes: Collapse
    subclasses: Collapse

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


@public
def collapse(
    features: Float[ndarray, "n N"],
    labels: Int[ndarray, " n"],
    weights: Float[ndarray, "c N"] | None = None,
    decided: Int[ndarray, " n"] | None = None,
) -> Collapse:
    """NC1 to NC4 of features.

    Args:
        labels: 0..C-1, each with at least one sample.
        weights: of a last linear layer with one row per class.
        decided: what the network says.

    >>> import numpy as np
    >>> import featavg as fa
    >>> x = np.array([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [-1.0, 0.0]])
    >>> fa.collapse(x, np.array([0, 0, 1, 1]), decided=np.array([0, 0, 1, 0]))
    Collapse(nc1=0.0, nc2=0.0, nc3=None, nc4=0.25)
    """
    classes = int(labels.max()) + 1
    if classes < 2:
        raise InputError("labels", "have one class", "give at least two")
    means = class_features(features, labels, classes)
    centre = means.mean(axis=0)
    moved = means - centre
    within = features - means[labels]
    # tr(S_W pinv(S_B)) without N x N matrices: S_B has rank C - 1, so work in its span.
    left, lengths, _ = np.linalg.svd(moved.T / np.sqrt(classes), full_matrices=False)
    kept = lengths > 1e-9 * max(lengths.max(initial=0.0), 1e-300)
    inside = within @ left[:, kept]
    nc1 = float((inside**2).mean(axis=0) @ (1.0 / lengths[kept] ** 2)) / classes
    sizes = np.linalg.norm(moved, axis=1)
    angles = cosine_matrix(moved, moved)[~np.eye(classes, dtype=bool)]
    spread = float(sizes.std() / sizes.mean()) if sizes.mean() > 0 else 0.0
    nc2 = spread + float(np.abs(angles + 1.0 / (classes - 1)).mean())
    nc3 = None
    if weights is not None and weights.shape == means.shape:
        rows = weights - weights.mean(axis=0)
        nc3 = float(np.linalg.norm(rows / _length(rows) - moved / _length(moved)))
    nc4 = None
    if decided is not None:
        squares = (means**2).sum(axis=1) - 2.0 * features @ means.T
        nc4 = float(np.mean(squares.argmin(axis=1) != decided))
    return Collapse(nc1, nc2, nc3, nc4)


@public
def subclass_collapse(
    features: Float[ndarray, "n N"],
    fine: Int[ndarray, " n"],
    groups: Int[ndarray, " k"],
    weights: Float[ndarray, "c N"] | None = None,
    decided: Int[ndarray, " n"] | None = None,
    seed: Seed = 0,
) -> SubclassCollapse:
    """Collapse at both levels, cosines of sub-class means, and a linear probe.

    Args:
        groups: the class of each sub-class.
        weights: of the last linear layer, if there is one.
        decided: the class that the network says.
        features: one row for each sample, before the last layer.
        fine: the sub-class of each row.
        seed: of the probe's split.

    >>> import numpy as np
    >>> import featavg as fa
    >>> fine = np.arange(80) % 4
    >>> x = 5 * np.eye(4)[fine] + 0.1 * np.random.default_rng(0).standard_normal((80, 4))
    >>> fa.subclass_collapse(x, fine, np.array([0, 0, 1, 1])).probe
    1.0
    """
    means = class_features(features, fine, len(groups))
    cosines = cosine_matrix(means, means)
    one_class = groups[:, None] == groups[None, :]
    same = cosines[one_class & ~np.eye(len(groups), dtype=bool)]
    probe, chance = linear_probe(features, fine, groups, seed)
    return SubclassCollapse(
        same_class_cosine=float(same.mean()) if same.size else float("nan"),
        other_class_cosine=float(cosines[~one_class].mean()),
        probe=probe,
        chance=chance,
        classes=collapse(features, groups[fine], weights, decided),
        subclasses=collapse(features, fine, weights),
    )


def linear_probe(
    features: Float[ndarray, "n N"],
    fine: Int[ndarray, " n"],
    groups: Int[ndarray, " k"],
    seed: int = 0,
    ridge: float = 1e-2,
) -> tuple[float, float]:
    """Held-out accuracy of ridge regression for the sub-class inside its class, and chance."""
    _, right = probe_answers(features, fine, groups, seed, ridge)
    counts = np.bincount(fine, minlength=len(groups))
    largest = [counts[groups == c].max() for c in np.unique(groups)]
    return float(np.mean(right)), float(np.sum(largest) / len(fine))


def probe_answers(
    features: Float[ndarray, "n N"],
    fine: Int[ndarray, " n"],
    groups: Int[ndarray, " k"],
    seed: int = 0,
    ridge: float = 1e-2,
) -> tuple[Int[ndarray, " m"], Bool[ndarray, " m"]]:
    """The half of the samples that tests a ridge regression fitted on the other, and where it is right.

    The class itself is given.
    """
    rows = stream(seed, "probe").permutation(len(fine))
    first, second = rows[: len(rows) // 2], rows[len(rows) // 2 :]
    mean, scale = features[first].mean(axis=0), features[first].std() + 1e-300
    x = np.hstack([(features - mean) / scale, np.ones((len(fine), 1))])
    targets = np.eye(len(groups))[fine[first]]
    a = x[first]
    if x.shape[1] > len(a):  # the same weights from inner products of samples
        dual = np.linalg.solve(a @ a.T + ridge * len(a) * np.eye(len(a)), targets)
        scores = x[second] @ a.T @ dual
    else:
        gram = a.T @ a + ridge * len(a) * np.eye(x.shape[1])
        scores = x[second] @ np.linalg.solve(gram, a.T @ targets)
    scores[groups[None, :] != groups[fine[second]][:, None]] = -np.inf
    return second, scores.argmax(axis=1) == fine[second]


def _length(matrix: Float[ndarray, "c N"]) -> float:
    return float(np.linalg.norm(matrix)) or 1.0
