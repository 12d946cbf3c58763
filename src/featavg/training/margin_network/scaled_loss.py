"""Cross-entropy as (log scale, ratio): a loss of 1e-881 is exp(-2028) times a number near one.

The scale of a pass is the training loss before it. Every loss and derivative of the pass is held
relative to that scale, which neither under- nor overflows however small the loss is.

`featavg.training.losses.CrossEntropy` has the same formulas for NumPy arrays in float64 and divides
by the loss of its own batch. Here the outputs are torch tensors in float32, and all batches of a
pass share one scale, the loss of the whole training set: the two cannot be one function without
making torch a dependency of the core.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import torch

# Beyond this log-odds, log(softplus(s)) and s agree to the last bit of a float64.
_FLAT = 40.0


class ScaledLoss(NamedTuple):
    """The losses of some samples, relative to a scale.

    Attributes:
        log_losses: log l_i.
        weights: (1 - p_i) / scale, the size of the derivative by the outputs of sample i.
        slopes: (dl_i/dF) / scale.
    """

    log_losses: torch.Tensor
    weights: torch.Tensor
    slopes: torch.Tensor


def scaled_loss(outputs: torch.Tensor, targets: torch.Tensor, log_scale: float) -> ScaledLoss:
    """Cross-entropy in float64 from float32 outputs.

    With s = log sum_{j != y} exp(F_j - F_y), the loss is softplus(s) and
    1 - p_y = exp(s - softplus(s)).
    """
    import torch

    top, shares = _rivals(outputs, targets)
    total = shares.sum(dim=1)
    s = top + total.log()
    softplus = torch.logaddexp(torch.zeros_like(s), s)
    log_losses = torch.where(s < -_FLAT, s, softplus.log())
    weights = (s - softplus - log_scale).exp()
    slopes = shares * (weights / total).unsqueeze(1)
    slopes.scatter_(1, targets.unsqueeze(1), -weights.unsqueeze(1))
    return ScaledLoss(log_losses, weights, slopes)


def margins(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """q_i = F_y - max_{j != y} F_j, in float64."""
    return -_rivals(outputs, targets)[0]


def _rivals(outputs: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """max_{j != y} F_j - F_y, and exp of every F_j - F_y (none at y) relative to that."""
    gaps = outputs.double()
    gaps = gaps - gaps.gather(1, targets.unsqueeze(1))
    gaps.scatter_(1, targets.unsqueeze(1), -math.inf)
    top = gaps.amax(dim=1)
    return top, (gaps - top.unsqueeze(1)).exp()
