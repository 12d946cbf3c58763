"""Run a sweep, the Python side of `featavg sweep`: in this process, joblib's processes, or a Dask cluster."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol, runtime_checkable

import featavg
from featavg.boundary.public import public
from featavg.errors import InputError
from featavg.machine import cores, one_blas_thread
from featavg.progress import Progress, silent
from featavg.simulate.sweep.measures import Measure, measures_named
from featavg.simulate.sweep.plan import Plan, SweepAxis, known_field
from featavg.simulate.sweep.store import Row, RunIndex, keep_arrays
from featavg.simulate.sweep.table import Sweep
from featavg.simulate.sweep.work import Job, described, failed_rows, run_id, work
from featavg.storage.cache import note_saved
from featavg.storage.places import install_command

INDEX = "runs.sqlite"
# More settings than this must be confirmed.
MANY = 100_000
# Seconds of work that are sent at once: long against sending them, short against a kill.
AT_ONCE = 0.25
# How often a pool whose worker was killed is started again before the sweep gives up.
RESTARTS = 30


@runtime_checkable
class Engine(Protocol):
    """Runs jobs and yields their rows as they come; jobs of a killed worker are run again."""

    def run(self, jobs: Sequence[Job]) -> Iterator[list[Row]]: ...  # noqa: D102 (as above)


class Serial:
    """This process, one job after the other."""

    def run(self, jobs: Sequence[Job]) -> Iterator[list[Row]]:
        """One job after the other."""
        for job in jobs:
            yield work(job)


class Processes:
    """joblib's processes on this machine, one BLAS thread each.

    Args:
        workers: how many; all cores by default.
    """

    def __init__(self, workers: int | None = None) -> None:
        if workers is not None and workers < 1:
            raise InputError("workers", f"is {workers}", "give at least one")
        self.workers = workers or cores()

    def run(self, jobs: Sequence[Job]) -> Iterator[list[Row]]:
        """As they come. The first job is done here, and its time says how many go together."""
        left = list(jobs)
        if not left:
            return
        start = perf_counter()
        yield work(left.pop(0))
        size = max(1, min(64, int(AT_ONCE / max(perf_counter() - start, 1e-4))))
        size = max(1, min(size, len(left) // (2 * self.workers) or 1))
        for restart in range(RESTARTS + 1):
            chunks = [left[i : i + size] for i in range(0, len(left), size)]
            done: set[int] = set()
            try:
                for number, rows in self._pool(chunks):
                    done.add(number)
                    yield from rows
            except Exception as error:
                if type(error).__name__ != "TerminatedWorkerError":
                    raise
                if restart == RESTARTS:
                    remedy = "use fewer workers if memory is short, or --engine serial to see why"
                    problem = f"lost its workers {RESTARTS} times"
                    raise InputError("engine", problem, remedy) from error
            left = [job for i, chunk in enumerate(chunks) if i not in done for job in chunk]
            if not left:
                return

    def _pool(self, chunks: list[list[Job]]) -> Iterator[tuple[int, list[list[Row]]]]:
        from joblib import Parallel, delayed, parallel_config

        with parallel_config(backend="loky", inner_max_num_threads=1):
            pool = Parallel(n_jobs=self.workers, return_as="generator_unordered", pre_dispatch="3*n_jobs")
            yield from pool(delayed(_numbered)(i, chunk) for i, chunk in enumerate(chunks))


def _numbered(number: int, jobs: list[Job]) -> tuple[int, list[list[Row]]]:
    return number, [work(job) for job in jobs]


class Dask:
    """A Dask cluster: the one at an address, or threads of this process.

    The local one has no workers that another user of the machine could send code to. What a remote
    scheduler is trusted with stands in SECURITY.md.

    Args:
        address: of the scheduler, as `tcp://host:8786`; without it jobs run in threads.
        workers: how many threads; all cores by default.
        patience: seconds to wait for the scheduler.
    """

    def __init__(self, address: str | None = None, workers: int | None = None, patience: float = 10.0) -> None:
        self.address, self.workers, self.patience = address, workers, patience

    def run(self, jobs: Sequence[Job]) -> Iterator[list[Row]]:
        """As they come; Dask itself repeats the jobs of a worker that was lost."""
        try:
            distributed = import_module("distributed")
        except ImportError:
            problem, remedy = "is dask, which is not installed", install_command("dask")
            raise InputError("engine", problem, remedy) from None
        # Threads would otherwise give each other their number of BLAS threads back.
        with one_blas_thread(), self._client(distributed) as client:
            self._check_workers(client)
            jobs_of = {client.submit(work, job, pure=False): job for job in jobs}
            try:
                for future in distributed.as_completed(list(jobs_of)):
                    yield _rows_of(future, jobs_of[future])
            except (OSError, TimeoutError, RuntimeError) as error:
                problem = f"lost the scheduler ({type(error).__name__})"
                remedy = "start it again and repeat the command: finished runs are kept"
                raise InputError("engine", problem, remedy) from error

    def _client(self, distributed: Any) -> Any:
        if self.address is None:
            return _local_client(distributed, self.workers or cores())
        try:
            _greet(distributed, self.address, self.patience)
            return distributed.Client(self.address, timeout=self.patience)
        except Exception as error:  # what answers may be anything
            problem = f"finds no scheduler at {self.address}"
            remedy = "start one with `dask scheduler`, or use --engine processes"
            raise InputError("engine", problem, remedy) from error

    def _check_workers(self, client: Any) -> None:
        """A scheduler without workers would never answer; a cluster's may take a minute."""
        try:
            client.wait_for_workers(1, timeout=6 * self.patience)
        except TimeoutError as error:
            remedy = "start one with `dask worker ADDRESS`"
            raise InputError("engine", "has no workers", remedy) from error
        versions = set(client.run(_version).values())
        if versions - {featavg.__version__}:
            problem = f"has workers with featavg {', '.join(sorted(versions))}"
            raise InputError("engine", problem, f"install {featavg.__version__} on them")


