"""Training the margin network to losses far below what floats can hold, with checkpoints.

SGD with the loss-based rate (Lyu and Li, 2020, appendix): the step is rate / (loss before the
pass); a pass that did not raise the training loss counts and rate *= 2^(1/5); one that did is
undone and rate /= 2^(1/10). With a constant rate every pass counts. Everything random is drawn from
(seed, pass, attempt), so a run that was killed goes on to the same bits.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from featavg.data.images import Images
from featavg.errors import InputError, finite, whole
from featavg.paper.margins.network.attempt import AttemptResult, Tick, attempt, next_plan
from featavg.paper.margins.network.epoch import ImageTensors, Measured
from featavg.paper.margins.network.run import (
    MarginRun,
    digest_of,
    images_of,
    layer_norms,
    parameter_norm,
    read_run,
    refuse_twins,
    write_run,
)
from featavg.paper.margins.network.settings import MarginSettings
from featavg.paper.margins.network.support import RoundResult, is_low, play_round
from featavg.storage.folders import folder_exists
from featavg.storage.locks import locked
from featavg.training.controllers.loss_based import LossBased
from featavg.training.trajectory import Outcome

CHECKPOINT = "checkpoint"
# A rate below this changes no bit of any weight.
_LEAST_RATE = 1e-50


def begin(settings: MarginSettings) -> MarginRun:
    """A run before its first pass; its first loss is that of a guess, log 10."""
    params = settings.network.initial(settings.seed)
    guess = math.log(math.log(settings.network.classes))
    return MarginRun(settings, params, guess, None, settings.controller.rate)


def advance(run: MarginRun, data: ImageTensors, tick: Tick | None = None) -> bool:
    """Attempt one pass; True if it counts. `tick` hears how much of the pass is done."""
    started = time.perf_counter()
    result = attempt(next_plan(run), data, tick)
    run.seconds += time.perf_counter() - started
    return settle(run, result)


def settle(run: MarginRun, result: AttemptResult) -> bool:
    """What an attempt does to its run; True if it counts."""
    run.passes += result.passes
    controller = run.settings.controller
    if result.measured is None:
        run.attempt += 1
        if isinstance(controller, LossBased):
            run.rate /= controller.shrink
        else:
            run.outcome = Outcome.DIVERGED
        return False
    run.params = result.params
    run.epoch, run.attempt = run.epoch + 1, 0
    run.log_loss, run.log_losses = result.measured.log_loss, result.measured.log_losses
    run.history.append(_entry(run, result.measured, result.left_out))
    if isinstance(controller, LossBased):
        run.rate *= controller.grow
    return True


def settle_round(run: MarginRun, result: RoundResult) -> bool:
    """What a round over the support does to its run; True if it counts."""
    run.passes += 1
    run.samples += result.samples
    run.watched = result.watched
    controller = run.settings.controller
    if result.measured is None:
        if not is_low(run) or not isinstance(controller, LossBased):
            run.outcome = Outcome.DIVERGED
            return False
        run.attempt += 1
        run.rate /= controller.shrink
        return False
    run.params, run.rate = result.params, result.rate
    run.epoch, run.attempt = run.epoch + 1, 0
    run.log_loss, run.log_losses = result.measured.log_loss, result.measured.log_losses
    left_out = len(run.log_losses) - result.support
    more = {"samples": run.samples, "outside": result.outside, "step": result.step}
    run.history.append(_entry(run, result.measured, left_out) | more)
    return True


def _entry(run: MarginRun, measured: Measured, left_out: int) -> dict[str, Any]:
    norm, layers = parameter_norm(run.params), layer_norms(run.params)
    homogeneous = run.settings.network.biases == "first"
    smallest = float(measured.margins.min())
    return {
        "epoch": run.epoch,
        "passes": run.passes,
        "log10_loss": run.log10_loss,
        "rate": run.rate,
        "smallest_margin": smallest,
        "norm": norm,
        "layer_norms": layers,
        "normalized_margin": smallest / norm**4 if homogeneous else None,
        "product_margin": smallest / math.prod(layers) if homogeneous else None,
        "errors": int((measured.margins <= 0).sum()),
        "left_out": left_out,
        "seconds": round(run.seconds, 1),
    }


def fit(
    folder: Path,
    settings: MarginSettings,
    pictures: Images,
    *,
    epochs: int,
    until: float = -math.inf,
    progress: Callable[[MarginRun, bool], None] | None = None,
    tick: Callable[[MarginRun, float], None] | None = None,
    workers: int = 1,
    begun: Callable[[], None] | None = None,
) -> MarginRun:
    """Begin or go on with the run in `folder` until `epochs` passes count or log10 loss is `until`.

    One process at a time works in a folder. With several `workers`, attempts are made side by side;
    the bits do not depend on it (rounds over the support are made one by one). Each loss of
    `settings.save_at` that is passed leaves its own checkpoint, `row-1`, `row-2`, ... `begun` is called
    when the folder is this run's.
    """
    whole("epochs", epochs, least=1)
    if until != -math.inf:
        finite("until", until)
    refuse_twins(pictures)
    data = images_of(pictures)
    with locked(folder):
        run = _found(folder, settings, digest_of(data))
        if begun is not None:
            begun()
        return _train(folder, run, data, epochs, until, progress, tick, workers)


def _found(folder: Path, settings: MarginSettings, digest: str) -> MarginRun:
    """The run that `folder` holds, or a new one."""
    if not folder_exists(folder / CHECKPOINT):
        return begin(settings)
    run = read_run(folder / CHECKPOINT, digest)
    if run.settings != settings:
        raise InputError(str(folder), "holds a run with other settings", "choose another folder")
    return run


def _train(
    folder: Path,
    run: MarginRun,
    data: ImageTensors,
    epochs: int,
    until: float,
    progress: Callable[[MarginRun, bool], None] | None,
    tick: Callable[[MarginRun, float], None] | None,
    workers: int,
) -> MarginRun:
    import torch

    torch.set_num_threads(run.settings.threads)
    digest = digest_of(data)
    with _steps(run, data, tick, workers) as steps:
        while _ending(run, epochs, until) is Outcome.RUNNING:
            before = run.log10_loss
            counted = next(steps)
            for row, target in enumerate(run.settings.save_at, start=1):
                if run.log10_loss <= target < before:
                    write_run(folder / f"row-{row}", run, digest)
            write_run(folder / CHECKPOINT, run, digest)
            if progress is not None:
                progress(run, counted)
    run.outcome = _ending(run, epochs, until)
    return run


def _ending(run: MarginRun, epochs: int, until: float) -> Outcome:
    if run.outcome is Outcome.DIVERGED:
        return run.outcome
    if run.log10_loss <= until:
        return Outcome.TARGET_LOSS
    if run.epoch >= epochs:
        return Outcome.STEPS_DONE
    return Outcome.RUNNING if run.rate > _LEAST_RATE else Outcome.RATE_UNDERFLOW


@contextmanager
def _steps(
    run: MarginRun,
    data: ImageTensors,
    tick: Callable[[MarginRun, float], None] | None,
    workers: int,
) -> Iterator[Iterator[bool]]:
    """Attempts without end, each settled: whether it counted."""
    if run.settings.support is not None:
        yield _round_by_round(run, data, None if tick is None else partial(tick, run))
        return
    if workers == 1:
        yield _one_by_one(run, data, None if tick is None else partial(tick, run))
        return
    from featavg.paper.margins.network.parallel_attempts import side_by_side

    with side_by_side(run, data, workers) as results:
        yield _settled(run, results, tick)


def _one_by_one(run: MarginRun, data: ImageTensors, tick: Tick | None) -> Iterator[bool]:
    while True:
        yield advance(run, data, tick)


def _round_by_round(run: MarginRun, data: ImageTensors, tick: Tick | None) -> Iterator[bool]:
    while True:
        started = time.perf_counter()
        result = play_round(run, data, tick)
        run.seconds += time.perf_counter() - started
        yield settle_round(run, result)


def _settled(
    run: MarginRun,
    results: Iterator[AttemptResult],
    tick: Callable[[MarginRun, float], None] | None,
) -> Iterator[bool]:
    while True:
        if tick is not None:
            tick(run, 0.0)
        started = time.perf_counter()
        result = next(results)
        run.seconds += time.perf_counter() - started
        yield settle(run, result)
