"""The bases of the parts of training: what is minimised, and how a step is taken, sized and scored.

The true gradient is the normalised one times the loss, so a step of plain gradient descent multiplies
the normalised gradient by exp(log_rate + log_loss): of moderate size even where both factors are not.
Losses are kept as logarithms, so that 1e-881 is just -2028.6.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cache
from typing import ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.errors import InputError
from featavg.nets.network import Network
from featavg.shapes import PerSeed, TruthPerSeed

Params = tuple[ndarray, ...]
# Beyond this margin log(log(1 + exp(-q))) and -q agree to the last bit of a float64.
FLAT = 40.0
# Every seed takes its step.
_YES: TruthPerSeed = np.asarray(True)[()]


@runtime_checkable
class Evaluation(Protocol):
    """An objective at one point."""

    @property
    def log_loss(self) -> PerSeed:
        """log L, one for each seed."""

    @property
    def gradient(self) -> Params:
        """(dL/dtheta) / L. Computed when it is first asked for: a rejected step needs none."""


@runtime_checkable
class Objective(Protocol):
    """A loss as a function of parameters; the leading axes of all arrays are the seeds."""

    @property
    def trainable(self) -> Sequence[str]:
        """What the parameters are called in the network."""

    @property
    def data(self) -> Sequence[ndarray]:
        """The points and their targets, which tell one run from another."""

    def net_with(self, params: Params) -> Network:
        """The network that has these parameters."""

    def evaluate(self, params: Params) -> Evaluation:
        """The objective at `params`."""


class Start(NamedTuple):
    """Where a step begins.

    Attributes:
        params, evaluation: the parameters, and the objective there.
        memory: what the stepper remembers.
        log_rate: log of the learning rate.
    """

    params: Params
    evaluation: Evaluation
    memory: Params
    log_rate: PerSeed

    def scaled(self, arrays: Params) -> list[ndarray]:
        """`arrays`, such as the normalised gradient, times the learning rate and the loss."""
        factor = np.exp(self.log_rate + self.evaluation.log_loss)
        return [scaled(factor, array) for array in arrays]


class StepView(NamedTuple):
    """What a recorder sees of an accepted step."""

    steps: ndarray  # how many steps each seed has taken
    before: Evaluation
    factor: PerSeed  # the normalised gradient was multiplied by this
    params: Params
    after: Evaluation
    accepted: TruthPerSeed


@runtime_checkable
class Recorder(Protocol):
    """Something that watches every step; its arrays travel with a checkpoint."""

    def start(self, params: Params, evaluation: Evaluation) -> None:
        """Called once, before the first step."""

    def see(self, view: StepView) -> None:
        """Called after each step that was accepted for some seed."""

    def arrays(self) -> dict[str, ndarray]:
        """Everything it has gathered."""

    def restore(self, arrays: dict[str, ndarray]) -> None:
        """Go on from what `arrays` returned."""


class Proposal(NamedTuple):
    """A step that a controller may still reject.

    Attributes:
        log_elapsed: log of the gradient-flow time that has passed.
        error: local error in units of the tolerance, if it is known.
    """

    params: Params
    evaluation: Evaluation
    state: Params
    log_elapsed: PerSeed
    error: PerSeed | None


class Stepper(ABC):
    """One way to take a step; a frozen dataclass whose fields are its options.

    One of your own states `move`, or `propose` if it needs more than the gradient.

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

    def move(self, start: Start) -> tuple[Params, Params]:
        """The next parameters, and what is remembered of the step."""
        raise NotImplementedError

    def propose(self, objective: Objective, start: Start) -> Proposal:
        """The next parameters, evaluated."""
        params, memory = self.move(start)
        return Proposal(params, objective.evaluate(params), memory, start.log_rate, None)


def scaled(factor: PerSeed, array: ndarray) -> ndarray:
    """`array` times a factor for each seed."""
    if factor.ndim == 0:
        return factor * array
    return factor.reshape(factor.shape + (1,) * (array.ndim - factor.ndim)) * array


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

    def log_rate(self, state: PerSeed, evaluation: Evaluation) -> PerSeed:
        """The logarithm of the learning rate that the next step uses: the state itself."""
        return state

    def judge(self, state: PerSeed, before: Evaluation, proposal: Proposal) -> Judgement:
        """Accept or reject: every step of every seed counts, and the state stays."""
        return Judgement(_YES, state)


class Schedule(Controller):
    """A learning rate that depends on the number of the step only, which is the state."""

    @abstractmethod
    def rate_at(self, step: PerSeed) -> PerSeed:
        """The learning rate of the step with this number, counted from 0."""

    def init(self, evaluation: Evaluation) -> PerSeed:
        """No steps yet."""
        return np.zeros_like(evaluation.log_loss)

    def log_rate(self, state: PerSeed, evaluation: Evaluation) -> PerSeed:
        """log of the rate of the next step."""
        return np.log(self.rate_at(state))

    def judge(self, state: PerSeed, before: Evaluation, proposal: Proposal) -> Judgement:
        """Always yes."""
        return Judgement(_YES, state + 1.0)


def warmed_up(step: PerSeed, warmup: int) -> PerSeed:
    """min(1, (t + 1) / warmup): the share of the rate after t steps of a linear warm-up."""
    return np.minimum(1.0, (step + 1.0) / max(warmup, 1))


class LossValue(NamedTuple):
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
    def __call__(self, outputs: Float[ndarray, "*s n c"], targets: Int[ndarray, "*s n"]) -> LossValue:
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
    # The methods `max` and `sum` are the same, behind a function of Python that costs as much again.
    top = np.maximum.reduce(values, axis=-1)
    return top + np.log(np.add.reduce(np.exp(values - top[..., None]), axis=-1))


def log_softplus(s: Float[ndarray, "*s n"]) -> tuple[ndarray, ndarray]:
    """log l and log dl/ds of l = log(1 + exp(s))."""
    softplus = np.logaddexp(0.0, s)
    # Where it underflows the logarithm is s.
    return np.where(s < -FLAT, s, np.log(np.maximum(softplus, 1e-300))), s - softplus


def log_mean_and_pulls(
    log_losses: Float[ndarray, "*s n"], log_slopes: ndarray | float
) -> tuple[PerSeed, Float[ndarray, "*s _ 1"]]:
    """log L, and |l'_i| / (n L) of each sample, from log l_i and log |l'_i|; a number stands for all samples."""
    log_total = log_sum_exp(log_losses)
    pulls = np.exp(log_slopes - log_total[..., None])
    return log_total - _log(log_losses.shape[-1]), pulls[..., None]


_log = cache(np.log)  # of a number of points, the same at every step


def from_margins(
    targets: Int[ndarray, "*s n"], log_losses: Float[ndarray, "*s n"], log_slopes: Float[ndarray, "*s n"]
) -> LossValue:
    """Assemble a loss of the margin y_i f(x_i), y_i the `targets` ±1.

    Args:
        targets: +1 or -1.
        log_losses: log l_i.
        log_slopes: log |l'_i|.
    """
    log_mean, pulls = log_mean_and_pulls(log_losses, log_slopes)
    return LossValue(log_losses, log_mean, targets[..., None] * -pulls)
