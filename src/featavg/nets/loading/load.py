"""The public call: a published network, from a file or a torch module."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.boundary.public import public
from featavg.errors import InputError, torch_needed
from featavg.nets.deep import Deep


@public
def load_network(
    source: Any, module: Any = None, *, shape: Sequence[int] | None = None, mean: Any = 0.0, std: Any = 1.0
) -> Deep:
    """A piecewise linear network of others as the `Deep` that `radii`, `certify` and `audit` take.

    Linear and convolutional layers, ReLU and leaky ReLU, batch norm, average and max-pooling, constant
    scaling and, in ONNX, residual additions become plain layers with the same outputs on flat inputs
    (channel first). Convolutions are unrolled, and what a residual addition adds passes the layers
    between through neurons of its own, so the network is larger than the file: print it to see how
    large. Anything else is refused by name. Files are read, never run.

    Args:
        source: an ONNX file (needs the extra `onnx`), a file of torch tensors or safetensors, a mapping
            of tensors, or a `torch.nn.Sequential`.
        module: for tensors, the `torch.nn.Sequential` that they are the weights of, by name or else in
            their order. Without it they are linear layers with ReLUs between them.
        shape: of one input, such as (1, 28, 28): needed for a Sequential that begins with a
            convolution.
        mean: subtracted from the inputs first, one number or one for each channel.
        std: what they are divided by then; radii are in the units before.

    >>> import torch
    >>> import featavg as fa
    >>> layers = torch.nn.Conv2d(1, 2, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(18, 3)
    >>> fa.load_network(torch.nn.Sequential(*layers), shape=(1, 5, 5))
    Deep(25 to 18 to 3, ReLU())
    """
    net = _loaded(source, module, None if shape is None else tuple(shape))
    shape = (net.dimension,) if shape is None else shape
    if net.dimension != int(np.prod(shape)):
        problem = f"is {tuple(shape)} for a network of {net.dimension} inputs"
        raise InputError("shape", problem, "give that of one input")
    return behind_normalisation(net, mean, std, tuple(shape))


def _loaded(source: Any, module: Any, shape: tuple[int, ...] | None) -> Deep:
    if not isinstance(source, str | os.PathLike):
        torch_needed("load_network")
        from featavg.nets.loading.sequential import sequential_network

        if isinstance(source, Mapping):
            return _tensors(source, module, shape, "source")
        if not hasattr(source, "forward"):
            remedy = "give a file, a mapping of tensors or a torch.nn.Sequential"
            raise InputError("source", f"is a {type(source).__name__}", remedy)
        return sequential_network(source, shape)
    path = Path(source)
    if path.suffix == ".onnx":
        from featavg.nets.loading.onnx_graph import onnx_network

        if module is not None:
            raise InputError("module", "is given for an ONNX file", "leave it out")
        return onnx_network(path)
    torch_needed("load_network")
    from featavg.nets.torch.image_nets import read_tensors

    return _tensors(read_tensors(path), module, shape, str(path))


def _tensors(tensors: Mapping[str, Any], module: Any, shape: tuple[int, ...] | None, source: str) -> Deep:
    """The weights of a Sequential, or linear layers with ReLUs between them."""
    from torch import Tensor

    from featavg.nets.loading.sequential import filled, sequential_network

    if not tensors or not all(isinstance(one, Tensor) for one in tensors.values()):
        raise InputError(source, "holds no table of tensors", "give a state dict")
    if module is not None:
        return sequential_network(filled(module, tensors, source), shape)
    weights: list[ndarray] = []
    biases: list[ndarray | None] = []
    for name, tensor in tensors.items():
        array = tensor.detach().cpu().double().numpy()
        if array.ndim == 2:
            weights.append(array)
            biases.append(None)
        elif array.ndim == 1 and weights and biases[-1] is None and name.endswith("bias"):
            biases[-1] = array
        else:
            problem = f"holds {name} of shape {array.shape}, which says too little of its layer"
            raise InputError(source, problem, "give the torch.nn.Sequential as `module`")
    return Deep(tuple(weights), tuple(biases))


def behind_normalisation(net: Deep, mean: Any, std: Any, shape: tuple[int, ...]) -> Deep:
    """The network of x where `net` is that of (x - mean) / std."""
    shift, scale = normalisation(mean, std, shape)
    first = net.weights[0] / scale
    biases = list(net.biases or (None,) * net.depth)
    biases[0] = (0.0 if biases[0] is None else biases[0]) - first @ shift
    return Deep((first, *net.weights[1:]), tuple(biases), net.activation, net.residual)


def normalisation(mean: Any, std: Any, shape: tuple[int, ...]) -> tuple[Float[ndarray, " d"], Float[ndarray, " d"]]:
    """What is subtracted from each coordinate and what it is divided by."""
    flat = []
    for name, value in (("mean", mean), ("std", std)):
        array = np.asarray(value, dtype=float)
        array = array[:, None, None] if array.ndim == 1 and len(shape) == 3 else array
        if not np.all(np.isfinite(array)):
            raise InputError(name, "holds a number that is not finite", "give finite numbers")
        try:
            flat.append(np.broadcast_to(array, shape).reshape(-1))
        except ValueError as error:
            problem = f"has {array.size} numbers for inputs of shape {tuple(shape)}"
            raise InputError(name, problem, "give one number, or one for each channel") from error
    if not np.all(flat[1] > 0):
        raise InputError("std", "is not positive", "give what the inputs are divided by")
    return flat[0], flat[1]
