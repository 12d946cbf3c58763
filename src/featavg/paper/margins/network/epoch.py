"""One attempted pass over the data, and the loss that decides whether it counts.

The loss is cross-entropy as (log scale, ratio): 1e-881 is exp(-2028) times a number near one. The
scale of a pass is the training loss before it. Every loss and derivative of the pass is held
relative to that scale, which neither under- nor overflows however small the loss is.

`featavg.training.losses.CrossEntropy` has the same formulas for NumPy arrays, relative to the loss of its
own batch; here all batches of a pass share the scale of the whole training set.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray

from featavg.paper.margins.network.passes import ROUND_OFF, Params, descend, forward, outputs_of, rows_of, that_matter

if TYPE_CHECKING:
    import torch

# Samples that together weigh this much less than all are left out of a pass: a hundredth of the
# round-off of a float32 sum. The check after the pass sees if they came to matter, and then the pass
# is repeated with every sample.
_LIGHT = 1e-9
# A batch this much above the scale ends the pass at once (as published): it cannot come back.
_TOO_HIGH = 600.0
_CHUNK = 200
# Beyond this log-odds, log(softplus(s)) and s agree to the last bit of a float64.
_FLAT = 40.0


class ImageTensors(NamedTuple):
    """Training images as torch wants them (n x s x s x 1) and their labels."""

    x: torch.Tensor
    y: torch.Tensor

    def rows(self, index: torch.Tensor | slice) -> tuple[torch.Tensor, torch.Tensor]:
        """Some images, channels last, and their labels."""
        return self.x[index].permute(0, 3, 1, 2), self.y[index]


class Measured(NamedTuple):
    """The training set under some parameters."""

    log_losses: Float[ndarray, " n"]
    margins: Float[ndarray, " n"]

    @property
    def log_loss(self) -> float:
        """log of the mean loss."""
        top = float(self.log_losses.max())
        return top + math.log(float(np.exp(self.log_losses - top).mean()))


def light_samples(log_losses: Float[ndarray, " n"], log_scale: float) -> Bool[ndarray, " n"]:
    """Which samples the next pass may leave out: the lightest, while their sum is nothing."""
    order = np.argsort(log_losses, kind="stable")
    weights = np.exp(np.minimum(log_losses[order] - log_scale, 700.0))
    count = int((weights.cumsum() <= _LIGHT * len(weights)).sum())
    light = np.zeros(len(weights), dtype=bool)
    light[order[:count]] = True
    return light


def descend_once(
    params: Params,
    data: ImageTensors,
    order: Int[ndarray, " n"],
    light: ndarray,
    *,
    log_scale: float,
    rate: float,
    batch: int,
    tick: Callable[[float], None] | None = None,
) -> bool:
    """SGD through the data in `order`; False if the loss left all bounds on the way.

    theta <- theta - rate * (1/B sum_i dl_i/dtheta) / scale.
    """
    import torch

    with torch.no_grad():
        for start in range(0, len(order) - batch + 1, batch):
            if tick is not None:
                tick(start / len(order))
            chosen = order[start : start + batch]
            chosen = chosen[~light[chosen]]
            if not len(chosen):
                continue
            x, y = data.rows(torch.from_numpy(chosen))
            kept = forward(params, x)
            loss = scaled_loss(kept.outputs, y, log_scale)
            ratio = float((loss.log_losses - log_scale).exp().sum()) / batch
            if not ratio <= _TOO_HIGH:
                return False
            rows = that_matter(loss.weights, batch)
            slopes = loss.slopes if rows is None else loss.slopes[rows]
            if len(slopes):
                descend(params, rows_of(kept, rows), slopes, rate / batch)
    return True


def measure(
    params: Params, data: ImageTensors, before: Float[ndarray, " n"] | None = None, limit: float = math.inf
) -> Measured | None:
    """Losses and margins of all samples; None as soon as the mean loss must exceed `limit`.

    `limit` is a log-loss. Losses are positive, so a partial sum above n exp(limit) settles it. The
    samples that were heaviest `before` (log losses) come first, and a pass that failed is known to
    have failed after a few of them.
    """
    import torch

    count = len(data.y)
    order = np.arange(count) if before is None else np.argsort(-before, kind="stable")
    losses, q = np.empty(count), np.empty(count)
    total = 0.0
    with torch.no_grad():
        for start in range(0, count, _CHUNK):
            chosen = order[start : start + _CHUNK]
            x, y = data.rows(torch.from_numpy(chosen))
            out = outputs_of(params, x)
            losses[chosen] = scaled_loss(out, y, 0.0).log_losses.numpy()
            q[chosen] = batch_margins(out, y).numpy()
            if math.isfinite(limit):
                total += float(np.exp(np.minimum(losses[chosen] - limit, 700.0)).sum())
                if not total <= count * (1 + 1e-12):
                    return None
    measured = Measured(losses, q)
    return measured if np.isfinite(measured.log_loss) else None


def light_samples_matter(measured: Measured, light: ndarray, log_scale: float) -> bool:
    """Whether the samples that were left out came to matter after all."""
    total = float(np.exp(np.minimum(measured.log_losses[light] - log_scale, 700.0)).sum())
    return total > ROUND_OFF * len(light)


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


def scaled_loss(outputs: torch.Tensor, targets: torch.Tensor, log_scale: float | torch.Tensor) -> ScaledLoss:
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


def batch_margins(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """q_i = F_y - max_{j != y} F_j, in float64."""
    return -_rivals(outputs, targets)[0]


def _rivals(outputs: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """max_{j != y} F_j - F_y, and exp of every F_j - F_y (none at y) relative to that."""
    gaps = outputs.double()
    gaps = gaps - gaps.gather(1, targets.unsqueeze(1))
    gaps.scatter_(1, targets.unsqueeze(1), -math.inf)
    top = gaps.amax(dim=1)
    return top, (gaps - top.unsqueeze(1)).exp()
