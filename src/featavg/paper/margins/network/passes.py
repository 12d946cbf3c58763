"""Forward and backward passes of the margin network: in closed form, and as a module for attacks.

Once the data is fitted, the loss of a batch sits in a few samples: a sample whose weight is 1e-9 of
the mean adds nothing to a float32 sum. The backward pass therefore runs on the rows whose weights
reach the round-off of the batch and on no others, which changes a step by less than float32 does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from numpy import ndarray

if TYPE_CHECKING:
    import torch

# What may be left out of a batch, relative to an average batch: the round-off of float32.
ROUND_OFF = 1e-7
_PIECE = 50

Params = dict[str, "torch.Tensor"]


def outputs(params: Mapping[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    """F(x) for images n x 1 x s x s; differentiable in both, for attacks and as the slow twin.

    Pooling comes before ReLU: the two commute, and ReLU then has a quarter of the work.
    """
    from torch.nn import functional

    h = functional.conv2d(x, params["conv1.weight"], params.get("conv1.bias"), padding=2)
    h = functional.relu(functional.max_pool2d(h, 2))
    h = functional.conv2d(h, params["conv2.weight"], params.get("conv2.bias"), padding=1)
    h = functional.relu(functional.max_pool2d(h, 2))
    h = h.permute(0, 2, 3, 1).flatten(1)  # channels last, the order in which `forward` keeps them
    h = functional.relu(functional.linear(h, params["fc1.weight"], params.get("fc1.bias")))
    return functional.linear(h, params["fc2.weight"], params.get("fc2.bias"))


def module_of(params: Mapping[str, ndarray]) -> torch.nn.Module:
    """The trained network as a module, for attacks and audits."""
    import torch

    class Trained(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for name, array in params.items():
                self.register_buffer(name.replace(".", "_"), torch.tensor(array))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            weights = {name: getattr(self, name.replace(".", "_")) for name in params}
            return outputs(weights, x)

    return Trained().eval()


class PassActivations(NamedTuple):
    """What a forward pass keeps for the backward pass; images are channels last."""

    x: torch.Tensor
    index1: torch.Tensor
    active1: torch.Tensor
    index2: torch.Tensor
    active2: torch.Tensor  # n x (s/4 * s/4 * channels)
    active3: torch.Tensor
    outputs: torch.Tensor


def forward(params: Mapping[str, torch.Tensor], x: torch.Tensor) -> PassActivations:
    """One forward pass without autograd.

    The images must be channels last, in fact and not only by name (one channel leaves that open):
    pooling is fifteen times faster in that layout.
    """
    import torch
    from torch.nn import functional

    z1 = functional.conv2d(x, params["conv1.weight"], params.get("conv1.bias"), padding=2)
    pooled, index1 = torch.ops.aten.max_pool2d_with_indices(z1, [2, 2], [2, 2])
    active1 = pooled.relu_()
    z2 = functional.conv2d(active1, params["conv2.weight"], params.get("conv2.bias"), padding=1)
    pooled, index2 = torch.ops.aten.max_pool2d_with_indices(z2, [2, 2], [2, 2])
    active2 = pooled.relu_().permute(0, 2, 3, 1).reshape(len(x), -1)
    active3 = functional.linear(active2, params["fc1.weight"], params.get("fc1.bias")).relu_()
    out = functional.linear(active3, params["fc2.weight"], params.get("fc2.bias"))
    return PassActivations(x, index1, active1, index2, active2, active3, out)


def outputs_of(params: Mapping[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    """The outputs of `forward` with nothing kept: a look takes a third less time.

    Without indices, pooling is two maxima of slices, over pieces that stay in the cache.
    """
    import torch
    from torch.nn import functional

    below = []
    for start in range(0, len(x), _PIECE):
        piece = x[start : start + _PIECE]
        h = functional.conv2d(piece, params["conv1.weight"], params.get("conv1.bias"), padding=2)
        h = functional.conv2d(_pooled(h).relu_(), params["conv2.weight"], params.get("conv2.bias"), padding=1)
        below.append(_pooled(h).relu_().permute(0, 2, 3, 1).reshape(len(piece), -1))
    h = functional.linear(torch.cat(below), params["fc1.weight"], params.get("fc1.bias")).relu_()
    return functional.linear(h, params["fc2.weight"], params.get("fc2.bias"))


def _pooled(z: torch.Tensor) -> torch.Tensor:
    import torch

    z = z.permute(0, 2, 3, 1)
    z = torch.maximum(z[:, ::2], z[:, 1::2])
    return torch.maximum(z[:, :, ::2], z[:, :, 1::2]).permute(0, 3, 1, 2)


def that_matter(weights: torch.Tensor, batch: int) -> torch.Tensor | None:
    """The rows to keep: the lightest are left out while together they are round-off. None: all."""
    ordered, order = weights.sort()
    light = int((ordered.cumsum(0) <= ROUND_OFF * batch).sum())
    return None if light == 0 else order[light:].sort().values


def rows_of(kept: PassActivations, rows: torch.Tensor | None) -> PassActivations:
    """Some rows of all activations."""
    if rows is None:
        return kept
    return PassActivations(*(_select(part, rows) for part in kept))


def _select(part: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    if part.ndim < 4:
        return part.index_select(0, rows)
    # index_select answers in the plain layout; channels last is what the convolutions are fast in.
    return part.permute(0, 2, 3, 1).index_select(0, rows).permute(0, 3, 1, 2)


def descend(params: Params, kept: PassActivations, slopes: torch.Tensor, rate: float) -> None:
    """params -= rate * gradient, given dL/dF; the layers' gradients are applied as they arise.

    A layer is updated only after its old weights have passed the slopes on to the layer below.
    """
    d = slopes.float()
    below = (d @ params["fc2.weight"]).mul_(kept.active3 > 0)
    _full(params, "fc2", d, kept.active3, rate)
    d, below = below, (below @ params["fc1.weight"]).mul_(kept.active2 > 0)
    _full(params, "fc1", d, kept.active2, rate)
    side = kept.index2.shape[-1]
    d = unpool(below.reshape(len(d), side, side, -1).permute(0, 3, 1, 2), kept.index2)
    d = _convolution(params, "conv2", d, kept.active1, rate, pass_on=True)
    d = unpool(d.mul_(kept.active1 > 0), kept.index1)
    _convolution(params, "conv1", d, kept.x, rate, pass_on=False)


def _full(params: Params, layer: str, d: torch.Tensor, below: torch.Tensor, rate: float) -> None:
    # addmm_ adds the outer products straight into the weights: no gradient array of 13 MB per step.
    params[f"{layer}.weight"].addmm_(d.t(), below, alpha=-rate)
    if f"{layer}.bias" in params:
        params[f"{layer}.bias"].sub_(d.sum(0), alpha=rate)


def unpool(d: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """Each slope to the place of the maximum that it came from."""
    import torch

    n, channels, side, _ = d.shape
    # The operator reads only the shape and the strides of its second argument.
    like = torch.empty((n, channels, 2 * side, 2 * side), memory_format=torch.channels_last, dtype=d.dtype)
    spread: torch.Tensor = torch.ops.aten.max_pool2d_with_indices_backward(
        d, like, [2, 2], [2, 2], [0, 0], [1, 1], False, index
    )
    return spread


def _convolution(
    params: Params, layer: str, d: torch.Tensor, below: torch.Tensor, rate: float, *, pass_on: bool
) -> torch.Tensor:
    import torch

    below_d: torch.Tensor
    weight, bias = params[f"{layer}.weight"], params.get(f"{layer}.bias")
    pad = weight.shape[-1] // 2
    sizes = None if bias is None else [len(bias)]
    mask = [pass_on, True, bias is not None]
    below_d, weight_d, bias_d = torch.ops.aten.convolution_backward(
        d, below, weight, sizes, [1, 1], [pad, pad], [1, 1], False, [0, 0], 1, mask
    )
    weight.sub_(weight_d, alpha=rate)
    if bias is not None:
        bias.sub_(bias_d, alpha=rate)
    return below_d
