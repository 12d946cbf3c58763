"""Networks that are only read (torch): a fast copy of ours, and a user's left as it was.

Attacks and features ask a trained network thousands of times; the copy asks less of it for the same
answer, up to rounding: batch norm is folded away, and weights have no gradients.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from featavg.errors import InputError

_PAIRS = (("conv1", "bn1"), ("conv2", "bn2"))


class Frozen(nn.Module):
    """Logits of pixels in [0, 1], in the memory layout in which CPUs convolve fastest."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        """The logits of a batch."""
        out: Tensor = self.net(x.contiguous(memory_format=torch.channels_last))
        return out


def frozen(net: nn.Module) -> Frozen:
    """A copy of `net` for reading only."""
    twin = copy.deepcopy(net).eval()
    for module in list(twin.modules()):
        for conv, norm in _PAIRS:
            first, second = getattr(module, conv, None), getattr(module, norm, None)
            if isinstance(first, nn.Conv2d) and isinstance(second, nn.BatchNorm2d):
                setattr(module, conv, fuse_conv_bn_eval(first, second))
                setattr(module, norm, nn.Identity())
        if isinstance(module, nn.Sequential) and len(module) == 2:
            first, second = module[0], module[1]
            if isinstance(first, nn.Conv2d) and isinstance(second, nn.BatchNorm2d):
                module[0], module[1] = fuse_conv_bn_eval(first, second), nn.Identity()
    for parameter in twin.parameters():
        parameter.requires_grad_(False)
    twin = twin.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return Frozen(twin)


def check_readable(module: nn.Module, argument: str) -> None:
    """Refuse weights that are not there, or that torch will not take gradients past."""
    for tensor in (*module.parameters(), *module.buffers()):
        if nn.parameter.is_lazy(tensor):
            problem, remedy = "has layers that do not know their size yet", "run it once on images"
        elif tensor.is_meta:
            problem, remedy = "has no weights (device meta)", "load them"
        elif tensor.is_inference():
            problem = "has weights that were made under torch.inference_mode"
            remedy = "make or load it outside of that"
        else:
            continue
        raise InputError(argument, problem, remedy)


@contextlib.contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Evaluation mode inside, cheap enough for every batch; afterwards every mode is as before."""
    training = [part for part in module.modules() if part.training]
    for part in training:
        part.training = False
    try:
        yield
    finally:
        for part in training:
            part.training = True


@contextlib.contextmanager
def unchanged(module: nn.Module) -> Iterator[None]:
    """Evaluation mode inside; afterwards modes, buffers, attributes and torch's random state are as before.

    A forward may count its calls in a buffer, or leave its features in an attribute.
    """
    modes = [(part, part.training) for part in module.modules()]
    values = [(buffer, buffer.detach().clone()) for buffer in module.buffers() if not buffer.is_meta]
    bound = [
        (table, dict(table))
        for part in module.modules()
        for table in (part.__dict__, part.__dict__.get("_buffers"))
        if isinstance(table, dict)
    ]
    with torch.random.fork_rng(devices=graphics(devices_of(module))):
        module.eval()
        try:
            yield
        finally:
            for table, before in bound:
                _bind_again(table, before)
            for part, training in modes:
                part.training = training
            with torch.no_grad():
                for buffer, value in values:
                    if not torch.equal(buffer, value):
                        buffer.copy_(value)


def _bind_again(table: dict[str, Any], before: dict[str, Any]) -> None:
    for name in table.keys() - before.keys():
        del table[name]
    for name, value in before.items():
        if table.get(name) is not value:
            table[name] = value


@contextlib.contextmanager
def own_randomness(seed: int, device: str | torch.device = "cpu") -> Iterator[None]:
    """Inside, torch draws from `seed` on the CPU and on `device`; afterwards all is as it was.

    `torch.manual_seed` would also seed every GPU, for good.
    """
    gpus = graphics([torch.device(device)])
    with torch.random.fork_rng(devices=gpus):
        torch.default_generator.manual_seed(seed)
        for gpu in gpus:
            with torch.cuda.device(gpu):
                torch.cuda.manual_seed(seed)
        yield


def devices_of(module: nn.Module) -> list[torch.device]:
    """Where the parameters and buffers of a module are, each device once."""
    return list(dict.fromkeys(t.device for t in (*module.parameters(), *module.buffers())))


def graphics(devices: Iterable[torch.device]) -> list[torch.device]:
    """Those with a generator of their own. Asked for none, torch warns about every GPU there is."""
    return [device for device in devices if device.type == "cuda"]
