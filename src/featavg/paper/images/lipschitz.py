"""Networks whose every layer is 1-Lipschitz in l2 (torch)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import parametrize

from featavg.nets.torch.image_nets import Normalise

# Power iterations when a layer is first seen, per step of training after that, and at its end.
FIRST, PER_STEP, SETTLED = 30, 1, 200


def lipschitz(net: nn.Module, shape: tuple[int, int, int], scale: float = 10.0) -> nn.Module:
    r"""Divide every convolution and linear layer of `net` by its operator norm.

    Batch norm becomes the identity and pixels are no longer divided by their deviation, since both
    stretch distances; ReLU, and pooling without overlap, do not. The norm of a convolution is that of
    the linear map on images of the size that it sees, by power iteration: a lower bound that has
    converged once `settle` was called after training.

    Args:
        net: changed in place, and returned.
        shape: of an image, channels first.
        scale: the norm of the last layer: cross-entropy is never content with margins below 1.

    >>> _ = torch.manual_seed(0)
    >>> net = nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.Flatten(), nn.Linear(32, 2))
    >>> last = settle(lipschitz(net, (1, 4, 4), scale=1.0))[-1]
    >>> round(float(torch.linalg.matrix_norm(last.weight.detach(), 2)), 2)
    1.0
    """
    for parent in net.modules():
        for name, child in parent.named_children():
            if isinstance(child, nn.BatchNorm2d):
                setattr(parent, name, nn.Identity())
            elif isinstance(child, Normalise):
                child.deviation.fill_(1.0)
    sizes = _input_sizes(net, shape)
    for layer, size in sizes:
        norm = scale if layer is sizes[-1][0] else 1.0
        parametrize.register_parametrization(layer, "weight", _FixedNorm(layer, size, norm))
    return net


def settle(net: nn.Module) -> nn.Module:
    """Let the power iterations of every layer converge: one per step of training lags behind."""
    for layer in net.modules():
        if parametrize.is_parametrized(layer, "weight"):
            fixed = layer.parametrizations["weight"]  # type: ignore[index]
            fixed[0].iterate(fixed.original.detach(), SETTLED)  # type: ignore[union-attr]
    return net


def _input_sizes(net: nn.Module, shape: tuple[int, int, int]) -> list[tuple[nn.Module, torch.Size]]:
    """Every convolution and linear layer with the shape of what it sees."""
    sizes: list[tuple[nn.Module, torch.Size]] = []

    def note(layer: nn.Module, given: tuple[Tensor, ...], _: object) -> None:
        sizes.append((layer, given[0].shape[1:]))

    layers = [m for m in net.modules() if isinstance(m, nn.Conv2d | nn.Linear)]
    hooks = [layer.register_forward_hook(note) for layer in layers]
    training = net.training
    with torch.no_grad():
        net.eval()(torch.zeros(1, *shape))
    net.train(training)
    for hook in hooks:
        hook.remove()
    return sizes


class _FixedNorm(nn.Module):
    """`norm` * W / |W|, |W| tracked by power iteration from step to step."""

    u: Tensor

    def __init__(self, layer: nn.Module, size: torch.Size, norm: float) -> None:
        super().__init__()
        self._norm = norm
        self._conv = isinstance(layer, nn.Conv2d)
        self._padding = layer.padding if isinstance(layer, nn.Conv2d) else 0
        generator = torch.Generator().manual_seed(0)
        self.register_buffer("u", torch.randn(1, *size, generator=generator))
        weight: Tensor = layer.weight  # type: ignore[assignment]
        self.iterate(weight.detach(), FIRST)

    def forward(self, weight: Tensor) -> Tensor:
        """The weight at its norm; gradients flow through the norm as well."""
        if self.training:
            self.iterate(weight.detach(), PER_STEP)
        return self._norm * weight / self._map(weight, self.u).norm()

    def iterate(self, weight: Tensor, count: int) -> None:
        """So many power iterations on the vector that is tracked."""
        with torch.no_grad():
            for _ in range(count):
                back = self._transposed(weight, self._map(weight, self.u))
                self.u.copy_(back / back.norm().clamp_min(1e-12))

    def _map(self, weight: Tensor, x: Tensor) -> Tensor:
        if self._conv:
            return functional.conv2d(x, weight, padding=self._padding)
        return functional.linear(x, weight)

    def _transposed(self, weight: Tensor, y: Tensor) -> Tensor:
        if self._conv:
            return functional.conv_transpose2d(y, weight, padding=self._padding)  # type: ignore[arg-type]
        return y @ weight
