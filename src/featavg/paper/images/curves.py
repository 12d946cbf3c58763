"""Robust accuracy of the coarse decision of image networks, under two protocols (torch)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from featavg.data.images import ImageTask, check_bounds
from featavg.data.streams import stream
from featavg.errors import InputError
from featavg.progress import Progress, silent
from featavg.registry import READOUTS
from featavg.robustness.attacks.multi_start_ddn import MultiStartDDN, minimal_radii
from featavg.robustness.attacks.pgd import pgd
from featavg.robustness.curve import curve_of, pgd_curve
from featavg.robustness.models.torch_model import TorchModel, torch_model
from featavg.storage.cache import fingerprint, kept_values

if TYPE_CHECKING:
    from torch import nn

# A minimal-norm attack on the decision itself, and PGD on the loss that a network was trained with.
ADAPTIVE, OWN_LOSS = "adaptive", "own-loss PGD"
# What the decision is attacked with, and images at once.
ATTACK, BLOCK = MultiStartDDN(), 250
# In the keys of what is kept on disk: an older name of the same attack, so that it stays valid.
ATTACK_KEY = "Strongest()"
# Protocol, labels, read-out and norm.
Part = tuple[str, str, str, str]


@dataclass(frozen=True)
class CurveSettings:
    """What is attacked and how hard; part of the key that finished curves are kept under.

    Attributes:
        images: test images, drawn at random.
        readouts: of the network with fine labels.
        budget: gradients per image for the minimal-norm attack.
        pgd_images, pgd_steps, pgd_radii: PGD on each network's own loss, which is much dearer; its
            radii are l2. 0 steps leave it out.
        radii: where the curves are read, by norm.
    """

    images: int = 1000
    norms: tuple[str, ...] = ("l2", "linf")
    readouts: tuple[str, ...] = tuple(READOUTS)
    budget: int = 60
    pgd_images: int = 1000
    pgd_steps: int = 40
    pgd_radii: tuple[float, ...] = (0.0, 0.4, 0.8, 1.2, 1.6, 2.0)
    radii: dict[str, tuple[float, ...]] = field(
        default_factory=lambda: {
            "l2": tuple(np.round(np.linspace(0.0, 2.0, 11), 4).tolist()),
            "linf": tuple(np.round(np.linspace(0.0, 0.2, 11), 4).tolist()),
        }
    )
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("images", "budget", "pgd_images"):
            if getattr(self, name) < 1:
                raise InputError(name, f"is {getattr(self, name)}", "give at least one")
        if self.pgd_steps < 0:
            raise InputError("pgd_steps", f"is {self.pgd_steps}", "give zero or more")


def coarse_model(net: nn.Module, task: ImageTask, labels: str, readout: str = "max") -> TorchModel:
    """A trained network as a model with bounds, unit and coarse decision."""
    from featavg.nets.torch.inference import frozen

    groups = np.arange(task.coarse) if labels == "coarse" else task.groups
    return torch_model(frozen(net), readout=readout, groups=groups, batch=250)


def attacked_images(task: ImageTask, count: int, seed: int) -> Int[ndarray, " n"]:
    """Which test images are attacked: the same for every model and protocol."""
    if count > len(task.test):
        raise InputError("images", f"asks for {count}", f"there are {len(task.test)} test images")
    return np.sort(stream(seed, "attacked").choice(len(task.test), count, replace=False))


def image_curves(
    nets: Mapping[str, nn.Module],
    task: ImageTask,
    settings: CurveSettings,
    folder: Path | None = None,
    progress: Progress = silent,
) -> list[dict[str, Any]]:
    """Robust accuracy of the coarse decision: all networks, both protocols, all norms and read-outs.

    Networks go by their labels, "coarse" and "fine". A curve has its protocol, labels, readout and norm,
    `radii` with the `accuracy` there, and what the attack found for `each` image: 0 if it is decided
    wrongly anyway, -1 if nothing. Finished curves are kept in `folder`.
    """
    jobs, curves = _parts(tuple(nets), settings), []
    for i, job in enumerate(jobs):
        protocol, labels, readout, norm = job
        progress(i / len(jobs), f"{protocol}: {norm}, {labels} labels, {readout}")
        curves.append(_kept_curve(nets[labels], task, job, settings, folder))
    return curves


def _parts(models: tuple[str, ...], settings: CurveSettings) -> list[Part]:
    """Protocol, labels, read-out and norm of each curve, what the paper shows first.

    PGD goes with the read-out `probability`; with one output per class all are alike.
    """
    jobs: list[Part] = []
    for norm in settings.norms:
        for labels in models:
            if norm == "l2" and settings.pgd_steps:
                jobs.append((OWN_LOSS, labels, "probability", norm))
            # In l_inf the question is asked again for the paper's read-out only: it costs as much.
            several = labels == "fine" and norm == "l2"
            readouts = settings.readouts if several else ("probability",)
            jobs += [(ADAPTIVE, labels, readout, norm) for readout in readouts]
    return jobs


def _kept_curve(
    net: nn.Module, task: ImageTask, job: Part, settings: CurveSettings, folder: Path | None
) -> dict[str, Any]:
    """One curve, taken from `folder` if it is there for the same weights and settings."""
    from featavg.training.torch.module import arrays_of

    protocol, labels, readout, norm = job
    measure = adaptive if protocol == ADAPTIVE else own_loss_pgd
    attack = ATTACK_KEY if protocol == ADAPTIVE else "pgd"
    key = fingerprint(list(arrays_of(net).values()), asdict(settings), job, attack)
    file = f"{protocol.replace(' ', '-')}-{labels}-{readout}-{norm}.json"
    path = None if folder is None else folder / file

    def measured() -> dict[str, Any]:
        started = perf_counter()
        curve = measure(net, task, job, settings)
        words = {"protocol": protocol, "labels": labels, "readout": readout, "norm": norm}
        return words | {"seconds": round(perf_counter() - started, 1)} | curve

    return kept_values(path, key, measured)


def adaptive(net: nn.Module, task: ImageTask, job: Part, settings: CurveSettings) -> dict[str, Any]:
    """A minimal-norm attack on the decision that is compared, the same for every model.

    Sharing the steps out among the rivals of a fine decision, as suits two-layer networks, leaves
    each too few on a deep one: with 60 gradients per image on MNIST, radii came out 9% longer than
    plain DDN's for fine labels and not for class labels, and that alone would have looked like
    robustness. `MultiStartDDN` therefore aims at rivals only where the margin has kinks.
    """
    _, labels, readout, norm = job
    rows = attacked_images(task, settings.images, settings.seed)
    pixels = task.test.unit[rows]
    check_bounds(pixels)
    y = task.targets(task.test, "coarse")[rows]
    model = coarse_model(net, task, labels, readout).shaped(pixels)
    parts = [slice(start, start + BLOCK) for start in range(0, len(rows), BLOCK)]
    radii = np.concatenate([minimal_radii(model, pixels[p], y[p], norm, settings.budget) for p in parts])
    # More digits than an attack can promise would only swell the files.
    radii = np.array([float(f"{radius:.5g}") for radius in radii])
    label = f"{ATTACK} on the decision"
    return {
        "median": float(np.median(np.minimum(radii, 1e9))),
        "gradients_per_image": model.cost.gradients / len(rows),
        "each": np.where(np.isinf(radii), -1.0, radii).tolist(),
    } | curve_of(radii, model.unit(norm), settings.radii[norm], label=label).to_json()


def own_loss_pgd(net: nn.Module, task: ImageTask, job: Part, settings: CurveSettings) -> dict[str, Any]:
    """PGD on the loss that each network was trained with, radius by radius.

    The paper says "PGD" and no more; that it attacked each network's own loss is our reading.
    """
    _, labels, readout, norm = job
    rows = attacked_images(task, settings.images, settings.seed)[: settings.pgd_images]
    return pgd_curve(
        coarse_model(net, task, labels, readout),
        task.test.unit[rows],
        task.targets(task.test, "coarse")[rows],
        settings.pgd_radii,
        own=task.targets(task.test, labels)[rows],
        norm=norm,
        steps=settings.pgd_steps,
        seed=settings.seed,
    ).to_json()


def pgd_ends(net: nn.Module, task: ImageTask, settings: CurveSettings) -> dict[str, float]:
    """Where PGD on the loss of fine labels ends at the largest `radius` that it is run at.

    `fooled` is the share of images in another fine class, `kept` of those that are and still decided
    rightly: there the attack has reached its own goal, which was not to flip the coarse decision.
    """
    rows = attacked_images(task, settings.images, settings.seed)[: settings.pgd_images]
    pixels, own = task.test.unit[rows], task.targets(task.test, "fine")[rows]
    model = coarse_model(net, task, "fine", "probability").shaped(pixels)
    x, label = model.rows(pixels), model.decision.labels(task.targets(task.test, "coarse")[rows])
    radius = max(settings.pgd_radii)
    attacked = pgd(
        model,
        x,
        label,
        np.full(len(x), radius),
        steps=settings.pgd_steps,
        loss="cross-entropy",
        own=own,
        seed=settings.seed,
    )
    other = model.outputs(attacked.point).argmax(axis=1) != own
    right = model.margins(attacked.point, label) > 0
    return {"radius": radius, "fooled": float(np.mean(other)), "kept": float(np.mean(other & right))}
