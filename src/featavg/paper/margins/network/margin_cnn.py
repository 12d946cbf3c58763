"""The MNIST network of the margin table: two convolutions, two full layers, homogeneous of order 4.

Conv 5x5x32, pool, conv 3x3x64, pool, fc 1024, fc 10, ReLU between them, zero padding that keeps
the size, pools of 2x2 (Lyu and Li, 2020). With a bias in the first layer only, scaling all
parameters by c scales the outputs by c^4; a bias in any later layer breaks that.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import ndarray

from featavg.data.streams import stream
from featavg.errors import InputError, one_of, whole

if TYPE_CHECKING:
    import torch

LAYERS = ("conv1", "conv2", "fc1", "fc2")
BIASES = ("first", "all")
# The deviation of a standard normal cut at +-2; TensorFlow's he_normal divides by it.
_CUT_DEVIATION = 0.87962566103423978


@dataclass(frozen=True)
class MarginCNN:
    """The shape of the network; the defaults are the published one.

    >>> MarginCNN().parameter_count()
    3240768
    >>> MarginCNN().homogeneity()
    4
    """

    size: int = 28
    channels: tuple[int, int] = (32, 64)
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

    def parameter_count(self) -> int:
        """How many numbers the network has."""
        return sum(math.prod(shape) for shape in self.shapes().values())

    def homogeneity(self) -> int:
        """The order L with F(c theta) = c^L F(theta), or the layer that leaves the network none."""
        broken = [name for name in self.shapes() if name.endswith(".bias")][1:]
        if broken:
            raise InputError(
                "network",
                f"is not homogeneous, {broken[0].split('.')[0]} has a bias",
                'keep a bias in the first layer only (biases="first")',
            )
        return len(LAYERS)

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


def network_of(settings: Mapping[str, Any]) -> MarginCNN:
    """The shape that `settings` described."""
    return MarginCNN(**{**settings, "channels": tuple(settings["channels"])})


def outputs(params: Mapping[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    """F(x) for images n x 1 x s x s; differentiable in both, for attacks and as the slow twin.

    Pooling comes before ReLU: the two commute, and ReLU then has a quarter of the work.
    """
    from torch.nn import functional

    h = functional.conv2d(x, params["conv1.weight"], params.get("conv1.bias"), padding=2)
    h = functional.relu(functional.max_pool2d(h, 2))
    h = functional.conv2d(h, params["conv2.weight"], params.get("conv2.bias"), padding=1)
    h = functional.relu(functional.max_pool2d(h, 2))
    h = h.permute(0, 2, 3, 1).flatten(
        1
    )  # channels last, the order in which `margin_pass` keeps them
    h = functional.relu(functional.linear(h, params["fc1.weight"], params.get("fc1.bias")))
    return functional.linear(h, params["fc2.weight"], params.get("fc2.bias"))


def module_of(params: Mapping[str, ndarray]) -> torch.nn.Module:
    """The trained network as a module, for attacks and audits."""
    import torch

    class Trained(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for name, array in params.items():
                self.register_buffer(name.replace(".", "_"), torch.tensor(array))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            weights = {name: getattr(self, name.replace(".", "_")) for name in params}
            return outputs(weights, x)

    return Trained().eval()


def _cut_normal(draw: np.random.Generator, shape: tuple[int, ...]) -> ndarray:
    values = draw.standard_normal(shape)
    while np.any(outside := np.abs(values) > 2.0):
        values[outside] = draw.standard_normal(int(outside.sum()))
    return values
