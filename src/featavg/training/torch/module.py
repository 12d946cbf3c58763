"""Mini-batch training of deep networks (torch): one code and one budget for coarse and fine labels.

Imported only where torch is installed. A run that was killed resumes to the same bits, given as many
threads: torch sums in another order on another number of them.
"""

from __future__ import annotations

import functools
import logging
import math
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy import ndarray
from torch import Tensor, nn
from torch.nn import functional

from featavg.data.clusters import MultiCluster
from featavg.data.images import ImageTask
from featavg.data.labels import Labels
from featavg.errors import InputError
from featavg.nets.torch.inference import own_randomness
from featavg.nets.torch.outputs import device_of
from featavg.progress import Progress
from featavg.storage.cache import Checkpoint, fingerprint
from featavg.training.torch.batches import Batches
from featavg.training.torch.objectives import CrossEntropy, Objective, PartialCrossEntropy
from featavg.training.torch.recipe import ImageRecipe


@dataclass(frozen=True)
class TrainedModule:
    """A trained network and what is known about its training; `precision` is what was really used."""

    net: nn.Module
    history: list[dict[str, float]] = field(default_factory=list)
    seconds: float = 0.0
    precision: str = "float32"


def train_module(
    net: nn.Module,
    task: ImageTask,
    labels: Labels | str,
    recipe: ImageRecipe,
    checkpoint: Checkpoint | None = None,
    progress: Progress | None = None,
    device: str = "cpu",
    stop_after: int | None = None,
    objective: Objective | None = None,
) -> TrainedModule:
    """Train `net` on the coarse, the fine or partly known fine labels of `task`.

    Args:
        net: takes pixels in [0, 1] and returns a logit for each class; trained in place.
        checkpoint: where to keep the state; a run with the same data, recipe and start resumes.
        progress: called with the share done and a line with loss, speed and the time left.
        device: cpu, or cuda.
        stop_after: total number of steps after which to leave, as if killed there (for tests).
        objective: what a step makes small; cross-entropy unless given.
    """
    check_device(device)
    if isinstance(labels, Labels):
        if objective is not None:
            raise InputError("objective", "is given beside partly known labels", "leave it out")
        objective = PartialCrossEntropy(tuple(task.groups.tolist()))
    run = _Run(net, task, labels, recipe, device, objective or CrossEntropy())
    if checkpoint is not None:
        run.restore(checkpoint)
    spoken = time.monotonic()
    # Dropout and the like draw from torch's one generator: lend it a seed, then give it back.
    with own_randomness(recipe.seed, device):
        # A checkpoint holds the CPU's generator alone: on a GPU, a resumed run has other dropouts.
        if run.generator is not None:
            torch.set_rng_state(run.generator)
        while run.step < run.steps:
            for x, y in run.batches.epoch(run.epoch, run.step % len(run.batches)):
                run.advance(x, y)
                now = time.monotonic()
                if progress is not None and now - spoken > 5.0:
                    progress(run.share, run.line())
                    spoken = now
                if checkpoint is not None and checkpoint.due():
                    run.save(checkpoint)
                if stop_after is not None and run.step >= stop_after:
                    return TrainedModule(net, run.history, run.seconds, run.precision)
            run.close_epoch()
    if checkpoint is not None:
        run.save(checkpoint)
    if progress is not None:
        progress(1.0, run.line())
    net.eval()
    return TrainedModule(net, run.history, run.seconds, run.precision)


def check_device(device: str) -> None:
    """Refuse a device that torch cannot use here, before anything is sent to it."""
    kind = device.split(":", maxsplit=1)[0]
    if kind not in ("cpu", "cuda"):
        raise InputError("device", f"is {device!r}", "choose cpu or cuda")
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:  # how builds without CUDA say it
        problem = f"is {device}, which torch cannot use here"
        raise InputError("device", problem, "use cpu") from error


def partial_targets(task: ImageTask, labels: Labels, seed: int) -> ndarray:
    """The fine class of each training image, or c + g where only its class g of two is known."""
    if labels.groups is not None:
        raise InputError("groups", "merge the classes of images", "give a task with fewer classes")
    clusters = MultiCluster(k=task.fine, d=task.fine, positive=task.positive)
    return labels.targets(clusters, task.train.fine, seed)


