"""One driver for every run: problem, stepper, controller, what to save, when to stop.

Every seed of a batch counts its own steps. Rows of the history that some seeds did not take part in
(their step was rejected, or they had ended) are dropped from those seeds' columns at the end, so that
what a seed leaves behind does not depend on its companions.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Bool, Int
from numpy import ndarray

from featavg.boundary.kinds import AnyNumber, Count, Size
from featavg.boundary.public import check_fields
from featavg.errors import InputError
from featavg.nets.network import Network
from featavg.progress import Progress
from featavg.registry import CONTROLLERS, STEPPERS
from featavg.shapes import PerSeed, TruthPerSeed
from featavg.storage.cache import Checkpoint, fingerprint
from featavg.training.parts import (
    Controller,
    Evaluation,
    Objective,
    Params,
    Proposal,
    Recorder,
    Start,
    Stepper,
    StepView,
)
from featavg.training.trajectory import Outcome, Trajectory, padded

_log = logging.getLogger(__name__)
# A step this much smaller than the normalised gradient allows changes no bit of any parameter.
_UNDERFLOW = math.log(1e-18)
# A run over a time span ends this close to its end, in log time.
_LANDING = 1e-3


@dataclass(frozen=True)
class SaveAt:
    """Which states to keep beside the first and the last.

    Args:
        every: number of steps between saved states.
        steps: after these numbers of steps.
        per_decade: number of saved states per factor 10 of gradient-flow time.

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
    """When to stop: after a number of steps, at a loss, at a gradient-flow time; whichever is first.

    >>> import featavg as fa
    >>> fa.Stop(steps=100, log_loss=-5.0)
    Stop(steps=100, log_loss=-5.0, log_time=inf)
    """

    steps: Size
    log_loss: AnyNumber = -math.inf
    log_time: AnyNumber = math.inf

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass
class RunState:
    """All that changes during a run.

    `moved` says which seeds took the step behind each row of `log_loss` and `log_rate` (the row before
    the first step is everybody's), `saved_for` the same for the saved states.
    """

    params: Params
    memory: Params
    rate: PerSeed
    cap: PerSeed  # log rate that the next attempt may not exceed, so as not to overshoot the end
    log_time: PerSeed
    outcomes: ndarray  # Outcome names, one for each seed
    steps: Int[ndarray, "*s"]
    last_saved: Int[ndarray, "*s"]
    last_saved_time: PerSeed
    log_loss: list[PerSeed] = field(default_factory=list)
    log_rate: list[PerSeed] = field(default_factory=list)
    moved: list[TruthPerSeed] = field(default_factory=list)
    saved_steps: list[ndarray] = field(default_factory=list)
    saved_times: list[PerSeed] = field(default_factory=list)
    saved_for: list[TruthPerSeed] = field(default_factory=list)
    saved: list[Params] = field(default_factory=list)
    active: TruthPerSeed = field(init=False)

    def __post_init__(self) -> None:
        self.active = self.outcomes == Outcome.RUNNING.name

    def end(self, outcome: Outcome, ended: TruthPerSeed) -> None:
        """Give those seeds of `ended` that are still running their outcome."""
        self.outcomes = np.where(ended & self.active, outcome.name, self.outcomes)
        self.active = self.outcomes == Outcome.RUNNING.name

    def save(self, wanted: Bool[ndarray, "*s"] | np.bool_) -> None:
        """Keep the present parameters of the seeds that want it and have moved since."""
        new = np.asarray(wanted & (self.last_saved != self.steps))
        if not new.any():
            return
        self.saved_steps.append(self.steps)
        self.saved_times.append(self.log_time)
        self.saved_for.append(new)
        self.saved.append(self.params)
        self.last_saved = np.where(new, self.steps, self.last_saved)
        self.last_saved_time = np.where(new, self.log_time, self.last_saved_time)


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
        checkpoint: if given, an interrupted run resumes from there to the same bits.
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
    step: Stepper = STEPPERS.build(stepper)
    control: Controller = CONTROLLERS.build(controller)
    key = ""
    if checkpoint:
        rules = (step, control, stop, save_at, tuple(objective.trainable))
        key = fingerprint([*params, *objective.data], *rules)
    evaluation = objective.evaluate(params)
    state = _begin(params, evaluation, step, control)
    stored = checkpoint.read(key) if checkpoint else None
    if stored is None:
        for recorder in recorders:
            recorder.start(params, evaluation)
        state.log_loss.append(evaluation.log_loss)
        state.save(state.active)
    else:
        restore(state, recorders, *stored)
        evaluation = objective.evaluate(state.params)
        _log.info("resuming from the checkpoint at step %d", int(np.max(state.steps)))
    keeps_more = save_at != SaveAt()
    # A run that overflows ends as "diverged"; it needs no warning beside that.
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        while not _finish(state, evaluation, stop):
            evaluation = _advance(state, objective, evaluation, step, control, stop, recorders)
            if keeps_more:
                state.save(save_at.wants(state.steps, state.last_saved_time, state.log_time))
            if progress is not None:
                progress(_share(state, evaluation, stop, step.estimates_error), f"log10 loss {_log10(evaluation):.2f}")
            if checkpoint and checkpoint.due():
                checkpoint.write(key, *pack(state, recorders))
    state.save(np.ones(state.steps.shape, dtype=bool))
    _log.info(
        "trained with %s for %d steps to log10 loss %.2f: %s",
        step.name, int(np.max(state.steps)), _log10(evaluation),
        ", ".join(dict.fromkeys(state.outcomes.ravel().tolist())).lower().replace("_", " "),
    )  # fmt: skip
    return trajectory_of(state, objective.trainable, objective.net_with(params), settings or {})


