"""Losses of networks with an output for each label."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Int
from numpy import ndarray

from featavg.errors import InputError, finite
from featavg.training.parts import Loss, LossValue, log_mean_and_pulls, log_softplus, log_sum_exp


@dataclass(frozen=True)
class CrossEntropy(Loss):
    """l = -log softmax(F)_t for the target output t.

    With s = log sum_{j != t} exp(F_j - F_t) the loss is softplus(s), which is exp(s) long after the
    probability of t has rounded to 1.

    >>> import numpy as np
    >>> import featavg as fa
    >>> value = fa.losses.CrossEntropy()(np.array([[900.0, 0.0, 0.0]]), np.array([0]))
    >>> round(float(value.log_mean), 4)
    -899.3069
    """

    name: ClassVar[str] = "cross-entropy"
    one_output: ClassVar[bool] = False

    def __call__(self, outputs: ndarray, targets: ndarray) -> LossValue:
        index = targets[..., None]
        rivals = outputs - np.take_along_axis(outputs, index, axis=-1)
        np.put_along_axis(rivals, index, -np.inf, axis=-1)
        top = rivals.max(axis=-1, keepdims=True)
        shares = np.exp(rivals - top)
        total = shares.sum(axis=-1, keepdims=True)
        log_losses, log_slopes = log_softplus((top + np.log(total))[..., 0])
        # 1 - p_t = the sum of the rivals' probabilities, divided among them.
        log_mean, missing = log_mean_and_pulls(log_losses, log_slopes)
        slopes = missing * shares / total
        np.put_along_axis(slopes, index, -missing, axis=-1)
        return LossValue(log_losses, log_mean, slopes)


@dataclass(frozen=True)
class SmoothedCrossEntropy(Loss):
    """l = log sum_j exp F_j - (1 - smoothing) F_t - smoothing / c sum_j F_j for the target t of c.

    Cross-entropy with a label that leaves `smoothing` to all classes alike (Szegedy et al., 2016).
    """

    smoothing: float = 0.1
    name: ClassVar[str] = "smoothed-cross-entropy"
    one_output: ClassVar[bool] = False

    def __post_init__(self) -> None:
        finite("smoothing", self.smoothing, above=0, below=1)

    def __call__(self, outputs: ndarray, targets: ndarray) -> LossValue:
        c = outputs.shape[-1]
        label = np.full(outputs.shape, self.smoothing / c)
        own = targets[..., None]
        np.put_along_axis(label, own, self.smoothing / c + 1 - self.smoothing, axis=-1)
        log_p = outputs - np.expand_dims(log_sum_exp(outputs), -1)
        log_losses = np.log(-(label * log_p).sum(axis=-1))
        log_mean, scale = log_mean_and_pulls(log_losses, 0.0)
        return LossValue(log_losses, log_mean, (np.exp(log_p) - label) * scale)


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

    def check_targets(self, targets: ndarray, outputs: int) -> None:
        """Refuse labels outside 0..c+1, and signs that are not one for each of the c outputs."""
        if len(self.positive) != outputs or set(self.positive) != {"+", "-"}:
            remedy = f"give {outputs} signs, both of them among these, such as ++--"
            raise InputError("positive", f"is {self.positive!r}", remedy)
        if targets.min() < 0 or targets.max() > outputs + 1:
            remedy = f"give an output, {outputs} for the class -1, or {outputs + 1} for +1"
            raise InputError("targets", f"hold a label outside 0..{outputs + 1}", remedy)

    def __call__(self, outputs: ndarray, targets: ndarray) -> LossValue:
        if targets.max() < outputs.shape[-1]:
            return CrossEntropy()(outputs, targets)
        inside = self.allowed(targets)
        own, own_shares = _log_sum(outputs, inside)
        rivals, rival_shares = _log_sum(outputs, ~inside)
        log_losses, log_slopes = log_softplus(rivals - own)
        log_mean, missing = log_mean_and_pulls(log_losses, log_slopes)
        return LossValue(log_losses, log_mean, missing * (rival_shares - own_shares))


def _log_sum(outputs: ndarray, inside: Bool[ndarray, "*s n c"]) -> tuple[ndarray, ndarray]:
    """log sum exp over some of the outputs, and the softmax over them (zero elsewhere)."""
    masked = np.where(inside, outputs, -np.inf)
    top = masked.max(axis=-1, keepdims=True)
    powers = np.exp(masked - top)
    total = powers.sum(axis=-1, keepdims=True)
    return (top + np.log(total))[..., 0], powers / total
