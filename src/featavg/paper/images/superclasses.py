"""Two levels of labels with many classes each: heads on 20 superclasses against heads on 100 classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.data.streams import stream
from featavg.errors import InputError
from featavg.figures.figure import Axis, Figure, Lines, Series
from featavg.figures.result import Result
from featavg.measures.accuracy import robust_share
from featavg.measures.averaging import evenness, feature_coefficients, random_coefficients
from featavg.nets.readouts.registry import READOUTS
from featavg.nets.two_layer import TwoLayer
from featavg.paper.images.features import FeatureSet
from featavg.paper.images.heads import UNIT
from featavg.progress import Progress
from featavg.robustness.attacks.suite import attack_suite
from featavg.robustness.models.decision import Decision
from featavg.robustness.models.model import TwoLayerModel
from featavg.training.heads import HeadRecipe, class_features, lost_classes, train_head


@dataclass(frozen=True, repr=False)
class SuperclassStudy(Result):
    """Heads told coarse classes against heads told fine ones; means over seeds.

    Attributes:
        source: of the features.
        index: averaging index over the fine classes of a coarse one, by labels; `null` is that of
            random directions.
        accuracy: of the coarse classes by labels, and of the `fine_classes`.
        median: median attacked radius of the coarse decision, with coarse labels and by read-out.
        gain: how many times as far fine labels push the boundary, by read-out.
        grid, curves: robust accuracy in percent at each radius.
        lost_classes: of both heads, for each seed.
        neurons: of each head.
        radii: the attacked radius of each image, by decision and seed, to four digits.

    Returned by `fa.study_superclasses`, which has an example.
    """

    source: str
    index: Mapping[str, float]
    accuracy: Mapping[str, float]
    median: Mapping[str, float]
    gain: Mapping[str, float]
    grid: list[float]
    curves: Mapping[str, list[float]]
    lost_classes: list[list[int]]
    points: int
    seeds: list[int]
    neurons: int
    radii: Mapping[str, list[list[float]]]
    unit: str = UNIT

    def figure(self) -> Figure:
        """Robust accuracy of the coarse decision."""
        styles = {"probability": "solid", "max": "dashed", "sum": "dotted"}
        fine = (
            Series(f"fine labels, {name}", self.grid, self.curves[name], "decoupled", style)  # type: ignore[arg-type]
            for name, style in styles.items()
        )
        series = (Series("coarse labels", self.grid, self.curves["coarse"], "averaged"), *fine)
        return Figure(
            "superclasses",
            f"Superclasses on {self.source}",
            "Share of test embeddings whose superclass the attack does not change within a radius, for "
            "heads trained with coarse and with fine labels; the same attack on the same decision.",
            (Lines(Axis("radius", "feature lengths"), Axis("robust accuracy", "%"), series),),
        )

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    def summary(self) -> str:
        """Indices and gains."""
        gains = ", ".join(f"{self.gain[name]:.2f} ({name})" for name in READOUTS)
        return (
            f"Heads on {self.source}: averaging index {self.index['coarse']:.2f} with coarse and "
            f"{self.index['fine']:.2f} with fine labels (random directions {self.index['null']:.2f}); "
            f"fine labels multiply the median attacked radius by {gains}."
        )


def study_superclasses(
    features: FeatureSet,
    seeds: Sequence[int] = (0, 1),
    h: int = 3,
    points: int = 500,
    budget: int = 60,
    progress: Progress | None = None,
) -> SuperclassStudy:
    """Heads with as many neurons each, told the coarse or the fine classes.

    Radii are upper bounds by the same attack on the same coarse decision, l2 in feature space in
    units of the length of a feature vector.

    Args:
        h: neurons per fine class; a coarse class has those of all its fine ones together.
        points: test points attacked.
        features: of `embed`.
        seeds: of the heads' initial weights.
        budget: gradients per point of each attack.
        progress: called with the share done and a note.

    >>> import featavg as fa  # long
    >>> digits = fa.embed("pixels", fa.load_images("digits"), train=200)
    >>> fa.study_superclasses(digits, seeds=(0,), h=1, points=20, budget=20)
    Heads on pixels of digits: averaging index ...
    """
    if len(seeds) == 0:
        raise InputError("seeds", "are none", "give at least one")
    groups = features.groups
    coarse, fine = int(groups.max()) + 1, len(groups)
    wide = HeadRecipe(h=h * fine // coarse)
    mu = class_features(features.train, features.train_classes, fine)
    unit = features.length
    rows = stream(0, "attacked").choice(
        len(features.test), min(points, len(features.test)), replace=False
    )
    x, y = features.test[rows], groups[features.test_classes[rows]]
    index: dict[str, list[float]] = {"coarse": [], "fine": []}
    accuracy: dict[str, list[float]] = {"coarse": [], "fine": [], "fine_classes": []}
    attacked: dict[str, list[ndarray]] = {name: [] for name in ("coarse", *READOUTS)}
    lost = []
    for i, seed in enumerate(seeds):
        if progress is not None:
            progress(i / len(seeds), f"superclasses, seed {seed}")
        coarse_classes = groups[features.train_classes]
        no_groups = np.zeros(coarse, dtype=int)
        few = train_head(features.train, coarse_classes, no_groups, "fine", wide, seed)
        many = train_head(
            features.train, features.train_classes, groups, "fine", HeadRecipe(h=h), seed
        )
        lost.append(
            [
                len(lost_classes(few, features.train, coarse_classes)),
                len(lost_classes(many, features.train, features.train_classes)),
            ]
        )
        owner = np.repeat(np.arange(coarse), wide.h)
        index["coarse"].append(_index(few, mu, groups, owner))
        index["fine"].append(_index(many, mu, groups, np.repeat(groups, h)))
        truth = groups[features.test_classes]
        best = many(features.test).argmax(axis=1)
        accuracy["coarse"].append(float(np.mean(few(features.test).argmax(axis=1) == truth)))
        accuracy["fine"].append(float(np.mean(groups[best] == truth)))
        accuracy["fine_classes"].append(float(np.mean(best == features.test_classes)))
        attacked["coarse"].append(_attacked(few, np.arange(coarse), "max", x, y, budget) / unit)
        for readout in READOUTS:
            attacked[readout].append(_attacked(many, groups, readout, x, y, budget) / unit)
    radii = {name: np.concatenate(parts) for name, parts in attacked.items()}
    medians = {name: float(np.median(values)) for name, values in radii.items()}
    grid = np.linspace(0.0, 4 * max(medians.values()) or 1.0, 33)
    return SuperclassStudy(
        source=features.source,
        index={name: float(np.mean(values)) for name, values in index.items()}
        | {"null": _null(mu, groups)},
        accuracy={name: float(np.mean(values)) for name, values in accuracy.items()},
        median=medians,
        gain={name: medians[name] / max(medians["coarse"], 1e-12) for name in READOUTS},
        grid=grid.tolist(),
        curves={
            name: (100 * robust_share(values, grid)).tolist() for name, values in radii.items()
        },
        lost_classes=lost,
        points=len(rows),
        seeds=list(seeds),
        neurons=int(fine * h),
        radii={
            name: [part.round(4).tolist() for part in parts] for name, parts in attacked.items()
        },
    )


def _index(
    net: TwoLayer,
    mu: Float[ndarray, "k N"],
    groups: Int[ndarray, " k"],
    owner: Int[ndarray, " M"],
) -> float:
    """Mean evenness over the fine classes of each neuron's own coarse class.

    Evenness alone: embeddings have many directions that are no class mean, so the share in their
    span says more about the embedding than about averaging.
    """
    coefficients = feature_coefficients(net.weights, mu)
    return float(
        np.mean([float(evenness(coefficients[r, groups == g])) for r, g in enumerate(owner)])
    )


def _null(mu: Float[ndarray, "k N"], groups: Int[ndarray, " k"], draws: int = 2000) -> float:
    """The same for directions without any preference."""
    coefficients = random_coefficients(mu, draws, "superclass null")
    return float(
        np.mean(
            [evenness(coefficients[:, groups == g]).mean() for g in range(int(groups.max()) + 1)]
        )
    )


def _attacked(
    net: TwoLayer,
    groups: Int[ndarray, " c"],
    readout: str,
    x: Float[ndarray, "n N"],
    y: Int[ndarray, " n"],
    budget: int,
) -> Float[ndarray, " n"]:
    decision = Decision.of(groups=groups, readout=readout)
    model = TwoLayerModel(decision, None, "feature space", net=net)
    return attack_suite(model, x, y, "l2", ("ddn", "deepfool"), budget=budget).radii
