"""What the driver minimises: parameters in, log-loss and normalised gradient out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol, TypeVar, runtime_checkable

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.data.blocks import RowBlocks
from featavg.errors import InputError
from featavg.nets.network import Network
from featavg.nets.two_layer import TwoLayer
from featavg.shapes import PerSeed
from featavg.training.losses._loss import Loss, LossValue

Params = tuple[ndarray, ...]


@runtime_checkable
class Evaluation(Protocol):
    """An objective at one point."""

    @property
    def log_loss(self) -> PerSeed:
        """log L, one for each seed."""

    @property
    def gradient(self) -> Params:
        """(dL/dtheta) / L. Computed when it is first asked for: a rejected step needs none."""


@runtime_checkable
class Objective(Protocol):
    """A loss as a function of parameters; the leading axes of all arrays are the seeds."""

    @property
    def trainable(self) -> Sequence[str]:
        """What the parameters are called in the network."""

    @property
    def data(self) -> Sequence[ndarray]:
        """The points and their targets, which tell one run from another."""

    def net_with(self, params: Params) -> Network:
        """The network that has these parameters."""

    def evaluate(self, params: Params) -> Evaluation:
        """The objective at `params`."""


@runtime_checkable
class Minibatches(Protocol):
    """An objective that is a mean over points."""

    @property
    def points(self) -> int:
        """How many there are."""

    def on(self, rows: Int[ndarray, "*s b"]) -> Objective:
        """The mean over some of the points; each seed may have its own."""


def chosen_rows(
    x: Float[ndarray, "*s n N"], targets: Int[ndarray, "*s n"], rows: Int[ndarray, "*s b"]
) -> tuple[Float[ndarray, "*s b N"], Int[ndarray, "*s b"]]:
    """Some of the points and their targets."""
    if rows.ndim > 1 and (rows == rows[(0,) * (rows.ndim - 1)]).all():
        rows = rows[(0,) * (rows.ndim - 1)]  # the usual case, and faster
    if rows.ndim == 1:
        return x[..., rows, :], targets[..., rows]
    return np.take_along_axis(x, rows[..., None], -2), np.take_along_axis(targets, rows, -1)


def check_points(x: Float[ndarray, "*s n N"], targets: Int[ndarray, "*s n"]) -> None:
    """Refuse points that are not numbers, and labels that are not one per point."""
    if not np.all(np.isfinite(x)):
        raise InputError("x", "holds NaN or infinite values", "clean the data first")
    if targets.shape != x.shape[:-1]:
        raise InputError("targets", f"have shape {targets.shape}", "give one per point")


@runtime_checkable
class Products(Protocol):
    """A data matrix X that is only ever multiplied with."""

    def times(self, weights: Float[ndarray, "*s M N"]) -> Float[ndarray, "*s n M"]:
        """The products X W^T with some weights."""

    def gathered(self, slopes: Float[ndarray, "*s n M"]) -> Float[ndarray, "*s M N"]:
        """The sums S^T X over the points."""


@runtime_checkable
class OnProducts(Protocol):
    """An objective of a two-layer network whose points are only ever multiplied with."""

    @property
    def trainable(self) -> Sequence[str]:
        """Which of "weights", "biases", "head"."""

    @property
    def blocks(self) -> Products:
        """The points."""


PointsObjective = TypeVar("PointsObjective", bound="MeanOverPoints")


@dataclass(frozen=True, eq=False)
class MeanOverPoints:
    """What every mean loss over points has, whatever the network: the points, and parts of them."""

    x: Float[ndarray, "*s n N"]
    targets: Int[ndarray, "*s n"]

    @property
    def data(self) -> Sequence[ndarray]:
        """The points and their targets."""
        return self.x, self.targets

    @property
    def points(self) -> int:
        """The number of points."""
        return self.x.shape[-2]

    def on(self: PointsObjective, rows: Int[ndarray, "*s b"]) -> PointsObjective:
        """The mean loss of some of the points."""
        x, targets = chosen_rows(self.x, self.targets, rows)
        return replace(self, x=x, targets=targets)

    @cached_property
    def blocks(self) -> RowBlocks:
        """The points, cut so that known zeros are skipped."""
        return RowBlocks(self.x)

    def _check(self, dimension: int, outputs: int, loss: Loss) -> None:
        """Raise an error unless a network of this size can read the points, and the loss its labels."""
        check_points(self.x, self.targets)
        if self.x.shape[-1] != dimension:
            raise InputError(
                "x", f"has {self.x.shape[-1]} columns", f"the network reads {dimension}"
            )
        loss.check_targets(self.targets, outputs)


@dataclass(frozen=True, eq=False)
class TwoLayerEvaluation:
    """A two-layer network on its training set: forward pass now, backward pass when needed."""

    objective: OnProducts
    net: TwoLayer
    preactivations: Float[ndarray, "*s n M"]
    loss: LossValue

    @property
    def log_loss(self) -> PerSeed:
        """The logarithm of the mean loss."""
        return self.loss.log_mean

    @cached_property
    def neuron_slopes(self) -> Float[ndarray, "*s n M"]:
        """(dL/dz) / L by the pre-activation of each neuron on each sample."""
        upstream = self.loss.slopes @ self.net.head
        upstream *= self.preactivations >= 0.0
        return upstream

    @cached_property
    def gradient(self) -> Params:
        """(dL/dtheta) / L for the trainable parameters."""
        return tuple(self._part(name) for name in self.objective.trainable)

    def _part(self, name: str) -> ndarray:
        if name == "weights":
            return self.objective.blocks.gathered(self.neuron_slopes)
        if name == "biases":
            return np.asarray(self.neuron_slopes.sum(axis=-2))
        return np.swapaxes(self.loss.slopes, -1, -2) @ np.maximum(self.preactivations, 0.0)


@dataclass(frozen=True, eq=False)
class TwoLayerObjective(MeanOverPoints):
    """The mean loss of a two-layer network, differentiated in closed form.

    With z = X W^T + b and F = relu(z) A^T:

        dL/dz = (dL/dF A) * 1[z >= 0],   dL/dW = (dL/dz)^T X,   dL/db = sum_i dL/dz_i.

    Args:
        x: the points.
        targets: +-1 for one output, the index of the output otherwise.
        net: supplies whatever is not trained.
        loss: of outputs and targets.
        trainable: which of "weights", "biases", "head".
    """

    net: TwoLayer
    loss: Loss
    trainable: Sequence[str] = ("weights", "biases")

    def __post_init__(self) -> None:
        self._check(self.net.dimension, self.net.outputs, self.loss)

    def params_of(self, net: TwoLayer) -> Params:
        """The trainable arrays of a network."""
        return tuple(getattr(net, name) for name in self.trainable)

    def net_with(self, params: Params) -> TwoLayer:
        """The network that has these trainable arrays."""
        return self.net.with_arrays(dict(zip(self.trainable, params, strict=True)))

    def evaluate(self, params: Params) -> TwoLayerEvaluation:
        """Forward pass."""
        net = self.net_with(params)
        z = self.blocks.times(net.weights) + net.biases[..., None, :]
        outputs = np.maximum(z, 0.0) @ np.swapaxes(net.head, -1, -2)
        return TwoLayerEvaluation(self, net, z, self.loss(outputs, self.targets))
