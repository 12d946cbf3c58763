"""Weights made by others (torch): tensors are read, code is refused."""

from __future__ import annotations

import pickle
import re
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from featavg.errors import InputError
from featavg.nets.torch.image_nets import ResNet, cifar_resnet
from featavg.storage.reading import opened


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
        raise InputError(
            str(path), f"is damaged ({type(error).__name__})", "get it again"
        ) from error
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
        raise InputError(
            str(path), "holds the weights of another network", "check the depth and width"
        ) from error


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
