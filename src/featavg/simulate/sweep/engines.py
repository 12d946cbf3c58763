"""Where jobs run: this process, joblib's processes, or a Dask cluster. Results in any order."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from time import perf_counter
from typing import Any, Protocol, runtime_checkable

from threadpoolctl import threadpool_limits

import featavg
from featavg.cores import cores
from featavg.errors import InputError
from featavg.simulate.sweep.store import Row
from featavg.simulate.sweep.work import Job, failed_rows, work
from featavg.storage.places import install_command

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
        with threadpool_limits(limits=1), self._client(distributed) as client:
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
    <featavg.simulate.sweep.engines.Serial object at ...>
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
