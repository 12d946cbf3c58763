"""How parameters move in one step. Every other file of this folder is a stepper.

The driver hands a stepper the logarithm of the learning rate; the true gradient is the normalised
one times the loss, so a step of plain gradient descent multiplies the normalised gradient by
exp(log_rate + log_loss). That product is of moderate size even where both factors are not.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

from numpy import ndarray

from featavg.shapes import PerSeed
from featavg.training.objectives.objective import Evaluation, Objective, Params


class Proposal(NamedTuple):
    """A step that a controller may still reject."""

    params: Params
    evaluation: Evaluation
    state: Params
    log_elapsed: PerSeed  # log of the gradient-flow time that has passed
    error: PerSeed | None  # local error in units of the tolerance, if it is known


class Stepper(ABC):
    """One way to take a step; a frozen dataclass whose fields are its options.

    Attributes:
        name: in settings and results; the name of its file.
        estimates_error: whether a proposal states its local error.
    """

    name: ClassVar[str]
    estimates_error: ClassVar[bool] = False

    @property
    def keeps_rotations(self) -> bool:
        """Whether turning the data turns the run: only then does compression leave it unchanged."""
        return True

    def init(self, params: Params, evaluation: Evaluation) -> Params:
        """What it remembers from step to step: arrays with the seeds' axes first."""
        return ()

    @abstractmethod
    def propose(
        self,
        objective: Objective,
        params: Params,
        evaluation: Evaluation,
        state: Params,
        log_rate: PerSeed,
    ) -> Proposal:
        """The next parameters, evaluated."""


def scaled(factor: PerSeed, array: ndarray) -> ndarray:
    """`array` times a factor for each seed."""
    return factor.reshape(factor.shape + (1,) * (array.ndim - factor.ndim)) * array
