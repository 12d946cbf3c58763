"""The step size that holds a stepper's local error at its tolerance."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from featavg.errors import finite
from featavg.shapes import PerSeed
from featavg.training.parts import Controller, Evaluation, Judgement, Proposal


@dataclass(frozen=True)
class ErrorControl(Controller):
    """The step size that keeps the stepper's local error at its tolerance (for gradient flow).

    The size is that of the normalised time s, dt = ds / L, in which the flow has moderate speed. The
    error of a step of size h is of order h^3, so the next size is h * safety * error^(-1/3), within a
    factor `least` to `most` of the last one.

    >>> import featavg as fa
    >>> recipe = fa.Recipe(stepper="flow", controller=fa.controllers.ErrorControl(), time=1.0, steps=500)
    >>> fa.train(fa.MultiCluster(k=4, d=100), recipe, n=40).outcome.value
    'the end of the time span was reached'
    """

    first: float = 1e-9
    safety: float = 0.9
    most: float = 5.0
    least: float = 0.2
    name: ClassVar[str] = "error"
    needs_error: ClassVar[bool] = True

    def __post_init__(self) -> None:
        finite("first", self.first, above=0)
        finite("safety", self.safety, above=0, below=1)
        finite("most", self.most, above=1)
        finite("least", self.least, above=0, below=1)

    def init(self, evaluation: Evaluation) -> PerSeed:
        # Tiny at first; it grows by `most` each step until the error notices.
        return np.full_like(evaluation.log_loss, math.log(self.first))

    def log_rate(self, state: PerSeed, evaluation: Evaluation) -> PerSeed:
        return state - evaluation.log_loss

    def judge(self, state: PerSeed, before: Evaluation, proposal: Proposal) -> Judgement:
        if proposal.error is None:
            raise TypeError("ErrorControl needs a stepper that estimates its error: GradientFlow")
        error = np.where(np.isfinite(proposal.error), proposal.error, np.inf)
        with np.errstate(divide="ignore"):
            factor = np.clip(self.safety * error ** (-1 / 3), self.least, self.most)
        return Judgement(error <= 1.0, state + np.log(factor))
