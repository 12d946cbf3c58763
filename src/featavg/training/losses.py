"""Losses kept as logarithms, so that 1e-881 is just -2028.6 and gradients stay normalised."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.errors import InputError
from featavg.shapes import PerSeed

# Beyond this margin log(log(1 + exp(-q))) and -q agree to the last bit of a float64.
_FLAT = 40.0


@dataclass(frozen=True, eq=False)
class LossValue:
    """The mean loss over n samples and its derivative, without ever leaving the log domain.

    Attributes:
        log_losses: log l_i.
        log_mean: log L, L = 1/n sum_i l_i.
        slopes: (dL/dF) / L, the derivative by each output of each sample, normalised by the loss.
    """

    log_losses: Float[ndarray, "*s n"]
    log_mean: PerSeed
    slopes: Float[ndarray, "*s n c"]


@runtime_checkable
class Loss(Protocol):
    """A loss of the outputs F (n x c) and the targets (one integer a sample)."""

    @property
    def name(self) -> str:
        """The name it has in settings and results."""

    def __call__(
        self, outputs: Float[ndarray, "*s n c"], targets: Int[ndarray, "*s n"]
    ) -> LossValue:
        """Value and normalised derivative."""


@dataclass(frozen=True)
class Logistic:
    """l(q) = log(1 + exp(-q)) with the margin q = y f, y in {-1, +1}.

    >>> value = Logistic()(np.array([[0.0], [2000.0]]), np.array([1, 1]))
    >>> np.round(value.log_losses, 4)
    array([-3.665e-01, -2.000e+03])
    """

    name: str = "logistic"

    def __call__(
        self, outputs: Float[ndarray, "*s n 1"], targets: Int[ndarray, "*s n"]
    ) -> LossValue:
        """Value and normalised derivative."""
        q = targets * outputs[..., 0]
        softplus = np.logaddexp(0.0, -q)
        with np.errstate(divide="ignore"):
            log_losses = np.where(q > _FLAT, -q, np.log(softplus))
        return _from_margins(targets, log_losses, -(q + softplus))


@dataclass(frozen=True)
class Exponential:
    """l(q) = exp(-q) with the margin q = y f."""

    name: str = "exponential"

    def __call__(
        self, outputs: Float[ndarray, "*s n 1"], targets: Int[ndarray, "*s n"]
    ) -> LossValue:
        """Value and normalised derivative."""
        q = targets * outputs[..., 0]
        return _from_margins(targets, -q, -q)


def log_sum_exp(values: Float[ndarray, "*s n"]) -> PerSeed:
    """log sum_i exp(values_i) along the last axis, without overflow or underflow.

    The largest value is finite for every loss here, which spares the cases that SciPy looks after.
    """
    top = values.max(axis=-1, keepdims=True)
    return top[..., 0] + np.log(np.exp(values - top).sum(axis=-1))


def _from_margins(
    targets: Int[ndarray, "*s n"],
    log_losses: Float[ndarray, "*s n"],
    log_slopes: Float[ndarray, "*s n"],
) -> LossValue:
    """Assemble a loss of the margin from log l_i and log |l'_i|."""
    log_total = log_sum_exp(log_losses)
    slopes = -targets * np.exp(log_slopes - np.expand_dims(log_total, -1))
    log_mean = np.asarray(log_total - np.log(log_losses.shape[-1]))
    return LossValue(log_losses, log_mean, slopes[..., None])


@dataclass(frozen=True)
class CrossEntropy:
    """l = -log softmax(F)_t for the target output t.

    With s = log sum_{j != t} exp(F_j - F_t) the loss is softplus(s), which is exp(s) long after the
    probability of t has rounded to 1.

    >>> value = CrossEntropy()(np.array([[900.0, 0.0, 0.0]]), np.array([0]))
    >>> round(float(value.log_mean), 4)
    -899.3069
    """

    name: str = "cross-entropy"

    def __call__(
        self, outputs: Float[ndarray, "*s n c"], targets: Int[ndarray, "*s n"]
    ) -> LossValue:
        """Value and normalised derivative."""
        index = targets[..., None]
        rivals = outputs - np.take_along_axis(outputs, index, axis=-1)
        np.put_along_axis(rivals, index, -np.inf, axis=-1)
        top = rivals.max(axis=-1, keepdims=True)
        shares = np.exp(rivals - top)
        total = shares.sum(axis=-1, keepdims=True)
        s = (top + np.log(total))[..., 0]
        softplus = np.logaddexp(0.0, s)
        with np.errstate(divide="ignore"):
            log_losses = np.where(s < -_FLAT, s, np.log(softplus))
        log_total = log_sum_exp(log_losses)
        # 1 - p_t = sum of the rivals' probabilities = exp(s - softplus(s)), shared out among them.
        missing = np.exp(s - softplus - np.expand_dims(log_total, -1))[..., None]
        slopes = missing * shares / total
        np.put_along_axis(slopes, index, -missing, axis=-1)
        log_mean = np.asarray(log_total - np.log(log_losses.shape[-1]))
        return LossValue(log_losses, log_mean, slopes)


LOSSES: dict[str, type[Logistic] | type[Exponential] | type[CrossEntropy]] = {
    "logistic": Logistic,
    "exponential": Exponential,
    "cross-entropy": CrossEntropy,
}


def loss_named(name: str) -> Loss:
    """The loss that settings call `name`."""
    if name not in LOSSES:
        raise InputError("loss", f"is {name!r}", f"choose one of {', '.join(LOSSES)}")
    return LOSSES[name]()


def check_targets(targets: ndarray, outputs: int) -> None:
    """Refuse labels that the loss cannot mean: +-1 for one output, 0..c-1 for c of them."""
    if outputs == 1:
        if not np.isin(targets, (-1, 1)).all():
            raise InputError("targets", "hold a label other than -1 and +1", "use these two")
    elif targets.min() < 0 or targets.max() >= outputs:
        raise InputError(
            "targets", f"hold a label outside 0..{outputs - 1}", "give one of the outputs"
        )
