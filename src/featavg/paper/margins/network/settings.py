"""What makes a run of the margin network what it is: network, seed, rates, passes over the support.

The network of the margin table: two convolutions, two full layers, homogeneous of order 4. Conv
5x5x32, pool, conv 3x3x64, pool, fc 1024, fc 10, ReLU between them, zero padding that keeps the size,
pools of 2x2 (Lyu and Li, 2020). With a bias in the first layer only, scaling all parameters by c
scales the outputs by c^4; a bias in any later layer breaks that.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy import ndarray

from featavg.data.streams import stream
from featavg.errors import InputError, finite, one_of, whole
from featavg.training.controllers import Constant, LossBased

LAYERS = ("conv1", "conv2", "fc1", "fc2")
BIASES = ("first", "all")
# The deviation of a standard normal cut at +-2; TensorFlow's he_normal divides by it.
_CUT_DEVIATION = 0.87962566103423978
CONTROLLERS: dict[str, type[Constant] | type[LossBased]] = {
    "constant": Constant,
    "loss-based": LossBased,
}
STEPS = ("implicit", "gradient")


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

    def settings(self) -> dict[str, Any]:
        """The shape as plain values."""
        return {**asdict(self), "channels": list(self.channels)}


def _cut_normal(draw: np.random.Generator, shape: tuple[int, ...]) -> ndarray:
    values = draw.standard_normal(shape)
    while np.any(outside := np.abs(values) > 2.0):
        values[outside] = draw.standard_normal(int(outside.sum()))
    return values


@dataclass(frozen=True)
class SupportRule:
    """How a round over the support is made.

    Args:
        step: "implicit" (the samples' weights are those after the step) or "gradient" (passes of SGD).
        share: of the loss that may lie outside the support.
        spare: the support is so many times as large as that needs: samples just outside follow.
        least: samples, however concentrated the loss is.
        passes: steps or passes tried over the support, between two looks at everything.
        heaviest: samples of the support whose gradients an implicit step begins with, at least.
        most: the same at most, where more would be needed to hold all but 1% of the loss.
        corrections: of an implicit step by the losses that it was found to lead to.
        first_rate: the constant rate of the first pass, over everything.
        first_until: log10 of the loss at which the constant rate ends (or when the data is fitted).
        first_share, first_passes: share and passes until then, when the loss is still spread out.
    """

    step: str = "implicit"
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
        one_of("step", self.step, STEPS)
        finite("first_until", self.first_until)
        finite("first_rate", self.first_rate, above=0)
        if not (0 < self.share < 1 and 0 < self.first_share < 1):
            raise InputError("share", "is no part of the loss", "give shares between 0 and 1")
        if (
            min(self.passes, self.first_passes, self.least, self.heaviest, self.most) < 1
            or self.spare < 1
        ):
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
        return {
            "network": {**asdict(self.network), "channels": list(self.network.channels)},
            "seed": self.seed,
            "batch": self.batch,
            "controller": {"name": self.controller.name, **asdict(self.controller)},
            "threads": self.threads,
            "save_at": list(self.save_at),
            "support": None if self.support is None else asdict(self.support),
        }


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
