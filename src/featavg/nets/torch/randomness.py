"""Torch's generators, lent and given back (torch)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

import torch
from torch import nn


@contextlib.contextmanager
def own_randomness(seed: int, device: str | torch.device = "cpu") -> Iterator[None]:
    """Inside, torch draws from `seed` on the CPU and on `device`; afterwards all is as it was.

    `torch.manual_seed` would seed every GPU besides, and nobody would give that back.

    >>> before = torch.get_rng_state()
    >>> with own_randomness(0):
    ...     first = torch.rand(1)
    >>> with own_randomness(0):
    ...     bool(torch.rand(1) == first)
    True
    >>> torch.equal(before, torch.get_rng_state())
    True
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
