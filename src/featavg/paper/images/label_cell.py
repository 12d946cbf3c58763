"""One cell of the table of labels: a network trained, attacked and looked into (torch)."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.data.images import ImageTask
from featavg.measures.accuracy import robust_share
from featavg.measures.collapse import subclass_collapse
from featavg.measures.shared_gradient import gradient_noise
from featavg.paper.images.label_protocol import KINDS, CellProtocol, LabelCell
from featavg.progress import Progress
from featavg.robustness.models.decision import Decision
from featavg.storage.cache import kept_values
from featavg.storage.provenance import commit
from featavg.training.checkpoint import fingerprint

if TYPE_CHECKING:
    from torch import nn

    from featavg.training.torch.objectives import Objective

# Gradients per attacked image, and images for the shared gradient and collapse.
BUDGET, LOOKED_INTO = 60, 400
# What is kept on disk under another number is computed anew.
VERSION = 1


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
        recorded_median: of a cell that comes from a record, which has no radii image by image.
        key: the fingerprint of all that it depends on.
        commit: of the package that measured it.
    """

    cell: LabelCell
    accuracy: float
    radii: Float[ndarray, " n"] | None
    robust_accuracy: float
    shared: float
    layer: str
    null: float
    noise: float
    nc1: float
    same_class_cosine: float
    train_seconds: float
    attack_seconds: float
    recorded_median: float = float("nan")
    key: str = ""
    commit: str = ""

    @property
    def median(self) -> float:
        """The median radius."""
        return self.recorded_median if self.radii is None else float(np.median(self.radii))

    def to_json(self) -> dict[str, Any]:
        """Plain values; None stands for what was not found."""
        described = {name: getattr(self, name) for name in self.__dataclass_fields__}
        radii = None if self.radii is None else [_plain(r) for r in self.radii.tolist()]
        described |= {"cell": asdict(self.cell), "radii": radii}
        return {n: _plain(v) if isinstance(v, float) else v for n, v in described.items()}

    @classmethod
    def from_json(cls, described: dict[str, Any]) -> CellResult:
        """The inverse of `to_json`."""
        rest: dict[str, Any] = {n: float("nan") if v is None else v for n, v in described.items()}
        radii = None
        if described["radii"] is not None:
            radii = np.array([np.inf if r is None else r for r in described["radii"]])
        return cls(**(rest | {"cell": LabelCell(**described["cell"]), "radii": radii}))


def label_cell(
    cell: LabelCell,
    task: ImageTask,
    folder: Path | None = None,
    progress: Progress | None = None,
) -> CellResult:
    """Train, attack and look into one cell, or take it from `folder` if it is there."""
    path = None if folder is None else folder / cell.file
    key = cell_key(cell, task)

    def measured() -> dict[str, Any]:
        # A network that a preset trains lies beside the table, where other experiments find it too.
        beside = None if folder is None else folder.parent
        return replace(_measured(cell, task, beside, progress), commit=commit()).to_json()

    return replace(CellResult.from_json(kept_values(path, key, measured)), key=key)


def cell_key(cell: LabelCell, task: ImageTask) -> str:
    """A fingerprint of all that a cell depends on."""
    from featavg.paper.images.curves import ATTACK_KEY

    network = KINDS[cell.network]
    words = [asdict(cell), asdict(cell.protocol), network, ATTACK_KEY, BUDGET, VERSION]
    if cell.preset is not None:
        words.append(asdict(cell.recipe))
    return fingerprint([task.train.fine, task.test.fine, task.groups], *words)


def trained_cell(
    cell: LabelCell,
    task: ImageTask,
    folder: Path | None = None,
    progress: Progress | None = None,
) -> tuple[nn.Module, float]:
    """The trained network of a cell, and the seconds that its training took.

    Args:
        task: the whole of it.
        folder: where a network that a preset trains is kept, or found done.
    """
    from featavg.nets.torch.architecture import architecture
    from featavg.paper.images.lipschitz import lipschitz, settle
    from featavg.training.torch.image_network import train_images
    from featavg.training.torch.module import train_module
    from featavg.training.torch.recipe import network_name

    if cell.preset is not None:
        name = network_name(cell.preset, cell.labels, cell.seed)
        path = None if folder is None else folder / name
        made = train_images(
            task, cell.labels, path, None, None, cell.recipe, progress, preset=cell.preset
        )
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


def _measured(
    cell: LabelCell, task: ImageTask, folder: Path | None, progress: Progress | None
) -> CellResult:
    from featavg.paper.images.curves import attacked_images, coarse_model
    from featavg.robustness.attacks.multi_start_ddn import minimal_radii

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
    attacked = perf_counter()
    return CellResult(
        cell=cell,
        accuracy=float(np.mean(margins > 0)),
        radii=np.array([float(f"{radius:.5g}") for radius in radii]),
        robust_accuracy=float(robust_share(radii, [protocol.radius])[0]),
        **_looked_into(net, task, cell.labels),
        train_seconds=trained,
        attack_seconds=attacked - started,
    )


def _looked_into(net: nn.Module, task: ImageTask, labels: str) -> dict[str, Any]:
    """The shared gradient where it means something, the noise of gradients, and collapse."""
    from featavg.audit.classifier import classifier
    from featavg.audit.gradients import INPUT, by_layer, passes, reported

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
