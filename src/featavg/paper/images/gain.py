"""What finer labels buy in feature space: predicted and measured, over many feature spaces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy import ndarray

from featavg.audit import gain as audit
from featavg.audit.gain import FeatureGain
from featavg.data.image_sets.loading import load_images
from featavg.data.streams import stream
from featavg.figures.figure import Axis, Bar, Bars, Figure
from featavg.figures.marks import Role
from featavg.paper.engine.claim import Check, Context, Evidence, claim
from featavg.paper.engine.requirements import data_needed, run_folder, torch_needed
from featavg.paper.images.features import FeatureSet, embed
from featavg.progress import Progress, part, silent
from featavg.storage.cache import kept_values
from featavg.training.checkpoint import fingerprint

# Images per feature space: heads have few weights, and an audit has no more images either.
IMAGES = 1200
GAIN_ERROR = 0.15


@dataclass(frozen=True)
class Gain:
    """One feature space; `error` is |predicted / measured - 1|, NaN where either was refused."""

    source: str
    predicted: FeatureGain
    measured: FeatureGain
    error: float = field(init=False)

    def __post_init__(self) -> None:
        error = abs(_value(self.predicted) / _value(self.measured) - 1.0)
        object.__setattr__(self, "error", error)


@claim(
    "audit-predicted-gain", "What finer labels buy in feature space can be predicted",
    theme="Real data", tier="full", minutes=10, needs=("torch", "cifar10", "weights"), seeds=3,
    source="Ours: the prediction of `featavg audit`",
    measured="median exact radius of fine over coarse heads, on Gaussian samples and on the features "
    "themselves: digits, six networks on digits, two public ResNets on CIFAR-10",
    statements=("summary-open-3",),
)  # fmt: skip
def predicted_gain(run: Context) -> Evidence:
    """Means and covariance of the sub-classes' features predict how much farther away finer labels
    push the boundary of a head on those features.
    """
    torch_needed()
    data_needed("cifar10", run)
    weights, folder = data_needed("weights", run), run_folder(run)
    progress = part(run.progress, 0.0, 0.5), part(run.progress, 0.5, 1.0)
    spaces = feature_spaces(folder, run.seeds, weights, run.data_dir, progress[0])
    rows = gains(spaces, folder / "gains", progress[1])
    answered = [row for row in rows if not np.isnan(row.error)]
    error = float(np.median([row.error for row in answered])) if answered else float("nan")
    wrong_side = sum((_value(row.predicted) > 1) != (_value(row.measured) > 1) for row in answered)
    return Evidence(
        Check("median error of the prediction", error, "<=", GAIN_ERROR, role="main"),
        Check("feature spaces on the wrong side of 1", wrong_side, "<=", 1),
        Check("feature spaces answered", len(answered), ">=", 8, role="note"),
        figure=figure(answered),
        numbers={"rows": rows, "median_error": error, "wrong_side": wrong_side},
        finding=f"{spaces_in_words(len(answered), len(rows) - len(answered))} the predicted gain of finer labels "
        f"is off by {100 * error:.0f}% (median), and on the wrong side of 1 in {wrong_side}. "
        + "; ".join(f"{row.source}: {row.predicted} against {row.measured}" for row in answered) + ".",
    )  # fmt: skip


def spaces_in_words(answered: int, refused: int) -> str:
    """Of how many feature spaces the finding speaks."""
    more = f" ({refused} more were refused)" if refused else ""
    return f"Over {answered} feature spaces{more}"


def gains(
    spaces: Sequence[FeatureSet],
    folder: Path | None = None,
    progress: Progress = silent,
    seed: int = 0,
) -> list[Gain]:
    """Predicts and measures the gain on each set of features; finished sets are kept in `folder`."""
    rows = []
    for i, space in enumerate(spaces):
        step = part(progress, i / len(spaces), (i + 1) / len(spaces))
        step(0.0, space.source)
        kept = _kept(space, folder, step, seed)
        predicted, measured = (FeatureGain(**kept[name]) for name in ("predicted", "measured"))
        rows.append(Gain(space.source, predicted, measured))
    return rows


def _value(gain: FeatureGain) -> float:
    return float("nan") if gain.value is None else gain.value


def _kept(space: FeatureSet, folder: Path | None, progress: Progress, seed: int) -> dict[str, Any]:
    x, fine, groups = *_some(space, seed), space.groups
    rules = audit.READOUT, audit.POINTS, audit.NODES, audit.RECIPE, audit.ERROR
    key = fingerprint([x, fine, groups], seed, *rules)

    def compared() -> dict[str, Any]:
        halves = part(progress, 0.0, 0.5), part(progress, 0.5, 1.0)
        predicted = audit.predicted_gain(x, fine, groups, seed, progress=halves[0])
        measured = audit.measured_gain(x, fine, groups, seed, progress=halves[1])
        return {"predicted": asdict(predicted), "measured": asdict(measured)}

    return kept_values(None if folder is None else folder / f"gain-{key}.json", key, compared)


def _some(features: FeatureSet, seed: int) -> tuple[ndarray, ndarray]:
    if len(features.train) <= IMAGES:
        return features.train, features.train_classes
    rows = stream(seed, "gain").choice(len(features.train), IMAGES, replace=False)
    return features.train[rows], features.train_classes[rows]


def feature_spaces(
    folder: Path, seeds: Sequence[int], weights: Path, data_dir: Path | None, progress: Progress
) -> list[FeatureSet]:
    """Pixels of digits, networks on digits with either kind of labels, and public CIFAR ResNets.

    Args:
        folder: where networks are kept.
        seeds: of the networks on digits.
        weights: a folder with weights of public ResNets.
    """
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
    cifar = load_images("cifar10", data_dir=data_dir)
    small = replace(cifar, train=cifar.train[slice(0, IMAGES)], test=cifar.test[slice(0, 200)])
    for file in sorted(weights.glob("resnet*.th")):
        part(progress, 0.5, 1.0)(0.0, file.stem)
        spaces.append(embed(file, small))
    return spaces


def figure(rows: Sequence[Gain]) -> Figure:
    """Both gains, space by space."""

    def bar(field: str, role: Role) -> Bar:
        found = [getattr(row, field) for row in rows]
        low, high = ([getattr(each, name) for each in found] for name in ("low", "high"))
        return Bar(field, [each.value for each in found], role, low, high)

    names = tuple(row.source for row in rows)
    bars = (bar("predicted", "reference"), bar("measured", "decoupled"))
    return Figure(
        "predicted-gain",
        "What finer labels buy in feature space, predicted and measured",
        "Median exact radius of heads with fine labels over that of heads with coarse labels: on "
        "Gaussian sub-classes with the measured means and covariance, and on the features themselves.",
        (Bars(names, bars, Axis("gain")),),
    )
