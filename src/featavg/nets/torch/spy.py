"""Looking into a network of anybody's while it runs: its activations and its last linear layer (torch).

Torch functions are watched first: they are called by modules, by functional code and by layers that
are used twice alike. Code compiled by TorchScript calls none; there modules are watched by hooks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from featavg.nets.torch.outputs import answering, output_tensor

# Outputs of these are the activations that a gradient may be taken at.
ACTIVATIONS = frozenset(
    (
        *("relu", "relu_", "relu6", "gelu", "silu", "silu_", "elu", "leaky_relu", "leaky_relu_"),
        *("tanh", "tanh_", "sigmoid", "hardswish", "mish", "softplus", "selu", "clamp_min"),
        "layer_norm",
    )
)
LINEAR = frozenset(("linear", "addmm", "matmul", "__matmul__", "mm"))
ADDING = frozenset(("add", "add_", "__add__", "__iadd__"))
# These move numbers or make probabilities of them: what comes before is still the last layer.
PASSING = frozenset(
    (
        *(
            "softmax",
            "log_softmax",
            "sigmoid",
            "squeeze",
            "squeeze_",
            "unsqueeze",
            "view",
            "reshape",
        ),
        *("flatten", "contiguous", "float", "double", "to", "type_as", "__get__"),
        *("to_sparse", "to_dense"),
    )
)


@dataclass
class Call:
    """A torch function that was called: its name, the first tensor given, and what came out."""

    name: str
    source: Tensor | None
    output: Tensor
    weight: Tensor | None = None


@dataclass
class Seen:
    """What one pass showed.

    Attributes:
        activations: candidates for a gradient, from the input to the head.
        features: the input of the last linear layer, (n, N); None if there is none such.
        weight: of the last linear layer, (c, N).
        last: the name of the last function called.
    """

    activations: list[Tensor] = field(default_factory=list)
    features: Tensor | None = None
    weight: Tensor | None = None
    last: str = ""


class _Watch(TorchFunctionMode):
    """Writes down every call of a function that matters."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self.n, self.calls = n, list[Call]()

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        output = func(*args, **(kwargs or {}))
        name = getattr(func, "__name__", "")
        if isinstance(output, Tensor) and output.ndim and len(output) == self.n:
            source = args[0] if args and isinstance(args[0], Tensor) else None
            weight = args[1] if len(args) > 1 and isinstance(args[1], Tensor) else None
            if name == "addmm" and len(args) > 2:
                source, weight = args[1], args[2].T
            elif name in ("matmul", "__matmul__", "mm") and weight is not None and weight.ndim == 2:
                weight = weight.T
            self.calls.append(Call(name, source, output, weight))
        return output


def watch(module: nn.Module, x: Tensor) -> tuple[Any, Seen]:
    """Run `module` on x and say what was seen; what it returned comes first."""
    with answering(x):
        with _Watch(len(x)) as mode:
            returned = module(x.clone())  # it may work in place, and may be asked again
        calls = mode.calls
        if not any(call.name in ACTIVATIONS | LINEAR for call in calls):
            return _hooked(module, x)
    seen = Seen(last=next((c.name for c in reversed(calls) if c.name != "__get__"), ""))
    seen.activations = _distinct(call.output for call in calls if call.name in ACTIVATIONS)
    last = _last_linear(calls, output_tensor(returned, len(x)))
    if last is not None:
        seen.features, seen.weight = last.source, last.weight
    return returned, seen


def _last_linear(calls: list[Call], output: Tensor) -> Call | None:
    """The linear layer that made the output, followed back through what only passes numbers on."""
    for call in reversed(calls):
        if call.output is not output or call.source is None:
            continue
        if call.name in LINEAR:
            return call if call.source.ndim == 2 and call.output.ndim == 2 else None
        bias = call.weight is not None and call.weight.ndim == 1
        if call.name not in PASSING and not (call.name in ADDING and bias):
            return None
        output = call.source
    return None


def _hooked(module: nn.Module, x: Tensor) -> tuple[Any, Seen]:
    """The same by hooks on modules without parts; they are taken off again."""
    outputs: list[tuple[nn.Module, Tensor, Tensor]] = []

    def note(part: nn.Module, given: tuple[Any, ...], output: Any) -> None:
        if isinstance(output, Tensor) and output.ndim and len(output) == len(x):
            outputs.append((part, given[0], output))

    handles = []
    for part in module.modules():
        if not any(True for _ in part.children()):
            try:
                handles.append(part.register_forward_hook(note))
            except RuntimeError:  # a part that torch has compiled takes no hook
                continue
    try:
        returned = module(x.clone())
    finally:
        for handle in handles:
            handle.remove()
    seen = Seen(activations=_distinct(output for _, _, output in outputs[:-1]))
    if outputs and isinstance(outputs[-1][0], nn.Linear) and outputs[-1][1].ndim == 2:
        seen.features, seen.weight = outputs[-1][1], outputs[-1][0].weight
    return returned, seen


def _distinct(tensors: Any) -> list[Tensor]:
    """Tensors that a gradient can reach, each once: a change in place returns the same one."""
    kept: list[Tensor] = []
    for tensor in tensors:
        if tensor.requires_grad and tensor.ndim >= 2 and not any(tensor is one for one in kept):
            kept.append(tensor)
    return kept


def device_of(module: nn.Module) -> torch.device:
    """Where the parameters are."""
    like = next(module.parameters(), None)
    return torch.device("cpu") if like is None else like.device
