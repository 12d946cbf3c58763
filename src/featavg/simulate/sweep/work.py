"""Trains all seeds of a setting in one batch and measures each, in any process."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from time import perf_counter

from numpy import ndarray

import featavg
from featavg.errors import InputError
from featavg.machine import one_blas_thread
from featavg.simulate.points import SimulationPoints, gather_points, require_memory, share_points
from featavg.simulate.setting import Setting
from featavg.simulate.sweep.measures import MEASURES, Measure, Run
from featavg.simulate.sweep.store import Row
from featavg.training.train import train
from featavg.training.trajectory import Trajectory


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
    with one_blas_thread():
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
