"""Attempts at a pass side by side: while one runs, the one that would follow its failure does too.

Two of three attempts fail under the published rule, and a failure changes nothing but the rate and
the order of the samples. So the next attempts can be made before it is known that they are needed,
and the run comes out the same, bit for bit, as one by one.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.sharedctypes import Synchronized

from numpy import ndarray

from featavg.paper.margins.network.attempt import AttemptPlan, AttemptResult, attempt, next_plan
from featavg.paper.margins.network.epoch import ImageTensors
from featavg.paper.margins.network.run import MarginRun


class _OvertakenError(Exception):
    """An earlier attempt counted: this one is not needed."""


@contextmanager
def side_by_side(
    run: MarginRun, data: ImageTensors, workers: int
) -> Iterator[Iterator[AttemptResult]]:
    """The results of the attempts of `run`, in order, made by so many processes.

    The caller settles each result into `run` before it asks for the next.
    """
    context = get_context("spawn")
    counted: Synchronized[int] = context.Value("q", run.epoch)
    # With one channel several strides mean the same, and torch chooses its kernels by them.
    arrays = (data.x.numpy(), data.x.stride(), data.y.numpy())
    pool = ProcessPoolExecutor(
        workers, context, _begin, (*arrays, run.settings.threads, counted, os.getpid())
    )
    try:
        yield _results(run, pool, counted, workers)
    finally:
        counted.value = -1
        pool.shutdown(cancel_futures=True)


def _results(
    run: MarginRun, pool: ProcessPoolExecutor, counted: Synchronized[int], workers: int
) -> Iterator[AttemptResult]:
    pending: dict[tuple[int, int], Future[AttemptResult | None]] = {}
    while True:
        if counted.value != run.epoch:
            counted.value = run.epoch
            for future in pending.values():
                future.cancel()
            pending.clear()
        # One more than there are workers: none waits for the others.
        for ahead in range(workers + 1):
            name = (run.epoch, run.attempt + ahead)
            if name not in pending:
                with _ctrl_c_held():
                    pending[name] = pool.submit(_attempt, next_plan(run, ahead))
        result = pending.pop((run.epoch, run.attempt)).result()
        if result is None:
            raise RuntimeError("an attempt that was needed gave up")
        yield result


@contextmanager
def _ctrl_c_held() -> Iterator[None]:
    """Ctrl-C waits until the block ends; processes that begin in it never hear of it.

    The terminal sends it to all of them, and each would print a traceback; they are told to stop by
    the driver. Which submission starts them is the pool's business.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# What a worker holds: the data, and the number of passes that count so far.
_held: list[tuple[ImageTensors, Synchronized[int]]] = []


def _begin(
    x: ndarray,
    strides: tuple[int, ...],
    y: ndarray,
    threads: int,
    counted: Synchronized[int],
    parent: int,
) -> None:
    import torch

    torch.set_num_threads(threads)
    pixels = torch.from_numpy(x).as_strided(x.shape, strides)
    _held.append((ImageTensors(pixels, torch.from_numpy(y)), counted))
    threading.Thread(target=_leave_with, args=(parent,), daemon=True).start()


def _leave_with(parent: int) -> None:
    """A worker does not outlive a parent that was killed."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


def _attempt(plan: AttemptPlan) -> AttemptResult | None:
    data, counted = _held[0]

    def still_needed(share: float) -> None:
        if counted.value != plan.epoch:
            raise _OvertakenError

    try:
        return attempt(plan, data, still_needed)
    except _OvertakenError:
        return None
