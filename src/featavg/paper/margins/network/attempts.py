"""One attempt at a pass: a function of what it is given, so that attempts may run side by side.

Two of three attempts fail under the published rule, and a failure changes nothing but the rate and
the order of the samples. So the next attempts can be made before it is known that they are needed,
and the run comes out the same, bit for bit, as one by one.
"""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.sharedctypes import Synchronized
from typing import NamedTuple

import numpy as np
from numpy import ndarray

from featavg.data.streams import stream
from featavg.paper.margins.network.epoch import (
    ImageTensors,
    Measured,
    descend_once,
    light_samples,
    light_samples_matter,
    measure,
)
from featavg.paper.margins.network.run import MarginRun, tensors
from featavg.training.controllers import LossBased

Tick = Callable[[float], None]


class AttemptPlan(NamedTuple):
    """Everything that the result of an attempt depends on, besides the data."""

    params: dict[str, ndarray]
    log_scale: float  # what losses are relative to: the loss before the pass, or 0 at constant rate
    limit: float  # the log-loss that the pass must not exceed to count
    log_losses: ndarray | None
    rate: float
    epoch: int
    attempt: int
    seed: int
    batch: int


class AttemptResult(NamedTuple):
    """What came of it; `measured` is None if the loss rose, and then nothing else matters."""

    params: dict[str, ndarray]
    measured: Measured | None
    left_out: int
    passes: int


def next_plan(run: MarginRun, ahead: int = 0) -> AttemptPlan:
    """The next attempt of a run, or the one that follows if `ahead` of them fail."""
    rate, controller = run.rate, run.settings.controller
    adaptive = isinstance(controller, LossBased)
    if isinstance(controller, LossBased):
        for _ in range(ahead):
            rate /= controller.shrink
    return AttemptPlan(
        run.params,
        run.log_loss if adaptive else 0.0,
        run.log_loss if adaptive else math.inf,
        run.log_losses,
        rate,
        run.epoch,
        run.attempt + ahead,
        run.settings.seed,
        run.settings.batch,
    )


def attempt(plan: AttemptPlan, data: ImageTensors, tick: Tick | None = None) -> AttemptResult:
    """SGD through the data once, and the loss after it. `tick` hears how much is done."""
    name = f"margin-pass-{plan.epoch}-{plan.attempt}"
    order = stream(plan.seed, name).permutation(len(data.y))
    none = np.zeros(len(data.y), dtype=bool)
    light = none if plan.log_losses is None else light_samples(plan.log_losses, plan.log_scale)
    passes = 0
    for left_out in (light, none):
        params = tensors(plan.params)
        passes += 1
        finished = descend_once(
            params,
            data,
            order,
            left_out,
            log_scale=plan.log_scale,
            rate=plan.rate,
            batch=plan.batch,
            tick=tick,
        )
        measured = measure(params, data, plan.log_losses, plan.limit) if finished else None
        # Samples that were left out and came to matter: once more, with all of them.
        if measured is None or not light_samples_matter(measured, left_out, plan.log_scale):
            break
    # In one layout whichever process made them: it is the order in which norms are summed.
    arrays = {name: np.ascontiguousarray(tensor.numpy()) for name, tensor in params.items()}
    return AttemptResult(arrays, measured, int(light.sum()), passes)


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
