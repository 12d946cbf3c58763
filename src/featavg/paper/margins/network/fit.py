"""Training the margin network to losses far below what floats can hold, with checkpoints.

SGD with the loss-based rate (Lyu and Li, 2020, appendix): the step is rate / (loss before the
pass); a pass that did not raise the training loss counts and rate *= 2^(1/5); one that did is
undone and rate /= 2^(1/10). With a constant rate every pass counts. Everything random is drawn from
(seed, pass, attempt), so a run that was killed goes on to the same bits.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from featavg.data.images import Images
from featavg.errors import InputError, finite, whole
from featavg.paper.margins.network.attempts import (
    AttemptResult,
    Tick,
    attempt,
    next_plan,
    side_by_side,
)
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
from featavg.progress import Progress, silent
from featavg.storage.folders import folder_exists, locked
from featavg.training.controllers.loss_based import LossBased
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
    folder: Path,
    run: MarginRun,
    data: ImageTensors,
    epochs: int,
    until: float,
    workers: int,
    progress: Progress,
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
    run: MarginRun, data: ImageTensors, workers: int, tick: Tick
) -> Iterator[Iterator[AttemptResult | RoundResult]]:
    """Attempts or rounds without end; the caller settles each before it asks for the next."""
    if run.settings.support is not None:
        yield (play_round(run, data, tick) for _ in count())
    elif workers == 1:
        yield (attempt(next_plan(run), data, tick) for _ in count())
    else:
        with side_by_side(run, data, workers) as results:
            yield results


def _way_to(until: float, run: MarginRun) -> float:
    """The share of the way to a loss: SGD gains as much with every pass, an implicit step in proportion."""
    rule = run.settings.support
    if not -math.inf < until < 0:
        return 0.0
    if rule is None or rule.step != "implicit":
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


def settle(run: MarginRun, result: AttemptResult | RoundResult) -> bool:
    """What an attempt or a round does to its run; True if it counts."""
    controller = run.settings.controller
    more: dict[str, Any] = {}
    adaptive = isinstance(controller, LossBased)
    if isinstance(result, RoundResult):
        run.passes += 1
        run.samples += result.samples
        run.watched = result.watched
        adaptive = adaptive and is_low(run)
        more = {"samples": run.samples, "outside": result.outside, "step": result.step}
    else:
        run.passes += result.passes
    if result.measured is None:
        if not adaptive or not isinstance(controller, LossBased):
            run.outcome = Outcome.DIVERGED
            return False
        run.attempt += 1
        run.rate /= controller.shrink
        return False
    run.params, run.epoch, run.attempt = result.params, run.epoch + 1, 0
    run.log_loss, run.log_losses = result.measured.log_loss, result.measured.log_losses
    if isinstance(result, RoundResult):
        run.rate = result.rate
    run.history.append(_entry(run, result.measured, result.left_out) | more)
    if isinstance(result, AttemptResult) and isinstance(controller, LossBased):
        run.rate *= controller.grow
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
