"""Rounds over the support: once the data is fitted, nearly all of the loss sits on few samples.

A round takes the samples that hold the loss (and some more), makes several steps for them alone with
the loss-based rate, each undone if it raises their loss, and ends with one look at the whole training
set. If that has become worse, because a sample that was left out came to matter, the whole round is
undone; that sample is in the next one. So the training loss, always that of a look at every sample,
falls from round to round, as it does from pass to pass under the published rule, at a small part of
the price.

The steps are those of `support_steps`: passes of SGD, or implicit ones, which are as long as the
network is linear and not as short as the heaviest samples are apart.

First the rate is constant and every round counts; from a low loss on, it is loss-based.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.data.streams import stream
from featavg.errors import InputError
from featavg.paper.margins.network.epoch import ImageTensors, Measured, measure
from featavg.paper.margins.network.run import MarginRun, tensors
from featavg.paper.margins.network.settings import SupportRule
from featavg.paper.margins.network.support_steps import (
    SupportSteps,
    heaviest,
    share_outside,
)
from featavg.training.controllers import LossBased

# The most that a round of passes may do, in visits of the whole training set.
_WORK = 2
# A sample that was left out stays in the support from then on if a look finds more than this share
# of the loss on it.
_MATTERS = 1e-4


class RoundResult(NamedTuple):
    """What a round did. `measured` is None if it was undone; `rate` is the one to go on with."""

    params: dict[str, ndarray]
    measured: Measured | None
    rate: float
    support: int
    samples: int  # forward and backward passes of single samples, attempts that failed included
    outside: float = math.nan  # the share of the loss that the look found outside the support
    watched: Int[ndarray, " w"] | None = None  # who came to matter while a round left them out
    step: str = "constant"

    @property
    def left_out(self) -> int:
        """Samples of the training set that are not in the support."""
        return 0 if self.measured is None else len(self.measured.log_losses) - self.support


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
    needed = len(heaviest(log_losses, share, 1))
    return np.sort(heaviest(log_losses, share, max(math.ceil(spare * needed), least)))


def play_round(
    run: MarginRun, data: ImageTensors, tick: Callable[[float], None] | None = None
) -> RoundResult:
    """One round from where `run` stands; a function of that, so that a killed run goes on alike."""
    rule, controller = run.settings.support, run.settings.controller
    if rule is None or not isinstance(controller, LossBased):
        raise InputError("support", "is not set", "give a SupportRule and the loss-based rate")
    seed, step = run.settings.seed, step_of(run)
    members, passes = _members(run, rule, len(data.y), step)
    steps = SupportSteps(_rows(data, members), tensors(run.params), _rate(run, rule, step), rule,
                         run.settings.batch)  # fmt: skip
    # Batches of heavy samples alone are steeper than those of all.
    first_rate = rule.first_rate if run.log_losses is None else rule.first_rate / 2
    for number in range(passes):
        if tick is not None:
            tick(number / (passes + 1))
        order = stream(seed, f"margin-round-{run.epoch}-{run.attempt}-{number}").permutation(
            len(members)
        )
        if step == "implicit":
            steps.implicit(controller)
        elif step == "gradient":
            steps.gradient(order, controller)
        elif not steps.constant(order, first_rate):
            break
    limit = math.inf if step == "constant" else run.log_loss
    return _looked_at(run, data, steps, members, limit)._replace(step=step)


def step_of(run: MarginRun) -> str:
    """The step of the next round: "constant" at first, the rule's own once the loss is low."""
    rule = run.settings.support
    if rule is None or run.log_losses is None or not is_low(run):
        return "constant"
    return rule.step


def is_low(run: MarginRun) -> bool:
    """Whether the loss was low enough at the last look for the loss-based rate: the rule says how low."""
    rule = run.settings.support
    if rule is None or not run.history:
        return False
    return run.history[-1]["errors"] == 0 or run.log10_loss <= rule.first_until


def _members(
    run: MarginRun, rule: SupportRule, count: int, step: str
) -> tuple[Int[ndarray, " m"], int]:
    """The support of the next round, and how many steps it has."""
    if run.log_losses is None:
        return np.arange(count), 1
    least = min(rule.least, count)
    if step == "constant":
        members, passes = (
            support_of(run.log_losses, rule.first_share, 1.0, least),
            rule.first_passes,
        )
    else:
        members = support_of(run.log_losses, rule.share, rule.spare * 2.0**run.attempt, least)
        if run.watched is not None:
            members = np.union1d(members, run.watched)
        passes = max(1, rule.passes >> run.attempt)
    if step == "implicit":
        return members, passes
    # While the support is wide, a round is two visits of every sample and not twenty.
    return members, min(passes, math.ceil(_WORK * count / len(members)))


def _rate(run: MarginRun, rule: SupportRule, step: str) -> float:
    """SGD goes on with steps of the length that the constant rate had; implicit steps begin anew."""
    first: float = run.settings.controller.rate
    if step == "gradient" and run.rate == first:
        return rule.first_rate * math.exp(run.log_loss)
    if step == "implicit" and run.history[-1].get("step") != "implicit":
        return first / 2.0**run.attempt
    return run.rate


def _looked_at(
    run: MarginRun,
    data: ImageTensors,
    steps: SupportSteps,
    members: Int[ndarray, " m"],
    limit: float,
) -> RoundResult:
    """The whole training set after the steps; what was left out and matters is watched from now on."""
    arrays = {name: np.ascontiguousarray(p.numpy()) for name, p in steps.params.items()}
    samples = steps.samples + len(data.y)
    measured = measure(steps.params, data)
    if measured is None:
        return RoundResult(arrays, None, steps.rate, len(members), samples)
    outside = share_outside(measured.log_losses, members)
    watched = run.watched
    if math.isfinite(limit):
        shares = np.exp(measured.log_losses - measured.log_losses.max())
        shares[members] = 0.0
        late = np.flatnonzero(shares > _MATTERS * shares.size)
        watched = late if watched is None else np.union1d(watched, late)
    kept = measured if measured.log_loss <= limit else None
    return RoundResult(arrays, kept, steps.rate, len(members), samples, outside, watched)


def _rows(data: ImageTensors, members: Int[ndarray, " m"]) -> ImageTensors:
    import torch

    if len(members) == len(data.y):
        return data
    index = torch.from_numpy(members)
    return ImageTensors(data.x[index], data.y[index])
