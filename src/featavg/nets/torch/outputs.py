"""What a classifier of anybody's returns, made logits of shape (n, c) (torch)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from featavg.errors import InputError, told

# Where libraries keep the logits of an output that is an object or a table.
NAMES = ("logits", "scores", "out", "output", "prediction")


class Logits(nn.Module):
    """A classifier that returns logits (n, c), whatever `module` itself returns.

    Accepted are a tensor (n, c), (n, 1) or (n,); a tuple or list whose first such tensor counts; a
    table or an object with `logits`. Probabilities are turned into logarithms, because the gradient
    of a probability vanishes where the network is sure.

    Args:
        module: left as it is; this wrapper calls it.
        kind: "logits", "softmax" (rows of probabilities) or "sigmoid" (one probability).
    """

    def __init__(self, module: nn.Module, kind: str = "logits") -> None:
        super().__init__()
        self.module, self.kind = module, kind

    def forward(self, x: Tensor) -> Tensor:
        """The logits of a batch."""
        return self.of(unwrapped(self.module(x), len(x)))

    def of(self, outputs: Tensor) -> Tensor:
        """The logits of outputs (n, c)."""
        if self.kind == "softmax":
            return outputs.clamp_min(torch.finfo(outputs.dtype).tiny).log()
        if self.kind == "sigmoid":
            return torch.logit(outputs, eps=torch.finfo(outputs.dtype).eps)
        return outputs


@contextlib.contextmanager
def answering(x: Tensor, argument: str = "model") -> Iterator[None]:
    """Whatever a stranger's code raises on the images x, forwards or backwards, in one sentence."""
    try:
        yield
    except (InputError, MemoryError):
        raise
    except (Exception, SystemExit) as error:
        problem = f"stopped on {len(x)} images of shape {tuple(x.shape[1:])} ({told(error)})"
        raise InputError(argument, problem, "give images as the model takes them") from error


def unwrapped(returned: Any, n: int, argument: str = "model") -> Tensor:
    """The dense tensor (n, c) inside whatever a module returned for n inputs."""
    outputs = output_tensor(returned, n, argument)
    if outputs.layout is not torch.strided:
        outputs = outputs.to_dense()
    return outputs[:, None] if outputs.ndim == 1 else outputs


def output_tensor(returned: Any, n: int, argument: str = "model") -> Tensor:
    """The tensor itself, as the module made it: (n, c) or (n,)."""
    for candidate in _candidates(returned):
        floats = isinstance(candidate, Tensor) and candidate.is_floating_point()
        if floats and candidate.ndim in (1, 2) and len(candidate) == n:
            return candidate
    raise InputError(
        argument,
        f"returned {_described(returned)} for {n} inputs",
        "return logits (n, classes), a tuple that begins with them, or an object with .logits",
    )


def _candidates(returned: Any) -> list[Any]:
    if isinstance(returned, Tensor):
        return [returned]
    if isinstance(returned, dict):
        return [returned[name] for name in NAMES if name in returned] or list(returned.values())
    named = [getattr(returned, name) for name in NAMES if hasattr(returned, name)]
    if named:
        return named
    return list(returned) if isinstance(returned, tuple | list) else []


def _described(returned: Any) -> str:
    if isinstance(returned, Tensor):
        return f"a tensor of shape {tuple(returned.shape)} and type {returned.dtype}"
    return f"a {type(returned).__name__}"


def kind_of(outputs: Tensor, last_function: str) -> str:
    """Whether outputs are logits or probabilities.

    Rows of a softmax are recognised by what they are: non-negative, with sum 1. One output between 0
    and 1 could be a logit as well, so it counts as a probability only if a sigmoid made it.

    Args:
        last_function: the name of the last torch function that the module called.
    """
    inside = bool((outputs >= 0).all() and (outputs <= 1).all())
    if outputs.shape[1] > 1:
        sums = outputs.double().sum(dim=1)
        return "softmax" if inside and bool((sums - 1.0).abs().max() < 1e-3) else "logits"
    return "sigmoid" if inside and last_function == "sigmoid" else "logits"
