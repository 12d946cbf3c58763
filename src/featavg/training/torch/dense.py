"""Fully connected networks on images by Adam and nothing else: the recipe that papers print (torch)."""

from __future__ import annotations

import math
import shutil
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy import ndarray
from torch import nn

from featavg.boundary.public import check_fields, public
from featavg.data.images import ImageTask
from featavg.errors import InputError, finite
from featavg.nets.deep import Deep
from featavg.nets.torch.inference import own_randomness
from featavg.progress import Progress, silent
from featavg.storage.cache import Checkpoint, fingerprint, kept_arrays
from featavg.training.torch.batches import Batches
from featavg.training.torch.module import arrays_of, load_arrays, save_folder
from featavg.training.torch.objectives import Adversarial, CrossEntropy, Objective


@dataclass(frozen=True)
class DenseRecipe:
    """How a fully connected ReLU network is trained: Adam at one rate, no augmentation.

    Weights start as normal variables of variance 2 / (inputs of the neuron), cut at two deviations;
    biases start at zero. The defaults are those of Croce, Andriushchenko and Hein (2019).

    Attributes:
        hidden: neurons of the hidden layers.
        epochs, batch, rate: of Adam.
        attack: l2 radius of adversarial training (pixels in [0, 1]); 0 for none.
        decay: weight decay as Adam has it: half of it times |parameters|^2 is added to the loss.

    >>> import featavg as fa
    >>> fa.DenseRecipe().hidden
    (1024,)
    """

    hidden: tuple[int, ...] = (1024,)
    epochs: int = 100
    batch: int = 128
    rate: float = 1e-3
    attack: float = 0.0
    seed: int = 0
    decay: float = 0.0

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.hidden or min(self.hidden) < 1:
            raise InputError("hidden", f"is {self.hidden}", "give at least one layer of neurons")
        for name in ("epochs", "batch", "rate"):
            finite(name, getattr(self, name), above=0)
        if not self.attack >= 0:
            raise InputError("attack", f"is {self.attack}", "give a radius, or 0 for none")
        if not 0 <= self.decay < math.inf:
            raise InputError("decay", f"is {self.decay}", "give a number from 0 on, such as 1e-3")


@public
def train_dense(
    task: ImageTask,
    recipe: DenseRecipe | None = None,
    folder: Path | None = None,
    progress: Progress = silent,
    every: float = 60.0,
) -> Deep:
    """Train on the fine labels of `task`; the network takes pixels in [0, 1] as rows.

    Args:
        task: the images.
        recipe: the defaults of `DenseRecipe` unless given.
        folder: where the network is kept; a finished one is not trained again, and a killed run goes
            on with the last epoch that was written down.
        progress: called with the share done and a note.
        every: seconds between two checkpoints.

    >>> import featavg as fa  # long
    >>> net = fa.train_dense(fa.load_images("digits"), fa.DenseRecipe((16,), epochs=1))
    >>> net.widths
    (16, 10)
    """
    recipe = recipe or DenseRecipe()
    run = fingerprint([task.train.pixels, task.train.fine], asdict(recipe))
    if folder is None:
        return _deep(_trained(task, recipe, run, None, progress))
    checkpoint = Checkpoint(save_folder(folder), every)
    arrays = kept_arrays(folder, run, lambda: _trained(task, recipe, run, checkpoint, progress))
    shutil.rmtree(checkpoint.folder, ignore_errors=True)
    return _deep(arrays)


def _trained(
    task: ImageTask, recipe: DenseRecipe, run: str, checkpoint: Checkpoint | None, progress: Progress
) -> dict[str, ndarray]:
    """The weights and biases, as torch names them."""
    net = _start(task, recipe)
    adam = torch.optim.Adam(net.parameters(), lr=recipe.rate, weight_decay=recipe.decay)
    batches = Batches(task.train.pixels, task.targets(task.train, "fine"), recipe.batch, recipe.seed)
    objective: Objective = Adversarial(recipe.attack) if recipe.attack else CrossEntropy()
    saved = None if checkpoint is None else checkpoint.read(run)
    first = 0 if saved is None else _restored(net, adam, *saved)
    for epoch in range(first, recipe.epochs):
        progress(epoch / recipe.epochs, f"epoch {epoch + 1} of {recipe.epochs}")
        for x, y in batches.epoch(epoch):
            loss, _ = objective(net, x, y)
            adam.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            adam.step()
        if checkpoint is not None and checkpoint.due():
            checkpoint.write(run, _state(net, adam), {"epoch": epoch + 1})
    return arrays_of(net)


def _start(task: ImageTask, recipe: DenseRecipe) -> nn.Sequential:
    """Flat images in, a logit for each fine class out."""
    layers: list[nn.Module] = [nn.Flatten()]
    sizes = (int(np.prod(task.shape)), *recipe.hidden, task.outputs("fine"))
    with own_randomness(recipe.seed):
        for inputs, neurons in pairwise(sizes):
            layer = nn.Linear(inputs, neurons)
            deviation = math.sqrt(2.0 / inputs)
            nn.init.trunc_normal_(layer.weight, 0.0, deviation, -2 * deviation, 2 * deviation)
            nn.init.zeros_(layer.bias)
            layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def _state(net: nn.Module, adam: torch.optim.Adam) -> dict[str, ndarray]:
    """Everything that the next step depends on: weights, both moments, and how often Adam stepped."""
    arrays = {f"net.{name}": array for name, array in arrays_of(net).items()}
    for i, parameter in enumerate(net.parameters()):
        for name, value in adam.state[parameter].items():
            arrays[f"{name}.{i}"] = value.detach().numpy().copy()
    return arrays


def _restored(net: nn.Module, adam: torch.optim.Adam, arrays: dict[str, ndarray], about: dict[str, Any]) -> int:
    """Put a state back; the epoch that comes next."""
    load_arrays(net, {name[4:]: a for name, a in arrays.items() if name.startswith("net.")})
    for i, parameter in enumerate(net.parameters()):
        for name in ("step", "exp_avg", "exp_avg_sq"):
            adam.state[parameter][name] = torch.from_numpy(arrays[f"{name}.{i}"].copy())
    return int(about["epoch"])


def _deep(arrays: dict[str, ndarray]) -> Deep:
    """The same network in NumPy, float64."""
    layers = sorted({int(name.split(".", maxsplit=1)[0]) for name in arrays})
    weights = tuple(arrays[f"{i}.weight"].astype(float) for i in layers)
    return Deep(weights, tuple(arrays[f"{i}.bias"].astype(float) for i in layers))
