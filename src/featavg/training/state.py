"""All that changes while a run goes on: how it is saved, packed for a checkpoint, and summed up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy import ndarray

from featavg.shapes import PerSeed, TruthPerSeed
from featavg.training.objective import Evaluation, Params
from featavg.training.trajectory import Outcome, Trajectory


class StepView(NamedTuple):
    """What a recorder sees of an accepted step."""

    step: int
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
    """All that changes while a run goes on."""

    params: Params
    memory: Params
    rate: PerSeed
    cap: PerSeed  # log rate that the next attempt may not exceed, so as not to overshoot the end
    log_time: PerSeed
    outcomes: ndarray  # Outcome names, one for each seed
    step: int = 0
    saved_steps: list[int] = field(default_factory=list)
    saved_times: list[PerSeed] = field(default_factory=list)
    saved: list[Params] = field(default_factory=list)
    log_loss: list[PerSeed] = field(default_factory=list)
    log_rate: list[PerSeed] = field(default_factory=list)

    def save(self) -> None:
        """Keep the present parameters, once."""
        if self.saved_steps and self.saved_steps[-1] == self.step:
            return
        self.saved_steps.append(self.step)
        self.saved_times.append(self.log_time)
        self.saved.append(self.params)

    @property
    def active(self) -> ndarray:
        """Which seeds are still running."""
        return np.asarray(self.outcomes == Outcome.RUNNING.name)

    @property
    def times(self) -> tuple[float, float]:
        """The latest flow time of any seed at the last save, and now."""
        return float(np.max(self.saved_times[-1])), float(np.max(self.log_time))


def pack(
    state: RunState, recorders: Sequence[Recorder]
) -> tuple[dict[str, ndarray], dict[str, Any]]:
    """Everything that a checkpoint needs."""
    arrays = {f"params/{i}": p for i, p in enumerate(state.params)}
    arrays |= {f"memory/{i}": p for i, p in enumerate(state.memory)}
    for i in range(len(state.params)):
        arrays[f"saved/{i}"] = np.stack([one[i] for one in state.saved])
    for name in ("saved_steps", "saved_times", "log_loss", "log_rate"):
        arrays[name] = np.asarray(getattr(state, name))
    for name in ("rate", "cap", "log_time"):
        arrays[name] = getattr(state, name)
    for i, recorder in enumerate(recorders):
        arrays |= {f"recorder/{i}/{name}": array for name, array in recorder.arrays().items()}
    return arrays, {"step": state.step, "outcomes": state.outcomes.tolist()}


def restore(
    state: RunState,
    recorders: Sequence[Recorder],
    arrays: dict[str, ndarray],
    meta: dict[str, Any],
) -> None:
    """Go on from what `pack` returned."""
    state.params = tuple(arrays[f"params/{i}"] for i in range(len(state.params)))
    state.memory = tuple(arrays[f"memory/{i}"] for i in range(len(state.memory)))
    saved = [arrays[f"saved/{i}"] for i in range(len(state.params))]
    state.saved = [tuple(part[t] for part in saved) for t in range(len(saved[0]))]
    state.saved_steps = [int(step) for step in arrays["saved_steps"]]
    for name in ("saved_times", "log_loss", "log_rate"):
        setattr(state, name, list(arrays[name]))
    for name in ("rate", "cap", "log_time"):
        setattr(state, name, arrays[name])
    state.step, state.outcomes = meta["step"], np.asarray(meta["outcomes"], dtype="U20")
    for i, recorder in enumerate(recorders):
        prefix = f"recorder/{i}/"
        recorder.restore({n[len(prefix) :]: a for n, a in arrays.items() if n.startswith(prefix)})


def trajectory_of(
    state: RunState, names: Sequence[str], fixed: dict[str, ndarray], settings: dict[str, Any]
) -> Trajectory:
    """What the run leaves behind."""
    stacked = {name: np.stack([one[i] for one in state.saved]) for i, name in enumerate(names)}
    shape = state.log_time.shape
    return Trajectory(
        steps=np.asarray(state.saved_steps),
        log_times=np.stack(state.saved_times),
        parameters=stacked,
        fixed=fixed,
        log_loss=np.stack(state.log_loss),
        log_rate=np.stack(state.log_rate) if state.log_rate else np.zeros((0, *shape)),
        outcomes=tuple(Outcome[name] for name in np.atleast_1d(state.outcomes).tolist()),
        settings=settings,
    )
