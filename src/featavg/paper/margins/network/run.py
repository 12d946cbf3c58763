"""A run of the margin network: what makes it what it is, where it stands, and its checkpoint on disk.

The network of the margin table: two convolutions, two full layers, homogeneous of order 4. Conv
5x5x32, pool, conv 3x3x64, pool, fc 1024, fc 10, ReLU between them, zero padding that keeps the size,
pools of 2x2 (Lyu and Li, 2020). With a bias in the first layer only, scaling all parameters by c
scales the outputs by c^4; a bias in any later layer breaks that.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from featavg.data.images import Images
from featavg.data.streams import stream
from featavg.errors import InputError, finite, one_of, whole
from featavg.paper.margins.network.epoch import ImageTensors, Measured
from featavg.storage.folders import read_folder, write_folder
from featavg.training.controllers._rules import Constant, LossBased
from featavg.training.trajectory import Outcome

if TYPE_CHECKING:
    import torch

LAYERS = ("conv1", "conv2", "fc1", "fc2")
BIASES = ("first", "all")
# The deviation of a standard normal cut at +-2; TensorFlow's he_normal divides by it.
_CUT_DEVIATION = 0.87962566103423978
CONTROLLERS: dict[str, type[Constant] | type[LossBased]] = {"constant": Constant, "loss-based": LossBased}


@dataclass(frozen=True)
class MarginCNN:
    """The shape of the network; the defaults are the published one."""

    size: int = 28
    channels: tuple[int, ...] = (32, 64)
    hidden: int = 1024
    classes: int = 10
    biases: str = "first"

    def __post_init__(self) -> None:
        one_of("biases", self.biases, BIASES)
        if self.size < 4 or self.size % 4:
            raise InputError("size", f"is {self.size}", "two pools need a multiple of four pixels")
        if len(self.channels) != 2 or any(int(each) != each or each < 1 for each in self.channels):
            raise InputError("channels", f"are {self.channels}", "give two whole numbers above 0")
        whole("hidden", self.hidden, least=1)
        whole("classes", self.classes, least=2)

    @property
    def pooled(self) -> int:
        """The side of the image after both pools."""
        return self.size // 4

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Every parameter by name."""
        first, second = self.channels
        shapes: dict[str, tuple[int, ...]] = {
            "conv1.weight": (first, 1, 5, 5),
            "conv2.weight": (second, first, 3, 3),
            "fc1.weight": (self.hidden, second * self.pooled**2),
            "fc2.weight": (self.classes, self.hidden),
        }
        for layer in LAYERS if self.biases == "all" else LAYERS[:1]:
            shapes[f"{layer}.bias"] = (shapes[f"{layer}.weight"][0],)
        return shapes

    def initial(self, seed: int) -> dict[str, ndarray]:
        """He's initialisation as TensorFlow draws it: normal, cut at +-2 deviations; biases 0."""
        draw = stream(seed, "margin-cnn")
        arrays = {}
        for name, shape in self.shapes().items():
            if name.endswith(".bias"):
                arrays[name] = np.zeros(shape, dtype=np.float32)
                continue
            deviation = math.sqrt(2.0 / math.prod(shape[1:])) / _CUT_DEVIATION
            arrays[name] = (deviation * _cut_normal(draw, shape)).astype(np.float32)
        return arrays


def _cut_normal(draw: np.random.Generator, shape: tuple[int, ...]) -> ndarray:
    values = draw.standard_normal(shape)
    while np.any(outside := np.abs(values) > 2.0):
        values[outside] = draw.standard_normal(int(outside.sum()))
    return values


