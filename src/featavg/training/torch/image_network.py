"""From a name to a trained network on disk: what `featavg images train` does (torch)."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from featavg.boundary.kinds import Count
from featavg.boundary.public import public
from featavg.data.images import ImageTask, as_json
from featavg.data.labels import Labels
from featavg.errors import InputError
from featavg.nets.torch.architecture import Architecture, architecture
from featavg.progress import Progress
from featavg.storage.cache import Checkpoint, note_saved
from featavg.storage.files import check_writable
from featavg.storage.folders import folder_exists, locked, read_folder, write_folder
from featavg.training.torch.module import arrays_of, check_device, load_arrays, save_folder, train_module
from featavg.training.torch.recipe import ImageRecipe, image_preset, preset_for

# Fields that recipes once had, and the only value they ever took: such networks are still good.
_RETIRED = {"smoothing": 0.0}


@dataclass(frozen=True, repr=False)
class ImageNetwork:
    """A trained network, with everything that was known when it was written.

    Attributes:
        net: takes pixels in [0, 1] and returns a logit for each class.
        labels: "coarse" or "fine".
        about: architecture, recipe, task, test accuracy, history of the training, seconds, the
            precision that was really used, and the version and threads of torch, on which the last
            bits depend.

    Returned by `fa.load_trained` and `fa.train_images`, which have examples.
    """

    net: nn.Module
    labels: str
    about: dict[str, Any]

    @property
    def test_accuracy(self) -> dict[str, float]:
        """Of the labels trained on, and of the coarse ones."""
        return dict(self.about["test_accuracy"])

    def to_json(self) -> dict[str, Any]:
        """Everything but the weights, as plain values."""
        return self.about

    def __repr__(self) -> str:
        shares = ", ".join(f"{100 * v:.2f}% ({kind})" for kind, v in self.test_accuracy.items())
        drawn = self.about["architecture"]
        return (
            f"{drawn['name']} of width {drawn['width']} on {self.about['task']['data']}, "
            f"{self.labels} labels, test accuracy {shares}"
        )


@public
def train_images(
    task: ImageTask,
    labels: Labels | str,
    folder: str | Path | None = None,
    network: str | None = None,
    width: Count | None = None,
    recipe: ImageRecipe | None = None,
    progress: Progress | None = None,
    device: str = "cpu",
    every: float = 60.0,
    preset: str | None = None,
) -> ImageNetwork:
    """Train a network on the coarse or the fine labels, measure it on the test images, and keep it.

    A finished run is not repeated; one that was killed is in `folder.partial` and resumes from
    there. The same seed gives the same bits on the same machine with as many threads of torch.

    Args:
        folder: where the network is written; None keeps it in memory only.
        network, width, recipe: instead of the preset's.
        every: seconds between two checkpoints.
        preset: a name of `image_presets`; that of the data set unless given.
        task: images with their labels.
        labels: "coarse", "fine", or a `Labels` for a partition into two: images without a fine label
            have the loss -log of the summed probability of their class.
        progress: called with the share done and a note.
        device: as torch names it.

    >>> import featavg as fa  # long
    >>> task = fa.load_images("digits")
    >>> fa.train_images(task, "coarse", recipe=fa.ImageRecipe(epochs=1))
    convnet of width 16 on digits, coarse labels, test accuracy 49.35% (coarse)
    """
    chosen = preset_for(task.name) if preset is None else image_preset(preset)
    recipe = recipe or chosen.recipe
    kind = labels if isinstance(labels, str) else "fine"
    described = architecture(network or chosen.network, task, kind, chosen.width if width is None else width)
    wanted = {
        "kind": "image network",
        "architecture": described.to_json(),
        "labels": kind,
        "recipe": asdict(recipe),
        "task": dict(as_json(task)),
    }
    if not isinstance(labels, str):
        wanted["known"] = labels.to_json()
    check_device(device)

    def trained(checkpoint: Checkpoint | None) -> ImageNetwork:
        net = described.build(recipe.seed)
        run = train_module(net, task, labels, recipe, checkpoint, progress, device)
        about = wanted | {
            "test_accuracy": accuracy(outputs(net, task.test.unit, device), task, kind),
            "history": run.history,
            "seconds": round(run.seconds, 1),
            "precision": run.precision,
            "torch": torch.__version__,
            "threads": torch.get_num_threads(),
        }
        return ImageNetwork(net, kind, about)

    if folder is None:
        return trained(None)
    path = Path(folder)
    if folder_exists(path):  # perhaps where nothing can be written
        return _finished(path, wanted)
    check_writable(path)
    with locked(path):
        if folder_exists(path):  # by the process that held the lock a moment ago
            return _finished(path, wanted)
        done = trained(Checkpoint(save_folder(path), every))
        write_folder(path, arrays_of(done.net), done.about)
        shutil.rmtree(save_folder(path), ignore_errors=True)
        return done


@public
def load_trained(folder: str | Path) -> ImageNetwork:
    """Read a network that `train_images` wrote: tensors and plain values, never code.

    Args:
        folder: where `train_images` wrote it.

    >>> import tempfile
    >>> from pathlib import Path
    >>> import featavg as fa  # long
    >>> task, folder = fa.load_images("digits"), Path(tempfile.mkdtemp()) / "net"
    >>> net = fa.train_images(task, "coarse", folder, recipe=fa.ImageRecipe(epochs=1))
    >>> fa.load_trained(folder)
    convnet of width 16 on digits, coarse labels, test accuracy 49.35% (coarse)
    """
    arrays, about = read_folder(Path(folder))
    if about.get("kind") != "image network":
        problem = "holds no image network"
        raise InputError(str(folder), problem, "give what `featavg images train` wrote")
    net = Architecture.from_json(about["architecture"]).build()
    load_arrays(net, arrays)
    # Attacks and features run in this layout too: it is several times faster on a CPU.
    return ImageNetwork(
        net.to(memory_format=torch.channels_last).eval(),  # type: ignore[call-overload]
        about["labels"],
        about,
    )


def outputs(net: nn.Module, pixels: np.ndarray, device: str = "cpu", batch: int = 500) -> np.ndarray:
    """The logits of images, float64."""
    net.eval()
    parts = []
    with torch.no_grad():
        for start in range(0, len(pixels), batch):
            x = torch.from_numpy(pixels[start : start + batch]).to(device)
            parts.append(net(x.contiguous(memory_format=torch.channels_last)).double().cpu().numpy())
    return np.concatenate(parts)


def accuracy(logits: np.ndarray, task: ImageTask, labels: str) -> dict[str, float]:
    """On the test images, of the labels trained on and (by the best output) of the coarse ones."""
    best = logits.argmax(axis=1)
    right = float(np.mean(best == task.targets(task.test, labels)))
    if labels == "coarse":
        return {"coarse": right}
    coarse = float(np.mean(task.groups[best] == task.targets(task.test, "coarse")))
    return {"fine": right, "coarse": coarse}


def _finished(folder: Path, wanted: dict[str, Any]) -> ImageNetwork:
    """The network in `folder`, if it is the one that was asked for."""
    network = load_trained(folder)
    wanted = {"known": None} | wanted
    changed = [key for key, value in wanted.items() if _kept(network, key) != _plain(value)]
    if changed:
        remedy = "choose another folder, or delete this one if you do not need it"
        raise InputError(str(folder), f"holds a network with another {changed[0]}", remedy)
    note_saved(network.about.get("seconds"))
    return network


def _kept(network: ImageNetwork, key: str) -> Any:
    value = network.about.get(key)
    if key != "recipe" or not isinstance(value, dict):
        return value
    return {name: v for name, v in value.items() if _RETIRED.get(name) != v}


def _plain(value: Any) -> Any:
    return json.loads(json.dumps(value))
