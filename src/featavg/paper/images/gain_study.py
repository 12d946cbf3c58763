"""The predicted gain of finer labels against the measured one, over many feature spaces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy import ndarray

from featavg.audit.gain import (
    ERROR,
    NODES,
    POINTS,
    READOUT,
    RECIPE,
    FeatureGain,
    measured_gain,
    predicted_gain,
)
from featavg.data.streams import stream
from featavg.figures.figure import Axis, Bar, Bars, Figure
from featavg.figures.result import Result
from featavg.paper.images.features import FeatureSet, embed
from featavg.progress import Progress, part
from featavg.storage.cache import kept_values
from featavg.training.checkpoint import fingerprint

# Features of so many images: heads have few weights, and an audit has no more images either.
IMAGES = 1200


@dataclass(frozen=True)
class GainRow:
    """One feature space."""

    source: str
    predicted: FeatureGain
    measured: FeatureGain

    @property
    def error(self) -> float:
        """|predicted / measured - 1|; NaN where the prediction was refused."""
        if self.predicted.value is None or self.measured.value is None:
            return float("nan")
        return abs(self.predicted.value / self.measured.value - 1.0)

    @property
    def same_side(self) -> bool:
        """Whether both say that finer labels help, or both that they do not."""
        if self.predicted.value is None or self.measured.value is None:
            return False
        return (self.predicted.value > 1.0) == (self.measured.value > 1.0)


@dataclass(frozen=True, repr=False)
class GainStudy(Result):
    """All feature spaces."""

    rows: tuple[GainRow, ...]

    @property
    def answered(self) -> tuple[GainRow, ...]:
        """Those where the prediction was not refused."""
        return tuple(row for row in self.rows if not np.isnan(row.error))

    @property
    def median_error(self) -> float:
        """Over those that were answered."""
        return (
            float(np.median([row.error for row in self.answered]))
            if self.answered
            else float("nan")
        )

    @property
    def wrong_side(self) -> int:
        """How many answered ones are on different sides of 1."""
        return sum(not row.same_side for row in self.answered)

    def figure(self) -> Figure:
        """Both gains, space by space."""

        def bar(field: str, role: Any) -> Bar:
            gains = [getattr(row, field) for row in self.answered]
            values, low, high = (
                [getattr(g, name) for g in gains] for name in ("value", "low", "high")
            )
            return Bar(field, values, role, low, high)

        names = tuple(row.source for row in self.answered)
        bars = (bar("predicted", "reference"), bar("measured", "decoupled"))
        return Figure(
            "predicted-gain",
            "What finer labels buy in feature space, predicted and measured",
            "Median exact radius of heads with fine labels over that of heads with coarse labels: on "
            "Gaussian sub-classes with the measured means and covariance, and on the features themselves.",
            (Bars(names, bars, Axis("gain")),),
        )

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "rows": [
                {
                    "source": row.source,
                    "predicted": asdict(row.predicted),
                    "measured": asdict(row.measured),
                }
                for row in self.rows
            ],
            "median_error": self.median_error,
            "wrong_side": self.wrong_side,
        }

    def summary(self) -> str:
        """A line for each space."""
        lines = [
            f"{row.source:44} predicted {row.predicted}, measured {row.measured}"
            for row in self.rows
        ]
        lines.append(
            f"median error {100 * self.median_error:.0f}%, {self.wrong_side} on the wrong side of 1"
        )
        return "\n".join(lines)


def compare_gains(
    features: Sequence[FeatureSet],
    seed: int = 0,
    progress: Progress | None = None,
    folder: Path | None = None,
) -> GainStudy:
    """Predict and measure the gain on each set of features; finished sets are kept in `folder`."""
    rows = []
    for i, each in enumerate(features):
        step = part(progress, i / len(features), (i + 1) / len(features))
        step(0.0, each.source)
        x, fine = _some(each, seed)
        key = fingerprint([x, fine, each.groups], seed, READOUT, POINTS, NODES, RECIPE, ERROR)
        path = None if folder is None else folder / f"gain-{key}.json"

        def compared(
            x: ndarray = x,
            fine: ndarray = fine,
            groups: ndarray = each.groups,
            step: Progress = step,
        ) -> dict[str, Any]:
            predicted = predicted_gain(x, fine, groups, seed, progress=part(step, 0.0, 0.5))
            measured = measured_gain(x, fine, groups, seed, progress=part(step, 0.5, 1.0))
            return {"predicted": asdict(predicted), "measured": asdict(measured)}

        kept = kept_values(path, key, compared)
        predicted, measured = (FeatureGain(**kept[name]) for name in ("predicted", "measured"))
        rows.append(GainRow(each.source, predicted, measured))
    return GainStudy(tuple(rows))


def _some(features: FeatureSet, seed: int) -> tuple[np.ndarray, np.ndarray]:
    if len(features.train) <= IMAGES:
        return features.train, features.train_classes
    rows = stream(seed, "gain").choice(len(features.train), IMAGES, replace=False)
    return features.train[rows], features.train_classes[rows]


def feature_spaces(
    folder: Path,
    seeds: Sequence[int],
    weights: Path | None = None,
    data_dir: Path | None = None,
    progress: Progress | None = None,
) -> list[FeatureSet]:
    """Pixels of digits, networks on digits with either kind of labels, and public CIFAR ResNets.

    Args:
        folder: where networks are kept.
        seeds: of the networks on digits.
        weights: a folder with weights of public ResNets; None leaves them out.
    """
    from featavg.data.image_sets.loading import load_images
    from featavg.training.torch.image_network import train_images
    from featavg.training.torch.recipe import image_preset, network_name

    digits, preset = load_images("digits"), image_preset("digits")
    spaces = [embed("pixels", digits)]
    for labels in ("coarse", "fine"):
        for seed in seeds:
            kept_in = folder / network_name("digits", labels, seed)
            part(progress, 0.0, 0.5)(0.0, f"digits, {labels} labels, seed {seed}")
            train_images(digits, labels, kept_in, recipe=replace(preset.recipe, seed=seed))
            spaces.append(embed(kept_in, digits))
    if weights is not None:
        cifar = load_images("cifar10", data_dir=data_dir)
        small = replace(cifar, train=cifar.train[slice(0, IMAGES)], test=cifar.test[slice(0, 200)])
        for file in sorted(weights.glob("resnet*.th")):
            part(progress, 0.5, 1.0)(0.0, file.stem)
            spaces.append(embed(file, small))
    return spaces
