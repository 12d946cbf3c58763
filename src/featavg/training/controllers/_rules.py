"""The controllers that come with the package: schedules, and rates that follow the loss or the error."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from featavg.errors import finite, whole
from featavg.shapes import PerSeed
from featavg.training.parts import Controller, Evaluation, Judgement, Proposal, Schedule, warmed_up


@dataclass(frozen=True)
class Constant(Controller):
    """The same learning rate at every step; every step counts."""

    rate: float
    name: ClassVar[str] = "constant"

    def __post_init__(self) -> None:
        finite("rate", self.rate, above=0)

    def init(self, evaluation: Evaluation) -> PerSeed:
        return np.full_like(evaluation.log_loss, math.log(self.rate))


@dataclass(frozen=True)
class WarmUp(Schedule):
    """rate_t = rate * min(1, (t + 1) / warmup)."""

    rate: float
    warmup: int = 10
    name: ClassVar[str] = "warmup"

    def __post_init__(self) -> None:
        finite("rate", self.rate, above=0)
        whole("warmup", self.warmup, least=0)

    def rate_at(self, step: PerSeed) -> PerSeed:
        return self.rate * warmed_up(step, self.warmup)


@dataclass(frozen=True)
class StepDecay(Schedule):
    """rate_t = rate * factor^floor(t / every), after a warm-up.

    Args:
        rate: the first one.
        every: number of steps with the same rate.
        factor: by which it then falls.
        warmup: number of steps over which the rate rises linearly to its value.
    """

    rate: float
    every: int = 30
    factor: float = 0.1
    warmup: int = 0
    name: ClassVar[str] = "step-decay"

    def __post_init__(self) -> None:
        finite("rate", self.rate, above=0)
        whole("every", self.every, least=1)
        finite("factor", self.factor, above=0, below=1)
        whole("warmup", self.warmup, least=0)

    def rate_at(self, step: PerSeed) -> PerSeed:
        stairs = self.factor ** np.floor(step / self.every)
        return self.rate * warmed_up(step, self.warmup) * stairs


@dataclass(frozen=True)
class Cosine(Schedule):
    """rate_t = rate (1 + cos(pi t / steps)) / 2 (Loshchilov and Hutter, 2017), after a warm-up.

    Args:
        rate: the first one.
        steps: the step at which the rate is zero; a run of this length ends just before.
        warmup: number of steps over which the rate rises linearly to its value.
    """

    rate: float
    steps: int = 100
    warmup: int = 0
    name: ClassVar[str] = "cosine"

    def __post_init__(self) -> None:
        finite("rate", self.rate, above=0)
        whole("steps", self.steps, least=1)
        whole("warmup", self.warmup, least=0)

    def rate_at(self, step: PerSeed) -> PerSeed:
        share = np.minimum(step / max(self.steps, 1), 1.0)
        return self.rate * warmed_up(step, self.warmup) * (1.0 + np.cos(np.pi * share)) / 2.0


@dataclass(frozen=True)
class LossBased(Controller):
    """Effective rate = rate / loss, grown while the loss falls, taken back when it rises.

    Accepted: rate *= 2^(1/5). The loss rose or is not finite: the step is rolled back and rate /= 2^(1/10).
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
