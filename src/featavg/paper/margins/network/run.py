"""A run of the margin network: where it stands, and its checkpoint on disk."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import ndarray

from featavg.data.images import Images
from featavg.errors import InputError
from featavg.paper.margins.network.epoch import ImageTensors
from featavg.paper.margins.network.settings import LAYERS, MarginSettings, settings_of
from featavg.storage.folders import read_folder, write_folder
from featavg.training.trajectory import Outcome

if TYPE_CHECKING:
    import torch


@dataclass(repr=False)
class MarginRun:
    """All that changes while the network trains."""

    settings: MarginSettings
    params: dict[str, ndarray]
    log_loss: float
    log_losses: ndarray | None
    rate: float
    epoch: int = 0
    attempt: int = 0
    passes: int = 0
    samples: int = 0
    seconds: float = 0.0
    history: list[dict[str, Any]] = field(default_factory=list)
    outcome: Outcome = Outcome.RUNNING
    watched: ndarray | None = None  # samples that came to matter while a round left them out

    def __repr__(self) -> str:
        sizes = sum(values.size for values in self.params.values())
        return (
            f"MarginRun({sizes:,} parameters, log10 loss {self.log10_loss:.2f} after {self.passes} "
            f"passes of which {self.epoch} count, {self.outcome.value})"
        )

    @property
    def log10_loss(self) -> float:
        """log10 of the mean training loss."""
        return self.log_loss / math.log(10)


def parameter_norm(params: dict[str, ndarray]) -> float:
    """|theta| over all parameters, biases included."""
    return math.sqrt(sum(float(np.square(p, dtype=np.float64).sum()) for p in params.values()))


def layer_norms(params: dict[str, ndarray]) -> list[float]:
    """|theta_l| of each layer, its bias included."""
    parts = ({n: p for n, p in params.items() if n.split(".")[0] == layer} for layer in LAYERS)
    return [parameter_norm(part) for part in parts]


def tensors(params: dict[str, ndarray]) -> dict[str, torch.Tensor]:
    """Copies of the arrays, convolutions channels last."""
    import torch

    copies = {name: torch.tensor(array) for name, array in params.items()}
    return {
        name: copy.contiguous(memory_format=torch.channels_last) if copy.ndim == 4 else copy
        for name, copy in copies.items()
    }


def images_of(pictures: Images) -> ImageTensors:
    """The data as torch wants it: pixels in [0, 1], not centred."""
    import torch

    x = np.ascontiguousarray(pictures.unit.transpose(0, 2, 3, 1))
    return ImageTensors(torch.from_numpy(x), torch.from_numpy(pictures.fine.astype(np.int64)))


def refuse_twins(pictures: Images) -> None:
    """One picture with two labels can never be fitted: say so before hours of trying."""
    seen: dict[bytes, int] = {}
    for number, (row, label) in enumerate(zip(pictures.pixels, pictures.fine, strict=True)):
        first = seen.setdefault(row.tobytes(), number)
        if pictures.fine[first] != label:
            raise InputError(
                "data",
                f"has one picture with two labels ({first} and {number})",
                "keep one of them",
            )


def digest_of(data: ImageTensors) -> str:
    """What tells this data from other data in a checkpoint."""
    code = hashlib.sha256(data.x.numpy().tobytes())
    code.update(data.y.numpy().tobytes())
    return code.hexdigest()[:16]


def write_run(folder: Path, run: MarginRun, digest: str) -> None:
    """Replace the checkpoint, whole or not at all."""
    arrays = {f"params/{name}": array for name, array in run.params.items()}
    if run.log_losses is not None:
        arrays["log_losses"] = run.log_losses
    if run.watched is not None:
        arrays["watched"] = run.watched
    names = ("log_loss", "rate", "epoch", "attempt", "passes", "samples", "seconds", "history")
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
    losses, watched = arrays.get("log_losses"), arrays.get("watched")
    return MarginRun(settings, whole, log_losses=losses, watched=watched, **meta["state"])