def _begin(params: Params, evaluation: Evaluation, stepper: Stepper, controller: Controller) -> RunState:
    shape = np.shape(evaluation.log_loss)
    if not np.all(np.isfinite(evaluation.log_loss)):
        raise InputError("net", "has a loss that is not finite", "start from finite weights")

    def each(value: Any) -> Any:
        # Where there is no batch, NumPy takes ten times as long for arrays without axes as for its scalars.
        return np.array(np.broadcast_to(value, shape))[()]

    return RunState(
        params,
        stepper.init(params, evaluation),
        rate=each(controller.init(evaluation)),
        cap=each(np.inf),
        log_time=each(-np.inf),
        outcomes=np.full(shape, Outcome.RUNNING.name, dtype="U20"),
        steps=each(0),
        last_saved=each(-1),
        last_saved_time=each(-np.inf),
    )


def _finish(state: RunState, evaluation: Evaluation, stop: Stop) -> bool:
    """Name the outcome of every seed that has come to its end; True when all have."""
    log_loss = evaluation.log_loss
    # Both comparisons are false of NaN.
    going = (log_loss > stop.log_loss) & (log_loss < math.inf) & (state.steps < stop.steps)
    if stop.log_time < math.inf:
        going = going & (state.log_time < stop.log_time - _LANDING)
    if not _all(going):
        state.end(Outcome.DIVERGED, ~np.isfinite(log_loss))
        state.end(Outcome.TARGET_LOSS, log_loss <= stop.log_loss)
        state.end(Outcome.TIME_REACHED, state.log_time >= stop.log_time - _LANDING)
        state.end(Outcome.STEPS_DONE, state.steps >= stop.steps)
    return not (state.active.any() if state.active.ndim else state.active)


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
    before, log_rate, judged = evaluation, controller.log_rate(state.rate, evaluation), state.active
    if stop.log_time < math.inf:
        log_rate = np.minimum(log_rate, state.cap)
    proposal = stepper.propose(objective, Start(state.params, before, state.memory, log_rate))
    accepted, rate = controller.judge(state.rate, before, proposal)
    if stop.log_time < math.inf:
        passed = np.logaddexp(state.log_time, proposal.log_elapsed) > stop.log_time + _LANDING
        state.cap = np.where(passed, _landing_rate(state, stop, before, proposal, log_rate), np.inf)
        judged = judged & ~passed
    accepted = accepted & judged
    if _all(accepted):
        state.rate, elapsed = rate, proposal.log_elapsed
        state.params, state.memory, evaluation = proposal.params, proposal.state, proposal.evaluation
    else:
        state.rate = np.where(judged, rate, state.rate)
        # At a log-loss beyond 1e12 the sum has lost its digits, and so have the steps.
        far = np.abs(before.log_loss) > 1e12
        state.end(Outcome.RATE_UNDERFLOW, ~accepted & ((log_rate + before.log_loss < _UNDERFLOW) | far))
        if not accepted.any():
            return evaluation
        state.params = _mix(accepted, proposal.params, state.params)
        state.memory = _mix(accepted, proposal.state, state.memory)
        elapsed = np.where(accepted, proposal.log_elapsed, -np.inf)
        evaluation = objective.evaluate(state.params)
    state.steps = state.steps + accepted
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


def _all(truth: TruthPerSeed) -> bool:
    """`truth.all()`, which takes long where there is no batch."""
    return bool(truth.all() if truth.ndim else truth)


def _landing_rate(state: RunState, stop: Stop, before: Evaluation, proposal: Proposal, log_rate: PerSeed) -> PerSeed:
    """The log rate with which a step that went past the end of the time span would land on it.

    The loss falls by a factor exp(-drop) along the step, so time runs faster and faster: a share f of
    it takes expm1(f drop) / drop of the naive time, and f is where that is the time left.
    """
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


