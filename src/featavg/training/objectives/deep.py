"""The loss of a deep network, differentiated in closed form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy import ndarray

from featavg.errors import one_of
from featavg.nets.deep import Deep
from featavg.shapes import PerSeed
from featavg.training.losses._loss import Loss, LossValue
from featavg.training.objectives.objective import MeanOverPoints, Params


@dataclass(frozen=True, eq=False)
class DeepEvaluation:
    """A deep network on its training set: forward pass now, backward pass when needed."""

    objective: DeepObjective
    net: Deep
    preactivations: list[ndarray]
    loss: LossValue

    @property
    def log_loss(self) -> PerSeed:
        """The logarithm of the mean loss."""
        return self.loss.log_mean

    @cached_property
    def gradient(self) -> Params:
        """(dL/dtheta) / L for the trainable parameters."""
        objective, parts = self.objective, {}
        passes = self.net.backward(objective.x, self.preactivations, self.loss.slopes)
        for number, (d, fed) in zip(range(self.net.depth, 0, -1), passes, strict=True):
            weights, biases = f"weights{number}", f"biases{number}"
            if weights in objective.trainable:
                sparse = number == 1 and objective.skips_zeros
                turned = np.swapaxes(d, -1, -2)
                parts[weights] = objective.blocks.gathered(d) if sparse else turned @ fed
            if biases in objective.trainable:
                parts[biases] = np.asarray(d.sum(axis=-2))
        return tuple(parts[name] for name in objective.trainable)


@dataclass(frozen=True, eq=False)
class DeepObjective(MeanOverPoints):
    """The mean loss of a deep network as a function of its weights and biases.

    Args:
        x: the points.
        targets: +-1 for one output, the index of the output otherwise.
        net: supplies whatever is not trained.
        loss: of outputs and targets.
        trainable: names of the network's arrays ("weights1", "biases1", ...); all of them if empty.
    """

    net: Deep
    loss: Loss
    trainable: Sequence[str] = field(default=())

    def __post_init__(self) -> None:
        self._check(self.net.dimension, self.net.outputs, self.loss)
        object.__setattr__(self, "trainable", tuple(self.trainable) or tuple(self.net.arrays()))
        for name in self.trainable:
            one_of("trainable", name, self.net.arrays())

    @cached_property
    def skips_zeros(self) -> bool:
        """Whether there are enough known zeros in the points to go round them."""
        return len(self.blocks.cuts) > 1

    def params_of(self, net: Deep) -> Params:
        """The trainable arrays of a network."""
        arrays = net.arrays()
        return tuple(arrays[name] for name in self.trainable)

    def net_with(self, params: Params) -> Deep:
        """The network that has these trainable arrays."""
        return self.net.with_arrays(dict(zip(self.trainable, params, strict=True)))

    def evaluate(self, params: Params) -> DeepEvaluation:
        """Forward pass."""
        net = self.net_with(params)
        first = self.blocks.times(net.weights[0]) if self.skips_zeros else None
        z = net.preactivations(self.x, first)
        return DeepEvaluation(self, net, z, self.loss(z[-1], self.targets))
