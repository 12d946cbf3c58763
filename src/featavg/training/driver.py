"""One driver for every run: problem, stepper, controller, what to save, when to stop."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Int
from numpy import ndarray

from featavg.boundary.kinds import AnyNumber, Count, Size
from featavg.boundary.public import check_fields
from featavg.errors import InputError
from featavg.progress import Progress
from featavg.registry import CONTROLLERS, STEPPERS
from featavg.shapes import PerSeed, TruthPerSeed
from featavg.training.checkpoint import Checkpoint, fingerprint
from featavg.training.parts import Controller, Evaluation, Objective, Params, Proposal, Start, Stepper
from featavg.training.state import Recorder, RunState, StepView, pack, restore, trajectory_of
from featavg.training.trajectory import Outcome, Trajectory

_log = logging.getLogger(__name__)
# A step this much smaller than the normalised gradient allows changes no bit of any parameter.
_UNDERFLOW = math.log(1e-18)
# A run over a time span ends this close to its end, in log time.
_LANDING = 1e-3


@dataclass(frozen=True)
class SaveAt:
    """Which states to keep beside the first and the last.

    Args:
        every: after every so many steps.
        steps: after these numbers of steps.
        per_decade: so many times per factor 10 of gradient-flow time.

    >>> import featavg as fa
    >>> task = fa.MultiCluster(k=4, d=100)
    >>> run = fa.train(task, n=40, steps=20, save_at=fa.SaveAt(every=5))
    >>> run.steps.tolist()
    [0, 5, 10, 15, 20]
    """

    every: Count | None = None
    steps: Sequence[int] = ()
    per_decade: Count | None = None

    def __post_init__(self) -> None:
        check_fields(self)

    def wants(self, steps: Int[ndarray, "*s"], log_before: PerSeed, log_now: PerSeed) -> Bool[ndarray, "*s"]:
        """Which seeds' states are to be kept, by their steps and times (at the last save, and now)."""
        wanted = np.isin(steps, self.steps) if self.steps else np.zeros(np.shape(steps), dtype=bool)
        if self.every:
            wanted |= steps % self.every == 0
        if self.per_decade:
            unit = math.log(10) / self.per_decade
            with np.errstate(invalid="ignore"):
                passed = ~np.isfinite(log_before) | (log_now // unit > log_before // unit)
            wanted |= passed & np.isfinite(log_now)
        return np.asarray(wanted)


@dataclass(frozen=True)
class Stop:
    """When to stop: after so many steps, at a loss, at a gradient-flow time; whichever is first.

    >>> import featavg as fa
    >>> fa.Stop(steps=100, log_loss=-5.0)
    Stop(steps=100, log_loss=-5.0, log_time=inf)
    """

    steps: Size
    log_loss: AnyNumber = -math.inf
    log_time: AnyNumber = math.inf

    def __post_init__(self) -> None:
        check_fields(self)


def run(
    objective: Objective,
    params: Params,
    *,
    stepper: Stepper | str,
    controller: Controller | str,
    stop: Stop,
    save_at: SaveAt = SaveAt(),
    recorders: Sequence[Recorder] = (),
    checkpoint: Checkpoint | None = None,
    progress: Progress | None = None,
    settings: dict[str, Any] | None = None,
) -> Trajectory:
    """Move `params` downhill on `objective` until `stop` says so.

    A rejected step costs one forward pass and leaves no trace but a smaller rate. Seeds of a batch are
    independent: each has its own rate, its own rejections, its own count of steps and its own end.

    Args:
        objective: log-loss and normalised gradient of parameters, and the network that has them.
        params: where to start.
        stepper, controller: how to move, and by how much; or their names.
        stop, save_at: when to stop and what to keep; both ends are always kept.
        recorders: watch every accepted step.
        checkpoint: if given, an interrupted run goes on from there to the same bits.
        progress: called with the share done (of steps, loss or time) and a note.
        settings: passed through to the trajectory.

    >>> import numpy as np
    >>> import featavg as fa
    >>> from featavg.training.train import objective_of
    >>> recipe = fa.Recipe(steps=20)
    >>> objective = objective_of(fa.draw(fa.MultiCluster(k=4, d=100), n=40, neurons=10, seed=0), recipe)
    >>> start = (np.zeros((10, 54)), np.full(10, 1e-5))
    >>> rule = fa.controllers.Constant(0.01)
    >>> run(objective, start, stepper="gd", controller=rule, stop=fa.Stop(steps=20)).outcome
    <Outcome.STEPS_DONE: 'all steps were taken'>
    """
    stepper, controller = STEPPERS.build(stepper), CONTROLLERS.build(controller)
    key = ""
    if checkpoint:
        rules = (stepper, controller, stop, save_at, tuple(objective.trainable))
        key = fingerprint([*params, *objective.data], *rules)
    evaluation = objective.evaluate(params)
    state = _begin(params, evaluation, stepper, controller)
    stored = checkpoint.read(key) if checkpoint else None
    if stored is None:
        for recorder in recorders:
            recorder.start(params, evaluation)
        state.log_loss.append(evaluation.log_loss)
        state.save(state.active)
    else:
        restore(state, recorders, *stored)
        evaluation = objective.evaluate(state.params)
        _log.info("goes on from a checkpoint at step %d", int(np.max(state.steps)))
    keeps_more = save_at != SaveAt()
    while np.any(state.active):
        if _finish(state, evaluation, stop):
            break
        evaluation = _advance(state, objective, evaluation, stepper, controller, stop, recorders)
        if keeps_more:
            state.save(save_at.wants(state.steps, state.last_saved_time, state.log_time))
        if progress is not None:
            progress(_share(state, evaluation, stop), f"log10 loss {_log10(evaluation):.2f}")
        if checkpoint and checkpoint.due():
            checkpoint.write(key, *pack(state, recorders))
    state.save(np.ones(state.steps.shape, dtype=bool))
    _log.info(
        "trained with %s for %d steps to log10 loss %.2f: %s",
        stepper.name, int(np.max(state.steps)), _log10(evaluation),
        ", ".join(dict.fromkeys(state.outcomes.ravel().tolist())).lower().replace("_", " "),
    )  # fmt: skip
    return trajectory_of(state, objective.trainable, objective.net_with(params), settings or {})


def _begin(params: Params, evaluation: Evaluation, stepper: Stepper, controller: Controller) -> RunState:
    shape = np.shape(evaluation.log_loss)
    running = np.full(shape, Outcome.RUNNING.name, dtype="U20")
    if not np.all(np.isfinite(evaluation.log_loss)):
        raise InputError("net", "has a loss that is not finite", "start from finite weights")
    rate = controller.init(evaluation)
    return RunState(
        params,
        stepper.init(params, evaluation),
        rate,
        cap=np.full(shape, np.inf),
        log_time=np.full(shape, -np.inf),
        outcomes=running,
        steps=np.zeros(shape, dtype=np.int64),
        last_saved=np.full(shape, -1),
        last_saved_time=np.full(shape, -np.inf),
    )


def _finish(state: RunState, evaluation: Evaluation, stop: Stop) -> bool:
    """Name the outcome of every seed that has come to its end; True when all have."""
    log_loss = evaluation.log_loss
    going = np.isfinite(log_loss) & (log_loss > stop.log_loss) & (state.steps < stop.steps)
    if not math.isfinite(stop.log_time) and np.all(going | ~state.active):
        return False
    done = {
        Outcome.DIVERGED: ~np.isfinite(log_loss),
        Outcome.TARGET_LOSS: log_loss <= stop.log_loss,
        Outcome.TIME_REACHED: state.log_time >= stop.log_time - _LANDING,
        Outcome.STEPS_DONE: state.steps >= stop.steps,
    }
    for outcome, ended in done.items():
        state.outcomes = np.where(ended & state.active, outcome.name, state.outcomes)
    return not np.any(state.active)


# A run that overflows ends as "diverged"; it needs no warning beside that.
@np.errstate(over="ignore", invalid="ignore", divide="ignore")
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
    proposal = stepper.propose(objective, Start(state.params, evaluation, state.memory, log_rate))
    accepted, rate = controller.judge(state.rate, evaluation, proposal)
    passed = np.zeros(np.shape(accepted), dtype=bool)
    if math.isfinite(stop.log_time):
        passed = np.logaddexp(state.log_time, proposal.log_elapsed) > stop.log_time + _LANDING
        landing = _landing_rate(state, stop, evaluation, proposal, log_rate)
        state.cap = np.where(passed, landing, np.inf)
    accepted = accepted & state.active & ~passed
    everybody = bool(accepted.all())
    if everybody:
        state.rate = rate
    else:
        state.rate = np.where(state.active & ~passed, rate, state.rate)
        # At a log-loss beyond 1e12 the sum has lost its digits, and so have the steps.
        far = np.abs(evaluation.log_loss) > 1e12
        tiny = (log_rate + evaluation.log_loss < _UNDERFLOW) | far
        stuck = ~accepted & tiny & state.active
        state.outcomes = np.where(stuck, Outcome.RATE_UNDERFLOW.name, state.outcomes)
    if not np.any(accepted):
        return evaluation
    before = evaluation
    state.steps = np.asarray(state.steps + accepted)
    if everybody:
        state.params, state.memory, evaluation = proposal[0], proposal.state, proposal.evaluation
    else:
        state.params = _mix(accepted, proposal.params, state.params)
        state.memory = _mix(accepted, proposal.state, state.memory)
        evaluation = objective.evaluate(state.params)
    elapsed = proposal.log_elapsed
    if not everybody:
        elapsed = np.where(accepted, proposal.log_elapsed, -np.inf)
    state.log_time = np.logaddexp(state.log_time, elapsed)
    state.log_loss.append(evaluation.log_loss)
    state.log_rate.append(log_rate)
    state.moved.append(accepted)
    if recorders:
        factor = np.where(accepted, np.exp(log_rate + before.log_loss), 0.0)
        view = StepView(state.steps, before, factor, state.params, evaluation, accepted)
        for recorder in recorders:
            recorder.see(view)
    return evaluation


def _landing_rate(state: RunState, stop: Stop, before: Evaluation, proposal: Proposal, log_rate: PerSeed) -> PerSeed:
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
    return tuple(
        np.where(accepted.reshape(accepted.shape + (1,) * (n.ndim - accepted.ndim)), n, o)
        for n, o in zip(new, old, strict=True)
    )


def _share(state: RunState, evaluation: Evaluation, stop: Stop) -> float:
    """How much is done, by the end that is nearest; a seed that has ended needs no more."""
    done = state.steps / max(stop.steps, 1)
    if -math.inf < stop.log_loss < 0.0:  # the first steps begin near a loss of one
        done = np.maximum(done, evaluation.log_loss / stop.log_loss)
    if stop.log_time < math.inf:
        done = np.maximum(done, np.exp(state.log_time - stop.log_time))
    return float(np.mean(np.where(state.active, np.minimum(done, 1.0), 1.0)))


def _log10(evaluation: Evaluation) -> float:
    return float(np.max(evaluation.log_loss)) / math.log(10)
