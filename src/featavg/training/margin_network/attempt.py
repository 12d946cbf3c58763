"""One attempt at a pass: a function of what it is given, so that attempts may run side by side."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy import ndarray

from featavg.data.streams import stream
from featavg.training.margin_network.epoch import (
    Images,
    Measured,
    asleep,
    descend_once,
    measure,
    woke_up,
)
from featavg.training.margin_network.run import MarginRun, tensors

Tick = Callable[[float], None]


class Try(NamedTuple):
    """Everything that the outcome of an attempt depends on, besides the data."""

    params: dict[str, ndarray]
    log_frame: float
    log_losses: ndarray | None
    rate: float
    epoch: int
    attempt: int
    seed: int
    batch: int


class Outcome(NamedTuple):
    """What came of it; `measured` is None if the loss rose, and then nothing else matters."""

    params: dict[str, ndarray]
    measured: Measured | None
    asleep: int
    passes: int


def next_try(run: MarginRun, ahead: int = 0) -> Try:
    """The next attempt of a run, or the one that follows if `ahead` of them fail."""
    rate = run.rate
    for _ in range(ahead):
        rate /= run.settings.shrink
    return Try(
        run.params,
        run.log_frame,
        run.log_losses,
        rate,
        run.epoch,
        run.attempt + ahead,
        run.settings.seed,
        run.settings.batch,
    )


def attempt(this: Try, data: Images, tick: Tick | None = None) -> Outcome:
    """SGD through the data once, and the loss after it. `tick` hears how much is done."""
    name = f"margin-pass-{this.epoch}-{this.attempt}"
    order = stream(this.seed, name).permutation(len(data.y))
    nobody = np.zeros(len(data.y), dtype=bool)
    sleeping = nobody if this.log_losses is None else asleep(this.log_losses, this.log_frame)
    passes = 0
    for left_out in (sleeping, nobody):
        params = tensors(this.params)
        passes += 1
        finished = descend_once(
            params,
            data,
            order,
            left_out,
            log_frame=this.log_frame,
            rate=this.rate,
            batch=this.batch,
            tick=tick,
        )
        measured = measure(params, data, this.log_losses, this.log_frame) if finished else None
        # Samples that were left out and came to matter: once more, with all of them.
        if measured is None or not woke_up(measured, left_out, this.log_frame):
            break
    # In one layout whichever process made them: it is the order in which norms are summed.
    arrays = {name: np.ascontiguousarray(tensor.numpy()) for name, tensor in params.items()}
    return Outcome(arrays, measured, int(sleeping.sum()), passes)
