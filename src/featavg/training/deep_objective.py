"""The loss of a deep ReLU network, differentiated in closed form."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.errors import InputError
from featavg.nets.deep import Deep
from featavg.shapes import PerSeed
from featavg.training.losses import Loss, LossValue, check_targets
from featavg.training.objective import Params


def backward(
    net: Deep,
    x: Float[ndarray, "*s n N"],
    preactivations: list[ndarray],
    slopes: Float[ndarray, "*s n c"],
) -> Iterator[tuple[ndarray, ndarray]]:
    """From the last layer down: the slopes of its pre-activations, and what it was fed.

    With d_L = dL/dF and h_l = relu(z_l): d_l = (d_{l+1} W_{l+1}) 1[z_l >= 0], dL/dW_l = d_l^T h_{l-1}.
    """
    d = slopes
    for number in range(net.depth - 1, -1, -1):
        fed = x if number == 0 else np.maximum(preactivations[number - 1], 0.0)
        yield d, fed
        if number:
            d = (d @ net.weights[number]) * (preactivations[number - 1] >= 0.0)


@dataclass(frozen=True, eq=False)
class DeepEvaluation:
    """A deep network on its training set: forward pass now, backward pass when needed."""

    net: Deep
    x: Float[ndarray, "*s n N"]
    preactivations: list[ndarray]
    loss: LossValue

    @property
    def log_loss(self) -> PerSeed:
        """log L."""
        return self.loss.log_mean

    @cached_property
    def gradient(self) -> Params:
        """(dL/dW_l) / L for every layer."""
        passes = backward(self.net, self.x, self.preactivations, self.loss.slopes)
        return tuple(np.swapaxes(d, -1, -2) @ fed for d, fed in passes)[::-1]


@dataclass(frozen=True, eq=False)
class DeepObjective:
    """The mean loss of a bias-free deep network as a function of its weights.

    Args:
        x: the points.
        targets: +-1 for one output, the index of the output otherwise.
        loss: of outputs and targets.
    """

    x: Float[ndarray, "*s n N"]
    targets: Int[ndarray, "*s n"]
    loss: Loss

    def __post_init__(self) -> None:
        if not np.all(np.isfinite(self.x)):
            raise InputError("x", "holds NaN or infinite values", "clean the data first")
        if self.targets.shape != self.x.shape[:-1]:
            raise InputError("targets", f"have shape {self.targets.shape}", "give one a point")

    @cached_property
    def _checked(self) -> set[int]:
        """Numbers of outputs that the targets were found to fit: looked at once, not every step."""
        return set()

    def evaluate(self, params: Params) -> DeepEvaluation:
        """Forward pass."""
        net = Deep(params)
        found = net.layers(self.x)
        if net.outputs not in self._checked:
            check_targets(self.targets, net.outputs)
            self._checked.add(net.outputs)
        return DeepEvaluation(net, self.x, found, self.loss(found[-1], self.targets))