@dataclass(frozen=True)
class SupportRule:
    """How a round over the support is made.

    Args:
        share: of the loss that may lie outside the support.
        spare: how many times larger the support is than needed: samples just outside follow.
        least: samples, however concentrated the loss is.
        passes: steps tried over the support, between two looks at everything.
        heaviest: samples of the support whose gradients a step begins with, at least.
        most: the same at most, where more would be needed to hold all but 1% of the loss.
        corrections: of a step by the losses that it was found to lead to.
        first_rate: the constant rate of the first pass, over everything.
        first_until: log10 of the loss at which the constant rate ends (or when the data is fitted).
        first_share, first_passes: share and passes until then, when the loss is still spread out.
    """

    share: float = 1e-2
    spare: float = 1.5
    least: int = 4000
    passes: int = 12
    heaviest: int = 800
    most: int = 1600
    corrections: int = 2
    first_rate: float = 0.1
    first_until: float = -2.3
    first_share: float = 0.03
    first_passes: int = 2

    def __post_init__(self) -> None:
        finite("first_until", self.first_until)
        finite("first_rate", self.first_rate, above=0)
        if not (0 < self.share < 1 and 0 < self.first_share < 1):
            raise InputError("share", "is no part of the loss", "give shares between 0 and 1")
        if min(self.passes, self.first_passes, self.least, self.heaviest, self.most) < 1 or self.spare < 1:
            raise InputError("support", f"is {self}", "give at least one pass over one sample")
        whole("corrections", self.corrections, least=0)


@dataclass(frozen=True)
class MarginSettings:
    """What makes a run what it is; a checkpoint with other settings belongs to another run.

    The controllers are the driver's. Their constants are used and not their `judge`: a pass that
    raises the loss is known to have failed after a few heavy samples, before it has a loss to judge.
    With `support`, passes are made over the samples that hold the loss (`support`).
    """

    network: MarginCNN = field(default_factory=MarginCNN)
    seed: int = 0
    batch: int = 100
    controller: Constant | LossBased = field(default_factory=LossBased)
    threads: int = 1
    save_at: tuple[float, ...] = (-10.04, -15.12, -20.07, -120.01, -881.51)
    support: SupportRule | None = None

    def __post_init__(self) -> None:
        for name, least in (("seed", 0), ("batch", 1), ("threads", 1)):
            whole(name, getattr(self, name), least=least)

    def plain(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self) | {"controller": {"name": self.controller.name, **asdict(self.controller)}}


def settings_of(plain: dict[str, Any]) -> MarginSettings:
    """The settings that `plain` described."""
    given, network = dict(plain["controller"]), plain["network"]
    rule = CONTROLLERS[given.pop("name")]
    parts = {
        **plain,
        "network": MarginCNN(**{**network, "channels": tuple(network["channels"])}),
        "controller": rule(**given),
        "save_at": tuple(plain["save_at"]),
        "support": SupportRule(**plain["support"]) if plain.get("support") else None,
    }
    return MarginSettings(**parts)


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


class PassResult(NamedTuple):
    """What a pass over the data, or a round over the support, came to.

    Attributes:
        measured: None if the loss rose: nothing else matters then.
        left_out: samples that the pass or the round did without.
        passes: visits of the whole training set.
        rate: the one to continue with after a round.
        samples: forward and backward passes of single samples in a round, failed attempts included.
        outside: the share of the loss that the look after a round found outside the support.
        watched: samples that came to matter while a round left them out.
        step: of a round, "constant" or "implicit"; of a pass "".
    """

    params: dict[str, ndarray]
    measured: Measured | None
    left_out: int = 0
    passes: int = 1
    rate: float = math.nan
    samples: int = 0
    outside: float = math.nan
    watched: Int[ndarray, " w"] | None = None
    step: str = ""


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
            raise InputError("data", f"has one picture with two labels ({first} and {number})", "keep one of them")


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
            raise InputError(str(folder), f"holds another network ({name} does not fit)", "give its own folder")
    if digest is not None and meta["data"] != digest:
        raise InputError(str(folder), "was trained on other data", "give the data it began with")
    whole = {name: array for name, array in params.items() if array is not None}
    losses, watched = arrays.get("log_losses"), arrays.get("watched")
    return MarginRun(settings, whole, log_losses=losses, watched=watched, **meta["state"])
