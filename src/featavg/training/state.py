"""All that changes while a run goes on: how it is saved, packed for a checkpoint, and summed up.

Every seed of a batch counts its own steps. Rows of the history that some seeds did not take part in
(their step was rejected, or they had ended) are dropped from those seeds' columns at the end, so that
what a seed leaves behind does not depend on its companions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Int
from numpy import ndarray

from featavg.nets.network import Network
from featavg.shapes import PerSeed, TruthPerSeed
from featavg.training.parts import Evaluation, Params
from featavg.training.trajectory import Outcome, Trajectory, padded


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


@dataclass
class RunState:
    """All that changes while a run goes on.

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
    _compared: ndarray | None = None
    _running: Any = None

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

    @property
    def active(self) -> Bool[ndarray, "*s"]:
        """Which seeds are still running."""
        if self._compared is not self.outcomes:  # words are compared when they change
            self._compared = self.outcomes
            self._running = np.asarray(self.outcomes == Outcome.RUNNING.name)
        return self._running


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
        setattr(state, name, arrays[name])
    state.outcomes = np.asarray(meta["outcomes"], dtype="U20")
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
        steps=own_rows(np.stack(state.saved_steps), saved_for),
        log_times=own_rows(np.stack(state.saved_times), saved_for),
        parameters={
            name: own_rows(np.stack([kept[i] for kept in state.saved]), saved_for) for i, name in enumerate(names)
        },
        start=start,
        log_loss=own_rows(np.stack(state.log_loss), np.concatenate([everybody, moved])),
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
