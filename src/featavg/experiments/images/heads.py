"""Figure 2 (c, d) on any frozen features: two heads, their cosines, their exact radii."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.data.streams import stream
from featavg.errors import InputError
from featavg.measures.alignment import cosine_matrix, equivalent_weights
from featavg.measures.averaging import averaging_index_of
from featavg.nets.two_layer import TwoLayer
from featavg.progress import Progress
from featavg.robustness.exact.budget import Budget
from featavg.robustness.radii import radii
from featavg.training.heads import (
    HeadRecipe,
    class_features,
    dead_neurons,
    lost_classes,
    train_head,
)


@dataclass(frozen=True, eq=False)
class Features:
    """Frozen features of training and test images, with their fine classes.

    Attributes:
        groups: the coarse class of each fine one.
        source: which network and data they come from.
    """

    train: Float[ndarray, "n N"]
    train_classes: Int[ndarray, " n"]
    test: Float[ndarray, "t F"]
    test_classes: Int[ndarray, " t"]
    groups: Int[ndarray, " k"]
    source: str

    def __post_init__(self) -> None:
        if self.train.shape[1] != self.test.shape[1]:
            raise InputError(
                "test", f"has {self.test.shape[1]} features", "use one network for both"
            )
        for classes in (self.train_classes, self.test_classes):
            if classes.max() >= len(self.groups) or classes.min() < 0:
                raise InputError("classes", "do not match the partition", "give one entry a class")


@dataclass(frozen=True, eq=False)
class HeadResult:
    """What one kind of head came to, over seeds.

    Attributes:
        cosines: entry (i, j) is cos(mu_i, w_j), for each seed.
        accuracy: of the coarse decision on the test features (fine heads: read out by `max`).
        fine_accuracy: NaN for the binary head.
        index: averaging index; `null` is that of random directions.
        dead, lost: dead neurons and lost classes, for each seed.
        nets: the heads themselves.
    """

    cosines: Float[ndarray, "s k k"]
    accuracy: list[float]
    fine_accuracy: list[float]
    index: float
    null: float
    dead: list[int]
    lost: list[int]
    nets: list[TwoLayer]


def study_heads(
    features: Features,
    labels: str,
    seeds: Sequence[int],
    recipe: HeadRecipe | None = None,
    progress: Progress | None = None,
) -> HeadResult:
    """Train a head with each seed and measure what it points at."""
    recipe = recipe or HeadRecipe()
    k, groups = len(features.groups), features.groups
    signs = np.where(groups == 1, 1, -1)
    mu = class_features(features.train, features.train_classes, k)
    nets, matrices, coarse, fine, dead, lost, index = [], [], [], [], [], [], []
    null = float("nan")
    for i, seed in enumerate(seeds):
        if progress is not None:
            progress(i / len(seeds), f"{labels} head, seed {seed}")
        net = train_head(features.train, features.train_classes, groups, labels, recipe, seed)
        out = net(features.test)
        if labels == "coarse":
            coarse.append(float(np.mean((out[:, 0] > 0) == (groups[features.test_classes] == 1))))
            fine.append(float("nan"))
        else:
            best = out.argmax(axis=1)
            coarse.append(float(np.mean(groups[best] == groups[features.test_classes])))
            fine.append(float(np.mean(best == features.test_classes)))
        if groups.max() == 1:
            matrices.append(cosine_matrix(mu, equivalent_weights(net, signs)))
            measured = averaging_index_of(net, mu, signs)
            index.append(measured.value)
            null = measured.null
        dead.append(int(dead_neurons(net, features.train).sum()))
        lost.append(len(lost_classes(net, features.train, features.train_classes)))
        nets.append(net)
    mean_index = float(np.mean(index)) if index else float("nan")
    stacked = np.stack(matrices) if matrices else np.zeros((0, k, k))
    return HeadResult(stacked, coarse, fine, mean_index, null, dead, lost, nets)


def head_radii(
    net: TwoLayer,
    features: Features,
    readout: str = "max",
    points: int = 200,
    seed: int = 0,
    nodes: int = 400,
) -> dict[str, Any]:
    """Exact l2 radii in feature space, in units of the mean length of a feature vector.

    The unit makes networks comparable: penultimate activations have no scale of their own.
    """
    rows = stream(seed, "radii").choice(
        len(features.test), min(points, len(features.test)), replace=False
    )
    y = np.where(features.groups[features.test_classes[rows]] == 1, 1, -1)
    positive = features.groups == 1 if net.outputs > 1 else None
    found = radii(net, features.test[rows], y, readout, positive, Budget(nodes=nodes), jobs=1)
    unit = float(np.sqrt(np.mean(np.einsum("ij,ij->i", features.train, features.train))))
    grid = np.linspace(0.0, 1.0, 41)
    lower, upper = found.robust_accuracy(grid * unit)
    return {
        "unit": "l2 in feature space / root mean square length of a feature vector",
        "length": unit,
        "points": len(rows),
        "median": [end / unit for end in found.median],
        "largest_gap": float(found.gaps.max(initial=0.0)),
        "grid": grid.tolist(),
        "certified": lower.tolist(),
        "attack": upper.tolist(),
        "outcomes": found.to_json(points=False)["outcomes"],
    }
