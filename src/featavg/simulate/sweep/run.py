"""Run a sweep: the Python side of `featavg sweep`."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import featavg
from featavg.boundary.public import public
from featavg.errors import InputError
from featavg.progress import Progress, silent
from featavg.simulate.sweep.engines import Engine, engine_named
from featavg.simulate.sweep.measures import Measure, measures_named
from featavg.simulate.sweep.plan import Plan, SweepAxis, known_field
from featavg.simulate.sweep.store import RunIndex, keep_arrays
from featavg.simulate.sweep.table import Sweep
from featavg.simulate.sweep.work import Job, described, run_id
from featavg.storage.cache import note_saved

INDEX = "runs.sqlite"
# More settings than this must be confirmed.
MANY = 100_000


@public
def sweep(
    vary: Mapping[str, Iterable[Any]] | Sequence[str | SweepAxis],
    store: str | Path = "featavg-sweep",
    *,
    measures: str | tuple[str, ...] = ("index", "radii"),
    seeds: int | Sequence[int] = 5,
    way: str = "grid",
    samples: int = 0,
    engine: str | Engine = "processes",
    workers: int | None = None,
    yes: bool = False,
    progress: Progress | None = None,
    **base: Any,
) -> Sweep:
    """Train and measure every setting of a grid, or of random points, and return a table.

    What is in the store already is not computed again: a killed sweep goes on, a widened one
    computes what is new, two sweeps share their runs. The numbers do not depend on the engine.

    Args:
        vary: values for each field of `Setting` that varies, or texts as `cosine=0:0.9:10`.
        store: folder of the index of runs.
        measures: names from `MEASURES`.
        seeds: how many, from 0, or which.
        way: "grid", or "random" or "sobol" with `samples` points between the ends of the axes.
        samples: how many random points.
        engine: "processes" (joblib), "serial", "dask", "dask://HOST:PORT", or an engine of yours.
        workers: how many processes.
        yes: run even a very large sweep.
        progress: called with the share done and a note.
        base: fields of `Setting` that stay.

    >>> import featavg as fa
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = fa.sweep({"cosine": [0.0, 0.5]}, folder, measures="loss", seeds=2, engine="serial",
    ...                   k=4, d=100, n=20, steps=5)
    >>> len(table), table.columns["cosine"]
    (4, array([0. , 0. , 0.5, 0.5]))
    """
    chosen = tuple(range(seeds)) if isinstance(seeds, int) else tuple(seeds)
    for name in base:
        known_field(name)
    plan = Plan(dict(base), _axes(vary), chosen, way, samples)
    wanted = measures_named(measures)
    worker = engine_named(engine, workers)
    if len(plan) * len(chosen) > MANY and not yes:
        raise InputError(
            "vary",
            f"makes {len(plan):,} settings with {len(chosen)} seeds, "
            f"about {len(plan) * len(chosen) * 0.05 / 3600:,.0f} h at 50 ms a run and "
            f"{len(plan) * len(chosen) * len(wanted) * 500 / 1e9:,.1f} GB of index",
            "narrow it, or say --yes",
        )
    points = list(plan.points())
    # Settings are checked before the first run: the mistake of the last one should not cost hours.
    settings = [described(plan.setting(point)) for point in points]
    folder = Path(store)
    with RunIndex(folder / INDEX) as index:
        jobs = missing(index, settings, chosen, wanted)
        told = "%d settings, %d of them to compute"
        logging.getLogger(__name__).info(told, len(settings), len(jobs))
        _compute(folder, index, jobs, worker, progress or silent)
        ids = _ids(settings, chosen, wanted)
        rows = list(index.rows({made: run for run, made in ids.items()}))
    computed = {(job.values, seed, name) for job in jobs for seed in job.seeds for name in job.measures}
    known = (row for row in rows if (row.setting, row.seed, row.measure) not in computed)
    note_saved(sum(row.seconds for row in known))
    return Sweep.of(plan, points, settings, rows, folder)


def missing(
    index: RunIndex, settings: Sequence[str], seeds: tuple[int, ...], measures: tuple[Measure, ...]
) -> list[Job]:
    """The jobs whose rows are not in the index: one for each setting and set of missing seeds."""
    ids = _ids(settings, seeds, measures)
    known = index.known(list(ids.values()))
    index.forget_errors(list(ids.values()))
    jobs = []
    for setting in dict.fromkeys(settings):
        lacking = {seed: tuple(m.name for m in measures if ids[setting, seed, m.name] not in known) for seed in seeds}
        for names in dict.fromkeys(names for names in lacking.values() if names):
            together = tuple(seed for seed in seeds if lacking[seed] == names)
            jobs.append(Job(setting, together, names, featavg.__version__))
    return jobs


def _ids(
    settings: Sequence[str], seeds: tuple[int, ...], measures: tuple[Measure, ...]
) -> dict[tuple[str, int, str], str]:
    """The id of every measured run, by its setting, seed and measure."""
    runs = itertools.product(dict.fromkeys(settings), seeds, measures)
    return {(s, seed, m.name): run_id(s, seed, m) for s, seed, m in runs}


def _compute(store: Path, index: RunIndex, jobs: list[Job], engine: Engine, progress: Progress) -> None:
    for done, rows in enumerate(engine.run(jobs), start=1):
        for row in rows:
            keep_arrays(store, row)
        # At once, which takes a tenth of a millisecond: a kill then loses nothing but what is in flight.
        index.add(rows)
        progress(done / len(jobs), f"{done} of {len(jobs)} settings")


def _axes(vary: Mapping[str, Iterable[Any]] | Sequence[str | SweepAxis]) -> tuple[SweepAxis, ...]:
    if isinstance(vary, Mapping):
        axes = tuple(SweepAxis.of(name, values) for name, values in vary.items())
    else:
        given = [vary] if isinstance(vary, str) else vary
        axes = tuple(SweepAxis.parse(one) if isinstance(one, str) else one for one in given)
    if not axes:
        raise InputError("vary", "is empty", "name at least one field, as cosine=0:0.9:10")
    return axes
