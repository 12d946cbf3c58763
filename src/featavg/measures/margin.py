"""Margins, normalised and smoothed, and the sandwich between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray
from scipy.special import logsumexp

from featavg.boundary.kinds import Size
from featavg.boundary.public import public
from featavg.errors import InputError
from featavg.shapes import PerSeed


@dataclass(frozen=True, eq=False)
class Margins:
    r"""The margins of a training set under an L-homogeneous network.

        normalized = min_i q_i / |theta|^L,    smoothed = -log(sum_i l_i) / |theta|^L.

    For the exponential loss  normalized - log(n)/|theta|^L <= smoothed <= normalized;  for logistic
    and cross-entropy losses the upper end holds exactly up to the gap between l and exp(-q).

    Attributes:
        smallest: min_i q_i.
        norm: |theta|.
        order: L.
        normalized, smoothed: see above.
        slack: log(n) / |theta|^L, the width of the sandwich.
    """

    smallest: PerSeed
    norm: PerSeed
    order: int
    normalized: PerSeed
    smoothed: PerSeed
    slack: PerSeed

    def sandwich_gap(self) -> PerSeed:
        """How far the smoothed margin is outside its bounds, relative to the normalized one."""
        above = self.smoothed - self.normalized
        below = self.normalized - self.slack - self.smoothed
        return np.maximum(np.maximum(above, below), 0.0) / np.abs(self.normalized)


def sample_margins(
    outputs: Float[ndarray, "*s n c"], targets: Int[ndarray, "*s n"]
) -> Float[ndarray, "*s n"]:
    """q_i = y_i f(x_i) for one output, own output minus the best other for more.

    >>> sample_margins(np.array([[[3.0, 1.0, 2.0]]]), np.array([[0]]))
    array([[1.]])
    """
    if outputs.shape[-1] == 1:
        return targets * outputs[..., 0]
    index = targets[..., None]
    own = np.take_along_axis(outputs, index, axis=-1)[..., 0]
    others = outputs.copy()
    np.put_along_axis(others, index, -np.inf, axis=-1)
    return own - others.max(axis=-1)


def parameter_norm(params: Sequence[ndarray], batch: int = 0) -> PerSeed:
    """|theta| over all parameters; the first `batch` axes are networks."""
    total = sum(np.sum(p * p, axis=tuple(range(batch, p.ndim))) for p in params)
    return np.sqrt(total)


@public
def margins(
    outputs: Float[ndarray, "*s n c"],
    targets: Int[ndarray, "*s n"],
    log_losses: Float[ndarray, "*s n"],
    norm: PerSeed,
    order: Size,
) -> Margins:
    """Margins of a network from its outputs, log-losses, norm and order of homogeneity.

    Args:
        outputs: f(x_i), one column for two classes, else one for each class.
        targets: y_i: -1 or +1 for two classes, else class numbers.
        log_losses: log of the loss of each sample.
        norm: |theta|, of all parameters together.
        order: L: outputs grow like the L-th power of the parameters.

    >>> import numpy as np
    >>> import featavg as fa
    >>> outputs, targets = np.array([[3.0], [-1.0]]), np.array([1, -1])
    >>> fa.margins(outputs, targets, np.array([-3.0, -1.0]), np.float64(2.0), 1).normalized
    np.float64(0.5)
    """
    if order < 1:
        raise InputError("order", f"is {order}", "a homogeneous network has order 1 or more")
    q = sample_margins(outputs, targets).min(axis=-1)
    scale = norm**order
    smoothed = -logsumexp(log_losses, axis=-1) / scale
    slack = np.log(outputs.shape[-2]) / scale
    return Margins(q, norm, order, q / scale, np.asarray(smoothed), slack)


def deepest_fall(values: Float[ndarray, "t s"], fitted: ndarray) -> float:
    """The deepest fall below an earlier value after the fit, relative to the last value."""
    worst = 0.0
    for seed in range(values.shape[1]):
        line = values[fitted[:, seed], seed]
        worst = max(worst, float(((np.maximum.accumulate(line) - line) / line[-1]).max()))
    return worst
