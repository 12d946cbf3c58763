"""Which deep network, said in a few words that fit into a result file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from featavg.data.images import ImageTask
from featavg.errors import InputError, one_of

if TYPE_CHECKING:
    from torch import nn

NAMES = ("resnet18", "convnet", "two-layer", "resnet20", "resnet32")


@dataclass(frozen=True)
class Architecture:
    """A network for images, before it has weights.

    Attributes:
        name: one of `NAMES`.
        outputs: classes.
        width: channels of the first stage (resnet18: 64 is the paper's; convnet: 32), or hidden
            neurons of a two-layer network.
        channels: 3 for colour, 1 for grey.
        mean, deviation: of the pixels, by channel.
        size: height of an image; resnets do not need it.
    """

    name: str
    outputs: int
    width: int
    channels: int
    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    size: int = 32

    def __post_init__(self) -> None:
        one_of("network", self.name, NAMES)
        if self.width < 1:
            raise InputError("width", f"is {self.width}", "give at least one channel")
        if self.name == "convnet" and self.size < 4:
            problem = f"is convnet, which halves images twice, and these have {self.size} rows"
            raise InputError("network", problem, "use resnet18 or two-layer")

    def build(self, seed: int = 0) -> nn.Module:
        """The network with the random weights of `seed`."""
        from featavg.nets.torch.image_nets import ConvNet, cifar_resnet, resnet18, two_layer_net
        from featavg.nets.torch.inference import own_randomness

        with own_randomness(seed):
            if self.name in ("resnet20", "resnet32"):
                return cifar_resnet(int(self.name[-2:]))
            if self.name == "resnet18":
                return resnet18(self.outputs, self.width, self.channels, self.mean, self.deviation)
            build = two_layer_net if self.name == "two-layer" else ConvNet
            return build(self.outputs, self.width, self.channels, self.size, self.mean, self.deviation)

    @classmethod
    def from_json(cls, described: dict[str, Any]) -> Architecture:
        """The inverse of `to_json`, after a file has made lists of the tuples."""
        mean, deviation = tuple(described["mean"]), tuple(described["deviation"])
        return cls(**(described | {"mean": mean, "deviation": deviation}))

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def architecture(name: str, task: ImageTask, labels: str, width: int) -> Architecture:
    """The network for a task, normalised by the statistics of its training images."""
    mean, deviation = statistics(task)
    channels, height, _ = task.shape
    return Architecture(name, task.outputs(labels), width, channels, tuple(mean), tuple(deviation), height)


def statistics(task: ImageTask) -> tuple[Sequence[float], Sequence[float]]:
    """Mean and deviation of each channel, to four digits: enough, and readable in a file."""
    sample = task.train[slice(0, 10000)].unit.astype(np.float64)
    mean, deviation = sample.mean(axis=(0, 2, 3)), sample.std(axis=(0, 2, 3))
    return mean.round(4).tolist(), np.maximum(deviation.round(4), 1e-3).tolist()
