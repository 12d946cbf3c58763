"""Training the margin network to losses far below what floats can hold, with checkpoints.

SGD with the loss-based rate (Lyu and Li, 2020, appendix): the step is rate / (loss before the
pass); a pass that did not raise the training loss counts and rate *= 2^(1/5); one that did is
undone and rate /= 2^(1/10). Everything random is drawn from (seed, pass, attempt), so a run that
was killed goes on to the same bits.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import ndarray

from featavg.data.images import Images as Pictures
from featavg.data.streams import stream
from featavg.errors import InputError
from featavg.training.margin_epoch import (
    Images,
    Measured,
    asleep,
    descend_once,
    measure,
    woke_up,
)
from featavg.training.margin_run import (
    MarginRun,
    MarginSettings,
    digest_of,
    images_of,
    layer_norms,
    parameter_norm,
    read_run,
    refuse_twins,
    tensors,
    write_run,
)

if TYPE_CHECKING:
    import torch

CHECKPOINT = "checkpoint"
# A rate below this changes no bit of any weight.
_LEAST_RATE = 1e-50


def begin(settings: MarginSettings) -> MarginRun:
    """A run before its first pass; its first frame is the loss of a guess, log 10."""
    params = settings.network.initial(settings.seed)
    frame = math.log(math.log(settings.network.classes))
    return MarginRun(settings, params, frame, None, settings.rate)


def advance(run: MarginRun, data: Images, tick: Callable[[float], None] | None = None) -> bool:
    """Attempt one pass; True if it counts. `tick` hears how much of the pass is done."""
    started = time.perf_counter()
    before = {name: array.copy() for name, array in run.params.items()}
    params = tensors(run.params)
    order = stream(run.settings.seed, f"margin-pass-{run.epoch}-{run.attempt}").permutation(
        len(data.y)
    )
    sleeping = np.zeros(len(data.y), dtype=bool)
    if run.log_losses is not None:
        sleeping = asleep(run.log_losses, run.log_frame)
    measured = _pass(run, params, data, order, sleeping, tick)
    if measured is not None and woke_up(measured, sleeping, run.log_frame):
        params = tensors(before)
        measured = _pass(run, params, data, order, np.zeros_like(sleeping), tick)
    run.seconds += time.perf_counter() - started
    if measured is None:
        run.params, run.attempt = before, run.attempt + 1
        run.rate /= run.settings.shrink
        return False
    run.params = {name: tensor.numpy() for name, tensor in params.items()}
    run.epoch, run.attempt = run.epoch + 1, 0
    run.log_frame, run.log_losses = measured.log_loss, measured.log_losses
    run.history.append(_entry(run, measured, sleeping))
    run.rate *= run.settings.grow
    return True


def _pass(
    run: MarginRun,
    params: dict[str, torch.Tensor],
    data: Images,
    order: ndarray,
    sleeping: ndarray,
    tick: Callable[[float], None] | None,
) -> Measured | None:
    """Descend and measure; None if the loss rose."""
    run.passes += 1
    finished = descend_once(
        params,
        data,
        order,
        sleeping,
        log_frame=run.log_frame,
        rate=run.rate,
        batch=run.settings.batch,
        tick=tick,
    )
    return measure(params, data, sleeping, run.log_frame) if finished else None


def _entry(run: MarginRun, measured: Measured, sleeping: ndarray) -> dict[str, Any]:
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
        "asleep": int(sleeping.sum()),
        "seconds": round(run.seconds, 1),
    }


def fit(
    folder: Path,
    settings: MarginSettings,
    pictures: Pictures,
    *,
    epochs: int,
    until: float = -math.inf,
    progress: Callable[[MarginRun, bool], None] | None = None,
    tick: Callable[[MarginRun, float], None] | None = None,
) -> MarginRun:
    """Begin or go on with the run in `folder` until `epochs` passes count or log10 loss is `until`.

    Each loss of `settings.save_at` that is passed leaves its own checkpoint, `row-1`, `row-2`, ...
    """
    import torch

    torch.set_num_threads(settings.threads)
    refuse_twins(pictures)
    data = images_of(pictures)
    digest = digest_of(data)
    run = begin(settings)
    if (folder / CHECKPOINT).exists():
        run = read_run(folder / CHECKPOINT, digest)
        if run.settings != settings:
            raise InputError(
                str(folder), "holds a run with other settings", "choose another folder"
            )
    while run.epoch < epochs and run.log10_loss > until and run.rate > _LEAST_RATE:
        before = run.log10_loss
        counted = advance(run, data, None if tick is None else partial(tick, run))
        for row, target in enumerate(settings.save_at, start=1):
            if run.log10_loss <= target < before:
                write_run(folder / f"row-{row}", run, digest)
        write_run(folder / CHECKPOINT, run, digest)
        if progress is not None:
            progress(run, counted)
    return run
