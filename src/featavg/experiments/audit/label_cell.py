"""One cell of the table of labels: a small network trained, attacked and looked into (torch)."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.data.images import ImageTask
from featavg.errors import one_of
from featavg.measures.accuracy import robust_share
from featavg.measures.collapse import subclass_collapse
from featavg.measures.shared_gradient import gradient_noise
from featavg.robustness.models.decision import Decision
from featavg.storage.cache import kept_values
from featavg.training.checkpoint import fingerprint

if TYPE_CHECKING:
    from torch import nn

    from featavg.training.torch.objectives import Objective

# By name: architecture, and its width (hidden neurons, or channels of the first convolution).
NETWORKS = {
    "two-layer": ("two-layer", 64),
    "narrow CNN": ("convnet", 4),
    "wide CNN": ("convnet", 16),
}
TRAININGS = ("cross-entropy", "gradient penalty", "1-Lipschitz", "adversarial")
LABELS = ("coarse", "fine")
# Gradients per attacked image, and images for the shared gradient and collapse.
BUDGET, LOOKED_INTO = 60, 400
# What is kept on disk under another number is computed anew.
VERSION = 1


@dataclass(frozen=True)
class CellProtocol:
    """What is the same for every cell on one data set, whatever its labels.

    Attributes:
        train, test: at most so many images, the first ones.
        attacked: test images whose radius is looked for.
        epochs, batch, rate, crop: of `ImageRecipe`.
        radius: where robust accuracy is read, l2 in pixels in [0, 1].
        penalty: the strength of the gradient penalty.
        ball: the radius of adversarial training.
    """

    train: int
    test: int
    attacked: int
    epochs: int
    batch: int
    rate: float
    crop: int
    radius: float
    penalty: float
    ball: float


# Fixed after one look at coarse labels alone (seed 99, not among those reported): penalty and ball cost
# a few points of accuracy at most, and a cell costs seconds to half a minute of one core.
PROTOCOLS = {
    "digits": CellProtocol(1437, 360, 150, 20, 64, 0.05, 0, 0.4, 0.3, 0.5),
    "mnist": CellProtocol(2000, 1000, 100, 6, 64, 0.05, 0, 0.75, 0.3, 1.0),
    "cifar10": CellProtocol(3000, 1000, 100, 6, 64, 0.05, 2, 0.2, 0.03, 0.25),
}


@dataclass(frozen=True)
class LabelCell:
    """Which cell: data, network, training, labels and seed."""

    data: str
    network: str
    training: str
    labels: str
    seed: int

    def __post_init__(self) -> None:
        one_of("data", self.data, PROTOCOLS)
        one_of("network", self.network, NETWORKS)
        one_of("training", self.training, TRAININGS)
        one_of("labels", self.labels, LABELS)

    @property
    def file(self) -> str:
        """Where it is kept."""
        words = (self.data, self.network, self.training, self.labels, f"seed{self.seed}")
        return "-".join(words).lower().replace(" ", "-") + ".json"


@dataclass(frozen=True, eq=False)
class CellResult:
    """What was measured in a cell.

    Attributes:
        accuracy: of the coarse decision on all test images.
        radii: the smallest flip found for each attacked image; 0 where it is decided wrongly anyway.
        robust_accuracy: share of attacked images whose radius exceeds the protocol's.
        shared: A at the layer that an audit reports; NaN where no layer has a valid null.
        layer: its name.
        null: the permutation null there.
        noise: share of the input gradients' energy that is not their sub-class mean.
        nc1: within- over between-variability of the sub-classes' features.
        same_class_cosine: of the sub-classes' mean features.
        train_seconds, attack_seconds: on one core, whenever it was run.
    """

    cell: LabelCell
    accuracy: float
    radii: Float[ndarray, " n"]
    robust_accuracy: float
    shared: float
    layer: str
    null: float
    noise: float
    nc1: float
    same_class_cosine: float
    train_seconds: float
    attack_seconds: float

    @property
    def median(self) -> float:
        """The median radius."""
        return float(np.median(self.radii))

    def to_json(self) -> dict[str, Any]:
        """Plain values; None stands for what was not found."""
        described = {name: getattr(self, name) for name in self.__dataclass_fields__}
        described |= {"cell": asdict(self.cell), "radii": [_plain(r) for r in self.radii.tolist()]}
        return {n: _plain(v) if isinstance(v, float) else v for n, v in described.items()}

    @classmethod
    def from_json(cls, described: dict[str, Any]) -> CellResult:
        """The inverse of `to_json`."""
        radii = np.array([np.inf if r is None else r for r in described["radii"]])
        rest: dict[str, Any] = {n: float("nan") if v is None else v for n, v in described.items()}
        return cls(**(rest | {"cell": LabelCell(**described["cell"]), "radii": radii}))


def label_cell(cell: LabelCell, task: ImageTask, folder: Path | None = None) -> CellResult:
    """Train, attack and look into one cell, or take it from `folder` if it is there."""
    from featavg.experiments.images import ATTACK

    protocol = PROTOCOLS[cell.data]
    words = (asdict(cell), asdict(protocol), NETWORKS[cell.network], repr(ATTACK), BUDGET, VERSION)
    key = fingerprint([task.train.fine, task.test.fine, task.groups], *words)
    path = None if folder is None else folder / cell.file

    def measured() -> dict[str, Any]:
        return _measured(cell, small_task(task, protocol), protocol).to_json()

    return CellResult.from_json(kept_values(path, key, measured))


def small_task(task: ImageTask, protocol: CellProtocol) -> ImageTask:
    """The first images of a task, as many as the protocol takes."""
    return replace(
        task,
        train=task.train[slice(0, protocol.train)],
        test=task.test[slice(0, protocol.test)],
    )


def trained_cell(cell: LabelCell, task: ImageTask, protocol: CellProtocol) -> nn.Module:
    """The trained network of a cell."""
    from featavg.nets.torch.architecture import architecture
    from featavg.nets.torch.lipschitz import lipschitz, settle
    from featavg.training.torch.module import train_module
    from featavg.training.torch.recipe import ImageRecipe

    name, width = NETWORKS[cell.network]
    net = architecture(name, task, cell.labels, width).build(cell.seed)
    if cell.training == "1-Lipschitz":
        net = lipschitz(net, task.shape)
    recipe = ImageRecipe(
        protocol.epochs, protocol.batch, protocol.rate, crop=protocol.crop, seed=cell.seed
    )
    objective = _objective(cell.training, protocol)
    return settle(train_module(net, task, cell.labels, recipe, objective=objective).net)


def _objective(training: str, protocol: CellProtocol) -> Objective:
    from featavg.training.torch.objectives import Adversarial, CrossEntropy, GradientPenalty

    if training == "gradient penalty":
        return GradientPenalty(protocol.penalty)
    return Adversarial(protocol.ball) if training == "adversarial" else CrossEntropy()


def _measured(cell: LabelCell, task: ImageTask, protocol: CellProtocol) -> CellResult:
    from featavg.experiments.images import attacked_images, coarse_model, minimal_radii

    started = perf_counter()
    net = trained_cell(cell, task, protocol)
    trained = perf_counter()
    coarse = task.targets(task.test, "coarse")
    rows = attacked_images(task, protocol.attacked, seed=0)
    pixels = task.test.unit
    model = coarse_model(net, task, cell.labels, "probability").shaped(pixels)
    margins = model.margins(model.rows(pixels), model.decision.labels(coarse))
    radii = minimal_radii(model, pixels[rows], coarse[rows], "l2", BUDGET)
    attacked = perf_counter()
    return CellResult(
        cell=cell,
        accuracy=float(np.mean(margins > 0)),
        radii=np.array([float(f"{radius:.5g}") for radius in radii]),
        robust_accuracy=float(robust_share(radii, [protocol.radius])[0]),
        **_looked_into(net, task, cell.labels),
        train_seconds=trained - started,
        attack_seconds=attacked - trained,
    )


def _looked_into(net: nn.Module, task: ImageTask, labels: str) -> dict[str, Any]:
    """The shared gradient where it means something, the noise of gradients, and collapse."""
    from featavg.experiments.audit.classifier import classifier
    from featavg.experiments.audit.gradients import INPUT, by_layer, passes, reported

    some = task.test[slice(0, LOOKED_INTO)]
    coarse, fine = task.targets(some, "coarse"), some.fine
    groups = np.arange(task.coarse) if labels == "coarse" else task.groups
    decision = Decision.of(groups=groups, readout="probability")
    seen = passes(classifier(net, some.unit), decision, some.unit, coarse)
    right = np.flatnonzero(decision.margins(seen.outputs, coarse) > 0)
    layer = reported(by_layer(seen.gradients, right, fine, task.groups))
    noise = gradient_noise(seen.gradients[INPUT][right], fine[right], task.fine)
    assert seen.features is not None
    collapse = subclass_collapse(seen.features, fine, task.groups)
    nan = float("nan")
    return {
        "shared": nan if layer is None else layer.shared.value,
        "layer": "none" if layer is None else layer.layer,
        "null": nan if layer is None else layer.shared.null,
        "noise": noise,
        "nc1": collapse.subclasses.nc1,
        "same_class_cosine": collapse.same_class_cosine,
    }


def _plain(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
