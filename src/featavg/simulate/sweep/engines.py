"""Where jobs run: this process, joblib's processes, or a Dask cluster. Results in any order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from threading import Thread
from time import perf_counter
from typing import Any, Protocol, runtime_checkable

import featavg
from featavg.cores import cores
from featavg.errors import InputError
from featavg.simulate.sweep.work import Job, failed_rows, work, work_on
from featavg.storage.index import Row
from featavg.storage.places import install_command

# Seconds of work that are sent at once: long against sending them, short against a kill.
AT_ONCE = 0.25
# How often a pool whose worker was killed is started again before the sweep gives up.
RESTARTS = 30


@runtime_checkable
class Engine(Protocol):
    """Runs jobs and yields their rows as they come; a killed worker's jobs are done again.

    >>> import tempfile
    >>> import featavg as fa
    >>> folder, fixed = tempfile.mkdtemp(), {"k": 4, "d": 50, "n": 40}
    >>> fa.sweep({"cosine": [0, 0.5]}, folder, measures="index", seeds=1, engine="serial", **fixed)
    Sweep over cosine (2): 2 runs, 0 failed
    ...
    """

    def run(self, jobs: Sequence[Job]) -> Iterator[list[Row]]:
        """The rows of every job, each job's together."""
        ...


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
                    raise InputError(
                        "engine",
                        f"lost its workers {RESTARTS} times",
                        "use fewer workers if memory is short, or --engine serial to see why",
                    ) from error
            left = [job for i, chunk in enumerate(chunks) if i not in done for job in chunk]
            if not left:
                return

    def _pool(self, chunks: list[list[Job]]) -> Iterator[tuple[int, list[list[Row]]]]:
        from joblib import Parallel, delayed, parallel_config

        with parallel_config(backend="loky", inner_max_num_threads=1):
            pool = Parallel(
                n_jobs=self.workers, return_as="generator_unordered", pre_dispatch="3*n_jobs"
            )
            yield from pool(delayed(_numbered)(i, chunk) for i, chunk in enumerate(chunks))


def _numbered(number: int, jobs: list[Job]) -> tuple[int, list[list[Row]]]:
    return number, work_on(jobs)


class Dask:
    """A Dask cluster: a local one, or the one at an address.

    Args:
        address: of the scheduler, as `tcp://host:8786`; without it a local cluster is started.
        workers: processes of a local cluster; all cores by default.
        patience: seconds to wait for the scheduler, and for it to come back after a failure.
    """

    def __init__(
        self, address: str | None = None, workers: int | None = None, patience: float = 10.0
    ) -> None:
        self.address, self.workers, self.patience = address, workers, patience

    def run(self, jobs: Sequence[Job]) -> Iterator[list[Row]]:
        """As they come; Dask itself repeats the jobs of a worker that was lost."""
        left = dict(enumerate(jobs))
        for restart in range(RESTARTS + 1):
            try:
                for number, rows in self._submitted(left):
                    del left[number]
                    yield rows
            except (OSError, TimeoutError, RuntimeError) as error:
                # The scheduler was lost: what is left is sent again to a new one.
                if self.address is not None or restart == RESTARTS:
                    raise InputError(
                        "engine",
                        f"lost the scheduler ({type(error).__name__})",
                        "start it again and repeat the command: finished runs are kept",
                    ) from error
            if not left:
                return

    def _submitted(self, left: dict[int, Job]) -> Iterator[tuple[int, list[Row]]]:
        distributed = _distributed()
        with self._client(distributed) as client:
            self._any_worker(client)
            self._same_version(client)
            futures = {client.submit(work, job, pure=False): n for n, job in left.items()}
            for future in distributed.as_completed(list(futures)):
                if future.status in ("lost", "cancelled"):
                    raise RuntimeError("the scheduler lost a job")
                number = futures[future]
                if future.status == "error" and _kills_workers(future.exception()):
                    sentence = "The run broke: every worker that tried it was lost."
                    yield number, failed_rows(left[number], sentence)
                else:
                    yield number, future.result()

    def _client(self, distributed: Any) -> Any:
        try:
            if self.address is not None:
                _greet(distributed, self.address, self.patience)
                return distributed.Client(self.address, timeout=self.patience)
            # The client starts the cluster itself: one that it was given would outlive it. Any free
            # port will do: None stands for 8787, which another sweep on this machine may have.
            return distributed.Client(
                n_workers=self.workers or cores(),
                threads_per_worker=1,
                dashboard_address="127.0.0.1:0",
            )
        except (OSError, TimeoutError, ValueError) as error:
            raise InputError(
                "engine",
                f"finds no scheduler at {self.address}",
                "start one with `dask scheduler`, or use --engine processes",
            ) from error

    def _any_worker(self, client: Any) -> None:
        """A scheduler without workers would let us wait for ever; a cluster's may take a minute."""
        try:
            client.wait_for_workers(1, timeout=6 * self.patience)
        except TimeoutError as error:
            raise InputError(
                "engine", "has no workers", "start one with `dask worker ADDRESS`"
            ) from error

    def _same_version(self, client: Any) -> None:
        versions = set(client.run(_version).values())
        if versions - {featavg.__version__}:
            raise InputError(
                "engine",
                f"has workers with featavg {', '.join(sorted(versions))}",
                f"install {featavg.__version__} on them",
            )


def _greet(distributed: Any, address: str, patience: float) -> None:
    """Wait for the first words of a scheduler, which `Client` would do without an end.

    Dask's timeout covers the connection and not the greeting after it, so that a port at which
    something else listens would hold us for ever.
    """
    import asyncio  # a tenth of a second, which only Dask's users pay

    failures: list[Exception] = []

    async def exchange() -> None:
        greeting = distributed.comm.connect(address, timeout=patience)
        comm = await asyncio.wait_for(greeting, patience)
        comm.abort()

    def converse() -> None:
        try:
            asyncio.run(exchange())
        except Exception as error:  # what answers may be anything
            failures.append(error)

    # A thread of its own: a notebook has a running event loop already.
    thread = Thread(target=converse)
    thread.start()
    thread.join()
    if failures:
        raise OSError(f"no scheduler at {address}") from failures[0]


def _kills_workers(error: BaseException | None) -> bool:
    """Dask gives a job up that several workers did not survive."""
    return type(error).__name__ == "KilledWorker"


def _version() -> str:
    return featavg.__version__


def _distributed() -> Any:
    try:
        import distributed
    except ImportError:
        raise InputError(
            "engine", "is dask, which is not installed", install_command("dask")
        ) from None
    return distributed


def engine_named(name: str | Engine, workers: int | None = None) -> Engine:
    """`serial`, `processes`, `dask`, or `dask://HOST:PORT`; an engine of your own is taken as is.

    >>> engine_named("serial")  # doctest: +ELLIPSIS
    <featavg.simulate.sweep.engines.Serial object at ...>
    """
    if not isinstance(name, str):
        return name
    if name == "serial":
        return Serial()
    if name == "processes":
        return Processes(workers)
    if name == "dask":
        return Dask(workers=workers)
    if name.startswith("dask://") and len(name) > len("dask://"):
        return Dask("tcp://" + name.removeprefix("dask://"))
    raise InputError(
        "engine", f"is {name!r}", "choose serial, processes, dask, or dask://HOST:PORT"
    )
