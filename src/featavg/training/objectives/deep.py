"""The loss of a deep network, differentiated in closed form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.data.blocks import RowBlocks
from featavg.errors import InputError, one_of
from featavg.nets.deep import Deep
from featavg.shapes import PerSeed
from featavg.training.losses import Loss, LossValue, check_targets
from featavg.training.objectives.objective import Params, check_points, chosen_rows


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
class DeepObjective:
    """The mean loss of a deep network as a function of its weights and biases.

    Args:
        x: the points.
        targets: +-1 for one output, the index of the output otherwise.
        net: supplies whatever is not trained.
        loss: of outputs and targets.
        trainable: names of the network's arrays ("weights1", "biases1", ...); all of them if empty.
    """

    x: Float[ndarray, "*s n N"]
    targets: Int[ndarray, "*s n"]
    net: Deep
    loss: Loss
    trainable: Sequence[str] = field(default=())

    def __post_init__(self) -> None:
        check_points(self.x, self.targets)
        if self.x.shape[-1] != self.net.dimension:
            problem = f"has {self.x.shape[-1]} columns"
            raise InputError("x", problem, f"the network reads {self.net.dimension}")
        check_targets(self.targets, self.net.outputs)
        object.__setattr__(self, "trainable", tuple(self.trainable) or tuple(self.net.arrays()))
        for name in self.trainable:
            one_of("trainable", name, self.net.arrays())

    @property
    def data(self) -> Sequence[ndarray]:
        """The points and their targets."""
        return self.x, self.targets

    @property
    def points(self) -> int:
        """The number of points."""
        return self.x.shape[-2]

    def on(self, rows: Int[ndarray, "*s b"]) -> DeepObjective:
        """The mean loss of some of the points."""
        x, targets = chosen_rows(self.x, self.targets, rows)
        return replace(self, x=x, targets=targets)

    @cached_property
    def blocks(self) -> RowBlocks:
        """The points, cut so that known zeros are skipped."""
        return RowBlocks(self.x)

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
