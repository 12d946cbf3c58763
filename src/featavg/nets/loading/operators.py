"""The operators of piecewise linear networks, by their names in ONNX: one table for every kind of source."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Int
from numpy import ndarray
from numpy.lib.stride_tricks import sliding_window_view
from scipy.sparse import block_diag, eye_array, kron

from featavg.nets.loading.affine import MOST_ENTRIES, SMALLER, Affine, Layers, check_size, joined, refused

About = dict[str, Any]
LEAK = 0.01  # of a LeakyRelu that names none


def _turned(value: Any) -> Any:
    return value.taken(value.places.swapaxes(-1, -2)) if isinstance(value, Affine) else value.swapaxes(-1, -2)


def _one_constant(kind: str, *inputs: Any) -> None:
    if all(isinstance(one, Affine) for one in inputs):
        raise refused(f"has a {kind} of two tensors, which is not piecewise linear", "multiply by constants only")


def _product(net: Layers, about: About, left: Any, right: Any) -> Affine:
    _one_constant("MatMul", left, right)
    if not isinstance(left, Affine):  # w x = (x^T w^T)^T
        return _turned(_product(net, about, _turned(right), _turned(left)))
    if right.ndim != 2 or left.shape[-1] != len(right):
        raise refused(f"multiplies tensors of shapes {left.shape} and {right.shape}")
    each = kron(eye_array(math.prod(left.shape[:-1])), np.asarray(right, dtype=float).T, "csr")
    return left.times(each, (*left.shape[:-1], right.shape[1]))


def _gemm(net: Layers, about: About, a: Any, b: Any, c: Any = 0.0) -> Affine:
    product = _product(net, about, _turned(a) if about.get("transA") else a, _turned(b) if about.get("transB") else b)
    beta = about.get("beta", 1.0)
    return product.scaled(about.get("alpha", 1.0)).plus(c.scaled(beta) if isinstance(c, Affine) else beta * c)


def _sum(net: Layers, about: About, a: Any, b: Any) -> Affine:
    return a.plus(b) if isinstance(a, Affine) else b.plus(a)


def _difference(net: Layers, about: About, a: Any, b: Any) -> Affine:
    return _sum(net, about, a, b.scaled(-1.0) if isinstance(b, Affine) else -b)


def _scaled(net: Layers, about: About, a: Any, b: Any) -> Affine:
    _one_constant("Mul", a, b)
    return a.scaled(b) if isinstance(a, Affine) else b.scaled(a)


def _divided(net: Layers, about: About, a: Any, b: Any) -> Affine:
    if isinstance(b, Affine):
        raise refused("divides by a tensor", "divide by constants only")
    return a.scaled(1.0 / np.asarray(b, dtype=float))


def _patches(about: About, kernel: Sequence[int], x: Affine) -> Int[ndarray, "c oh ow k"]:
    """The numbers of the pixels in every window, -1 for padding."""
    mode = about.get("auto_pad", b"NOTSET")
    if mode not in (b"NOTSET", b"VALID", "zeros") or about.get("ceil_mode"):
        problem = f"has windows with ceil_mode, or padded as {mode if isinstance(mode, str) else mode.decode()}"
        raise refused(problem, "export it without")
    if len(kernel) != 2 or len(x.shape) != 4:
        problem = (
            f"has a layer of images, with windows of {len(kernel)} axes, that is given a tensor of shape {x.shape}"
        )
        raise refused(problem, "give shape=(channels, height, width)")
    top, left, bottom, right = about.get("pads", (0, 0, 0, 0))
    padded = x.shape[1], x.shape[2] + top + bottom, x.shape[3] + left + right
    check_size(padded)
    across = about.get("dilations", (1, 1))
    spans = [dilation * (size - 1) + 1 for dilation, size in zip(across, kernel, strict=True)]
    if spans[0] > padded[1] or spans[1] > padded[2]:
        raise refused(f"has windows of {tuple(kernel)} in images of {x.shape[2:]}", "check the shape of its input")
    pixels = np.pad(x.places[0], ((0, 0), (top, bottom), (left, right)), constant_values=-1)
    (down, along), (high, wide) = about.get("strides", (1, 1)), across
    windows = sliding_window_view(pixels, spans, axis=(1, 2))[:, ::down, ::along, ::high, ::wide]
    check_size(windows.shape)
    return windows.reshape(*windows.shape[:3], -1)


def _convolution(net: Layers, about: About, x: Any, w: Any, b: Any = 0.0) -> Affine:
    if not isinstance(x, Affine) or isinstance(w, Affine):
        raise refused("has a Conv with computed weights", "keep them constant")
    groups, (out, inside) = about.get("group", 1), w.shape[:2]
    patches = _patches(about, w.shape[2:], x)
    channels, high, wide, size = patches.shape
    if channels != inside * groups or out % groups:
        problem = f"has a convolution of {inside * groups} channels on {channels}"
        raise refused(problem, "check the shape of its input")
    pixels, neurons = high * wide, out * high * wide
    if neurons * inside * size > MOST_ENTRIES:
        problem = f"has a convolution of {neurons} neurons, {neurons * inside * size:.0e} weights unrolled"
        raise refused(problem, SMALLER)
    cells = patches.reshape(groups, inside, pixels, size).swapaxes(1, 2)
    each = np.asarray(w, dtype=float).reshape(groups, out // groups, inside * size)
    product = x.taken(cells).times(
        block_diag([kron(eye_array(pixels), one) for one in each], "csr"), (groups, pixels, out // groups)
    )
    places = product.places.swapaxes(1, 2).reshape(1, out, high, wide)
    return product.taken(places).plus(np.broadcast_to(b, out)[:, None, None])


def _batch_norm(net: Layers, about: About, x: Affine, *rest: ndarray) -> Affine:
    if about.get("training_mode"):
        raise refused("has a BatchNormalization in training mode", "export it after eval()")
    tail = (-1, *(1,) * (len(x.shape) - 2))
    scale, shift, mean, variance = (np.asarray(one, dtype=float).reshape(tail) for one in rest)
    factor = scale / np.sqrt(variance + about.get("epsilon", 1e-5))
    return x.scaled(factor).plus(shift - factor * mean)


def _average(net: Layers, about: About, x: Affine) -> Affine:
    patches = _patches(about, about["kernel_shape"], x)
    shape, size = (1, *patches.shape[:3]), patches.shape[3]
    rows = kron(eye_array(patches.size // size), np.full((1, size), 1.0 / (about.get("divisor") or size)), "csr")
    found = x.taken(patches).times(rows, shape)
    return found if about.get("count_include_pad") else found.scaled(1.0 / np.mean(patches >= 0, axis=3)[None])


def _global_average(net: Layers, about: About, x: Affine) -> Affine:
    return _average(net, {"kernel_shape": x.shape[2:]}, x)


def _largest(net: Layers, about: About, x: Affine) -> Affine:
    """The largest entry of each window, two at a time: max(a, b) = a + relu(b - a)."""
    patches = _patches(about, about["kernel_shape"], x)
    if np.any(patches < 0):
        raise refused("has a max-pooling with padding", "pad before it, or not")
    found = [x.taken(one[None]) for one in np.moveaxis(patches, -1, 0)]
    while len(found) > 1:
        first, second, last = found[: len(found) // 2 * 2 : 2], found[1::2], found[len(found) // 2 * 2 :]
        gaps = joined([b.plus(a.scaled(-1.0)) for a, b in zip(first, second, strict=True)])
        over, *found = net.rectified(gaps, 0.0, first + last)
        for i, places in enumerate(over.places.reshape(len(first), *first[0].shape)):
            found[i] = found[i].plus(over.taken(places))
    return found[0]


def _padded(net: Layers, about: About, x: Affine, *rest: Any) -> Affine:
    widths = np.asarray(about.get("pads", rest[0] if rest else ())).reshape(2, -1).T
    filling = about.get("value", rest[1] if len(rest) > 1 and rest[1] is not None else 0.0)
    zeros = about.get("mode", b"constant") == b"constant" and not np.any(filling)
    if not zeros or len(widths) != len(x.shape) or np.any(widths < 0):
        raise refused("has a Pad of more than zeros around", "pad with zeros")
    check_size((widths.sum(axis=1) + x.shape).tolist())
    return x.taken(np.pad(x.places, widths, constant_values=-1))


OPERATORS: dict[str, Callable[..., Affine]] = {
    "Add": _sum,
    "AveragePool": _average,
    "BatchNormalization": _batch_norm,
    "Conv": _convolution,
    "Div": _divided,
    "Gemm": _gemm,
    "GlobalAveragePool": _global_average,
    "LeakyRelu": lambda net, about, x: net.rectified(x, float(about.get("alpha", LEAK)))[0],
    "MatMul": _product,
    "MaxPool": _largest,
    "Mul": _scaled,
    "Pad": _padded,
    "Relu": lambda net, about, x: net.rectified(x)[0],
    "Sub": _difference,
}
