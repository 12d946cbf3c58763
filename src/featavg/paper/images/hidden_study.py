"""U-MNIST: does discovering a rare, hidden sub-class help it? Beside the recipe of GEORGE (torch).

Digits below 5 against the rest, with digit 8 kept at 5% of its training images (Sohoni et al., 2020, "No
Subclass Left Behind"). Four networks of one architecture and budget: coarse labels; labels found by
clustering the first one's features; GEORGE, which uses such clusters as groups of a distributionally
robust loss; and the true digits, as what could be had at best.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import ndarray

from featavg.audit.discovery import clustered, silhouettes
from featavg.data.images import Images, ImageTask
from featavg.data.streams import stream
from featavg.errors import InputError
from featavg.figures.figure import Axis, Bar, Bars, Figure
from featavg.figures.marks import Role
from featavg.figures.result import Result
from featavg.progress import Progress
from featavg.storage.cache import kept_values
from featavg.training.checkpoint import fingerprint

if TYPE_CHECKING:
    from torch import nn

RARE, KEPT = 8, 0.05
METHODS = ("coarse labels", "discovered labels", "GEORGE", "true digits")
# Per class: what a user who knows his data would say; GEORGE takes the best silhouette of 2 to 6, times 3.
CLUSTERS, NUMBERS, OVER = 5, (2, 3, 4, 5, 6), 3
# Training images (before most eights go), epochs, width of the network, attacked images per digit.
TRAIN, EPOCHS, WIDTH, PER_DIGIT, BUDGET = 12000, 4, 8, 20, 60
VERSION = 1
# What the authors' demo printed: accuracy and that of the worst digit, in percent.
PUBLISHED = {"coarse labels": (92.3, 82.2), "GEORGE": (93.6, 88.8)}


@dataclass(frozen=True)
class HiddenRow:
    """One network.

    Attributes:
        accuracy: of the decision, on all test images.
        worst_digit, worst_accuracy: the digit that is decided worst.
        nearest_digit, worst_radius: the digit with the smallest median radius, wrong decisions at 0.
        rare_accuracy, rare_radius: of digit 8.
        rand: adjusted Rand index of the clusters with the digits, inside classes; NaN without clusters.
    """

    method: str
    seed: int
    accuracy: float
    worst_digit: int
    worst_accuracy: float
    nearest_digit: int
    worst_radius: float
    rare_accuracy: float
    rare_radius: float
    rand: float


@dataclass(frozen=True, repr=False)
class HiddenStudy(Result):
    """All methods and seeds."""

    rows: tuple[HiddenRow, ...]

    def values(self, method: str, field: str) -> tuple[float, ...]:
        """A field of each seed."""
        return tuple(float(getattr(row, field)) for row in self.rows if row.method == method)

    def mean(self, method: str, field: str) -> float:
        """The mean over seeds."""
        return float(np.mean(self.values(method, field)))

    def figure(self) -> Figure:
        """Worst-digit accuracy and worst-digit radius, mean and range over seeds."""

        def bar(field: str, role: Role, scale: float = 1.0) -> Bar:
            each = [np.multiply(scale, self.values(method, field)) for method in METHODS]
            means, low, high = ([float(f(v)) for v in each] for f in (np.mean, np.min, np.max))
            return Bar(field.replace("_", " "), means, role, low, high)

        shares = (
            bar("accuracy", "neutral", 100),
            bar("worst_accuracy", "averaged", 100),
            bar("rare_accuracy", "decoupled", 100),
        )
        radii = (bar("worst_radius", "averaged"), bar("rare_radius", "decoupled"))
        ticks = tuple(method.removesuffix(" labels") for method in METHODS)
        return Figure(
            "hidden-digit",
            "A hidden digit, discovered",
            "U-MNIST: accuracy over all test images, of the worst digit and of the rare digit 8, and the "
            "median l2 radius (pixels in [0, 1]) of the worst digit and of 8; mean and range over seeds.",
            (
                Bars(ticks, shares, Axis("accuracy", "%")),
                Bars(ticks, radii, Axis("median radius", "l2")),
            ),
        )

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        rows = [
            {n: None if isinstance(v, float) and np.isnan(v) else v for n, v in asdict(row).items()}
            for row in self.rows
        ]
        return {"rows": rows, "published_percent": {n: list(v) for n, v in PUBLISHED.items()}}

    def summary(self) -> str:
        """A line for each method."""
        lines = []
        for method in METHODS:
            accuracy, worst, rare = (
                100 * self.mean(method, field)
                for field in ("accuracy", "worst_accuracy", "rare_accuracy")
            )
            lines.append(
                f"{method:18} accuracy {accuracy:5.1f}%, worst digit {worst:5.1f}%, digit 8 {rare:5.1f}%; "
                f"median radius of the worst digit {self.mean(method, 'worst_radius'):.3f}, of 8 "
                f"{self.mean(method, 'rare_radius'):.3f}; Rand index {self.mean(method, 'rand'):.2f}"
            )
        return "\n".join(lines)


def undersampled(task: ImageTask, seed: int = 0, train: int = TRAIN) -> ImageTask:
    """U-MNIST: halves of the digits, most eights left out of the training images."""
    first = task.train[slice(0, train)]
    rare = np.flatnonzero(first.fine == RARE)
    if len(rare) == 0:
        raise InputError("task", f"has no digit {RARE}", "give MNIST")
    kept = stream(seed, "undersampled").choice(rare, max(1, round(KEPT * len(rare))), replace=False)
    rows = np.sort(np.concatenate([np.flatnonzero(first.fine != RARE), kept]))
    return replace(task.with_partition("halves"), train=first[rows])


def hidden_subclasses(
    task: ImageTask,
    seeds: Sequence[int] = (0, 1, 2),
    folder: str | Path | None = None,
    progress: Progress | None = None,
) -> HiddenStudy:
    """All four methods with each seed; a finished seed is kept in `folder`.

    Args:
        task: MNIST; its partition does not matter.
    """
    if len(seeds) == 0:
        raise InputError("seeds", "are none", "give at least one")
    rows = []
    for i, seed in enumerate(seeds):
        if progress is not None:
            progress(i / len(seeds), f"U-MNIST, seed {seed}")
        key = fingerprint(
            [task.train.fine, task.test.fine],
            seed,
            *(CLUSTERS, NUMBERS, OVER, TRAIN, EPOCHS, WIDTH, PER_DIGIT, BUDGET, VERSION),
        )
        path = None if folder is None else Path(folder) / f"u-mnist-seed{seed}.json"

        def measured(seed: int = seed) -> dict[str, Any]:
            return HiddenStudy(tuple(_one_seed(undersampled(task, seed), seed))).to_json()

        for row in kept_values(path, key, measured)["rows"]:
            known: dict[str, Any] = {n: float("nan") if v is None else v for n, v in row.items()}
            rows.append(HiddenRow(**known))
    return HiddenStudy(tuple(rows))


def _one_seed(task: ImageTask, seed: int) -> list[HiddenRow]:
    from featavg.audit.classifier import classifier
    from featavg.audit.remedies import frozen_features
    from featavg.training.torch.objectives import GroupRobust

    coarse = task.targets(task.train, "coarse")
    plain = _trained(task, "coarse", seed)
    features = frozen_features(classifier(plain, task.train.unit[:4]), task.train.unit)
    clusters = clustered(features, coarse, CLUSTERS, seed)[0]
    number = max(silhouettes(features, coarse, NUMBERS, seed).items(), key=lambda item: item[1])[0]
    groups = clustered(features, coarse, OVER * number, seed)[0]
    discovered, george = (_relabelled(task, labels) for labels in (clusters, groups))
    robust = GroupRobust(tuple(george.groups.tolist()))
    return [
        _examined("coarse labels", plain, task, "coarse", None, seed),
        _examined(
            "discovered labels", _trained(discovered, "fine", seed), task, "fine", discovered, seed
        ),
        _examined("GEORGE", _trained(george, "fine", seed, robust), task, "coarse", george, seed),
        _examined("true digits", _trained(task, "fine", seed), task, "fine", None, seed),
    ]


def _relabelled(task: ImageTask, labels: ndarray) -> ImageTask:
    """The training images under discovered sub-classes; test images, which have none, get any."""
    groups = np.zeros(int(labels.max()) + 1, dtype=int)
    groups[labels] = task.targets(task.train, "coarse")
    names = tuple(f"cluster {j}" for j in range(len(groups)))
    test = Images(task.test.pixels, np.zeros(len(task.test), dtype=int))
    return replace(
        task, train=Images(task.train.pixels, labels), test=test, groups=groups, fine_names=names
    )


def _trained(task: ImageTask, labels: str, seed: int, objective: Any = None) -> nn.Module:
    from featavg.nets.torch.architecture import architecture
    from featavg.training.torch.module import train_module
    from featavg.training.torch.objectives import GroupRobust, RepeatedOutputs
    from featavg.training.torch.recipe import ImageRecipe

    recipe = ImageRecipe(EPOCHS, 64, 0.05, crop=0, seed=seed)
    if not isinstance(objective, GroupRobust):
        net = architecture("convnet", task, labels, WIDTH).build(seed)
        return train_module(net, task, labels, recipe, objective=objective).net
    # A network with one output per class; each cluster reads the output of its class.
    inner = architecture("convnet", task, "coarse", WIDTH).build(seed)
    train_module(
        RepeatedOutputs(inner, objective.groups), task, labels, recipe, objective=objective
    )
    return inner.eval()


def _examined(
    method: str,
    net: nn.Module,
    task: ImageTask,
    labels: str,
    clusters: ImageTask | None,
    seed: int,
) -> HiddenRow:
    """Accuracy and radii by digit; `clusters` holds the discovered labels of the training images."""
    from sklearn.metrics import adjusted_rand_score

    from featavg.paper.images.curves import coarse_model
    from featavg.robustness.attacks.multi_start_ddn import minimal_radii

    outputs = task if clusters is None else clusters
    model = coarse_model(net, outputs, labels, "probability")
    model = model.shaped(task.test.unit)
    coarse, digits = task.targets(task.test, "coarse"), task.test.fine
    right = model.margins(model.rows(task.test.unit), model.decision.labels(coarse)) > 0
    accuracy = np.array([right[digits == j].mean() for j in range(task.fine)])
    rows = np.concatenate([np.flatnonzero(digits == j)[:PER_DIGIT] for j in range(task.fine)])
    radii = minimal_radii(model, task.test.unit[rows], coarse[rows], "l2", BUDGET)
    medians = np.array([np.median(radii[digits[rows] == j]) for j in range(task.fine)])
    rand = float("nan")
    if clusters is not None:
        of_train = task.targets(task.train, "coarse")
        rand = float(
            np.mean(
                [
                    adjusted_rand_score(
                        task.train.fine[of_train == c], clusters.train.fine[of_train == c]
                    )
                    for c in range(task.coarse)
                ]
            )
        )
    return HiddenRow(
        method=method,
        seed=seed,
        accuracy=float(right.mean()),
        worst_digit=int(accuracy.argmin()),
        worst_accuracy=float(accuracy.min()),
        nearest_digit=int(medians.argmin()),
        worst_radius=float(medians.min()),
        rare_accuracy=float(accuracy[RARE]),
        rare_radius=float(medians[RARE]),
        rand=rand,
    )
