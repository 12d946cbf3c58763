"""One attempt at a pass: a function of what it is given, so that attempts may run side by side."""

from __future__ import annotations

import math
from collections.abc import Callable
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
from featavg.training.controllers.loss_based import LossBased

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