class _Run:
    """The state of a fit: everything that a checkpoint holds."""

    def __init__(
        self,
        net: nn.Module,
        task: ImageTask,
        labels: Labels | str,
        recipe: ImageRecipe,
        device: str,
        objective: Objective,
    ) -> None:
        if isinstance(labels, Labels):
            targets, labels = partial_targets(task, labels, recipe.seed), "fine"
        else:
            targets = task.targets(task.train, labels)
        flips = task.flips
        self.batches = Batches(task.train.pixels, targets, recipe.batch, recipe.seed, recipe.crop, flips)
        _check_width(net, task, labels)
        if recipe.small:
            _check_small(net, task.shape[0], recipe.small)
        self.precision = used_precision(recipe.precision, device)
        self.name = fingerprint(
            [task.train.pixels[:64], targets, *arrays_of(net).values()],
            labels,
            asdict(recipe),
            flips,
            # Begun on a CPU with bfloat16 and resumed on one without, a run would mix the two.
            *([] if self.precision == recipe.precision else [self.precision]),
            *([] if objective == CrossEntropy() else [repr(objective)]),
        )
        self.net = net.to(device).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.recipe, self.device, self.objective = recipe, device, objective
        self.optimizer = torch.optim.SGD(_groups(net, recipe), momentum=recipe.momentum, nesterov=True)
        self.steps = recipe.epochs * len(self.batches)
        self.step, self.seconds, self.before, self.started = 0, 0.0, 0.0, time.monotonic()
        self.loss_sum, self.right = 0.0, 0
        self.history: list[dict[str, float]] = []
        self.generator: Tensor | None = None
        self.resumed_at = 0

    @property
    def epoch(self) -> int:
        return self.step // len(self.batches)

    @property
    def share(self) -> float:
        return self.step / self.steps

    def advance(self, x: Tensor, y: Tensor) -> None:
        """One step of SGD."""
        self.net.train()
        for group in self.optimizer.param_groups:
            group["lr"] = self.recipe.rate_at(self.share)
        x, y = x.to(self.device), y.to(self.device)
        if self.recipe.small and self.share < self.recipe.small_share:
            x = functional.interpolate(x, size=self.recipe.small, mode="area")
            x = x.contiguous(memory_format=torch.channels_last)
        mixed = self.precision == "bfloat16"
        with torch.autocast(torch.device(self.device).type, torch.bfloat16, enabled=mixed):
            loss, logits = self.objective(self.net, x, y)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        self.loss_sum += float(loss.detach())
        self.right += int((logits.detach().argmax(1) == y).sum())
        self.step += 1

    def close_epoch(self) -> None:
        """Write down how the epoch went."""
        count = len(self.batches)
        self.history.append(
            {
                "epoch": float(self.epoch),
                "loss": self.loss_sum / count,
                "train_accuracy": self.right / (count * self.recipe.batch),
                "seconds": self.clock(),
            }
        )
        self.loss_sum, self.right = 0.0, 0
        if not math.isfinite(self.history[-1]["loss"]):
            raise InputError("rate", f"{self.recipe.rate:g} made the loss infinite", "lower it")

    def clock(self) -> float:
        """Seconds of training so far, of all sessions."""
        now = time.monotonic()
        self.seconds += now - self.started
        self.started = now
        return self.seconds

    def line(self) -> str:
        """Progress for people."""
        done = self.step % len(self.batches) or len(self.batches)
        speed = (self.step - self.resumed_at) * self.recipe.batch / max(self.clock() - self.before, 1e-9)
        left = (self.steps - self.step) * self.recipe.batch / max(speed, 1e-9)
        mean = self.loss_sum / done if self.loss_sum else self.history[-1]["loss"]
        return (
            f"epoch {min(self.epoch + 1, self.recipe.epochs)}/{self.recipe.epochs}, "
            f"loss {mean:.3f}, {speed:.0f} images/s, about {left / 60:.1f} min left"
        )

    def save(self, checkpoint: Checkpoint) -> None:
        """Weights, momenta and the generator as arrays; the rest as JSON."""
        arrays = {f"net.{name}": array for name, array in arrays_of(self.net).items()}
        for i, parameter in enumerate(self._parameters()):
            momentum = self.optimizer.state[parameter].get("momentum_buffer")
            if momentum is not None:
                arrays[f"momentum.{i}"] = momentum.detach().cpu().contiguous().numpy()
        arrays["generator"] = torch.get_rng_state().numpy()
        self.clock()
        kept = ("step", "steps", "loss_sum", "right", "history", "seconds")
        checkpoint.write(self.name, arrays, {name: getattr(self, name) for name in kept})

    def restore(self, checkpoint: Checkpoint) -> None:
        """Go on where a checkpoint of this very run stopped, if there is one."""
        saved = checkpoint.read(self.name)
        if saved is None:
            return
        arrays, meta = saved
        weights = {n[4:]: a for n, a in arrays.items() if n.startswith("net.")}
        load_arrays(self.net, weights)
        for i, parameter in enumerate(self._parameters()):
            if f"momentum.{i}" in arrays:
                value = torch.from_numpy(arrays[f"momentum.{i}"].copy())
                # The layout decides the order of summation, and so the last bits.
                momentum = torch.empty_like(parameter).copy_(value)
                self.optimizer.state[parameter]["momentum_buffer"] = momentum
        self.generator = torch.from_numpy(arrays["generator"].copy())
        self.step, self.history = int(meta["step"]), list(meta["history"])
        self.loss_sum, self.right = float(meta["loss_sum"]), int(meta["right"])
        self.seconds = self.before = float(meta["seconds"])
        self.resumed_at, self.started = self.step, time.monotonic()

    def _parameters(self) -> list[nn.Parameter]:
        return [p for group in self.optimizer.param_groups for p in group["params"]]


