"""What sets the size of each step and accepts or rejects it. Every other file here is a controller."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import numpy as np

from featavg.shapes import PerSeed, TruthPerSeed
from featavg.training.objectives.objective import Evaluation
from featavg.training.steppers._stepper import Proposal


class Judgement(NamedTuple):
    """What a controller says about a proposal: which seeds take it, and the state for the next."""

    accepted: TruthPerSeed
    state: PerSeed


class Controller(ABC):
    """A rule for the learning rate; its state is one number for each seed.

    Attributes:
        name: in settings and results; the name of its file.
        needs_error: whether it only works with a stepper that estimates its error.
    """

    name: ClassVar[str]
    needs_error: ClassVar[bool] = False

    @abstractmethod
    def init(self, evaluation: Evaluation) -> PerSeed:
        """The first state."""

    @abstractmethod
    def log_rate(self, state: PerSeed, evaluation: Evaluation) -> PerSeed:
        """The logarithm of the learning rate that the next step uses."""

    @abstractmethod
    def judge(self, state: PerSeed, before: Evaluation, proposal: Proposal) -> Judgement:
        """Accept or reject."""


class Schedule(Controller):
    """A learning rate that depends on the number of the step only; every step counts.

    The state is how many steps the seed has taken.
    """

    @abstractmethod
    def rate_at(self, step: PerSeed) -> PerSeed:
        """The learning rate of the step after so many others."""

    def init(self, evaluation: Evaluation) -> PerSeed:
        """No steps yet."""
        return np.zeros_like(evaluation.log_loss)

    def log_rate(self, state: PerSeed, evaluation: Evaluation) -> PerSeed:
        """log of the rate of the next step."""
        return np.log(self.rate_at(state))

    def judge(self, state: PerSeed, before: Evaluation, proposal: Proposal) -> Judgement:
        """Always yes."""
        return Judgement(np.ones(state.shape, dtype=bool), state + 1.0)


def warmed_up(step: PerSeed, warmup: int) -> PerSeed:
    """min(1, (t + 1) / warmup): the share of the rate after t steps of a linear warm-up."""
    return np.minimum(1.0, (step + 1.0) / max(warmup, 1))
