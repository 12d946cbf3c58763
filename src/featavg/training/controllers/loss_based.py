"""A learning rate that follows the loss down."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from featavg.errors import finite
from featavg.shapes import PerSeed
from featavg.training.parts import Controller, Evaluation, Judgement, Proposal


@dataclass(frozen=True)
class LossBased(Controller):
    """Effective rate = rate / loss, grown while the loss falls, taken back when it rises.

    Accepted: rate *= 2^(1/5). The loss rose or is not finite: the step is undone and rate /= 2^(1/10).
    (Lyu and Li, 2020, used it to reach losses that no fixed rate reaches.)

    >>> import featavg as fa
    >>> rule = fa.controllers.LossBased(rate=0.01)
    >>> run = fa.train(fa.MultiCluster(k=4, d=100), n=40, controller=rule, steps=50)
    >>> bool(run.log_loss[-1] < 0)
    True
    """

    rate: float = 0.1
    grow: float = 2.0 ** (1 / 5)
    shrink: float = 2.0 ** (1 / 10)
    name: ClassVar[str] = "loss-based"

    def __post_init__(self) -> None:
        finite("rate", self.rate, above=0)
        finite("grow", self.grow, above=1)
        finite("shrink", self.shrink, above=1)

    def init(self, evaluation: Evaluation) -> PerSeed:
        return np.full_like(evaluation.log_loss, math.log(self.rate))

    def log_rate(self, state: PerSeed, evaluation: Evaluation) -> PerSeed:
        return state - evaluation.log_loss

    def judge(self, state: PerSeed, before: Evaluation, proposal: Proposal) -> Judgement:
        after = proposal.evaluation.log_loss
        accepted = np.isfinite(after) & (after <= before.log_loss)
        step = np.where(accepted, math.log(self.grow), -math.log(self.shrink))
        return Judgement(accepted, state + step)
