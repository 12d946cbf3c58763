"""The implicit step of gradient descent on the log-loss: the samples' weights are those after it.

Gradient descent with the loss-based rate moves theta by -rate sum_i p_i g_i, with g_i = d log l_i /
d theta and p_i the share of sample i in the loss. Taken before the step, the shares pull at the few
heaviest samples until others are heavier: a step can gain about as much as separates their
log-losses, however small the loss has become. Taken after it, p = softmax(log l - rate K p) with
K_ij = <g_i, g_j>, the step is backward Euler on the same flow and may be as long as the network is
nearly linear along it. In a linear model the step is

    argmin over v of log sum_i exp(log l_i + <g_i, v>) + |v|^2 / (2 rate),

which never raises the loss.

Gradients of single samples are kept in factors. A sample's gradient has 3.2 million entries, but in
a full layer it is an outer product (slopes times activations), so that inner products of a thousand
samples are a few products of small matrices: <g_i, g_j> = sum over layers of
<slopes_i, slopes_j> <below_i, below_j>. A convolution's is small enough to be kept as it is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.paper.margins.network.epoch import ImageTensors, scaled_loss
from featavg.paper.margins.network.passes import Params, forward, unpool

if TYPE_CHECKING:
    import torch

_CHUNK = 100

# Shares below this change no step in float32.
_NOTHING = 1e-12
_MOST_STEPS = 60
# How the temperature falls, and how well the smoothed problems are solved: found by trying random
# problems up to rate K = 4e8.
_COOLING, _LOOSE = 3.0, 1e-4


def shares_after(
    log_losses: Float[ndarray, " n"], products: Float[ndarray, "n n"], rate: float, tolerance: float = 1e-6
) -> Float[ndarray, " n"]:
    """The shares p of the samples in the loss after the step: p = softmax(log_losses - rate K p).

    K is `products`, the inner products of the samples' gradients. Newton's method on the convex
    function log sum exp(log_losses - rate K a) + rate/2 <a, K a> of a, whose minimum is a = p, in
    the coordinates that matter. Where rate K is large that has corners nearly everywhere, so the
    function is first smoothed, log_losses and rate divided by a temperature that falls to one.

    >>> shares_after(np.array([0.0, -1.0]), np.diag([4.0, 1.0]), 0.0).round(3)
    array([0.731, 0.269])
    >>> shares_after(np.array([0.0, -1.0]), np.diag([4.0, 1.0]), 1e9).round(3)
    array([0.2, 0.8])
    """
    spread = float(np.ptp(log_losses))
    temperature = max(1.0, rate * float(products.diagonal().max()), spread)
    shares = np.full(len(log_losses), 1.0 / len(log_losses))
    while temperature > 1.0:
        shares = _minimum(log_losses / temperature, products, rate / temperature, shares, _LOOSE)
        temperature /= _COOLING
    return _minimum(log_losses, products, rate, shares, tolerance)


def _minimum(
    log_losses: Float[ndarray, " n"],
    products: Float[ndarray, "n n"],
    rate: float,
    at: Float[ndarray, " n"],
    tolerance: float,
) -> Float[ndarray, " n"]:
    products_at = products @ at
    value, shares = _value(log_losses, at, products_at, rate)
    for _ in range(_MOST_STEPS):
        rest = at - shares
        if np.abs(rest).sum() <= tolerance:
            break
        direction = _newton(products, shares, rest, rate)
        along = products @ direction
        slope, length = rate * float(rest @ along), 1.0
        while True:
            tried, moved = at + length * direction, products_at + length * along
            new, after = _value(log_losses, tried, moved, rate)
            if new <= value + 1e-4 * length * slope or length < 1e-9:
                break
            length /= 2
        at, products_at, value, shares = tried, moved, new, after
    return shares


def _newton(
    products: Float[ndarray, "n n"], shares: Float[ndarray, " n"], rest: Float[ndarray, " n"], rate: float
) -> Float[ndarray, " n"]:
    """d with (I + rate (diag p - p p^T) K) d = -rest; a row with p_i = 0 is solved already."""
    inside = shares > _NOTHING
    p, direction = shares[inside], -rest
    outside = products[np.ix_(inside, ~inside)] @ direction[~inside]
    right = direction[inside] - rate * p * (outside - p @ outside)
    block = products[np.ix_(inside, inside)]
    matrix = rate * p[:, None] * (block - p @ block)
    matrix[np.diag_indices(len(p))] += 1.0
    direction[inside] = np.linalg.solve(matrix, right)
    return direction


def _shares(log_losses: Float[ndarray, " n"]) -> tuple[Float[ndarray, " n"], float]:
    """softmax and log sum exp."""
    top = float(log_losses.max())
    weights = np.exp(log_losses - top)
    total = float(weights.sum())
    return weights / total, top + math.log(total)


def _value(
    log_losses: Float[ndarray, " n"], at: Float[ndarray, " n"], products_at: Float[ndarray, " n"], rate: float
) -> tuple[float, Float[ndarray, " n"]]:
    shares, log_sum = _shares(log_losses - rate * products_at)
    return log_sum + 0.5 * rate * float(at @ products_at), shares


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


def moved_along(params: Params, gradients: SampleGradients, lengths: Float[ndarray, " n"]) -> Params:
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
    for layer, total in zip(("fc2", "fc1", "conv2", "conv1"), (full4, full3, *convolutions), strict=True):
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
        slopes2, kept.active1, weight, None, [1, 1], [pad, pad], [1, 1], False, [0, 0], 1, [True, False, False]
    )[0]
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

    return torch.cat([below, torch.ones_like(below[:, :1])], 1) if f"{layer}.bias" in params else below


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
