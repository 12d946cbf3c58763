"""A torch Sequential as layers (torch): read, never called."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy import ndarray
from torch import Tensor, nn

from featavg.errors import InputError
from featavg.nets.deep import Deep
from featavg.nets.loading.affine import MOST_NEURONS, Affine, Levels, matrix_product
from featavg.nets.loading.windows import Windows
from featavg.nets.torch.image_nets import Normalise

PARALLEL = "module."  # DataParallel puts it before every name


def sequential_network(module: nn.Module, shape: Sequence[int] | None = None, most: int = MOST_NEURONS) -> Deep:
    """The Sequential, in evaluation mode, as a network of inputs of this shape, flattened."""
    parts = _parts(module)
    first = next((p for p in parts if hasattr(p, "weight")), None)
    if shape is None:
        if not isinstance(first, nn.Linear):
            remedy = "give it, such as shape=(1, 28, 28)"
            raise InputError("shape", "is missing for a network of images", remedy)
        shape = (first.in_features,)
    slopes = {p.negative_slope if isinstance(p, nn.LeakyReLU) else 0.0 for p in parts if _bends(p)}
    if not all(0.0 <= slope < 1.0 for slope in slopes):
        raise InputError("module", "has a LeakyReLU of a slope outside [0, 1)", "give another")
    levels = Levels((1, *shape), slopes.pop() if len(slopes) == 1 else 0.0, most)
    value = levels.input
    for part in parts:
        read = READ.get(type(part))
        if read is None:
            raise InputError("module", f"has a {type(part).__name__}", f"known are {_known()}")
        value = read(part, value, levels)
    return levels.network(value)


def filled(module: nn.Module, tensors: Mapping[str, Tensor], source: str) -> nn.Module:
    """A copy of the Sequential with these weights, by name or else in their order."""
    _parts(module)
    twin = copy.deepcopy(module)
    given = {n.removeprefix(PARALLEL): t for n, t in tensors.items() if _is_weight(n)}
    wanted = [name for name in twin.state_dict() if _is_weight(name)]
    if set(wanted) != set(given):  # a class that names its layers, in the order it made them
        given = dict(zip(wanted, given.values(), strict=False)) if len(wanted) == len(given) else {}
    shapes = {name: tuple(tensor.shape) for name, tensor in twin.state_dict().items()}
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


def _bends(part: nn.Module) -> bool:
    return isinstance(part, nn.ReLU | nn.LeakyReLU | nn.MaxPool2d)


def _numbers(tensor: Tensor | None, otherwise: float = 0.0) -> ndarray:
    return np.array(otherwise) if tensor is None else tensor.detach().cpu().double().numpy()


def _linear(part: Any, value: Affine, levels: Levels) -> Affine:
    return matrix_product(value, _numbers(part.weight).T).plus(_numbers(part.bias))


def _convolution(part: Any, value: Affine, levels: Levels) -> Affine:
    if part.padding_mode != "zeros":
        raise InputError("module", f"has a Conv2d padded by {part.padding_mode}", "pad with zeros")
    left, right, top, bottom = part._reversed_padding_repeated_twice
    pads = (top, left, bottom, right)
    windows = Windows(part.kernel_size, part.stride, pads, part.dilation)
    return windows.convolved(value, _numbers(part.weight), _numbers(part.bias), part.groups)


def _normalised(part: Any, value: Affine, levels: Levels) -> Affine:
    if part.running_mean is None:
        remedy = "train it with track_running_stats"
        raise InputError("module", "has a BatchNorm without running statistics", remedy)
    scale = _numbers(part.weight, 1.0) / np.sqrt(_numbers(part.running_var) + part.eps)
    shift = _numbers(part.bias) - scale * _numbers(part.running_mean)
    tail = (1,) * (len(value.shape) - 2)
    return value.scaled(scale.reshape(-1, *tail)).plus(shift.reshape(-1, *tail))


def _pooled(part: Any, value: Affine, levels: Levels) -> Affine:
    kernel, strides, pads = (_pair(v) for v in (part.kernel_size, part.stride, part.padding))
    if part.ceil_mode or _pair(getattr(part, "dilation", 1)) != (1, 1):
        remedy = "use neither"
        raise InputError("module", "has a pooling with ceil_mode or dilation", remedy)
    windows = Windows(kernel, strides, (*pads, *pads))
    if isinstance(part, nn.MaxPool2d):
        return windows.largest(levels, value)
    if part.divisor_override:
        return windows.averaged(value).scaled(math.prod(kernel) / part.divisor_override)
    return windows.averaged(value, part.count_include_pad)


def _adaptive(part: Any, value: Affine, levels: Levels) -> Affine:
    size = value.shape[2:]
    wanted = tuple(s if w is None else w for s, w in zip(size, _pair(part.output_size), strict=True))
    if any(s % w for s, w in zip(size, wanted, strict=True)):
        problem = f"has an AdaptiveAvgPool2d of {wanted} on images of {size}"
        raise InputError("module", problem, "use sizes that divide")
    kernel = (size[0] // wanted[0], size[1] // wanted[1])
    return Windows(kernel, kernel).averaged(value)


def _pair(value: Any) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else (value[0], value[1])


def _padded(part: Any, value: Affine, levels: Levels) -> Affine:
    left, right, top, bottom = part.padding
    wide = [(0, 0)] * (len(value.shape) - 2) + [(top, bottom), (left, right)]
    return value.taken(np.pad(value.places, wide, constant_values=-1))


def _scaled(part: Any, value: Affine, levels: Levels) -> Affine:
    return value.plus(-_numbers(part.mean)).scaled(1.0 / _numbers(part.deviation))


def _flat(part: Any, value: Affine, levels: Levels) -> Affine:
    if part.start_dim == 0:
        raise InputError("module", "has a Flatten from axis 0", "keep the axis of images")
    start, end = part.start_dim, part.end_dim % len(value.shape)
    shape = (*value.shape[:start], -1, *value.shape[end + 1 :])
    return value.taken(value.places.reshape(shape)) if start <= end else value


READ: dict[type[nn.Module], Callable[[Any, Affine, Levels], Affine]] = {
    nn.Linear: _linear,
    nn.Conv2d: _convolution,
    nn.ReLU: lambda part, value, levels: levels.rectified(value),
    nn.LeakyReLU: lambda part, value, levels: levels.rectified(value, part.negative_slope),
    nn.Flatten: _flat,
    nn.BatchNorm1d: _normalised,
    nn.BatchNorm2d: _normalised,
    nn.AvgPool2d: _pooled,
    nn.MaxPool2d: _pooled,
    nn.AdaptiveAvgPool2d: _adaptive,
    nn.ZeroPad2d: _padded,
    nn.Identity: lambda part, value, levels: value,
    nn.Dropout: lambda part, value, levels: value,
    Normalise: _scaled,
}


def _known() -> str:
    return ", ".join(kind.__name__ for kind in READ)
