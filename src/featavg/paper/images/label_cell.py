"""One cell of the table of labels: data, network, training, labels and seed; trained, attacked, examined."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from featavg.data.images import ImageTask
from featavg.measures.accuracy import robust_share
from featavg.measures.collapse import subclass_collapse
from featavg.measures.shared_gradient import gradient_noise
from featavg.paper.images.curves import ATTACK_KEY, attacked_images, coarse_model
from featavg.progress import Progress
from featavg.robustness.attacks.multi_start_ddn import minimal_radii
from featavg.robustness.models.decision import Decision
from featavg.storage.cache import fingerprint, kept_values
from featavg.storage.provenance import commit

if TYPE_CHECKING:
    from torch import nn

    from featavg.training.torch.objectives import Objective
    from featavg.training.torch.recipe import ImageRecipe

# By name: architecture, and its width (hidden neurons, or channels of the first convolution).
NETWORKS = {"two-layer": ("two-layer", 64), "narrow CNN": ("convnet", 4), "wide CNN": ("convnet", 16)}
CNNS, RESNET = ("narrow CNN", "wide CNN"), "narrow ResNet-18"
# Trained by cross-entropy only: a residual sum of two 1-Lipschitz maps is 2-Lipschitz.
RESIDUAL = {RESNET: ("resnet18", 16)}
# What takes many minutes is trained by a preset, on all training images, and kept beside the table.
BY_PRESET = {("cifar10", RESNET, "cross-entropy"): "cifar10-quick"}
PRESET_TRAINED, PRESET_ATTACKED = 50_000, 200
KINDS = NETWORKS | RESIDUAL
TRAININGS = ("cross-entropy", "gradient penalty", "1-Lipschitz", "adversarial")
LABELS = ("coarse", "fine")
# Data, networks and trainings of the table. CIFAR-10 costs the most: one network, and two trainings.
PARTS: tuple[tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]], ...] = (
    (("digits", "mnist"), tuple(NETWORKS), TRAININGS),
    (("cifar10",), ("wide CNN",), ("cross-entropy", "adversarial")),
    # By-products, added after the first record: the statement is of small CNNs.
    (("digits", "mnist", "cifar10"), (RESNET,), ("cross-entropy",)),
)
# Gradients per attacked image, and images for the shared gradient and collapse.
BUDGET, LOOKED_INTO = 60, 400
# What is kept on disk under another number is computed anew.
VERSION = 1
# Numbers of a cell: `accuracy` of the coarse decision on all test images; `robust_accuracy`, the share of
# attacked images whose radius exceeds the protocol's; `shared`, the shared gradient of the margin at the
# first layer with a valid permutation `null`; `noise`, the share of the input gradients' energy that is not
# their sub-class mean; `nc1` and `same_class_cosine` of the sub-classes' features; seconds on one core.
MEASURED = (
    *("accuracy", "robust_accuracy", "shared", "null", "noise", "nc1", "same_class_cosine"),
    *("train_seconds", "attack_seconds"),
)


@dataclass(frozen=True)
class CellProtocol:
    """What is the same for every cell on one data set; part of the key that a cell is kept under.

    Attributes:
        train, test: the first images, at most this many.
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

    def some_of(self, task: ImageTask) -> ImageTask:
        """The first images of a task, as many as are taken."""
        train, test = task.train[slice(0, self.train)], task.test[slice(0, self.test)]
        return replace(task, train=train, test=test)


# Fixed after one look at coarse labels alone (seed 99, not among those reported): penalty and ball cost
# a few points of accuracy at most, and a cell costs seconds to half a minute of one core.
PROTOCOLS = {
    "digits": CellProtocol(1437, 360, 150, 20, 64, 0.05, 0, 0.4, 0.3, 0.5),
    "mnist": CellProtocol(2000, 1000, 100, 6, 64, 0.05, 0, 0.75, 0.3, 1.0),
    "cifar10": CellProtocol(3000, 1000, 100, 6, 64, 0.05, 2, 0.2, 0.03, 0.25),
}


@dataclass(frozen=True)
class LabelCell:
    """Which cell."""

    data: str
    network: str
    training: str
    labels: str
    seed: int

    @property
    def file(self) -> str:
        """Where it is kept."""
        words = (self.data, self.network, self.training, self.labels, f"seed{self.seed}")
        return "-".join(words).lower().replace(" ", "-") + ".json"

    @property
    def preset(self) -> str | None:
        """What its network is trained by, unless by the protocol of its data."""
        return BY_PRESET.get((self.data, self.network, self.training))

    @property
    def recipe(self) -> ImageRecipe:
        """How its network is trained."""
        from featavg.training.torch.recipe import ImageRecipe, image_preset

        if self.preset is not None:
            return replace(image_preset(self.preset).recipe, seed=self.seed)
        p = PROTOCOLS[self.data]
        return ImageRecipe(p.epochs, p.batch, p.rate, crop=p.crop, seed=self.seed)

    @property
    def protocol(self) -> CellProtocol:
        """How it is trained and attacked."""
        whole, how = PROTOCOLS[self.data], self.recipe
        if self.preset is None:
            return whole
        same = {name: getattr(how, name) for name in ("epochs", "batch", "rate", "crop")}
        return replace(whole, train=PRESET_TRAINED, attacked=PRESET_ATTACKED, **same)


