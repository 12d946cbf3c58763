"""What sets the size of each step and accepts or rejects it. Every other file here is a controller."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

from featavg.shapes import PerSeed, TruthPerSeed
from featavg.training.objective import Evaluation
from featavg.training.steppers import Proposal


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
