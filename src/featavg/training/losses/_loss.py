"""Losses kept as logarithms, so that 1e-881 is just -2028.6 and gradients stay normalised.

Every other file of this folder is a loss.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.errors import InputError
from featavg.shapes import PerSeed

# Beyond this margin log(log(1 + exp(-q))) and -q agree to the last bit of a float64.
FLAT = 40.0


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


class Loss(ABC):
    """A loss of the outputs F (n x c) and the targets (one integer per sample).

    Attributes:
        name: in settings and results; the name of its file.
        one_output: whether it is for a network with one output and targets +-1, rather than for one
            with an output for each target.
        pools: whether it is for a network with an output for each neuron, and targets +-1.
    """

    name: ClassVar[str]
    one_output: ClassVar[bool]
    pools: ClassVar[bool] = False

    @abstractmethod
    def __call__(
        self, outputs: Float[ndarray, "*s n c"], targets: Int[ndarray, "*s n"]
    ) -> LossValue:
        """Value and normalised derivative."""

    def check_targets(self, targets: Int[ndarray, "*s n"], outputs: int) -> None:
        """Refuse labels that the loss cannot mean: +-1 for one output, 0..c-1 for c of them."""
        if self.one_output:
            require_signs(targets)
        elif targets.min() < 0 or targets.max() >= outputs:
            problem = f"hold a label outside 0..{outputs - 1}"
            raise InputError("targets", problem, "give one of the outputs")


def require_signs(targets: Int[ndarray, "*s n"]) -> None:
    """Refuse labels other than -1 and +1."""
    if not np.isin(targets, (-1, 1)).all():
        raise InputError("targets", "hold a label other than -1 and +1", "use these two")


def log_sum_exp(values: Float[ndarray, "*s n"]) -> PerSeed:
    """log sum_i exp(values_i) along the last axis, without overflow or underflow.

    The largest value is finite for every loss here, which spares the cases that SciPy looks after.
    """
    top = values.max(axis=-1, keepdims=True)
    return top[..., 0] + np.log(np.exp(values - top).sum(axis=-1))


def from_margins(
    targets: Int[ndarray, "*s n"],
    log_losses: Float[ndarray, "*s n"],
    log_slopes: Float[ndarray, "*s n"],
) -> LossValue:
    """Assemble a loss of the margin from log l_i and log |l'_i|."""
    log_total = log_sum_exp(log_losses)
    slopes = -targets * np.exp(log_slopes - np.expand_dims(log_total, -1))
    log_mean = np.asarray(log_total - np.log(log_losses.shape[-1]))
    return LossValue(log_losses, log_mean, slopes[..., None])
