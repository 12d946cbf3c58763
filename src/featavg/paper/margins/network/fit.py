"""Training the margin network to losses far below what floats can hold, with checkpoints.

SGD with the loss-based rate (Lyu and Li, 2020, appendix): the step is rate / (loss before the
pass); a pass that did not raise the training loss counts and rate *= 2^(1/5); one that did is
rolled back and rate /= 2^(1/10). With a constant rate every pass counts. Everything random is drawn from
(seed, pass, attempt), so a run that was killed resumes to the same bits.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from featavg.data.images import Images
from featavg.data.streams import stream
from featavg.errors import InputError, finite, whole
from featavg.paper.margins.network.epoch import (
    ImageTensors,
    Measured,
    descend_once,
    light_samples,
    light_samples_matter,
    measure,
)
from featavg.paper.margins.network.run import (
    MarginRun,
    MarginSettings,
    PassResult,
    digest_of,
    images_of,
    layer_norms,
    parameter_norm,
    read_run,
    refuse_twins,
    tensors,
    write_run,
)
from featavg.paper.margins.network.support import is_low, play_round
from featavg.progress import Progress, silent
from featavg.storage.folders import folder_exists, locked
from featavg.training.controllers import LossBased
from featavg.training.trajectory import Outcome

CHECKPOINT = "checkpoint"
# A rate below this changes no bit of any weight.
_LEAST_RATE = 1e-50


def fit(
    folder: Path,
    settings: MarginSettings,
    pictures: Images,
    *,
    epochs: int,
    until: float = -math.inf,
    workers: int = 1,
    progress: Progress = silent,
) -> MarginRun:
    """Begin the run in `folder`, or continue it, until `epochs` passes count or log10 loss is `until`.

    One process at a time works in a folder. With several `workers`, attempts are made side by side;
    the bits do not depend on it (rounds over the support are made one by one). Each loss of
    `settings.save_at` that is passed leaves its own checkpoint, `row-1`, `row-2`, ...
    """
    whole("epochs", epochs, least=1)
    whole("workers", workers, least=1)
    if until != -math.inf:
        finite("until", until)
    size, shape = settings.network.size, pictures.pixels.shape[1:]
    if shape != (1, size, size):
        problem = f"are {' x '.join(map(str, shape))} for a network of 1 x {size} x {size}"
        raise InputError("pictures", problem, "give grey ones, and MarginCNN(size=...) their size")
    refuse_twins(pictures)
    data = images_of(pictures)
    with locked(folder):
        run = _found(folder, settings, digest_of(data))
        return _train(folder, run, data, epochs, until, workers, progress)


def begin(settings: MarginSettings) -> MarginRun:
    """A run before its first pass; its first loss is that of a guess, log 10."""
    params = settings.network.initial(settings.seed)
    guess = math.log(math.log(settings.network.classes))
    return MarginRun(settings, params, guess, None, settings.controller.rate)


def _found(folder: Path, settings: MarginSettings, digest: str) -> MarginRun:
    """The run that `folder` holds, or a new one."""
    if not folder_exists(folder / CHECKPOINT):
        return begin(settings)
    run = read_run(folder / CHECKPOINT, digest)
    if run.settings != settings:
        raise InputError(str(folder), "holds a run with other settings", "choose another folder")
    return run


def _train(
    folder: Path, run: MarginRun, data: ImageTensors, epochs: int, until: float, workers: int, progress: Progress
) -> MarginRun:
    import torch

    torch.set_num_threads(run.settings.threads)
    digest = digest_of(data)

    def tick(part: float) -> None:
        share = max((run.epoch + part) / epochs, _way_to(until, run))
        progress(min(1.0, share), f"pass {run.epoch + 1}, log10 loss {run.log10_loss:.2f}")

    with _results(run, data, workers, tick) as results:
        while _ending(run, epochs, until) is Outcome.RUNNING:
            tick(0.0)
            before = run.log10_loss
            started = time.perf_counter()
            result = next(results)
            run.seconds += time.perf_counter() - started
            settle(run, result)
            for row, target in enumerate(run.settings.save_at, start=1):
                if run.log10_loss <= target < before:
                    write_run(folder / f"row-{row}", run, digest)
            write_run(folder / CHECKPOINT, run, digest)
    run.outcome = _ending(run, epochs, until)
    return run


@contextmanager
def _results(
    run: MarginRun, data: ImageTensors, workers: int, tick: Callable[[float], None]
) -> Iterator[Iterator[PassResult]]:
    """Attempts or rounds without end; the caller settles each before it asks for the next."""
    if run.settings.support is not None:
        yield (play_round(run, data, tick) for _ in count())
    elif workers == 1:
        yield (attempt(run, data, tick) for _ in count())
    else:
        ended: list[bool] = []
        with ThreadPoolExecutor(workers) as pool:
            try:
                yield _side_by_side(run, data, pool, workers, ended)
            finally:
                ended.append(True)
                pool.shutdown(cancel_futures=True)


def _side_by_side(
    run: MarginRun, data: ImageTensors, pool: ThreadPoolExecutor, workers: int, ended: list[bool]
) -> Iterator[PassResult]:
    """The attempts in order, the next ones begun before it is known that they are needed.

    Two of three fail under the published rule, and a failure changes nothing but the rate and the order
    of the samples: the run comes out the same, bit for bit, as one by one.
    """
    pending: dict[tuple[int, int], Future[PassResult]] = {}
    while True:
        for name in [name for name in pending if name[0] != run.epoch]:
            pending.pop(name).cancel()

        def still_needed(share: float, epoch: int = run.epoch) -> None:
            if ended or run.epoch != epoch:
                raise _OvertakenError

        # One more than there are workers: none waits for the others.
        for ahead in range(workers + 1):
            name = run.epoch, run.attempt + ahead
            if name not in pending:
                pending[name] = pool.submit(attempt, if_fail(run, ahead), data, still_needed)
        yield pending.pop((run.epoch, run.attempt)).result()


class _OvertakenError(Exception):
    """An earlier attempt counted: this one is not needed."""


def if_fail(run: MarginRun, failures: int) -> MarginRun:
    """The run as it will stand if this many of its next attempts fail."""
    rate, controller = run.rate, run.settings.controller
    for _ in range(failures):
        rate /= controller.shrink if isinstance(controller, LossBased) else 1.0
    return replace(run, attempt=run.attempt + failures, rate=rate)


def attempt(run: MarginRun, data: ImageTensors, tick: Callable[[float], None] | None = None) -> PassResult:
    """SGD through the data once, and the loss after it. `tick` hears how much is done."""
    adaptive = isinstance(run.settings.controller, LossBased)
    # What losses are relative to, and the log-loss that the pass must not exceed to count.
    log_scale, limit = (run.log_loss, run.log_loss) if adaptive else (0.0, math.inf)
    name = f"margin-pass-{run.epoch}-{run.attempt}"
    order = stream(run.settings.seed, name).permutation(len(data.y))
    none = np.zeros(len(data.y), dtype=bool)
    light = none if run.log_losses is None else light_samples(run.log_losses, log_scale)
    rate, batch, passes = run.rate, run.settings.batch, 0
    for left_out in (light, none):
        passes += 1
        params = tensors(run.params)
        finished = descend_once(params, data, order, left_out, log_scale=log_scale, rate=rate, batch=batch, tick=tick)
        measured = measure(params, data, run.log_losses, limit) if finished else None
        # Samples that were left out and came to matter: once more, with all of them.
        if measured is None or not light_samples_matter(measured, left_out, log_scale):
            break
    # Always in one layout: it is the order in which norms are summed.
    arrays = {name: np.ascontiguousarray(tensor.numpy()) for name, tensor in params.items()}
    return PassResult(arrays, measured, int(light.sum()), passes)


def _way_to(until: float, run: MarginRun) -> float:
    """The share of the way to a loss: SGD gains as much with every pass, an implicit step in proportion."""
    rule = run.settings.support
    if not -math.inf < until < 0:
        return 0.0
    if rule is None:
        return max(0.0, run.log10_loss / until)
    return math.log1p(max(0.0, -run.log10_loss)) / math.log1p(-until)


def _ending(run: MarginRun, epochs: int, until: float) -> Outcome:
    if run.outcome is Outcome.DIVERGED:
        return run.outcome
    if run.log10_loss <= until:
        return Outcome.TARGET_LOSS
    if run.epoch >= epochs:
        return Outcome.STEPS_DONE
    return Outcome.RUNNING if run.rate > _LEAST_RATE else Outcome.RATE_UNDERFLOW


def settle(run: MarginRun, result: PassResult) -> bool:
    """What an attempt or a round does to its run; True if it counts."""
    controller, in_round = run.settings.controller, bool(result.step)
    adaptive = is_low(run) if in_round else True
    run.passes += result.passes
    run.samples += result.samples
    run.watched = result.watched
    if result.measured is None:
        if not adaptive or not isinstance(controller, LossBased):
            run.outcome = Outcome.DIVERGED
            return False
        run.attempt += 1
        run.rate /= controller.shrink
        return False
    run.params, run.epoch, run.attempt = result.params, run.epoch + 1, 0
    run.log_loss, run.log_losses = result.measured.log_loss, result.measured.log_losses
    if in_round:
        run.rate = result.rate
    run.history.append(_entry(run, result.measured, result))
    if not in_round and isinstance(controller, LossBased):
        run.rate *= controller.grow
    return True


def _entry(run: MarginRun, measured: Measured, result: PassResult) -> dict[str, Any]:
    norm, layers = parameter_norm(run.params), layer_norms(run.params)
    homogeneous = run.settings.network.biases == "first"
    smallest = float(measured.margins.min())
    entry = {
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
        "left_out": result.left_out,
        "seconds": round(run.seconds, 1),
    }
    if result.step:
        entry |= {"samples": run.samples, "outside": result.outside, "step": result.step}
    return entry
