"""What a training run leaves behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.boundary.public import public
from featavg.errors import InputError
from featavg.figures.figure import Axis, Figure, Lines, Series
from featavg.figures.typeset import sparkline, table
from featavg.nets.network import Network, network_of
from featavg.storage.folders import read_folder, write_folder


class Outcome(Enum):
    """How a run ended: always by name, never by an exception from deep inside."""

    RUNNING = "still running"
    STEPS_DONE = "all steps were taken"
    TARGET_LOSS = "the target loss was reached"
    TIME_REACHED = "the end of the time span was reached"
    RATE_UNDERFLOW = "the learning rate shrank until steps no longer changed anything"
    DIVERGED = "the loss stopped being finite"


@dataclass(frozen=True, eq=False, repr=False)
class Trajectory:
    """A run: when, where and how it went, and how it ended.

    Leading axes `*s` are the seeds of a batched run; they are absent for a single one.

    Attributes:
        steps: the number of steps that each seed had taken at each save.
        log_times: log of the gradient-flow time (the sum of learning rates) at each save.
        parameters: each trained array at each save, the save first.
        start: the network before training; it knows what was not trained, and its own kind.
        log_loss: log L before the first step and after each one that the seed accepted.
        log_rate: log of the learning rate of each step.
        outcomes: how the run of each seed ended.
        settings: what is needed to run it again.

    Returned by `fa.train` and `fa.run`, which have examples.
    """

    steps: Int[ndarray, "t *s"]
    log_times: Float[ndarray, "t *s"]
    parameters: dict[str, ndarray]
    start: Network
    log_loss: Float[ndarray, "T *s"]
    log_rate: Float[ndarray, "R *s"]
    outcomes: tuple[Outcome, ...]
    settings: dict[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.steps)

    def __repr__(self) -> str:
        facts = ", ".join(f"{name} {value}" for name, value in self._facts().items())
        return f"Trajectory({facts})"

    def _repr_html_(self) -> str:
        course = np.exp(self.log_loss.reshape(len(self.log_loss), -1)[:, 0])
        return table("A run", self._facts(), sparkline(course.tolist(), "loss"))

    def _facts(self) -> dict[str, str]:
        seeds, losses = np.size(self.steps[-1]), np.exp(self.log_loss[-1])
        loss = f"{losses.min():.3g}" + (f" to {losses.max():.3g}" if seeds > 1 else "")
        return {
            "seeds": str(seeds),
            "steps": str(int(np.max(self.steps[-1]))),
            "loss": loss,
            "states kept": str(len(self)),
            "network": repr(self.start),
            "end": self.outcome.value,
        }

    def figure(self) -> Figure:
        """The loss against the steps, one curve a seed (or the median and the range of many)."""
        losses = np.exp(self.log_loss.reshape(len(self.log_loss), -1)).T
        losses[losses == 0.0] = np.nan  # below what float64 holds
        at = np.arange(losses.shape[1])
        known = np.where(np.isfinite(losses), losses, np.nan)
        curves = tuple(Series(f"seed {i}", at, one) for i, one in enumerate(known))
        if len(losses) > 1 and not np.isnan(known).any():
            curves = (Series.over_seeds("loss", at, losses),)
        panel = Lines(Axis("accepted steps"), Axis("loss", log=True), curves)
        return Figure("run", "A run", f"{self.start!r}: {self.outcome.value}.", (panel,))

    @property
    def outcome(self) -> Outcome:
        """How the run ended; of a batch, how the first seed that did not finish well did."""
        bad = (Outcome.DIVERGED, Outcome.RATE_UNDERFLOW)
        return next((ended for ended in self.outcomes if ended in bad), self.outcomes[0])

    def at(self, save: int) -> Any:
        """The network at a save, or the batch of them: of the kind that was trained."""
        if not -len(self) <= save < len(self):
            raise InputError("save", f"is {save}", f"give 0..{len(self) - 1}, or -1 for the last")
        saved = {name: array[save] for name, array in self.parameters.items()}
        return self.start.with_arrays(saved)

    @property
    def net(self) -> Any:
        """The trained network, or the batch of them."""
        return self.at(-1)

    @property
    def initial(self) -> Any:
        """The network before training, or the batch of them."""
        return self.at(0)

    @property
    def fixed(self) -> dict[str, ndarray]:
        """The arrays that were not trained."""
        arrays = self.start.arrays()
        return {name: array for name, array in arrays.items() if name not in self.parameters}

    @property
    def compressed(self) -> bool:
        """Whether the coordinates are those of the exact compression, not of R^d."""
        return bool(self.settings.get("coordinates") == "compressed")

    def save(self, folder: str | Path) -> None:
        """Write the run as a folder of safetensors and JSON."""
        arrays = {f"parameters/{name}": array for name, array in self.parameters.items()}
        arrays |= {f"fixed/{name}": array for name, array in self.fixed.items()}
        for name in ("steps", "log_times", "log_loss", "log_rate"):
            arrays[name] = getattr(self, name)
        meta = {
            "kind": "featavg trajectory",
            "net": self.start.structure(),
            "outcomes": [outcome.name for outcome in self.outcomes],
            "settings": self.settings,
        }
        write_folder(Path(folder), arrays, meta)


def padded(columns: Sequence[ndarray], rest: float | None = None) -> list[ndarray]:
    """Arrays as long as the longest, filled up with their last row or with `rest`."""
    length = max(len(column) for column in columns)
    return [
        np.concatenate(
            [column, np.broadcast_to(column[-1] if rest is None else rest, (length - len(column), *column.shape[1:]))]
        )
        for column in columns
    ]


def joined(runs: Sequence[Trajectory]) -> Trajectory:
    """Runs of one seed or a few, one after another, as the one batch they are.

    A seed that ended before the others stays where it ended, as it does inside a batch.
    """
    first, single = runs[0], [run.log_loss.ndim == 1 for run in runs]

    def along(arrays: Sequence[ndarray], axis: int = 1, rest: float | None = None) -> ndarray:
        """Arrays side by side, those of single runs with an axis for their seed."""
        wide = [np.expand_dims(a, axis) if s else a for a, s in zip(arrays, single, strict=True)]
        return np.concatenate(padded(wide, rest) if axis else wide, axis=axis)

    return replace(
        first,
        steps=along([run.steps for run in runs]),
        log_times=along([run.log_times for run in runs]),
        parameters={name: along([run.parameters[name] for run in runs]) for name in first.parameters},
        start=first.start.with_arrays(
            {name: along([run.start.arrays()[name] for run in runs], axis=0) for name in first.start.arrays()}
        ),
        log_loss=along([run.log_loss for run in runs]),
        log_rate=along([run.log_rate for run in runs], rest=-np.inf),
        outcomes=tuple(outcome for run in runs for outcome in run.outcomes),
        settings=first.settings | {"seeds": [seed for run in runs for seed in run.settings["seeds"]]},
    )


@public
def load_trajectory(folder: str | Path) -> Trajectory:
    """Read a run back: the same arrays to the last bit.

    Args:
        folder: where `Trajectory.save` wrote it.

    >>> import tempfile
    >>> from pathlib import Path
    >>> import featavg as fa
    >>> folder = Path(tempfile.mkdtemp()) / "run"
    >>> run = fa.train(fa.MultiCluster(k=4, d=100), n=40, steps=20)
    >>> run.save(folder)
    >>> bool((fa.load_trajectory(folder).net.weights == run.net.weights).all())
    True
    """
    arrays, meta = read_folder(Path(folder))
    try:
        parameters = _under("parameters/", arrays)
        first = {name: array[0] for name, array in parameters.items()}
        # Runs that were saved before there were other networks do not name theirs.
        structure = meta.get("net", {"kind": "two-layer"})
        return Trajectory(
            parameters=parameters,
            start=network_of(structure, _under("fixed/", arrays) | first),
            outcomes=tuple(Outcome[name] for name in meta["outcomes"]),
            settings=meta["settings"],
            steps=_per_seed(arrays["steps"], arrays["log_times"]),
            **{name: arrays[name] for name in ("log_times", "log_loss", "log_rate")},
        )
    except (KeyError, TypeError, IndexError) as error:
        problem = f"is not a saved run ({error} is missing)"
        raise InputError(str(folder), problem, "give the folder of a run") from error


def _per_seed(steps: ndarray, log_times: ndarray) -> ndarray:
    """Steps of each seed; older runs have one count for all of them."""
    shape = (len(steps), *(1,) * (log_times.ndim - steps.ndim))
    return np.broadcast_to(steps.reshape(shape), log_times.shape) if steps.ndim == 1 else steps


def _under(prefix: str, arrays: Mapping[str, ndarray]) -> dict[str, ndarray]:
    return {name[len(prefix) :]: np.asarray(array) for name, array in arrays.items() if name.startswith(prefix)}