def measured_cell(
    cell: LabelCell, task: ImageTask, folder: Path | None = None, progress: Progress | None = None
) -> dict[str, Any]:
    """Trains, attacks and examines one cell, or takes it from `folder` if it is there.

    Beside the fields of the cell and the numbers `MEASURED` it has the `median` radius (0 where an image
    is decided wrongly anyway), the `layer` of the shared gradient, its `key`, and the `commit`.
    """
    key = cell_key(cell, task)

    def measured() -> dict[str, Any]:
        # A network that a preset trains lies beside the table, where other experiments find it too.
        beside = None if folder is None else folder.parent
        return {"cell": asdict(cell), "commit": commit()} | _measured(cell, task, beside, progress)

    kept = kept_values(None if folder is None else folder / cell.file, key, measured)
    numbers = {name: _number(kept[name]) for name in MEASURED}
    median = float(np.median([np.inf if r is None else r for r in kept["radii"]]))
    about = {"layer": kept["layer"], "commit": kept.get("commit", ""), "key": key}
    return asdict(cell) | numbers | {"median": median} | about


def cell_key(cell: LabelCell, task: ImageTask) -> str:
    """A fingerprint of all that a cell depends on."""
    network = KINDS[cell.network]
    words = [asdict(cell), asdict(cell.protocol), network, ATTACK_KEY, BUDGET, VERSION]
    if cell.preset is not None:
        words.append(asdict(cell.recipe))
    return fingerprint([task.train.fine, task.test.fine, task.groups], *words)


def _number(value: float | str | None) -> float:
    """A number that was kept, where None stands for what was not found."""
    return float("nan") if value is None else float(value)


def trained_cell(
    cell: LabelCell, task: ImageTask, folder: Path | None = None, progress: Progress | None = None
) -> tuple[nn.Module, float]:
    """The trained network of a cell (in `folder` if a preset trains it), and the seconds it took."""
    from featavg.nets.torch.architecture import architecture
    from featavg.paper.images.lipschitz import lipschitz, settle
    from featavg.training.torch.image_network import train_images
    from featavg.training.torch.module import train_module
    from featavg.training.torch.recipe import network_name

    if cell.preset is not None:
        name = network_name(cell.preset, cell.labels, cell.seed)
        path = None if folder is None else folder / name
        made = train_images(task, cell.labels, path, None, None, cell.recipe, progress, preset=cell.preset)
        return made.net, float(made.about["seconds"])
    name, width = KINDS[cell.network]
    task = cell.protocol.some_of(task)
    net = architecture(name, task, cell.labels, width).build(cell.seed)
    if cell.training == "1-Lipschitz":
        net = lipschitz(net, task.shape)
    objective = _objective(cell.training, cell.protocol)
    trained = train_module(net, task, cell.labels, cell.recipe, objective=objective)
    return settle(trained.net), trained.seconds


def _objective(training: str, protocol: CellProtocol) -> Objective:
    from featavg.training.torch.objectives import Adversarial, CrossEntropy, GradientPenalty

    if training == "gradient penalty":
        return GradientPenalty(protocol.penalty)
    return Adversarial(protocol.ball) if training == "adversarial" else CrossEntropy()


def _measured(cell: LabelCell, task: ImageTask, folder: Path | None, progress: Progress | None) -> dict[str, Any]:
    protocol = cell.protocol
    net, trained = trained_cell(cell, task, folder, progress)
    task = protocol.some_of(task)
    started = perf_counter()
    coarse = task.targets(task.test, "coarse")
    rows = attacked_images(task, protocol.attacked, seed=0)
    pixels = task.test.unit
    model = coarse_model(net, task, cell.labels, "probability").shaped(pixels)
    margins = model.margins(model.rows(pixels), model.decision.labels(coarse))
    radii = minimal_radii(model, pixels[rows], coarse[rows], "l2", BUDGET)
    seconds = perf_counter() - started
    numbers = {
        "accuracy": float(np.mean(margins > 0)),
        "robust_accuracy": float(robust_share(radii, [protocol.radius])[0]),
        "train_seconds": trained,
        "attack_seconds": seconds,
        **_examined(net, task, cell.labels),
    }
    plain = {n: None if isinstance(v, float) and not np.isfinite(v) else v for n, v in numbers.items()}
    return plain | {"radii": [float(f"{r:.5g}") if np.isfinite(r) else None for r in radii]}


def _examined(net: nn.Module, task: ImageTask, labels: str) -> dict[str, Any]:
    """The shared gradient where it means something, the noise of gradients, and collapse."""
    from featavg.audit.gradients import INPUT, passes, sharing
    from featavg.audit.models import classifier

    some = task.test[slice(0, LOOKED_INTO)]
    coarse, fine = task.targets(some, "coarse"), some.fine
    groups = np.arange(task.coarse) if labels == "coarse" else task.groups
    decision = Decision.of(groups=groups, readout="probability")
    seen = passes(classifier(net, some.unit), decision, some.unit, coarse)
    right = np.flatnonzero(decision.margins(seen.outputs, coarse) > 0)
    layer = sharing(seen.gradients, right, fine, task.groups).reported
    assert seen.features is not None
    collapse = subclass_collapse(seen.features, fine, task.groups)
    nan = float("nan")
    return {
        "shared": nan if layer is None else float(layer.shared.value),
        "layer": "none" if layer is None else layer.layer,
        "null": nan if layer is None else float(layer.shared.null),
        "noise": float(gradient_noise(seen.gradients[INPUT][right], fine[right], task.fine)),
        "nc1": float(collapse.subclasses.nc1),
        "same_class_cosine": float(collapse.same_class_cosine),
    }
