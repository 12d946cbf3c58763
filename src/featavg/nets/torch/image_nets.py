"""Networks for small images (torch): ResNet-18 of any width, the CIFAR ResNets 20 and 32, small ones.

Imported only by those who have torch.
"""

from __future__ import annotations

import pickle
import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from featavg.errors import InputError
from featavg.storage.reading import opened


class Normalise(nn.Module):
    """(x - mean) / deviation by channel, inside the network: attacks then see pixels in [0, 1]."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, mean: Any, deviation: Any) -> None:
        super().__init__()
        for name, value in (("mean", mean), ("deviation", deviation)):
            tensor = torch.as_tensor(np.asarray(value, dtype=np.float32))
            self.register_buffer(name, tensor if tensor.ndim > 1 else tensor.view(1, -1, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        """Normalised pixels."""
        return (x - self.mean) / self.deviation


class Block(nn.Module):
    """Two 3x3 convolutions and a shortcut.

    Args:
        option_a: the parameter-free shortcut of He et al.'s CIFAR networks, which drops every other
            pixel and pads with zero channels; otherwise a 1x1 convolution where shapes change.
    """

    def __init__(self, inside: int, outside: int, stride: int, option_a: bool) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outside)
        self.shortcut: nn.Module
        # oneDNN's backward pass of a 1x1 convolution that skips pixels writes past its memory if there
        # are fewer channels than lanes (8 in AVX2, 16 in AVX-512): the pixels are left out beforehand.
        # github.com/uxlfoundation/oneDNN/issues/6035
        self.thin = stride if inside < 16 and not option_a else 1
        if stride == 1 and inside == outside:
            self.shortcut = nn.Identity()
        elif option_a:
            self.shortcut = PadShortcut(outside - inside, stride)
        else:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inside, outside, 1, stride // self.thin, bias=False), nn.BatchNorm2d(outside)
            )

    def forward(self, x: Tensor) -> Tensor:
        """relu(F(x) + shortcut(x))."""
        y = functional.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return functional.relu(y + self.shortcut(x[:, :, :: self.thin, :: self.thin]))


class PadShortcut(nn.Module):
    """Every `stride`-th pixel, with zero channels added half before and half after."""

    def __init__(self, channels: int, stride: int) -> None:
        super().__init__()
        self.before, self.after, self.stride = channels // 2, channels - channels // 2, stride

    def forward(self, x: Tensor) -> Tensor:
        """The padded map."""
        thinned = x[:, :, :: self.stride, :: self.stride]
        return functional.pad(thinned, (0, 0, 0, 0, self.before, self.after))


class ResNet(nn.Module):
    """Stem, stages, mean over pixels, linear layer. Takes pixels in [0, 1].

    Args:
        blocks: how many blocks each stage has.
        widths: channels of each stage; all but the first halve the image.
        outputs: classes.
        channels: 3 for colour, 1 for grey.
        mean, deviation: of the training pixels, by channel.
        option_a: see `Block`.
    """

    def __init__(
        self,
        blocks: Sequence[int],
        widths: Sequence[int],
        outputs: int,
        channels: int,
        mean: Sequence[float],
        deviation: Sequence[float],
        option_a: bool = False,
    ) -> None:
        super().__init__()
        self.normalise = Normalise(mean, deviation)
        self.conv1 = nn.Conv2d(channels, widths[0], 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(widths[0])
        inside = widths[0]
        stages = []
        for number, (count, width) in enumerate(zip(blocks, widths, strict=True)):
            stage = []
            for i in range(count):
                stride = 2 if i == 0 and number > 0 else 1
                stage.append(Block(inside, width, stride, option_a))
                inside = width
            stages.append(nn.Sequential(*stage))
        self.stages = nn.ModuleList(stages)
        self.linear = nn.Linear(inside, outputs)

    def features(self, x: Tensor) -> Tensor:
        """The penultimate activations: the mean of the last maps over their pixels."""
        y = functional.relu(self.bn1(self.conv1(self.normalise(x))))
        for stage in self.stages:
            y = stage(y)
        return y.mean(dim=(2, 3))

    def forward(self, x: Tensor) -> Tensor:
        """The logits of a batch."""
        out: Tensor = self.linear(self.features(x))
        return out


def resnet18(
    outputs: int,
    width: int = 64,
    channels: int = 3,
    mean: Sequence[float] = (0.5,),
    deviation: Sequence[float] = (0.25,),
) -> ResNet:
    """ResNet-18 for 32x32 or 28x28 images: a 3x3 stem, no pooling; `width` 64 is the paper's.

    >>> net = resnet18(10, width=8, channels=1)
    >>> net(torch.zeros(2, 1, 28, 28)).shape, net.features(torch.zeros(2, 1, 28, 28)).shape
    (torch.Size([2, 10]), torch.Size([2, 64]))
    """
    widths = [width, 2 * width, 4 * width, 8 * width]
    return ResNet([2, 2, 2, 2], widths, outputs, channels, mean, deviation)


def cifar_resnet(depth: int) -> ResNet:
    """He et al.'s CIFAR ResNet of depth 6n+2 (20, 32, ...), with the shortcuts called option A."""
    from featavg.errors import InputError

    if depth < 8 or (depth - 2) % 6:
        raise InputError("depth", f"is {depth}", "give 20, 32, 44, 56 or another 6n+2")
    count = (depth - 2) // 6
    # ImageNet's statistics: the public weights were trained with them on CIFAR-10 too.
    mean, deviation = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    return ResNet([count] * 3, [16, 32, 64], 10, 3, mean, deviation, option_a=True)


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
        self, outputs: int, width: int, channels: int, size: int, mean: Sequence[float], deviation: Sequence[float]
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
        """The logits of a batch."""
        out: Tensor = self.linear(self.features(x))
        return out


