"""Trains all seeds of a setting in one batch and measures each, in any process."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import ndarray
from threadpoolctl import threadpool_limits

import featavg
from featavg.errors import InputError
from featavg.progress import Progress, silent
from featavg.simulate.points import SimulationPoints, gather_points, require_memory, share_points
from featavg.simulate.setting import Setting
from featavg.simulate.sweep.measures import MEASURES, Measure, Measured, Run, measures_named
from featavg.simulate.sweep.store import Row
from featavg.training.train import train
from featavg.training.trajectory import Trajectory

if TYPE_CHECKING:
    import xarray as xr


@dataclass(frozen=True)
class Job:
    """One setting, the seeds and measures that are still missing, and the ids of their rows."""

    values: str
    seeds: tuple[int, ...]
    measures: tuple[str, ...]
    version: str


def described(setting: Setting) -> str:
    """A setting without its seeds, as JSON in one order: what the id of a run is made of."""
    values = {n: v for n, v in setting.to_json().items() if v is not None and n != "seeds"}
    return json.dumps(values, sort_keys=True, separators=(",", ":"))


def run_id(values: str, seed: int, measure: Measure) -> str:
    """Hash of the setting, its seed and the version of what measures it.

    >>> first = run_id(described(Setting()), 0, MEASURES["loss"])
    >>> first == run_id(described(Setting()), 0, MEASURES["loss"]), len(first)
    (True, 24)
    """
    parts = [values, seed, measure.name, measure.version, featavg.__version__]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:24]


def work(job: Job) -> list[Row]:
    """Every row of a job; what goes wrong is a row with a sentence, not the end of the sweep."""
    if job.version != featavg.__version__:
        raise InputError(
            "engine",
            f"has workers with featavg {featavg.__version__} for a sweep of {job.version}",
            "install the same version everywhere",
        )
    start = perf_counter()
    # One BLAS thread everywhere: the bits then do not depend on where a job runs.
    with threadpool_limits(limits=1):
        try:
            rows = _measured(job)
        except InputError as error:
            rows = failed_rows(job, str(error))
        except (MemoryError, FloatingPointError, ArithmeticError, ValueError) as error:
            rows = failed_rows(job, f"The run broke: {type(error).__name__}: {error}")
    seconds = (perf_counter() - start) / max(len(rows), 1)
    return [replace(row, seconds=seconds) for row in rows]


def failed_rows(job: Job, sentence: str) -> list[Row]:
    """The rows of a job that could not be done at all."""
    return [_row(job, seed, name, error=sentence) for seed in job.seeds for name in job.measures]


def _row(job: Job, seed: int, name: str, found: Mapping[str, float | ndarray] = {}, error: str = "") -> Row:
    arrays = {k: v for k, v in found.items() if isinstance(v, ndarray)}
    # JSON has no NaN and no infinity; None says that there is no number.
    numbers = {k: float(v) if math.isfinite(v) else None for k, v in found.items() if k not in arrays}
    made = run_id(job.values, seed, MEASURES[name])
    return Row(made, job.values, seed, name, numbers, error, 0.0, job.version, arrays)


def trained(setting: Setting) -> tuple[SimulationPoints, dict[str, Trajectory]]:
    """The points of a setting and its networks by their labels, all seeds in one batch.

    >>> points, runs = trained(Setting(k=4, d=100, n=20, steps=5, seeds=(0, 1)))
    >>> points.features.shape, sorted(runs), runs["fine"].net.batch
    ((4, 38), ['coarse', 'fine'], (2,))
    """
    points = gather_points(setting)
    trajectories = {
        labels: train(share_points(setting, points, labels), setting.recipe(labels)) for labels in setting.each_labels
    }
    return points, trajectories


def _measured(job: Job) -> list[Row]:
    setting = Setting(**json.loads(job.values), seeds=job.seeds)
    require_memory(setting)
    points, trajectories = trained(setting)
    rows = []
    for index, seed in enumerate(job.seeds):
        run = Run(setting, points, trajectories, index, seed)
        for name in job.measures:
            try:
                rows.append(_row(job, seed, name, MEASURES[name].function(run)))
            except InputError as error:
                rows.append(_row(job, seed, name, error=str(error)))
    return rows


def measure_each(
    base: Mapping[str, Any],
    seeds: Sequence[int],
    measures: Sequence[str | Callable[[Run], Measured]],
    progress: Progress = silent,
    **axes: Sequence[Any] | Mapping[Any, Mapping[str, Any]],
) -> xr.Dataset:
    """Trains every combination of `axes` and measures every seed of it.

    `sweep` does the same for thousands of runs, with a store and several processes.

    Args:
        base: fields of `Setting` that stay.
        seeds: all seeds of a setting are one batched computation.
        measures: names of measures of a sweep, or functions from a `Run` to named numbers.
        progress: called with the share done and a note.
        axes: a field of `Setting` with its values, or any name with a mapping from labels to fields.

    >>> names = {"descent": {"stepper": "gd"}, "Adam": {"stepper": "adam", "coordinates": "ambient"}}
    >>> base = {"k": 4, "d": 60, "n": 20, "steps": 5}
    >>> table = measure_each(base, (0, 1), ["index"], optimizer=names, sigma=[0.5, 1.0])
    >>> dict(table.sizes), table["index_coarse"].dims
    ({'optimizer': 2, 'sigma': 2, 'seed': 2}, ('optimizer', 'sigma', 'seed'))
    """
    import xarray as xr

    functions = [measures_named((one,))[0].function if isinstance(one, str) else one for one in measures]
    choices: dict[str, Mapping[Any, Mapping[str, Any]]] = {
        name: values if isinstance(values, Mapping) else {value: {name: value} for value in values}
        for name, values in axes.items()
    }
    combinations = list(itertools.product(*(each.items() for each in choices.values())))
    cells: dict[str, list[Any]] = {}
    for i, combination in enumerate(combinations):
        progress(i / len(combinations), ", ".join(str(label) for label, _ in combination))
        fields = dict(base)
        for _, changed in combination:
            fields |= changed
        setting = Setting(**fields, seeds=tuple(seeds))
        points, trajectories = trained(setting)
        for index, seed in enumerate(seeds):
            run = Run(setting, points, trajectories, index, seed)
            for function in functions:
                for name, value in function(run).items():
                    cells.setdefault(name, []).append(value)
    dims = (*axes, "seed")
    shape = (*map(len, choices.values()), len(seeds))
    variables = {}
    for name, values in cells.items():
        array = np.array(values).reshape(*shape, *np.shape(values[0]))
        inner = tuple(f"{name}_axis{i}" for i in range(array.ndim - len(dims)))
        variables[name] = ((*dims, *inner), array)
    coordinates = {name: list(each) for name, each in choices.items()} | {"seed": list(seeds)}
    return xr.Dataset(variables, coordinates)
