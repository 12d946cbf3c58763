"""Training the margin network to losses far below what floats can hold, with checkpoints.

SGD with the loss-based rate (Lyu and Li, 2020, appendix): the step is rate / (loss before the
pass); a pass that did not raise the training loss counts and rate *= 2^(1/5); one that did is
undone and rate /= 2^(1/10). Everything random is drawn from (seed, pass, attempt), so a run that
was killed goes on to the same bits.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import ndarray

from featavg.data.images import Images as Pictures
from featavg.data.streams import stream
from featavg.errors import InputError
from featavg.nets.margin_cnn import MarginCNN, network_of
from featavg.storage import read_folder, write_folder
from featavg.training.margin_epoch import (
    Images,
    Measured,
    asleep,
    descend_once,
    measure,
    woke_up,
)

if TYPE_CHECKING:
    import torch

CHECKPOINT = "checkpoint"
# A rate below this changes no bit of any weight.
_LEAST_RATE = 1e-50


@dataclass(frozen=True)
class MarginSettings:
    """What makes a run what it is; a checkpoint with other settings belongs to another run."""

    network: MarginCNN = field(default_factory=MarginCNN)
    seed: int = 0
    batch: int = 100
    rate: float = 0.1
    grow: float = 2.0 ** (1 / 5)
    shrink: float = 2.0 ** (1 / 10)
    threads: int = 2
    save_at: tuple[float, ...] = (-10.04, -15.12, -20.07, -120.01, -881.51)

    def plain(self) -> dict[str, Any]:
        """As plain values."""
        names = ("seed", "batch", "rate", "grow", "shrink", "threads")
        values = {name: getattr(self, name) for name in names}
        return {"network": self.network.settings(), **values, "save_at": list(self.save_at)}


def settings_of(plain: dict[str, Any]) -> MarginSettings:
    """The settings that `plain` described."""
    parts = {**plain, "network": network_of(plain["network"]), "save_at": tuple(plain["save_at"])}
    return MarginSettings(**parts)


@dataclass
class MarginRun:
    """All that changes while the network trains."""

    settings: MarginSettings
    params: dict[str, ndarray]
    log_frame: float
    log_losses: ndarray | None
    rate: float
    epoch: int = 0
    attempt: int = 0
    passes: int = 0
    seconds: float = 0.0
    history: list[dict[str, Any]] = field(default_factory=list)

    @property
    def log10_loss(self) -> float:
        """log10 of the mean training loss."""
        return self.log_frame / math.log(10)


def begin(settings: MarginSettings) -> MarginRun:
    """A run before its first pass; its first frame is the loss of a guess, log 10."""
    params = settings.network.initial(settings.seed)
    frame = math.log(math.log(settings.network.classes))
    return MarginRun(settings, params, frame, None, settings.rate)


def advance(run: MarginRun, data: Images) -> bool:
    """Attempt one pass; True if it counts."""
    started = time.perf_counter()
    before = {name: array.copy() for name, array in run.params.items()}
    params = tensors(run.params)
    order = stream(run.settings.seed, f"margin-pass-{run.epoch}-{run.attempt}").permutation(
        len(data.y)
    )
    sleeping = np.zeros(len(data.y), dtype=bool)
    if run.log_losses is not None:
        sleeping = asleep(run.log_losses, run.log_frame)
    measured = _pass(run, params, data, order, sleeping)
    if measured is not None and woke_up(measured, sleeping, run.log_frame):
        params = tensors(before)
        measured = _pass(run, params, data, order, np.zeros_like(sleeping))
    run.seconds += time.perf_counter() - started
    if measured is None:
        run.params, run.attempt = before, run.attempt + 1
        run.rate /= run.settings.shrink
        return False
    run.params = {name: tensor.numpy() for name, tensor in params.items()}
    run.epoch, run.attempt = run.epoch + 1, 0
    run.log_frame, run.log_losses = measured.log_loss, measured.log_losses
    run.history.append(_entry(run, measured, sleeping))
    run.rate *= run.settings.grow
    return True


def _pass(
    run: MarginRun, params: dict[str, torch.Tensor], data: Images, order: ndarray, sleeping: ndarray
) -> Measured | None:
    """Descend and measure; None if the loss rose."""
    run.passes += 1
    finished = descend_once(
        params,
        data,
        order,
        sleeping,
        log_frame=run.log_frame,
        rate=run.rate,
        batch=run.settings.batch,
    )
    return measure(params, data, sleeping, run.log_frame) if finished else None


def _entry(run: MarginRun, measured: Measured, sleeping: ndarray) -> dict[str, Any]:
    norm = parameter_norm(run.params)
    homogeneous = run.settings.network.biases == "first"
    smallest = float(measured.margins.min())
    return {
        "epoch": run.epoch,
        "passes": run.passes,
        "log10_loss": run.log10_loss,
        "rate": run.rate,
        "smallest_margin": smallest,
        "norm": norm,
        "normalized_margin": smallest / norm**4 if homogeneous else None,
        "errors": int((measured.margins <= 0).sum()),
        "asleep": int(sleeping.sum()),
        "seconds": round(run.seconds, 1),
    }


def parameter_norm(params: dict[str, ndarray]) -> float:
    """|theta| over all parameters, biases included."""
    return math.sqrt(sum(float(np.square(p, dtype=np.float64).sum()) for p in params.values()))


def tensors(params: dict[str, ndarray]) -> dict[str, torch.Tensor]:
    """Copies of the arrays, convolutions channels last."""
    import torch

    copies = {name: torch.tensor(array) for name, array in params.items()}
    return {
        name: copy.contiguous(memory_format=torch.channels_last) if copy.ndim == 4 else copy
        for name, copy in copies.items()
    }


def images_of(pictures: Pictures) -> Images:
    """The data as torch wants it: pixels in [0, 1], not centred."""
    import torch

    x = np.ascontiguousarray(pictures.unit.transpose(0, 2, 3, 1))
    return Images(torch.from_numpy(x), torch.from_numpy(pictures.fine.astype(np.int64)))


def digest_of(data: Images) -> str:
    """What tells this data from other data in a checkpoint."""
    code = hashlib.sha256(data.x.numpy().tobytes())
    code.update(data.y.numpy().tobytes())
    return code.hexdigest()[:16]


def write_run(folder: Path, run: MarginRun, digest: str) -> None:
    """Replace the checkpoint, whole or not at all."""
    arrays = {f"params/{name}": array for name, array in run.params.items()}
    if run.log_losses is not None:
        arrays["log_losses"] = run.log_losses
    names = ("log_frame", "rate", "epoch", "attempt", "passes", "seconds", "history")
    state = {name: getattr(run, name) for name in names}
    write_folder(folder, arrays, {"settings": run.settings.plain(), "data": digest, "state": state})


def read_run(folder: Path, digest: str | None = None) -> MarginRun:
    """A checkpoint, if it belongs to this data."""
    arrays, meta = read_folder(folder)
    if not {"settings", "data", "state"} <= meta.keys():
        raise InputError(str(folder), "is no margin checkpoint", "give the folder of a run")
    settings = settings_of(meta["settings"])
    params = {name: arrays.get(f"params/{name}") for name in settings.network.shapes()}
    for name, shape in settings.network.shapes().items():
        found = params[name]
        if found is None or found.shape != shape:
            raise InputError(
                str(folder), f"holds another network ({name} does not fit)", "give its own folder"
            )
    if digest is not None and meta["data"] != digest:
        raise InputError(str(folder), "was trained on other data", "give the data it began with")
    whole = {name: array for name, array in params.items() if array is not None}
    return MarginRun(settings, whole, log_losses=arrays.get("log_losses"), **meta["state"])


def fit(
    folder: Path,
    settings: MarginSettings,
    pictures: Pictures,
    *,
    epochs: int,
    until: float = -math.inf,
    progress: Callable[[MarginRun, bool], None] | None = None,
) -> MarginRun:
    """Begin or go on with the run in `folder` until `epochs` passes count or log10 loss is `until`.

    Each loss of `settings.save_at` that is passed leaves its own checkpoint, `row-1`, `row-2`, ...
    """
    import torch

    torch.set_num_threads(settings.threads)
    data = images_of(pictures)
    digest = digest_of(data)
    run = begin(settings)
    if (folder / CHECKPOINT).exists():
        run = read_run(folder / CHECKPOINT, digest)
        if run.settings != settings:
            raise InputError(
                str(folder), "holds a run with other settings", "choose another folder"
            )
    while run.epoch < epochs and run.log10_loss > until and run.rate > _LEAST_RATE:
        before = run.log10_loss
        counted = advance(run, data)
        for row, target in enumerate(settings.save_at, start=1):
            if run.log10_loss <= target < before:
                write_run(folder / f"row-{row}", run, digest)
        write_run(folder / CHECKPOINT, run, digest)
        if progress is not None:
            progress(run, counted)
    return run