def two_layer_net(
    outputs: int, width: int, channels: int, size: int, mean: Sequence[float], deviation: Sequence[float]
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


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file or of a torch file that holds nothing but tensors.

    A torch file is a pickle, and a pickle can run code: only tensors and plain containers are
    allowed in it (`weights_only`), anything else is refused before it is made.
    """
    if not path.is_file():
        raise InputError(str(path), "is not a file", "give a file of weights")
    if path.suffix == ".safetensors" or _begins_as_safetensors(path):
        return _safetensors(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about pickles of an unusual kind: refused below
            content: Any = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, AttributeError, ModuleNotFoundError) as error:
        raise InputError(
            str(path),
            "is a pickle that holds more than tensors, perhaps code",
            "save the state dict alone, or as safetensors",
        ) from error
    except (RuntimeError, EOFError, OSError, ValueError, KeyError) as error:
        raise InputError(str(path), f"is damaged ({type(error).__name__})", "get it again") from error
    if isinstance(content, dict) and isinstance(content.get("state_dict"), dict):
        content = content["state_dict"]
    if isinstance(content, dict) and isinstance(content.get("state_dict"), list):
        several = content["state_dict"]
        if len(several) != 1:
            problem, remedy = f"holds {len(several)} networks", "save the state dict of one"
            raise InputError(str(path), problem, remedy)
        content = several[0]
    if not isinstance(content, dict) or not all(isinstance(v, Tensor) for v in content.values()):
        raise InputError(str(path), "holds no table of tensors", "save a state dict")
    return {str(name): value for name, value in content.items()}


def _begins_as_safetensors(path: Path) -> bool:
    """Whatever its name: the length of a header, then the header, which is JSON."""
    try:
        with path.open("rb") as file:
            start = file.read(9)
        length = int.from_bytes(start[:8], "little")
        return start[8:] == b"{" and length <= path.stat().st_size - 8
    except OSError:
        return False


def _safetensors(path: Path) -> dict[str, Tensor]:
    from safetensors.torch import load_file

    with opened(path):  # a regular file of a size that can be meant
        pass
    try:
        return dict(load_file(str(path)))
    except Exception as error:  # of Rust, of torch, of the file system
        raise InputError(str(path), "is damaged", "get it again") from error


def load_into(net: nn.Module, tensors: dict[str, Tensor], path: Path | str) -> None:
    """Fill a network; names or shapes that do not fit are one sentence."""
    buffers = {n: b for n, b in net.state_dict().items() if n.startswith("normalise.")}
    try:
        net.load_state_dict(buffers | tensors)
    except RuntimeError as error:
        raise InputError(str(path), "holds the weights of another network", "check the depth and width") from error


def public_cifar_resnet(path: Path) -> ResNet:
    """A CIFAR-10 ResNet of others; its depth is read off the number of its layers.

    The public files have their keys under `module.`, and stages called layer1 to layer3.
    """
    tensors = {_renamed(name): value for name, value in read_tensors(path).items()}
    convolutions = sum(value.ndim == 4 for value in tensors.values())
    if not convolutions:
        raise InputError(str(path), "holds no layers of a ResNet", "give the weights of one")
    net = cifar_resnet(convolutions + 1)
    load_into(net, tensors, path)
    return net.to(memory_format=torch.channels_last).eval()  # type: ignore[call-overload]


def _renamed(name: str) -> str:
    name = name.removeprefix("module.")
    return re.sub(r"^layer(\d)\.", lambda match: f"stages.{int(match[1]) - 1}.", name)
