"""What a classifier of anybody's returns, made logits of shape (n, c) (torch)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from featavg.errors import InputError, message_of

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
        problem = f"stopped on {len(x)} images of shape {tuple(x.shape[1:])} ({message_of(error)})"
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
        *("softmax", "log_softmax", "sigmoid", "squeeze", "squeeze_", "unsqueeze", "view", "reshape"),
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
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
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
