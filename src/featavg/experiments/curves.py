"""Figure 3 on images: robust accuracy of coarse against fine labels, under two protocols (torch)."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int
from numpy import ndarray
from torch import nn

from featavg.data.images import ImageTask, check_bounds
from featavg.data.streams import stream
from featavg.errors import InputError
from featavg.nets.frozen import frozen
from featavg.nets.readout import READOUTS
from featavg.robustness.attacks.suite import attack_suite
from featavg.robustness.curve import curve_of, pgd_curve
from featavg.robustness.torch_model import TorchModel, torch_model
from featavg.storage import write_text
from featavg.training.checkpoint import fingerprint
from featavg.training.fit import arrays_of

Progress = Callable[[float, str], None]
ADAPTIVE = ("ddn", "deepfool")
# Protocol, labels, read-out and norm.
Part = tuple[str, str, str, str]


@dataclass(frozen=True)
class CurveSettings:
    """What is attacked and how hard.

    Attributes:
        images: test images, drawn at random.
        norms: "l2", "linf".
        readouts: of the network with fine labels.
        budget: gradients an image for the minimal-norm attack.
        pgd_images, pgd_steps, pgd_radii: the published protocol, which is much dearer; its radii
            are l2.
        radii: where the curves are read, by norm.
    """

    images: int = 1000
    norms: tuple[str, ...] = ("l2", "linf")
    readouts: tuple[str, ...] = READOUTS
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


def wrapped(net: nn.Module, task: ImageTask, labels: str, readout: str = "max") -> TorchModel:
    """A trained network as a model with bounds, unit and coarse decision."""
    groups = np.arange(task.coarse) if labels == "coarse" else task.groups
    model = torch_model(frozen(net), readout=readout, groups=groups, batch=250)
    width = int(model.shaped(task.test.unit[:1]).outputs(_flat(task.test.unit[:1])).shape[1])
    if width != task.outputs(labels):
        raise InputError(
            "net", f"has {width} outputs", f"{labels} labels of {task.name} need {len(groups)}"
        )
    return model


def _flat(pixels: ndarray) -> ndarray:
    return pixels.reshape(len(pixels), -1)


def sample(task: ImageTask, count: int, seed: int) -> Int[ndarray, " n"]:
    """Which test images are attacked: the same for every model and protocol."""
    if count > len(task.test):
        raise InputError("images", f"asks for {count}", f"there are {len(task.test)} test images")
    return np.sort(stream(seed, "attacked").choice(len(task.test), count, replace=False))


def adaptive(
    net: nn.Module,
    task: ImageTask,
    labels: str,
    readout: str,
    norm: str,
    settings: CurveSettings,
    block: int = 250,
) -> dict[str, Any]:
    """The strongest attack on the decision that is compared, the same for every model.

    Returns:
        plain values; `each` has the smallest flip of each image, 0 where it is decided wrongly
        anyway, and -1 where none was found, to five digits: more than an attack can promise.
    """
    rows = sample(task, settings.images, settings.seed)
    pixels = task.test.unit[rows]
    check_bounds(pixels)
    y = task.targets(task.test, "coarse")[rows]
    model = wrapped(net, task, labels, readout)
    found, gradients = [], 0.0
    for start in range(0, len(rows), block):
        part = slice(start, start + block)
        result = attack_suite(
            model, pixels[part], y[part], norm, ADAPTIVE, budget=settings.budget, seed=settings.seed
        )
        found.append(result.radii)
        gradients += result.gradients * len(result)
    radii = np.concatenate(found)
    curve = curve_of(radii, model.unit(norm), settings.radii[norm], label=" + ".join(ADAPTIVE))
    return {
        "model": labels,
        "readout": readout,
        "norm": norm,
        "median": float(np.median(np.minimum(radii, 1e9))),
        "gradients_an_image": gradients / len(rows),
        "each": [float(f"{r:.5g}") if np.isfinite(r) else -1.0 for r in radii],
    } | curve.to_json()


def as_published(
    net: nn.Module,
    task: ImageTask,
    labels: str,
    readout: str,
    norm: str,
    settings: CurveSettings,
) -> dict[str, Any]:
    """PGD on the loss that each model was trained with, radius by radius."""
    rows = sample(task, settings.images, settings.seed)[: settings.pgd_images]
    curve = pgd_curve(
        wrapped(net, task, labels, readout),
        task.test.unit[rows],
        task.targets(task.test, "coarse")[rows],
        settings.pgd_radii,
        own=task.targets(task.test, labels)[rows],
        norm=norm,
        steps=settings.pgd_steps,
        seed=settings.seed,
    )
    return {"model": labels, "readout": readout, "norm": norm} | curve.to_json()


def compare(
    nets: dict[str, nn.Module],
    task: ImageTask,
    settings: CurveSettings,
    folder: Path | None = None,
    progress: Progress | None = None,
) -> dict[str, list[dict[str, Any]]]:
    """Both models, both protocols, all norms and read-outs, as plain values.

    Args:
        nets: by labels, "coarse" and "fine"; one of them may be missing.
        folder: where each finished part is kept, so that a killed run goes on.
    """
    jobs = parts(tuple(nets), settings)
    done: dict[str, list[dict[str, Any]]] = {"adaptive": [], "published": []}
    for i, job in enumerate(jobs):
        protocol, labels, readout, norm = job
        if progress is not None:
            progress(i / len(jobs), f"{protocol}: {norm}, {labels} labels, {readout}")
        done[protocol].append(run_part(nets[labels], task, job, settings, folder))
    return done


def run_part(
    net: nn.Module, task: ImageTask, job: Part, settings: CurveSettings, folder: Path | None
) -> dict[str, Any]:
    """One part, taken from `folder` if it is there for the same weights and settings."""
    protocol, labels, readout, norm = job
    call = adaptive if protocol == "adaptive" else as_published
    key = fingerprint(list(arrays_of(net).values()), asdict(settings), job)
    path = None if folder is None else folder / f"{protocol}-{labels}-{readout}-{norm}.json"
    found = _kept(path, key)
    if found is None:
        found = call(net, task, labels, readout, norm, settings) | {"key": key}
        if path is not None:
            write_text(path, json.dumps(found, indent=1, allow_nan=False) + "\n")
    return found


def parts(models: tuple[str, ...], settings: CurveSettings) -> list[Part]:
    """Protocol, labels, read-out and norm of each part, what the paper shows first.

    The published protocol has the read-out `probability`; with one output a class all are alike.
    """
    jobs: list[Part] = []
    for norm in settings.norms:
        for labels in models:
            if norm == "l2" and settings.pgd_steps:
                jobs.append(("published", labels, "probability", norm))
            readouts = settings.readouts if labels == "fine" else ("probability",)
            jobs += [("adaptive", labels, readout, norm) for readout in readouts]
    return jobs


def _kept(path: Path | None, key: str) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_text()) if path is not None and path.exists() else None
    except ValueError:
        return None
    return found if isinstance(found, dict) and found.get("key") == key else None
