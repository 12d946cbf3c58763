"""One driver for every run: problem, stepper, controller, what to save, when to stop."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy import ndarray

from featavg.errors import InputError
from featavg.progress import Progress
from featavg.shapes import PerSeed, TruthPerSeed
from featavg.training.checkpoint import Checkpoint, fingerprint
from featavg.training.controllers import Controller
from featavg.training.objective import Evaluation, Objective, Params
from featavg.training.state import Recorder, RunState, StepView, pack, restore, trajectory_of
from featavg.training.steppers import Proposal, Stepper, scaled
from featavg.training.trajectory import Outcome, Trajectory

# A step this much smaller than the normalised gradient allows changes no bit of any parameter.
_UNDERFLOW = math.log(1e-18)
# A run over a time span ends this close to its end, in log time.
_LANDING = 1e-3


@dataclass(frozen=True)
class SaveAt:
    """Which states to keep: `every` so many steps, given `steps`, `decades` of time, and both ends."""

    every: int | None = None
    steps: Sequence[int] = ()
    per_decade: int | None = None

    def __post_init__(self) -> None:
        if self.every is not None and self.every < 1:
            raise InputError("every", f"is {self.every}", "save every 1 or more steps")

    def wants(self, step: int, log_before: float, log_now: float) -> bool:
        """Whether the state after `step` steps is to be kept."""
        if (self.every and step % self.every == 0) or step in self.steps:
            return True
        if not self.per_decade or not math.isfinite(log_now):
            return False
        unit = math.log(10) / self.per_decade
        return not math.isfinite(log_before) or log_now // unit > log_before // unit


@dataclass(frozen=True)
class Stop:
    """When to stop: after so many steps, at a loss, at a gradient-flow time; whichever is first."""

    steps: int
    log_loss: float = -math.inf
    log_time: float = math.inf

    def __post_init__(self) -> None:
        if self.steps < 0:
            raise InputError("steps", f"is {self.steps}", "take zero or more")


def run(
    objective: Objective,
    params: Params,
    *,
    names: Sequence[str],
    stepper: Stepper,
    controller: Controller,
    stop: Stop,
    save_at: SaveAt = SaveAt(),
    recorders: Sequence[Recorder] = (),
    checkpoint: Checkpoint | None = None,
    progress: Progress | None = None,
    fixed: dict[str, ndarray] | None = None,
    settings: dict[str, Any] | None = None,
    identity: Sequence[ndarray] = (),
) -> Trajectory:
    """Move `params` downhill on `objective` until `stop` says so.

    A rejected step costs one forward pass and leaves no trace but a smaller rate. Seeds of a batch are
    independent: each has its own rate, its own rejections and its own end.

    Args:
        objective: log-loss and normalised gradient of parameters.
        params: where to start.
        names: what the parameters are called in the trajectory.
        stepper, controller: how to move, and by how much.
        stop, save_at: when to stop and what to keep; both ends are always kept.
        recorders: watch every accepted step.
        checkpoint: if given, an interrupted run goes on from there to the same bits.
        progress: called with the share of steps done and a note.
        fixed, settings: passed through to the trajectory.
        identity: arrays (the data) that tell this run from others in a checkpoint.
    """
    key = ""
    if checkpoint:
        rules = (stepper, controller, stop, save_at, tuple(names))
        key = fingerprint([*params, *identity], *rules)
    evaluation = objective.evaluate(params)
    state = _begin(params, evaluation, stepper, controller)
    found = checkpoint.read(key) if checkpoint else None
    if found is None:
        for recorder in recorders:
            recorder.start(params, evaluation)
        state.log_loss.append(evaluation.log_loss)
        state.save()
    else:
        restore(state, recorders, *found)
        evaluation = objective.evaluate(state.params)
    while np.any(state.active):
        if _finish(state, evaluation, stop):
            break
        # A run that overflows ends as "diverged"; it needs no warning beside that.
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            evaluation = _advance(
                state, objective, evaluation, stepper, controller, stop, recorders
            )
        if save_at.wants(state.step, *state.times):
            state.save()
        if progress is not None:
            progress(state.step / max(stop.steps, 1), f"log10 loss {_log10(evaluation):.2f}")
        if checkpoint and checkpoint.due():
            checkpoint.write(key, *pack(state, recorders))
    state.save()
    return trajectory_of(state, names, fixed or {}, settings or {})


def _begin(
    params: Params, evaluation: Evaluation, stepper: Stepper, controller: Controller
) -> RunState:
    shape = np.shape(evaluation.log_loss)
    running = np.full(shape, Outcome.RUNNING.name, dtype="U20")
    if not np.all(np.isfinite(evaluation.log_loss)):
        raise InputError("net", "has a loss that is not finite", "start from finite weights")
    rate = controller.init(evaluation)
    free, never = np.full(shape, np.inf), np.full(shape, -np.inf)
    return RunState(params, stepper.init(params), rate, free, never, running)


def _finish(state: RunState, evaluation: Evaluation, stop: Stop) -> bool:
    """Name the outcome of every seed that has come to its end; True when all have."""
    log_loss = evaluation.log_loss
    done = {
        Outcome.DIVERGED: ~np.isfinite(log_loss),
        Outcome.TARGET_LOSS: log_loss <= stop.log_loss,
        Outcome.TIME_REACHED: state.log_time >= stop.log_time - _LANDING,
        Outcome.STEPS_DONE: np.full(log_loss.shape, state.step >= stop.steps),
    }
    for outcome, ended in done.items():
        state.outcomes = np.where(ended & state.active, outcome.name, state.outcomes)
    return not np.any(state.active)


def _advance(
    state: RunState,
    objective: Objective,
    evaluation: Evaluation,
    stepper: Stepper,
    controller: Controller,
    stop: Stop,
    recorders: Sequence[Recorder],
) -> Evaluation:
    """One attempt at a step for every seed that is still running."""
    log_rate = np.minimum(controller.log_rate(state.rate, evaluation), state.cap)
    proposal = stepper.propose(objective, state.params, evaluation, state.memory, log_rate)
    accepted, rate = controller.judge(state.rate, evaluation, proposal)
    passed = np.logaddexp(state.log_time, proposal.log_elapsed) > stop.log_time + _LANDING
    state.cap = np.where(passed, _landing_rate(state, stop, evaluation, proposal, log_rate), np.inf)
    accepted = accepted & state.active & ~passed
    stuck = ~accepted & (log_rate + evaluation.log_loss < _UNDERFLOW) & state.active
    state.rate = np.where(state.active & ~passed, rate, state.rate)
    state.outcomes = np.where(stuck, Outcome.RATE_UNDERFLOW.name, state.outcomes)
    if not np.any(accepted):
        return evaluation
    before = evaluation
    state.step += 1
    if np.all(accepted):
        state.params, state.memory, evaluation = proposal[0], proposal.state, proposal.evaluation
    else:
        state.params = _mix(accepted, proposal.params, state.params)
        state.memory = _mix(accepted, proposal.state, state.memory)
        evaluation = objective.evaluate(state.params)
    elapsed = np.where(accepted, proposal.log_elapsed, -np.inf)
    state.log_time = np.logaddexp(state.log_time, elapsed)
    state.log_loss.append(evaluation.log_loss)
    state.log_rate.append(np.where(accepted, log_rate, -np.inf))
    factor = np.where(accepted, np.exp(log_rate + before.log_loss), 0.0)
    view = StepView(state.step, before, factor, state.params, evaluation, accepted)
    for recorder in recorders:
        recorder.see(view)
    return evaluation


def _landing_rate(
    state: RunState, stop: Stop, before: Evaluation, proposal: Proposal, log_rate: PerSeed
) -> PerSeed:
    """The log rate with which a step that went past the end of the time span would land on it.

    The loss falls by a factor exp(-drop) along the step, so time runs faster and faster: a share f of
    it takes expm1(f drop) / drop of the naive time, and f is where that is the time left.
    """
    if not math.isfinite(stop.log_time):
        return log_rate
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        left = np.log1p(-np.exp(np.minimum(state.log_time - stop.log_time, 0.0))) + stop.log_time
        drop = np.maximum(before.log_loss - proposal.evaluation.log_loss, 1e-9)
        landing = log_rate + np.log(np.log1p(drop * np.exp(left - log_rate)) / drop)
        # Where that guess is no use (a loss that rose, say), halving the step always gets there.
        return np.where(landing < log_rate - _LANDING, landing, log_rate - math.log(2))


def _mix(accepted: TruthPerSeed, new: Params, old: Params) -> Params:
    """The new arrays for the seeds that accepted and the old ones for the others."""
    kept = accepted.astype(float)
    # An array without the seeds' axes (a step counter) belongs to all of them.
    return tuple(
        np.where(scaled(kept, np.ones_like(n)) > 0, n, o) if n.ndim >= kept.ndim else n
        for n, o in zip(new, old, strict=True)
    )


def _log10(evaluation: Evaluation) -> float:
    return float(np.max(evaluation.log_loss)) / math.log(10)
