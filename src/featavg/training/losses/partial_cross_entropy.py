"""Cross-entropy where some points carry only their class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray

from featavg.errors import InputError
from featavg.training.losses._loss import FLAT, Loss, LossValue, log_sum_exp
from featavg.training.losses.cross_entropy import CrossEntropy


@dataclass(frozen=True)
class PartialCrossEntropy(Loss):
    r"""l = -log sum_{j in S} softmax(F)_j, S the outputs that a point may belong to.

    A point with a fine label t < c has S = {t}, and l is the cross-entropy. A point that carries only
    its class has the target c for the class -1 and c + 1 for +1, and S is all outputs of that class.
    With s = log sum_{j not in S} exp F_j - log sum_{j in S} exp F_j the loss is softplus(s).

    Args:
        positive: whether each output is of the class +1, such as "++--".

    >>> import numpy as np
    >>> import featavg as fa
    >>> outputs = np.array([[2.0, 0.0, 1.0, 0.0]])
    >>> loss = fa.losses.PartialCrossEntropy("++--")
    >>> round(float(np.exp(loss(outputs, np.array([5])).log_mean)), 4)
    0.3669
    >>> plain = fa.losses.CrossEntropy()
    >>> loss(outputs, np.array([0])).log_mean == plain(outputs, np.array([0])).log_mean
    np.True_
    """

    positive: str = ""
    name: ClassVar[str] = "partial-cross-entropy"
    one_output: ClassVar[bool] = False

    def allowed(self, targets: Int[ndarray, "*s n"]) -> Bool[ndarray, "*s n c"]:
        """S of each point as a mask over the outputs."""
        positive = np.array([sign == "+" for sign in self.positive])
        sets = np.concatenate([np.eye(len(positive), dtype=bool), [~positive, positive]])
        return sets[targets]

    def check_targets(self, targets: Int[ndarray, "*s n"], outputs: int) -> None:
        """Refuse labels outside 0..c+1, and signs that are not one for each of the c outputs."""
        if len(self.positive) != outputs or set(self.positive) != {"+", "-"}:
            remedy = f"give {outputs} signs, both of them among these, such as ++--"
            raise InputError("positive", f"is {self.positive!r}", remedy)
        if targets.min() < 0 or targets.max() > outputs + 1:
            remedy = f"give an output, {outputs} for the class -1, or {outputs + 1} for +1"
            raise InputError("targets", f"hold a label outside 0..{outputs + 1}", remedy)

    def __call__(
        self, outputs: Float[ndarray, "*s n c"], targets: Int[ndarray, "*s n"]
    ) -> LossValue:
        """Value and normalised derivative."""
        if targets.max() < outputs.shape[-1]:
            return CrossEntropy()(outputs, targets)
        inside = self.allowed(targets)
        own, own_shares = _log_sum(outputs, inside)
        rivals, rival_shares = _log_sum(outputs, ~inside)
        s = rivals - own
        softplus = np.logaddexp(0.0, s)
        with np.errstate(divide="ignore"):
            log_losses = np.where(s < -FLAT, s, np.log(softplus))
        log_total = log_sum_exp(log_losses)
        missing = np.exp(s - softplus - np.expand_dims(log_total, -1))[..., None]
        slopes = missing * (rival_shares - own_shares)
        log_mean = np.asarray(log_total - np.log(log_losses.shape[-1]))
        return LossValue(log_losses, log_mean, slopes)


def _log_sum(
    outputs: Float[ndarray, "*s n c"], inside: Bool[ndarray, "*s n c"]
) -> tuple[Float[ndarray, "*s n"], Float[ndarray, "*s n c"]]:
    """log sum exp over some of the outputs, and the softmax over them (zero elsewhere)."""
    masked = np.where(inside, outputs, -np.inf)
    top = masked.max(axis=-1, keepdims=True)
    powers = np.exp(masked - top)
    total = powers.sum(axis=-1, keepdims=True)
    return (top + np.log(total))[..., 0], powers / total