def _local_client(distributed: Any, workers: int) -> Any:
    import dask

    # Dask's web servers cannot be turned off: on this machine only, and without a page.
    pages: dict[str, list[str]] = {f"distributed.{part}.http.routes": [] for part in ("scheduler", "worker")}
    # Dask gives its handlers their level back before its last threads have ended; two loggers have
    # levels and handlers of their own.
    for name in ("distributed", "distributed.client", "distributed.gc"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    with dask.config.set(pages):
        return distributed.Client(
            processes=False,
            n_workers=workers,
            threads_per_worker=1,
            memory_limit=0,
            dashboard_address="127.0.0.1:0",
            worker_dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL,
        )


def _greet(distributed: Any, address: str, patience: float) -> None:
    """Wait for the first words of a scheduler: at any other port Dask would not time out."""
    import asyncio  # a tenth of a second, which only Dask's users pay

    async def exchange() -> None:
        connected = distributed.comm.connect(address, timeout=patience)
        (await asyncio.wait_for(connected, patience)).abort()

    # A thread of its own: a notebook has a running event loop already.
    with ThreadPoolExecutor(1) as pool:
        pool.submit(lambda: asyncio.run(exchange())).result()


def _rows_of(future: Any, job: Job) -> list[Row]:
    if future.status in ("lost", "cancelled"):
        raise RuntimeError("the scheduler lost a job")
    # Dask gives a job up that several workers did not survive.
    if future.status == "error" and type(future.exception()).__name__ == "KilledWorker":
        return failed_rows(job, "The run broke: every worker that tried it was lost.")
    rows: list[Row] = future.result()
    return rows


def _version() -> str:
    return featavg.__version__


def engine_named(name: str | Engine, workers: int | None = None) -> Engine:
    """`serial`, `processes`, `dask`, or `dask://HOST:PORT`; an engine of your own is taken as is.

    >>> engine_named("serial")  # doctest: +ELLIPSIS
    <featavg.simulate.sweep.run.Serial object at ...>
    """
    if not isinstance(name, str):
        return name
    kind, _, address = name.partition("://")
    if kind == "dask" and ("://" in name) == bool(address):
        return Dask(f"tcp://{address}" if address else None, workers)
    if name not in ("serial", "processes"):
        remedy = "choose serial, processes, dask, or dask://HOST:PORT"
        raise InputError("engine", f"is {name!r}", remedy)
    return Serial() if name == "serial" else Processes(workers)


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

    What is in the store already is not computed again: a killed sweep resumes, a widened one
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
        message = "%d settings, %d of them to compute"
        logging.getLogger(__name__).info(message, len(settings), len(jobs))
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
