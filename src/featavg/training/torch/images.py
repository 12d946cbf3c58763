"""From a name to a trained network on disk: what `featavg images train` does (torch)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from featavg.data.images import ImageTask, as_json
from featavg.errors import InputError
from featavg.nets.torch.architecture import Architecture, architecture
from featavg.progress import Progress
from featavg.storage.folders import check_writable, read_folder, write_folder
from featavg.training.checkpoint import Checkpoint
from featavg.training.torch.fit import (
    Recipe,
    arrays_of,
    fit,
    load_arrays,
    save_folder,
)


@dataclass(frozen=True)
class Trained:
    """A network read back from disk, with everything that was known when it was written."""

    net: nn.Module
    labels: str
    about: dict[str, Any]


def train_images(
    task: ImageTask,
    labels: str,
    folder: Path,
    network: str = "resnet18",
    width: int = 16,
    recipe: Recipe | None = None,
    progress: Progress | None = None,
    device: str = "cpu",
    every: float = 60.0,
) -> Trained:
    """Train, measure on the test images, and write `folder`; a finished run is not repeated.

    A run that was killed is in `folder.partial` and goes on from there.
    """
    recipe = recipe or Recipe()
    described = architecture(network, task, labels, width)
    wanted = {
        "kind": "image network",
        "architecture": described.to_json(),
        "labels": labels,
        "recipe": asdict(recipe),
        "task": dict(as_json(task)),
    }
    if folder.exists():
        return _the_same(load_trained(folder), wanted, folder)
    check_writable(folder)
    net = described.build(recipe.seed)
    checkpoint = Checkpoint(save_folder(folder), every)
    fitted = fit(net, task, labels, recipe, checkpoint, progress, device)
    logits = outputs(net, task.test.unit, device)
    about = wanted | {
        "test_accuracy": accuracy(logits, task, labels),
        "history": fitted.history,
        "seconds": round(fitted.seconds, 1),
        "torch": torch.__version__,
    }
    write_folder(folder, arrays_of(net), about)
    import shutil

    shutil.rmtree(save_folder(folder), ignore_errors=True)
    return Trained(net, labels, about)


def load_trained(folder: Path) -> Trained:
    """Read a network that `train_images` wrote: tensors and plain values, never code."""
    arrays, about = read_folder(folder)
    if about.get("kind") != "image network":
        raise InputError(
            str(folder), "holds no image network", "give what `featavg images train` wrote"
        )
    net = Architecture.from_json(about["architecture"]).build()
    load_arrays(net, arrays)
    # Attacks and features run in this layout too: it is several times faster on a CPU.
    return Trained(
        net.to(memory_format=torch.channels_last).eval(),  # type: ignore[call-overload]
        about["labels"],
        about,
    )


def outputs(
    net: nn.Module, pixels: np.ndarray, device: str = "cpu", batch: int = 500
) -> np.ndarray:
    """The logits of images, float64."""
    net.eval()
    parts = []
    with torch.no_grad():
        for start in range(0, len(pixels), batch):
            x = torch.from_numpy(pixels[start : start + batch]).to(device)
            parts.append(
                net(x.contiguous(memory_format=torch.channels_last)).double().cpu().numpy()
            )
    return np.concatenate(parts)


def accuracy(logits: np.ndarray, task: ImageTask, labels: str) -> dict[str, float]:
    """On the test images, of the labels trained on and (by the best output) of the coarse ones."""
    best = logits.argmax(axis=1)
    right = float(np.mean(best == task.targets(task.test, labels)))
    if labels == "coarse":
        return {"coarse": right}
    coarse = float(np.mean(task.groups[best] == task.targets(task.test, "coarse")))
    return {"fine": right, "coarse": coarse}


def _the_same(found: Trained, wanted: dict[str, Any], folder: Path) -> Trained:
    changed = [key for key, value in wanted.items() if found.about.get(key) != _plain(value)]
    if changed:
        raise InputError(
            str(folder),
            f"holds a network with another {changed[0]}",
            "choose another folder, or delete this one if you do not need it",
        )
    return found


def _plain(value: Any) -> Any:
    import json

    return json.loads(json.dumps(value))
