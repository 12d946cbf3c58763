"""The steps of a round over the support: at a constant rate, by SGD, and implicit ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

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
from featavg.paper.margins.network.settings import SupportRule
from featavg.training.controllers import LossBased

if TYPE_CHECKING:
    import torch

# A failed implicit step costs as much as one that counts, and its rate follows the curvature of the
# network: it is shrunk by 2^(1/2) where a pass of SGD is by the published 2^(1/10).
_SHRINK = 2.0**0.5
# The samples whose gradients are known hold all but this share of the loss, before and after a step.
UNKNOWN = 0.01
# The fewest and the most samples that one failed step adds to them.
_NEWCOMERS, _MOST_NEWCOMERS = 50, 400


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


def heaviest(log_losses: Float[ndarray, " n"], share: float, least: int) -> Int[ndarray, " m"]:
    """The samples that hold all but `share` of the loss, and at least so many; the heaviest first.

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
        return self._descend(self.params, order, 0.0, rate)

    def gradient(self, order: Int[ndarray, " m"], controller: LossBased) -> None:
        """One pass of SGD over the support, undone if it raises the support's loss."""
        before = self.measured()
        if before is None:
            return
        trial = {name: p.clone() for name, p in self.params.items()}
        self.samples += len(order)
        finished = self._descend(trial, order, before.log_loss, self.rate)
        after = measure(trial, self.part, before.log_losses, before.log_loss) if finished else None
        self._settle(trial, after, controller.grow, controller.shrink)

    def implicit(self, controller: LossBased) -> None:
        """One implicit step over the support, undone if it raises the support's loss."""
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
            self._settle(trial, after, controller.grow, _SHRINK)
            return
        # Samples that had no say in the step made it fail: they join, and the rate is not to blame.
        if not self._join(after, self.linear):
            self._settle(trial, None, controller.grow, _SHRINK)

    def measured(self) -> Measured | None:
        """The support where the parameters stand."""
        if self.before is None:
            self.samples += len(self.part.y)
            self.before = measure(self.params, self.part)
        return self.before

    def _settle(self, trial: Params, after: Measured | None, grow: float, shrink: float) -> None:
        if after is None:
            self.rate /= shrink
            return
        self.params, self.before, self.linear = trial, after, None
        self.rate *= grow

    def _best_of_corrections(self, linear: Linearised) -> Params:
        """The step of the linear model, and again with the losses that it was found to lead to.

        log l_i after a step is known once it was tried: what it differs by from the linear model is
        added to log l_i, and the step is taken anew. The best of the steps for these samples.
        """
        import torch

        known = self._rows(torch.from_numpy(linear.rows))
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

    def _rows(self, index: torch.Tensor) -> ImageTensors:
        return ImageTensors(self.part.x[index], self.part.y[index])

    def _descend(
        self, params: Params, order: Int[ndarray, " m"], log_scale: float, rate: float
    ) -> bool:
        batch = min(self.batch, len(order))
        light = np.zeros(len(order), dtype=bool)
        return descend_once(
            params, self.part, order, light, log_scale=log_scale, rate=rate, batch=batch
        )
