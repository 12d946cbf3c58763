"""The gradients of single samples, kept in factors: their inner products and steps along them.

A sample's gradient has 3.2 million entries, but in a full layer it is an outer product (slopes times
activations), so that inner products of a thousand samples are a few products of small matrices:
<g_i, g_j> = sum over layers of <slopes_i, slopes_j> <below_i, below_j>. A convolution's is small enough
to be kept as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from jaxtyping import Float
from numpy import ndarray

from featavg.paper.margins.network.epoch import ImageTensors, scaled_loss
from featavg.paper.margins.network.network_pass import Params, forward, unpool

if TYPE_CHECKING:
    import torch

_CHUNK = 100


class SampleGradients(NamedTuple):
    """d log l_i / d theta for some samples i, with log l_i; a column of ones where there is a bias."""

    log_losses: torch.Tensor
    slopes4: torch.Tensor
    below4: torch.Tensor
    slopes3: torch.Tensor
    below3: torch.Tensor
    convolution2: torch.Tensor
    convolution1: torch.Tensor


def sample_gradients(params: Params, data: ImageTensors, rows: torch.Tensor) -> SampleGradients:
    """The gradients of log l_i at `params`, for the samples `rows`."""
    import torch

    with torch.no_grad():
        starts = range(0, len(rows), _CHUNK)
        chunks = [_of_chunk(params, *data.rows(rows[i : i + _CHUNK])) for i in starts]
        return SampleGradients(*(torch.cat(parts) for parts in zip(*chunks, strict=True)))


def joined(first: SampleGradients, second: SampleGradients) -> SampleGradients:
    """Both, one after the other."""
    import torch

    return SampleGradients(*(torch.cat(pair) for pair in zip(first, second, strict=True)))


def inner_products(first: SampleGradients, second: SampleGradients) -> Float[ndarray, "n m"]:
    """<g_i, g_j> for i in `first` and j in `second`."""
    total = (first.slopes4 @ second.slopes4.t()) * (first.below4 @ second.below4.t())
    total += (first.slopes3 @ second.slopes3.t()) * (first.below3 @ second.below3.t())
    total += first.convolution2 @ second.convolution2.t()
    total += first.convolution1 @ second.convolution1.t()
    products: ndarray = total.double().numpy()
    return products


def moved_along(
    params: Params, gradients: SampleGradients, lengths: Float[ndarray, " n"]
) -> Params:
    """theta - sum_i lengths_i g_i, as new tensors."""
    import torch

    weights = torch.from_numpy(lengths).float()
    full4 = (gradients.slopes4 * weights.unsqueeze(1)).t() @ gradients.below4
    full3 = (gradients.slopes3 * weights.unsqueeze(1)).t() @ gradients.below3
    convolutions = (
        (weights @ part).reshape(len(params[f"{layer}.weight"]), -1)
        for layer, part in (("conv2", gradients.convolution2), ("conv1", gradients.convolution1))
    )
    moved: Params = {}
    for layer, total in zip(
        ("fc2", "fc1", "conv2", "conv1"), (full4, full3, *convolutions), strict=True
    ):
        weight = params[f"{layer}.weight"]
        size = weight[0].numel()
        moved[f"{layer}.weight"] = weight - total[:, :size].reshape(weight.shape)
        if f"{layer}.bias" in params:
            moved[f"{layer}.bias"] = params[f"{layer}.bias"] - total[:, size]
    return {
        name: p.contiguous(memory_format=torch.channels_last) if p.ndim == 4 else p
        for name, p in ((name, moved[name]) for name in params)
    }


def _of_chunk(params: Params, x: torch.Tensor, y: torch.Tensor) -> SampleGradients:
    import torch

    kept = forward(params, x)
    log_losses = scaled_loss(kept.outputs, y, 0.0).log_losses
    slopes4 = scaled_loss(kept.outputs, y, log_losses).slopes.float()
    slopes3 = (slopes4 @ params["fc2.weight"]).mul_(kept.active3 > 0)
    below = (slopes3 @ params["fc1.weight"]).mul_(kept.active2 > 0)
    side, weight = kept.index2.shape[-1], params["conv2.weight"]
    slopes2 = unpool(below.reshape(len(y), side, side, -1).permute(0, 3, 1, 2), kept.index2)
    pad = weight.shape[-1] // 2
    below = torch.ops.aten.convolution_backward(
        slopes2, kept.active1, weight, None, [1, 1], [pad, pad], [1, 1], False, [0, 0], 1,
        [True, False, False],
    )[0]  # fmt: skip
    slopes1 = unpool(below.mul_(kept.active1 > 0), kept.index1)
    return SampleGradients(
        log_losses,
        slopes4,
        _with_ones(params, "fc2", kept.active3),
        slopes3,
        _with_ones(params, "fc1", kept.active2),
        _convolution(params, "conv2", slopes2, kept.active1),
        _convolution(params, "conv1", slopes1, x),
    )


def _with_ones(params: Mapping[str, torch.Tensor], layer: str, below: torch.Tensor) -> torch.Tensor:
    import torch

    return (
        torch.cat([below, torch.ones_like(below[:, :1])], 1) if f"{layer}.bias" in params else below
    )


def _convolution(
    params: Mapping[str, torch.Tensor], layer: str, slopes: torch.Tensor, below: torch.Tensor
) -> torch.Tensor:
    """The gradient of each sample, output channel by output channel (its bias last)."""
    import torch
    from torch.nn import functional

    side = params[f"{layer}.weight"].shape[-1]
    columns = functional.unfold(below.contiguous(), side, padding=side // 2)
    if f"{layer}.bias" in params:
        columns = torch.cat([columns, torch.ones_like(columns[:, :1])], 1)
    return torch.bmm(slopes.flatten(2), columns.transpose(1, 2)).flatten(1)
