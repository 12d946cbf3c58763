"""Passes over the support: once the data is fitted, nearly all of the loss sits on few samples.

A round takes the samples that hold the loss (and a few more), makes several passes of SGD over them
alone with the loss-based rate, each undone if it raises their loss, and ends with one look at the
whole training set. If that has become worse, because a sample that was left out came to matter, the
whole round is undone and the next one has fewer passes over more samples. So the training loss
falls from round to round, as it does from pass to pass under the published rule, at a small part of
the price: beyond a loss of 1e-20 the support is a few percent of MNIST.

Until every sample is classified rightly the rate is constant and every round counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.data.streams import stream
from featavg.errors import InputError
from featavg.training.controllers.loss_based import LossBased
from featavg.training.margin_network.epoch import ImageTensors, Measured, descend_once, measure
from featavg.training.margin_network.run import MarginRun, tensors

if TYPE_CHECKING:
    import torch

# The most that a round may do, in visits of the whole training set.
_WORK = 2


class RoundResult(NamedTuple):
    """What a round did. `measured` is None if it was undone; `rate` is the one to go on with."""

    params: dict[str, ndarray]
    measured: Measured | None
    rate: float
    support: int
    samples: int  # forward and backward passes of single samples, attempts that failed included


def support_of(
    log_losses: Float[ndarray, " n"], share: float, spare: float, least: int
) -> Int[ndarray, " m"]:
    """The heaviest samples: those that hold all but `share` of the loss, `spare` times as many.

    >>> losses = np.log(np.array([1e-9, 1.0, 1e-6, 1e-3, 1e-12, 1e-8]))
    >>> support_of(losses, share=1e-4, spare=1.0, least=1)
    array([1, 3])
    >>> support_of(losses, share=1e-4, spare=1.5, least=1)
    array([1, 2, 3])
    """
    order = np.argsort(-log_losses, kind="stable")
    weights = np.exp(log_losses[order] - log_losses[order[0]])
    rest = weights.sum() - weights.cumsum()
    needed = int(np.argmax(rest <= share * weights.sum())) + 1
    count = min(len(order), max(math.ceil(spare * needed), least))
    return np.sort(order[:count])


def play_round(
    run: MarginRun, data: ImageTensors, tick: Callable[[float], None] | None = None
) -> RoundResult:
    """One round from where `run` stands; a function of that, so that a killed run goes on alike."""
    rule = run.settings.support
    if rule is None or not isinstance(run.settings.controller, LossBased):
        raise InputError("support", "is not set", "give a SupportRule and the loss-based rate")
    fitted = is_fitted(run)
    everything = np.arange(len(data.y))
    share, passes = (rule.share, rule.passes) if fitted else (rule.first_share, rule.first_passes)
    members, passes = everything, max(1, passes >> run.attempt)
    if run.log_losses is not None:
        spare = rule.spare * 2.0**run.attempt
        members = support_of(run.log_losses, share, spare, rule.least)
    else:
        passes = 1
    # While the support is wide, a round is two visits of every sample and not twenty.
    passes = min(passes, math.ceil(_WORK * len(everything) / len(members)))
    part = _rows(data, members)
    trainer = _Trainer(run, part, tensors(run.params), run.rate)
    for number in range(passes):
        if tick is not None:
            tick(number / (passes + 1))
        order = stream(
            run.settings.seed, f"margin-round-{run.epoch}-{run.attempt}-{number}"
        ).permutation(len(members))
        if fitted:
            trainer.loss_based(order, run.settings.controller)
        elif not trainer.constant(order, rule.first_rate):
            break
    limit = run.log_loss if fitted else math.inf
    measured = measure(trainer.params, data, run.log_losses, limit)
    arrays = {name: np.ascontiguousarray(p.numpy()) for name, p in trainer.params.items()}
    samples = trainer.passes * len(members) + len(everything)
    return RoundResult(arrays, measured, trainer.rate, len(members), samples)


def is_fitted(run: MarginRun) -> bool:
    """Whether every sample was classified rightly at the last look."""
    return bool(run.history) and run.history[-1]["errors"] == 0


@dataclass
class _Trainer:
    """The parameters and the rate within one round."""

    run: MarginRun
    part: ImageTensors
    params: dict[str, torch.Tensor]
    rate: float
    passes: int = 0
    before: Measured | None = None

    def constant(self, order: Int[ndarray, " m"], rate: float) -> bool:
        """One pass that counts whatever it does; False if the loss left all bounds."""
        self.passes += 1
        return self._descend(self.params, order, 0.0, rate)

    def loss_based(self, order: Int[ndarray, " m"], controller: LossBased) -> None:
        """One pass over the support, undone if it raises the support's loss."""
        before = self.before or measure(self.params, self.part)
        if before is None:
            return
        if self.run.rate == controller.rate and self.before is None:
            # The first such pass goes on with steps of the length that the constant rate had.
            rule = self.run.settings.support
            assert rule is not None
            self.rate = rule.first_rate * math.exp(before.log_loss)
        trial = {name: p.clone() for name, p in self.params.items()}
        finished = self._descend(trial, order, before.log_loss, self.rate)
        self.passes += 1
        after = measure(trial, self.part, before.log_losses, before.log_loss) if finished else None
        self.before = after or before
        if after is None:
            self.rate /= controller.shrink
        else:
            self.params, self.rate = trial, self.rate * controller.grow

    def _descend(
        self,
        params: dict[str, torch.Tensor],
        order: Int[ndarray, " m"],
        log_scale: float,
        rate: float,
    ) -> bool:
        batch = min(self.run.settings.batch, len(order))
        light = np.zeros(len(order), dtype=bool)
        return descend_once(
            params, self.part, order, light, log_scale=log_scale, rate=rate, batch=batch
        )


def _rows(data: ImageTensors, members: Int[ndarray, " m"]) -> ImageTensors:
    import torch

    if len(members) == len(data.y):
        return data
    index = torch.from_numpy(members)
    return ImageTensors(data.x[index], data.y[index])
