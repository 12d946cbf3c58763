"""Small networks for small images (torch): two layers, or two convolutions; seconds to minutes."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from featavg.nets.torch.resnet import Normalise


class ConvNet(nn.Module):
    """Two 3x3 convolutions with batch norm and pooling, one hidden layer, one linear layer.

    Args:
        outputs: classes.
        width: channels of the first convolution; the second has twice, the hidden layer four times.
        channels: 3 for colour, 1 for grey.
        size: height and width of an image.

    >>> ConvNet(10, 8, 1, 8, (0.3,), (0.4,))(torch.zeros(2, 1, 8, 8)).shape
    torch.Size([2, 10])
    """

    def __init__(
        self,
        outputs: int,
        width: int,
        channels: int,
        size: int,
        mean: Sequence[float],
        deviation: Sequence[float],
    ) -> None:
        super().__init__()
        self.normalise = Normalise(mean, deviation)
        self.conv1 = nn.Conv2d(channels, width, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, 2 * width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(2 * width)
        self.hidden = nn.Linear(2 * width * (size // 4) ** 2, 4 * width)
        self.linear = nn.Linear(4 * width, outputs)

    def features(self, x: Tensor) -> Tensor:
        """The penultimate activations."""
        y = functional.max_pool2d(functional.relu(self.bn1(self.conv1(self.normalise(x)))), 2)
        y = functional.max_pool2d(functional.relu(self.bn2(self.conv2(y))), 2)
        return functional.relu(self.hidden(torch.flatten(y, 1)))

    def forward(self, x: Tensor) -> Tensor:
        """The logits."""
        out: Tensor = self.linear(self.features(x))
        return out


def two_layer_net(
    outputs: int,
    width: int,
    channels: int,
    size: int,
    mean: Sequence[float],
    deviation: Sequence[float],
) -> nn.Sequential:
    """One hidden layer of `width` ReLUs on normalised pixels, arguments as for `ConvNet`.

    >>> two_layer_net(2, 16, 1, 8, (0.3,), (0.4,))(torch.zeros(3, 1, 8, 8)).shape
    torch.Size([3, 2])
    """
    return nn.Sequential(
        Normalise(mean, deviation),
        nn.Flatten(),
        nn.Linear(channels * size * size, width),
        nn.ReLU(),
        nn.Linear(width, outputs),
    )
