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
from featavg.figures.figure import Axis, Bar, Bars, Figure, Heatmap, Lines, Series
from featavg.figures.result import Result
from featavg.measures.alignment import cosine_matrix, equivalent_weights
from featavg.measures.averaging import averaging_index_of
from featavg.nets.two_layer import TwoLayer
from featavg.paper.images.features import FeatureSet
from featavg.progress import Progress
from featavg.robustness.exact.budget import Budget
from featavg.robustness.exact.result import Radii
from featavg.robustness.radii import radii
from featavg.training.heads import (
    HeadRecipe,
    class_features,
    dead_neurons,
    lost_classes,
    train_head,
)

UNIT = "l2 in feature space / root mean square length of a feature vector"
GRID = np.linspace(0.0, 1.0, 41)


@dataclass(frozen=True, eq=False, repr=False)
class HeadStudy(Result):
    """What one kind of head came to, over seeds.

    Attributes:
        labels: "coarse" (a binary head) or "fine" (a grouped one).
        source: of the features.
        groups: the coarse class of each fine one.
        cosines: entry (i, j) is cos(mu_i, w_j), for each seed; empty unless there are two classes.
        accuracy: of the coarse decision on the test features (fine heads: read out by `max`).
        fine_accuracy: one per fine head; empty for binary ones, which decide between no fine classes.
        index: averaging index; `null` is that of random directions.
        dead, lost: dead neurons and lost classes, for each seed.
        nets: the heads themselves.

    Returned by `fa.study_heads`, which has an example.
    """

    labels: str
    source: str
    groups: Int[ndarray, " k"]
    cosines: Float[ndarray, "s k k"]
    accuracy: list[float]
    fine_accuracy: list[float]
    index: float
    null: float
    dead: list[int]
    lost: list[int]
    nets: list[TwoLayer]

    def figure(self) -> Figure:
        """The cosines of class means with equivalent weights, or accuracies where there are none."""
        title = f"Heads with {self.labels} labels on {self.source}"
        if not len(self.cosines):
            seeds = tuple(f"head {i + 1}" for i in range(len(self.nets)))
            bar = Bar("coarse accuracy", [100 * share for share in self.accuracy], "decoupled")
            panel = Bars(seeds, (bar,), Axis("accuracy", "%"))
            return Figure("heads", title, "Accuracy of the coarse decision.", (panel,))
        # Rows and columns sorted by coarse class, so that the blocks of Figure 2 can be seen.
        order = np.argsort(-self.groups, kind="stable")
        cut = int((self.groups == 1).sum())
        heat = Heatmap(
            self.cosines.mean(axis=0)[np.ix_(order, order)],
            tuple(f"class {j}" for j in order),
            tuple(f"w<sub>{j}</sub>" for j in order),
            label="cosine",
            limit=1.0,
            row_breaks=(cut,),
            column_breaks=(cut,),
        )
        caption = (
            "Cosine between the mean feature of each class and the equivalent weights of the head."
        )
        return Figure("heads", title, caption, (heat,))

    def to_json(self) -> dict[str, Any]:
        """Everything but the weights."""
        return {
            "labels": self.labels,
            "source": self.source,
            "groups": self.groups.tolist(),
            "cosines": self.cosines.mean(axis=0).round(4).tolist() if len(self.cosines) else [],
            "accuracy": self.accuracy,
            "fine_accuracy": self.fine_accuracy,
            "averaging_index": _number(self.index),
            "averaging_index_null": _number(self.null),
            "dead_neurons": self.dead,
            "lost_classes": self.lost,
        }

    def summary(self) -> str:
        """Accuracy, index and losses."""
        return (
            f"{len(self.nets)} heads with {self.labels} labels on {self.source}: accuracy "
            f"{100 * float(np.mean(self.accuracy)):.1f}%, averaging index {self.index:.2f} (random "
            f"directions {self.null:.2f}), {sum(self.lost)} classes lost, {sum(self.dead)} neurons dead."
        )


