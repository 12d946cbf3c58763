"""The mean loss of a two-layer network on a packed training set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from featavg.errors import InputError
from featavg.nets.two_layer import TwoLayer
from featavg.paper.theorems.packed import PackedTriangle
from featavg.training.losses import Loss, check_targets
from featavg.training.objectives.objective import Params, TwoLayerEvaluation


@dataclass(frozen=True, eq=False)
class PackedObjective:
    """`TwoLayerObjective` for points that are held as a triangle; one network, not a batch.

    Args:
        blocks: the points.
        targets: +-1 for one output, the index of the output otherwise.
        net: supplies whatever is not trained.
        loss: of outputs and targets.
        trainable: which of "weights", "biases", "head".
    """

    blocks: PackedTriangle
    targets: Int[ndarray, " n"]
    net: TwoLayer
    loss: Loss
    trainable: Sequence[str] = ("weights", "biases")

    def __post_init__(self) -> None:
        points, columns = self.blocks.shape
        if self.targets.shape != (points,):
            raise InputError("targets", f"have shape {self.targets.shape}", "give one per point")
        if self.net.batch or columns != self.net.dimension:
            raise InputError("net", f"reads {self.net.dimension}", f"the points have {columns}")
        check_targets(self.targets, self.net.outputs)

    @property
    def data(self) -> Sequence[ndarray]:
        """The blocks and the targets."""
        return (*self.blocks.blocks, self.targets)

    def net_with(self, params: Params) -> TwoLayer:
        """The network that has these trainable arrays."""
        return self.net.with_arrays(dict(zip(self.trainable, params, strict=True)))

    def evaluate(self, params: Params) -> TwoLayerEvaluation:
        """Forward pass."""
        net = self.net_with(params)
        z = self.blocks.times(net.weights) + net.biases
        outputs = np.maximum(z, 0.0) @ net.head.T
        return TwoLayerEvaluation(self, net, z, self.loss(outputs, self.targets))
