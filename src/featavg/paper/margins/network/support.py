"""Rounds over the support: once the data is fitted, nearly all of the loss sits on few samples.

A round takes the samples that hold the loss (and some more), makes several steps for them alone with
the loss-based rate, each rolled back if it raises their loss, and ends with one look at the whole training
set. If that has become worse, because a sample that was left out came to matter, the whole round is
undone; that sample is in the next one. So the training loss, always that of a look at every sample,
falls from round to round, as it does from pass to pass under the published rule, at a small part of
the price.

First the rate is constant and every round counts; from a low loss on it is loss-based, and the steps
are implicit ones, which are as long as the network is linear and not as short as the heaviest samples
are apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.data.streams import stream
from featavg.errors import InputError
from featavg.paper.margins.network.epoch import ImageTensors, Measured, descend_once, measure
from featavg.paper.margins.network.implicit import (
    SampleGradients,
    inner_products,
    joined,
    moved_along,
    sample_gradients,
    shares_after,
)
from featavg.paper.margins.network.passes import Params
from featavg.paper.margins.network.run import MarginRun, PassResult, SupportRule, tensors
from featavg.training.controllers._rules import LossBased

# The most that a round at the constant rate may do, in visits of the whole training set.
_WORK = 2
# A sample that was left out stays in the support from then on if a look finds more than this share
# of the loss on it.
_MATTERS = 1e-4
# A failed implicit step costs as much as one that counts, and its rate follows the curvature of the
# network: it is shrunk by 2^(1/2) where a pass of SGD is by the published 2^(1/10).
_SHRINK = 2.0**0.5
# The samples whose gradients are known hold all but this share of the loss, before and after a step.
UNKNOWN = 0.01
# The fewest and the most samples that one failed step adds to them.
_NEWCOMERS, _MOST_NEWCOMERS = 50, 400


def support_of(log_losses: Float[ndarray, " n"], share: float, spare: float, least: int) -> Int[ndarray, " m"]:
    """The heaviest samples: those that hold all but `share` of the loss, `spare` times as many.

    >>> losses = np.log(np.array([1e-9, 1.0, 1e-6, 1e-3, 1e-12, 1e-8]))
    >>> support_of(losses, share=1e-4, spare=1.0, least=1)
    array([1, 3])
    >>> support_of(losses, share=1e-4, spare=1.5, least=1)
    array([1, 2, 3])
    """
    needed = len(heaviest(log_losses, share, 1))
    return np.sort(heaviest(log_losses, share, max(math.ceil(spare * needed), least)))


def heaviest(log_losses: Float[ndarray, " n"], share: float, least: int) -> Int[ndarray, " m"]:
    """The samples that hold all but `share` of the loss, and at least `least`; the heaviest first.

    >>> heaviest(np.log(np.array([1e-9, 1.0, 1e-6, 1e-3, 1e-12, 1e-8])), share=1e-4, least=1)
    array([1, 3])
    """
    order = np.argsort(-log_losses, kind="stable")
    weights = np.exp(log_losses[order] - log_losses[order[0]])
    rest = weights.sum() - weights.cumsum()
    return order[: max(least, int(np.argmax(rest <= share * weights.sum())) + 1)]


def share_outside(log_losses: Float[ndarray, " n"], members: Int[ndarray, " m"]) -> float:
    """The share of the loss that samples other than `members` hold.

    >>> round(share_outside(np.log(np.array([3.0, 1.0])), np.array([0])), 3)
    0.25
    """
    weights = np.exp(log_losses - log_losses.max())
    total = float(weights.sum())
    weights[members] = 0.0
    return float(weights.sum()) / total


def play_round(run: MarginRun, data: ImageTensors, tick: Callable[[float], None] | None = None) -> PassResult:
    """One round from where `run` stands; a function of that, so that a killed run resumes to the same result."""
    rule, controller = run.settings.support, run.settings.controller
    if rule is None or not isinstance(controller, LossBased):
        raise InputError("support", "is not set", "give a SupportRule and the loss-based rate")
    low = is_low(run)
    members, count = _members(run, rule, len(data.y))
    begins = low and run.history[-1].get("step") != "implicit"
    rate = controller.rate / 2.0**run.attempt if begins else run.rate
    part = data if len(members) == len(data.y) else _rows(data, members)
    steps = SupportSteps(part, tensors(run.params), rate, rule, run.settings.batch)
    # Batches of heavy samples alone are steeper than those of all.
    first_rate = rule.first_rate if run.log_losses is None else rule.first_rate / 2
    for number in range(count):
        if tick is not None:
            tick(number / (count + 1))
        if low:
            steps.implicit(controller)
            continue
        name = f"margin-round-{run.epoch}-{run.attempt}-{number}"
        order = stream(run.settings.seed, name).permutation(len(members))
        if not steps.constant(order, first_rate):
            break
    return _looked_at(run, data, steps, members)


def is_low(run: MarginRun) -> bool:
    """Whether the last look found a loss low enough for implicit steps and the loss-based rate."""
    rule = run.settings.support
    if rule is None or run.log_losses is None or not run.history:
        return False
    return run.history[-1]["errors"] == 0 or run.log10_loss <= rule.first_until


def _members(run: MarginRun, rule: SupportRule, count: int) -> tuple[Int[ndarray, " m"], int]:
    """The support of the next round, and how many steps it has."""
    if run.log_losses is None:
        return np.arange(count), 1
    least = min(rule.least, count)
    if not is_low(run):
        members = support_of(run.log_losses, rule.first_share, 1.0, least)
        # While the support is wide, a round is two visits of every sample and not twenty.
        return members, min(rule.first_passes, math.ceil(_WORK * count / len(members)))
    members = support_of(run.log_losses, rule.share, rule.spare * 2.0**run.attempt, least)
    if run.watched is not None:
        members = np.union1d(members, run.watched)
    return members, max(1, rule.passes >> run.attempt)


def _looked_at(run: MarginRun, data: ImageTensors, steps: SupportSteps, members: Int[ndarray, " m"]) -> PassResult:
    """The whole training set after the steps; what was left out and matters is watched from now on."""
    low = is_low(run)
    arrays = {name: np.ascontiguousarray(p.numpy()) for name, p in steps.params.items()}
    result = PassResult(
        arrays,
        measured := measure(steps.params, data),
        len(data.y) - len(members),
        rate=steps.rate,
        samples=steps.samples + len(data.y),
        watched=run.watched,
        step="implicit" if low else "constant",
    )
    if measured is None:
        return result
    result = result._replace(outside=share_outside(measured.log_losses, members))
    if not low:
        return result
    shares = np.exp(measured.log_losses - measured.log_losses.max())
    shares[members] = 0.0
    late = np.flatnonzero(shares > _MATTERS * shares.size)
    watched = late if run.watched is None else np.union1d(run.watched, late)
    kept = measured if measured.log_loss <= run.log_loss else None
    return result._replace(measured=kept, watched=watched)


def _rows(data: ImageTensors, rows: Int[ndarray, " m"]) -> ImageTensors:
    import torch

    index = torch.from_numpy(rows)
    return ImageTensors(data.x[index], data.y[index])


@dataclass
class Linearised:
    """The network's log-losses around the round's parameters, for some samples of the support."""

    rows: Int[ndarray, " m"]
    gradients: SampleGradients
    products: Float[ndarray, "m m"]

    @property
    def log_losses(self) -> Float[ndarray, " m"]:
        """log l_i where the gradients were taken."""
        losses: ndarray = self.gradients.log_losses.double().numpy()
        return losses


@dataclass
class SupportSteps:
    """The parameters and the rate within one round, over the samples of `part`."""

    part: ImageTensors
    params: Params
    rate: float
    rule: SupportRule
    batch: int
    samples: int = 0  # forward and backward passes of single samples, failed attempts included
    before: Measured | None = None
    linear: Linearised | None = field(default=None, repr=False)

    def constant(self, order: Int[ndarray, " m"], rate: float) -> bool:
        """One pass that counts whatever it does; False if the loss left all bounds."""
        self.samples += len(order)
        batch, none = min(self.batch, len(order)), np.zeros(len(order), dtype=bool)
        return descend_once(self.params, self.part, order, none, log_scale=0.0, rate=rate, batch=batch)

    def implicit(self, controller: LossBased) -> None:
        """One implicit step over the support, rolled back if it raises the support's loss."""
        before = self.measured()
        if before is None:
            return
        if self.linear is None:
            known = heaviest(before.log_losses, UNKNOWN, self.rule.heaviest)[: self.rule.most]
            self.linear = self._linearised(np.sort(known))
        trial = self._best_of_corrections(self.linear)
        self.samples += len(self.part.y)
        after = measure(trial, self.part)
        if after is None or after.log_loss <= before.log_loss:
            self._settle(trial, after, controller.grow)
        # Samples that had no say in the step made it fail: they join, and the rate is not to blame.
        elif not self._join(after, self.linear):
            self._settle(trial, None, controller.grow)

    def measured(self) -> Measured | None:
        """The support where the parameters stand."""
        if self.before is None:
            self.samples += len(self.part.y)
            self.before = measure(self.params, self.part)
        return self.before

    def _settle(self, trial: Params, after: Measured | None, grow: float) -> None:
        if after is None:
            self.rate /= _SHRINK
            return
        self.params, self.before, self.linear = trial, after, None
        self.rate *= grow

    def _best_of_corrections(self, linear: Linearised) -> Params:
        """The step of the linear model, and again with the losses that it was found to lead to.

        log l_i after a step is known once it was tried: what it differs by from the linear model is
        added to log l_i, and the step is taken anew. The best of the steps for these samples.
        """
        known = _rows(self.part, linear.rows)
        log_losses, trials = linear.log_losses, []
        for _ in range(1 + self.rule.corrections):
            lengths = self.rate * shares_after(log_losses, linear.products, self.rate)
            trial = moved_along(self.params, linear.gradients, lengths)
            self.samples += len(linear.rows)
            found = measure(trial, known)
            if found is None:
                break
            trials.append((found.log_loss, trial))
            log_losses = found.log_losses + linear.products @ lengths
        return min(trials, key=lambda pair: pair[0])[1] if trials else self.params

    def _linearised(self, rows: Int[ndarray, " m"]) -> Linearised:
        import torch

        self.samples += len(rows)
        gradients = sample_gradients(self.params, self.part, torch.from_numpy(rows))
        return Linearised(rows, gradients, inner_products(gradients, gradients))

    def _join(self, after: Measured, linear: Linearised) -> bool:
        """The samples outside that a failed step made heavy join; True if they were most of the loss."""
        outside = share_outside(after.log_losses, linear.rows)
        if outside <= UNKNOWN:
            return False
        others = np.setdiff1d(np.arange(len(after.log_losses)), linear.rows)
        heavy = heaviest(after.log_losses[others], UNKNOWN, _NEWCOMERS)[:_MOST_NEWCOMERS]
        new = self._linearised(np.sort(others[heavy]))
        across = inner_products(linear.gradients, new.gradients)
        self.linear = Linearised(
            np.concatenate([linear.rows, new.rows]),
            joined(linear.gradients, new.gradients),
            np.block([[linear.products, across], [across.T, new.products]]),
        )
        return outside > 0.5