def _groups(net: nn.Module, recipe: ImageRecipe) -> list[dict[str, Any]]:
    """Decay for weights only: decaying batch norm's scales buys nothing and costs accuracy."""
    parameters = [p for p in net.parameters() if p.requires_grad]
    weights = [p for p in parameters if p.ndim > 1]
    rest = [p for p in parameters if p.ndim <= 1]
    groups = [
        {"params": weights, "weight_decay": recipe.decay, "lr": recipe.rate},
        {"params": rest, "weight_decay": 0.0, "lr": recipe.rate},
    ]
    return [group for group in groups if group["params"]]


def _check_width(net: nn.Module, task: ImageTask, labels: str) -> None:
    net.eval()
    with torch.no_grad():
        out = net(torch.zeros(1, *task.shape, device=device_of(net)))
    if out.shape != (1, task.outputs(labels)):
        remedy = f"the {labels} labels of {task.name} need {task.outputs(labels)} outputs"
        raise InputError("net", f"has output of shape {tuple(out.shape[1:])}", remedy)


def _check_small(net: nn.Module, channels: int, size: int) -> None:
    try:
        with torch.no_grad():
            net(torch.zeros(1, channels, size, size, device=device_of(net)))
    except RuntimeError as error:
        problem = f"is {size}, a size that the network cannot take"
        raise InputError("small", problem, "leave it out, or use a ResNet") from error


def arrays_of(net: nn.Module) -> dict[str, ndarray]:
    """Parameters and buffers as NumPy arrays."""
    return {name: np.ascontiguousarray(value.detach().cpu().numpy()) for name, value in net.state_dict().items()}


def load_arrays(net: nn.Module, arrays: dict[str, ndarray]) -> None:
    """Put back what `arrays_of` took; names or shapes of another network are refused."""
    state = {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}
    try:
        net.load_state_dict(state)
    except RuntimeError as error:
        remedy = "build the one that they were saved from"
        raise InputError("weights", "belong to another network", remedy) from error


def save_folder(path: Path) -> Path:
    """Where the checkpoint of a run lives beside its result."""
    return path.with_name(path.name + ".partial")


# What torch calls the instructions that multiply in bfloat16: Intel and AMD, then ARM.
INSTRUCTIONS = ("avx512_bf16", "amx_bf16", "bf16", "sve_bf16")
TRIAL = "import torch; a = torch.ones(64, 64, dtype=torch.bfloat16); assert (a @ a)[0, 0] == 64"
_log = logging.getLogger(__name__)


def used_precision(asked: str, device: str) -> str:
    """What is used where `asked` is asked for: float32 in place of an emulated or broken bfloat16.

    Without the instructions a CPU computes bfloat16 step by step, ten times slower than float32 on the
    one where that was measured. Some virtual machines list instructions that end the process.

    >>> used_precision("float32", "cpu")
    'float32'
    """
    if asked != "bfloat16" or torch.device(device).type != "cpu":
        return asked
    if emulated():
        reason = "has no instructions for bfloat16"
    elif not survives():
        reason = "lists instructions for bfloat16 that it does not carry out"
    else:
        return asked
    # Reported before a run of hours, from whatever call.
    _log.warning("This CPU %s: training in float32.", reason)
    return "float32"


def emulated() -> bool:
    """Whether this CPU has no instructions for bfloat16; False where torch cannot tell."""
    capabilities = _capabilities()
    return bool(capabilities) and not any(capabilities.get(name) for name in INSTRUCTIONS)


@functools.cache
def survives() -> bool:
    """Whether a product of matrices in bfloat16 comes back from a process of its own.

    An illegal instruction cannot be caught: it ends the process that tries it.
    """
    trial = subprocess.run([sys.executable, "-c", TRIAL], capture_output=True, check=False)
    return trial.returncode == 0


def _capabilities() -> Mapping[str, Any]:
    # An older torch cannot tell, and what was asked for is used.
    ask = getattr(torch.cpu, "get_capabilities", None)
    return {} if ask is None else ask()