def _share(state: RunState, evaluation: Evaluation, stop: Stop, by_decades: bool) -> float:
    """How much is done, by the end that is nearest; a seed that has ended needs no more."""
    done = state.steps / max(stop.steps, 1)
    if -math.inf < stop.log_loss < 0.0:  # the first steps begin near a loss of one
        done = np.maximum(done, evaluation.log_loss / stop.log_loss)
    if stop.log_time < math.inf:
        # Steps that follow the error take about as many for each decade of time as for the next.
        first = state.log_rate[0] if by_decades and state.log_rate else stop.log_time
        decades = (state.log_time - first) / np.maximum(stop.log_time - first, 1e-9)
        done = np.maximum(done, decades if by_decades else np.exp(state.log_time - stop.log_time))
    return float(np.mean(np.where(state.active, np.minimum(done, 1.0), 1.0)))


def _log10(evaluation: Evaluation) -> float:
    return float(np.max(evaluation.log_loss)) / math.log(10)


_LISTS = ("log_loss", "log_rate", "moved", "saved_steps", "saved_times", "saved_for")
_ARRAYS = ("rate", "cap", "log_time", "steps", "last_saved", "last_saved_time")


def pack(state: RunState, recorders: Sequence[Recorder]) -> tuple[dict[str, ndarray], dict[str, Any]]:
    """Everything that a checkpoint needs."""
    arrays = {f"params/{i}": p for i, p in enumerate(state.params)}
    arrays |= {f"memory/{i}": p for i, p in enumerate(state.memory)}
    for i in range(len(state.params)):
        arrays[f"saved/{i}"] = np.stack([kept[i] for kept in state.saved])
    for name in (*_LISTS, *_ARRAYS):
        arrays[name] = np.asarray(getattr(state, name))
    for i, recorder in enumerate(recorders):
        arrays |= {f"recorder/{i}/{name}": array for name, array in recorder.arrays().items()}
    return arrays, {"step": int(np.max(state.steps)), "outcomes": state.outcomes.tolist()}


def restore(state: RunState, recorders: Sequence[Recorder], arrays: dict[str, ndarray], meta: dict[str, Any]) -> None:
    """Go on from what `pack` returned."""
    state.params = tuple(arrays[f"params/{i}"] for i in range(len(state.params)))
    state.memory = tuple(arrays[f"memory/{i}"] for i in range(len(state.memory)))
    saved = [arrays[f"saved/{i}"] for i in range(len(state.params))]
    state.saved = [tuple(part[t] for part in saved) for t in range(len(saved[0]))]
    for name in _LISTS:
        setattr(state, name, list(arrays[name]))
    for name in _ARRAYS:
        setattr(state, name, arrays[name][()])
    state.outcomes = np.asarray(meta["outcomes"], dtype="U20")
    state.active = state.outcomes == Outcome.RUNNING.name
    for i, recorder in enumerate(recorders):
        prefix = f"recorder/{i}/"
        recorder.restore({n[len(prefix) :]: a for n, a in arrays.items() if n.startswith(prefix)})


def trajectory_of(state: RunState, names: Sequence[str], start: Network, settings: dict[str, Any]) -> Trajectory:
    """What the run leaves behind."""
    saved_for = np.asarray(state.saved_for)
    moved = np.asarray(state.moved).reshape(len(state.moved), *state.steps.shape)
    everybody = np.ones((1, *state.steps.shape), dtype=bool)
    rates = np.asarray(state.log_rate).reshape(moved.shape)
    return Trajectory(
        steps=own_rows(np.asarray(state.saved_steps), saved_for),
        log_times=own_rows(np.asarray(state.saved_times), saved_for),
        parameters={
            name: own_rows(np.stack([kept[i] for kept in state.saved]), saved_for) for i, name in enumerate(names)
        },
        start=start,
        log_loss=own_rows(np.asarray(state.log_loss), np.concatenate([everybody, moved])),
        log_rate=own_rows(rates, moved, rest=-np.inf),
        outcomes=tuple(Outcome[name] for name in np.atleast_1d(state.outcomes).tolist()),
        settings=settings,
    )


def own_rows(rows: ndarray, mine: ndarray, rest: float | None = None) -> ndarray:
    """The rows of each seed that are its own, one after another.

    Seeds with fewer rows than others stay where they ended, or are filled up with `rest`.

    >>> own_rows(np.array([[1, 1], [2, 5], [3, 6]]), np.array([[True, True], [True, False], [True, True]]))
    array([[1, 1],
           [2, 6],
           [3, 6]])
    """
    if mine.all():
        return rows
    batch = mine.shape[1:]
    flat = rows.reshape(len(rows), -1, *rows.shape[mine.ndim :])
    columns = [flat[keep, seed] for seed, keep in enumerate(mine.reshape(len(mine), -1).T)]
    filled = padded(columns, rest)
    return np.stack(filled, axis=1).reshape(-1, *batch, *rows.shape[mine.ndim :])
