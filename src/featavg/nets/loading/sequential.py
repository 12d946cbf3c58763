"""A torch Sequential as layers (torch): read, never called."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy import ndarray
from torch import Tensor, nn

from featavg.errors import InputError
from featavg.nets.deep import Deep
from featavg.nets.loading.affine import MOST_NEURONS, Layers
from featavg.nets.loading.operators import OPERATORS, About
from featavg.nets.torch.image_nets import Normalise

PARALLEL = "module."  # DataParallel puts it before every name
# An operator by its name in ONNX, its attributes, and its constants.
Step = tuple[str, About, Sequence[ndarray]]


def sequential_network(module: nn.Module, shape: Sequence[int] | None = None, most: int = MOST_NEURONS) -> Deep:
    """The Sequential, in evaluation mode, as a network of inputs of this shape, flattened."""
    parts = _parts(module)
    if shape is None:
        first = next((p for p in parts if hasattr(p, "weight")), None)
        if not isinstance(first, nn.Linear):
            raise InputError("shape", "is missing for a network of images", "give it, such as shape=(1, 28, 28)")
        shape = (first.in_features,)
    bends = [getattr(p, "negative_slope", 0.0) for p in parts if isinstance(p, nn.ReLU | nn.LeakyReLU | nn.MaxPool2d)]
    net = Layers((1, *shape), bends, most)
    value = net.input
    for part in parts:
        read = READ.get(type(part))
        if isinstance(part, nn.Flatten):
            value = value.taken(value.places.reshape(_flat(part, value.shape)))
        elif read is not None:
            kind, about, constants = read(part, value.shape)
            value = OPERATORS[kind](net, about, value, *constants)
        elif not isinstance(part, nn.Identity | nn.Dropout):
            known = ", ".join(kind.__name__ for kind in (*READ, nn.Flatten, nn.Identity, nn.Dropout))
            raise InputError("module", f"has a {type(part).__name__}", f"known are {known}")
    return net.network(value)


def filled(module: nn.Module, tensors: Mapping[str, Tensor], source: str) -> nn.Module:
    """A copy of the Sequential with these weights, by name or else in their order."""
    _parts(module)
    twin = copy.deepcopy(module)
    given = {n.removeprefix(PARALLEL): t for n, t in tensors.items() if _is_weight(n)}
    shapes = {name: tuple(tensor.shape) for name, tensor in twin.state_dict().items() if _is_weight(name)}
    if set(shapes) != set(given):  # a class that names its layers, in the order it made them
        given = dict(zip(shapes, given.values(), strict=False)) if len(shapes) == len(given) else {}
    if not given or any(tuple(tensor.shape) != shapes[name] for name, tensor in given.items()):
        problem = "holds weights that do not fit the module"
        raise InputError(source, problem, "give the Sequential that was trained")
    twin.load_state_dict(given, strict=False)
    return twin


def _is_weight(name: str) -> bool:
    return not name.endswith("num_batches_tracked")


def _parts(module: nn.Module) -> list[nn.Module]:
    """The layers of a Sequential in order, a layer that occurs twice twice.

    A subclass, or a hook, may do more than its layers.
    """
    if any(m._forward_hooks or m._forward_pre_hooks or "forward" in vars(m) for m in module.modules()):
        raise InputError("module", "has a hook or a forward of its own", "give plain layers")
    if type(module) is not nn.Sequential:
        kind = type(module).__name__
        remedy = "give a torch.nn.Sequential of its layers, or export it to ONNX"
        raise InputError("module", f"is a {kind}, whose forward is code", remedy)
    parts: list[nn.Module] = []
    for child in module:
        parts += _parts(child) if type(child) is nn.Sequential else [child]
    return parts


def _flat(part: nn.Flatten, shape: tuple[int, ...]) -> tuple[int, ...]:
    if part.start_dim == 0:
        raise InputError("module", "has a Flatten from axis 0", "keep the axis of images")
    start, end = part.start_dim, part.end_dim % len(shape)
    return (*shape[:start], -1, *shape[end + 1 :]) if start <= end else shape


def _numbers(tensor: Any, otherwise: float = 0.0) -> ndarray:
    return np.array(otherwise) if tensor is None else tensor.detach().cpu().double().numpy()


def _convolution(part: Any, shape: tuple[int, ...]) -> Step:
    left, right, top, bottom = part._reversed_padding_repeated_twice
    about = {"strides": part.stride, "pads": (top, left, bottom, right), "dilations": part.dilation}
    about |= {"group": part.groups, "auto_pad": part.padding_mode}
    return "Conv", about, (_numbers(part.weight), _numbers(part.bias))


def _normalised(part: Any, shape: tuple[int, ...]) -> Step:
    if part.running_mean is None:
        problem = "has a BatchNorm without running statistics"
        raise InputError("module", problem, "train it with track_running_stats")
    ones = np.ones(part.num_features)
    scale, shift = ones * _numbers(part.weight, 1.0), ones * _numbers(part.bias)
    statistics = _numbers(part.running_mean), _numbers(part.running_var)
    return "BatchNormalization", {"epsilon": part.eps}, (scale, shift, *statistics)


def _pooled(part: Any, shape: tuple[int, ...]) -> Step:
    kernel, strides, pads, dilations = (
        (v, v) if isinstance(v, int) else tuple(v)
        for v in (part.kernel_size, part.stride, part.padding, getattr(part, "dilation", 1))
    )
    about: About = {"kernel_shape": kernel, "strides": strides, "pads": (*pads, *pads), "dilations": dilations}
    about |= {"ceil_mode": part.ceil_mode, "divisor": getattr(part, "divisor_override", None)}
    about |= {"count_include_pad": about["divisor"] or getattr(part, "count_include_pad", False)}
    return "MaxPool" if isinstance(part, nn.MaxPool2d) else "AveragePool", about, ()


def _adaptive(part: Any, shape: tuple[int, ...]) -> Step:
    size, asked = shape[2:], part.output_size
    pair = (asked, asked) if isinstance(asked, int) else asked
    wanted = tuple(s if w is None else w for s, w in zip(size, pair, strict=True))
    if any(s % w for s, w in zip(size, wanted, strict=True)):
        problem = f"has an AdaptiveAvgPool2d of {wanted} on images of {size}"
        raise InputError("module", problem, "use sizes that divide")
    kernel = tuple(s // w for s, w in zip(size, wanted, strict=True))
    return "AveragePool", {"kernel_shape": kernel, "strides": kernel}, ()


def _padded(part: Any, shape: tuple[int, ...]) -> Step:
    left, right, top, bottom = part.padding
    rest = [0] * (len(shape) - 2)
    return "Pad", {"pads": [*rest, top, left, *rest, bottom, right]}, ()


def _scaled(part: Any, shape: tuple[int, ...]) -> Step:
    # (x - mean) / deviation is a batch norm.
    mean, deviation = _numbers(part.mean).ravel(), _numbers(part.deviation).ravel()
    ones = np.ones(len(mean))
    return "BatchNormalization", {"epsilon": 0.0}, (ones, 0.0 * ones, mean, deviation**2)


READ: dict[type[nn.Module], Callable[[Any, tuple[int, ...]], Step]] = {
    nn.Linear: lambda part, shape: ("Gemm", {"transB": 1}, (_numbers(part.weight), _numbers(part.bias))),
    nn.Conv2d: _convolution,
    nn.ReLU: lambda part, shape: ("Relu", {}, ()),
    nn.LeakyReLU: lambda part, shape: ("LeakyRelu", {"alpha": part.negative_slope}, ()),
    nn.BatchNorm1d: _normalised,
    nn.BatchNorm2d: _normalised,
    nn.AvgPool2d: _pooled,
    nn.MaxPool2d: _pooled,
    nn.AdaptiveAvgPool2d: _adaptive,
    nn.ZeroPad2d: _padded,
    Normalise: _scaled,
}