def study_heads(
    features: FeatureSet,
    labels: str,
    seeds: Sequence[int] = (0, 1, 2, 3, 4),
    recipe: HeadRecipe | None = None,
    progress: Progress | None = None,
) -> HeadStudy:
    """Train a head with each seed and measure what it points at.

    Args:
        features: of `embed`.
        labels: "coarse" or "fine".
        seeds: of the heads' initial weights.
        recipe: neurons, steps, step size and start; `HeadRecipe()` unless given.
        progress: called with the share done and a note.

    >>> import featavg as fa
    >>> digits = fa.embed("pixels", fa.load_images("digits"))
    >>> print(fa.study_heads(digits, "coarse", seeds=(0,)))
    1 heads with coarse labels on pixels of digits: accuracy ...
    """
    if len(seeds) == 0:
        raise InputError("seeds", "are none", "give at least one")
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
        else:
            best = out.argmax(axis=1)
            coarse.append(float(np.mean(groups[best] == groups[features.test_classes])))
            fine.append(float(np.mean(best == features.test_classes)))
        if groups.max() == 1:
            matrices.append(cosine_matrix(mu, equivalent_weights(net, signs)))
            averaging = averaging_index_of(net, mu, signs)
            index.append(averaging.value)
            null = averaging.null
        dead.append(int(dead_neurons(net, features.train).sum()))
        lost.append(len(lost_classes(net, features.train, features.train_classes)))
        nets.append(net)
    mean_index = float(np.mean(index)) if index else float("nan")
    stacked = np.stack(matrices) if matrices else np.zeros((0, k, k))
    return HeadStudy(
        labels, features.source, groups, stacked, coarse, fine, mean_index, null, dead, lost, nets
    )


@dataclass(frozen=True, eq=False, repr=False)
class HeadRadii(Result):
    """Exact radii of a head in feature space, in units of the length of a feature vector.

    Attributes:
        length: the unit, see `FeatureSet.length`.
        radii: of each point, in raw coordinates.

    Returned by `fa.head_radii`, which has an example.
    """

    readout: str
    source: str
    length: float
    radii: Radii

    @property
    def median(self) -> tuple[float, float]:
        """The certified and the attacked end of the median radius."""
        low, high = self.radii.median
        return float(low) / self.length, float(high) / self.length

    @property
    def largest_gap(self) -> float:
        """1 - certified / attack where it is largest."""
        return float(self.radii.gaps.max(initial=0.0))

    def figure(self) -> Figure:
        """Robust accuracy against the radius, certified and attacked."""
        lower, upper = self.radii.robust_accuracy(GRID * self.length)
        ends = (("certified", lower, "solid"), ("attacked", upper, "dashed"))
        lines = tuple(
            Series(name, GRID.tolist(), (100 * share).tolist(), "decoupled", style)  # type: ignore[arg-type]
            for name, share, style in ends
        )
        panel = Lines(Axis("radius", "feature lengths"), Axis("robust accuracy", "%"), lines)
        caption = "Share of test points whose decision no perturbation of the given length changes."
        return Figure("head-radii", f"Exact radii on {self.source}", caption, (panel,))

    def to_json(self) -> dict[str, Any]:
        """Plain values, without the points."""
        lower, upper = self.radii.robust_accuracy(GRID * self.length)
        return {
            "unit": UNIT,
            "length": self.length,
            "points": len(self.radii),
            "median": list(self.median),
            "largest_gap": self.largest_gap,
            "grid": GRID.tolist(),
            "certified": lower.tolist(),
            "attack": upper.tolist(),
            "outcomes": self.radii.to_json(points=False)["outcomes"],
        }

    def summary(self) -> str:
        """The median and its bracket."""
        low, high = self.median
        return (
            f"Median l2 radius {low:.3f} to {high:.3f} feature lengths (read-out {self.readout}, "
            f"{len(self.radii)} points, {self.source})."
        )


def head_radii(
    net: TwoLayer,
    features: FeatureSet,
    readout: str = "max",
    points: int = 200,
    seed: int = 0,
    nodes: int = 400,
    progress: Progress | None = None,
) -> HeadRadii:
    """Exact l2 radii in feature space, in units of the mean length of a feature vector.

    The unit makes networks comparable: penultimate activations have no scale of their own.

    Args:
        net: a head on these features.
        features: whose test points are measured.
        readout: how outputs of fine classes become a class.
        points: test points, drawn at random.
        seed: of the draw.
        nodes: at most so many in the search for each point; then a bracket is left.
        progress: called with the share done and a note.

    >>> import featavg as fa
    >>> digits = fa.embed("pixels", fa.load_images("digits"))
    >>> recipe = fa.HeadRecipe(steps=30)
    >>> net = fa.train_head(digits.train, digits.train_classes, digits.groups, "coarse", recipe, seed=0)
    >>> fa.head_radii(net, digits, points=5)
    Median l2 radius ...
    """
    rows = stream(seed, "radii").choice(
        len(features.test), min(points, len(features.test)), replace=False
    )
    y = np.where(features.groups[features.test_classes[rows]] == 1, 1, -1)
    positive = features.groups == 1 if net.outputs > 1 else None
    budget, x = Budget(nodes=nodes), features.test[rows]
    exact = radii(
        net,
        x,
        y,
        readout=readout,
        positive=positive,
        budget=budget,
        jobs=1,
        progress=progress,
    )
    return HeadRadii(readout, features.source, features.length, exact)


def _number(value: float) -> float | None:
    return None if np.isnan(value) else value
