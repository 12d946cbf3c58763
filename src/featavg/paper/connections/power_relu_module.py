"""Min and Vidal's network for images (torch): one hidden layer of normalised powers of ReLU."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from featavg.errors import InputError

# Of |x - c|: an image that is the mean itself has no direction, and its features are zero.
TINY = 1e-12


class PowerReLUNet(nn.Module):
    r"""f(x) = A phi(x) + a with phi_j = |w_j| |x - c| relu(cos(w_j, x - c))^p, in pixels.

    That is relu(<w_j, x - c>)^p / (|w_j| |x - c|)^(p-1): of degree one in the weights and in the
    image, whatever p is; p = 1 is an ordinary ReLU. The authors' public code divides by the image's
    norm too.

    Args:
        centre: c, the mean training image.
        outputs: classes.
        width: hidden neurons.
        p: the power.

    >>> PowerReLUNet(torch.zeros(4), 10, 5, 4.0)(torch.ones(2, 1, 2, 2)).shape
    torch.Size([2, 10])
    """

    centre: Tensor

    def __init__(self, centre: Tensor, outputs: int, width: int, p: float) -> None:
        super().__init__()
        if not p >= 1:
            raise InputError("p", f"is {p}", "give a power of 1 or more")
        self.p = p
        self.register_buffer("centre", centre.flatten())
        self.weights = nn.Parameter(torch.empty(width, centre.numel()))
        nn.init.kaiming_uniform_(self.weights)
        self.linear = nn.Linear(width, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """The logits of a batch of images."""
        moved = torch.flatten(x, 1) - self.centre
        active = functional.relu(moved @ self.weights.T)
        if self.p > 1:
            # As a ratio times a power of at most 1: nothing overflows.
            size = moved.norm(dim=1, keepdim=True) * self.weights.norm(dim=1) + TINY
            active = active * (active / size) ** (self.p - 1)
        out: Tensor = self.linear(active)
        return out
