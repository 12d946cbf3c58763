"""Who decides how long a step is, and whether it counts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from featavg.shapes import PerSeed, TruthPerSeed
from featavg.training.objective import Evaluation
from featavg.training.steppers import Proposal


class Judgement(NamedTuple):
    """What a controller says about a proposal: which seeds take it, and the state for the next."""

    accepted: TruthPerSeed
    state: PerSeed


@runtime_checkable
class Controller(Protocol):
    """A rule for the learning rate; its state is one number for each seed."""

    @property
    def name(self) -> str:
        """The name it has in settings and results."""

    def init(self, evaluation: Evaluation) -> PerSeed:
        """The first state."""

    def log_rate(self, state: PerSeed, evaluation: Evaluation) -> PerSeed:
        """The logarithm of the learning rate that the next step uses."""

    def judge(self, state: PerSeed, before: Evaluation, proposal: Proposal) -> Judgement:
        """Accept or reject."""


@dataclass(frozen=True)
class Constant:
    """The same learning rate at every step; every step counts."""

    rate: float
    name: str = "constant"

    def init(self, evaluation: Evaluation) -> PerSeed:
        """log rate."""
        return np.full_like(evaluation.log_loss, math.log(self.rate))

    def log_rate(self, state: PerSeed, evaluation: Evaluation) -> PerSeed:
        """log rate."""
        return state

    def judge(self, state: PerSeed, before: Evaluation, proposal: Proposal) -> Judgement:
        """Always yes."""
        return Judgement(np.ones(state.shape, dtype=bool), state)


@dataclass(frozen=True)
class LossBased:
    """Effective rate = rate / loss, grown while the loss falls, taken back when it rises.

    Accepted: rate *= 2^(1/5). The loss rose or is not finite: the step is undone and rate /= 2^(1/10).
    (Lyu and Li, 2020, used it to reach losses that no fixed rate reaches.)
    """

    rate: float = 0.1
    grow: float = 2.0 ** (1 / 5)
    shrink: float = 2.0 ** (1 / 10)
    name: str = "loss-based"

    def init(self, evaluation: Evaluation) -> PerSeed:
        """log rate, before it is divided by the loss."""
        return np.full_like(evaluation.log_loss, math.log(self.rate))

    def log_rate(self, state: PerSeed, evaluation: Evaluation) -> PerSeed:
        """log(rate / loss)."""
        return state - evaluation.log_loss

    def judge(self, state: PerSeed, before: Evaluation, proposal: Proposal) -> Judgement:
        """Yes if the loss did not rise."""
        after = proposal.evaluation.log_loss
        accepted = np.isfinite(after) & (after <= before.log_loss)
        step = np.where(accepted, math.log(self.grow), -math.log(self.shrink))
        return Judgement(accepted, state + step)


@dataclass(frozen=True)
class ErrorControl:
    """The step size that keeps the stepper's local error at its tolerance (for gradient flow).

    The size is that of the normalised time s, dt = ds / L, in which the flow has moderate speed.
    """

    first: float = 1e-9
    safety: float = 0.9
    most: float = 5.0
    least: float = 0.2
    name: str = "error"

    def init(self, evaluation: Evaluation) -> PerSeed:
        """Tiny at first; it grows by `most` a step until the error notices."""
        return np.full_like(evaluation.log_loss, math.log(self.first))

    def log_rate(self, state: PerSeed, evaluation: Evaluation) -> PerSeed:
        """log of the step in t."""
        return state - evaluation.log_loss

    def judge(self, state: PerSeed, before: Evaluation, proposal: Proposal) -> Judgement:
        """Yes if the error is below the tolerance; the next size aims just under it."""
        if proposal.error is None:
            raise TypeError("ErrorControl needs a stepper that estimates its error: GradientFlow")
        error = np.where(np.isfinite(proposal.error), proposal.error, np.inf)
        with np.errstate(divide="ignore"):
            # The error of a step of size h is of order h^3.
            factor = np.clip(self.safety * error ** (-1 / 3), self.least, self.most)
        return Judgement(error <= 1.0, state + np.log(factor))


CONTROLLERS: dict[str, type[Constant] | type[LossBased] | type[ErrorControl]] = {
    "constant": Constant,
    "loss-based": LossBased,
    "error": ErrorControl,
}
