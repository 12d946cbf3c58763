"""Shah et al. (2020): a digit beside a vehicle, and which of the two a network looks at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.data.image_sets.loading import load
from featavg.data.images import Images
from featavg.data.streams import stream
from featavg.figures.figure import Axis, Bar, Bars, Figure, Rule
from featavg.figures.result import Result
from featavg.measures.block_shuffle import shuffled_auc
from featavg.progress import Progress, silent
from featavg.training.numpy_sgd import Minibatch, train_minibatch

# As published for deep networks: as it is, digits shuffled, vehicles shuffled.
PUBLISHED_AREAS = (1.000, 0.494, 1.000)
SHUFFLED_AREAS = ("as it is", "digits shuffled", "vehicles shuffled")
DIGITS, VEHICLES = (0, 1), (1, 9)  # zero and one; automobile and truck
DIGIT_PIXELS, ALL_PIXELS = 28 * 28, 28 * 28 + 3 * 32 * 32


@dataclass(frozen=True, repr=False)
class PairedPictures(Result):
    """Areas under the ROC curve, a row for each seed: as it is, digits and vehicles shuffled."""

    seeds: tuple[int, ...]
    aucs: Float[ndarray, "s 3"]

    @property
    def mean(self) -> Float[ndarray, " 3"]:
        """The areas, averaged over the seeds."""
        return np.asarray(self.aucs.mean(axis=0))

    def figure(self) -> Figure:
        """The three areas beside the published ones."""
        low, high = self.aucs.min(axis=0), self.aucs.max(axis=0)
        bars = (
            Bar("measured", self.mean, "neutral", low, high),
            Bar("published", PUBLISHED_AREAS, "published"),
        )
        axis, coin = Axis("AUC", range=(0.0, 1.05)), (Rule(0.5, label="a coin"),)
        return Figure(
            "mnist-cifar",
            "A digit beside a vehicle",
            "AUC of a fully connected network on pictures of a digit (0 or 1) beside a vehicle "
            "(automobile or truck), as they are and with either half shuffled among the test "
            "pictures.",
            (Bars(SHUFFLED_AREAS, bars, axis, rules=coin),),
        )

    def to_json(self) -> dict[str, Any]:
        """Every number, by name."""
        return {"seeds": list(self.seeds), "aucs": self.aucs.tolist(), "published": PUBLISHED_AREAS}

    def summary(self) -> str:
        """The mean areas."""
        parts = (
            f"{name} {value:.3f}" for name, value in zip(SHUFFLED_AREAS, self.mean, strict=True)
        )
        return f"A digit beside a vehicle, mean AUC of {len(self.seeds)} seeds: {', '.join(parts)}"


def paired_pictures(
    data_dir: Path | None = None,
    *,
    steps: int = 600,
    seeds: Sequence[int] = (0,),
    progress: Progress = silent,
) -> PairedPictures:
    """Train a fully connected network on MNIST digits beside CIFAR-10 vehicles, shuffle either half.

    Args:
        data_dir: the folder with both data sets.
        steps: of SGD with batches of 256.
        seeds: one network each.
        progress: called with the share done and a note.

    >>> import featavg as fa  # needs mnist and cifar10
    >>> study = fa.paired_pictures("data", steps=20)
    """
    recipe = Minibatch((100, 100), 0.05, 0.9, 256, steps)
    digits, vehicles = (load(name, data_dir) for name in ("mnist", "cifar10"))
    halves = list(range(DIGIT_PIXELS)), list(range(DIGIT_PIXELS, ALL_PIXELS))
    blocks: tuple[list[int], ...] = ([], *halves)
    rows = []
    for i, seed in enumerate(seeds):
        progress(i / len(seeds), f"seed {seed}")
        x, y = paired(digits.train, vehicles.train, seed)
        mean = x.mean(axis=0)
        net = train_minibatch(x - mean, y, recipe, seed)
        test, labels = paired(digits.test, vehicles.test, seed)

        def classify(z: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
            return net(z)[:, 0]  # noqa: B023 (called before the loop goes on)

        rows.append([shuffled_auc(classify, test - mean, labels, b, None, seed) for b in blocks])
    return PairedPictures(tuple(seeds), np.array(rows))


def paired(
    digits: Images, vehicles: Images, seed: int
) -> tuple[Float[ndarray, "n d"], Int[ndarray, " n"]]:
    """A zero beside an automobile (class -1), a one beside a truck (class +1), paired at random."""
    rows, labels = [], []
    draw = stream(seed, "mnist-cifar")
    for sign, digit, vehicle in zip((-1, 1), DIGITS, VEHICLES, strict=True):
        first, second = (
            draw.permutation(np.flatnonzero(images.fine == kind))
            for images, kind in ((digits, digit), (vehicles, vehicle))
        )
        count = min(len(first), len(second))
        parts = [
            images.unit[order[:count]].reshape(count, -1)
            for images, order in ((digits, first), (vehicles, second))
        ]
        rows.append(np.concatenate(parts, axis=1).astype(float))
        labels.append(np.full(count, sign))
    return np.concatenate(rows), np.concatenate(labels)
