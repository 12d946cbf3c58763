"""The mean loss of a network on its training points, differentiated in closed form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.errors import InputError, one_of
from featavg.nets.deep import Deep
from featavg.nets.two_layer import TwoLayer
from featavg.shapes import PerSeed
from featavg.training.parts import Loss, LossValue, Params

# More blocks skip more zeros (1/2 in the limit, 15/32 with sixteen) but each costs a call to BLAS.
BLOCKS = 16
# With fewer rows the calls cost more than the zeros.
WORTHWHILE = 512


@dataclass(frozen=True, eq=False)
class RowBlocks:
    """Products with a data matrix that skip the zeros it is known to have.

    A compressed training set is lower triangular behind its first columns: half of it is zeros. Cut into
    blocks of rows, each block ends at its last column that is not zero, and both products of a training
    step leave the rest alone. A dense matrix is one block, multiplied as it is.

    >>> x = np.tril(np.ones((1024, 1024)))
    >>> blocks = RowBlocks(x)
    >>> [end for _, _, end in blocks.cuts][:3]
    [64, 128, 192]
    >>> bool(np.allclose(blocks.times(x[:2]), x @ x[:2].T))
    True
    """

    x: Float[ndarray, "*s n N"]

    @cached_property
    def cuts(self) -> list[tuple[int, int, int]]:
        """(first row, row after the last, columns that are not all zero) of each block."""
        n = self.x.shape[-2]
        whole = [(0, n, self.x.shape[-1])]
        if n < WORTHWHILE:
            return whole
        ends = np.linspace(0, n, BLOCKS + 1).astype(int).tolist()
        cuts = [(first, end, self._width(first, end)) for first, end in pairwise(ends)]
        area = sum((b - a) * width for a, b, width in cuts)
        return cuts if area < 0.8 * n * self.x.shape[-1] else whole

    def _width(self, first: int, end: int) -> int:
        rows = self.x[..., first:end, :]
        used = np.atleast_1d(rows.any(axis=tuple(range(rows.ndim - 1))))
        return int(used.size - np.argmax(used[::-1])) if used.any() else 0

    def times(self, weights: Float[ndarray, "*s M N"]) -> Float[ndarray, "*s n M"]:
        """The products X W^T with some weights."""
        # With few neurons, W X^T reads X up to twice as fast as X W^T: BLAS packs the thin side.
        turned = self.x.swapaxes(-1, -2)
        if len(self.cuts) == 1:
            return (weights @ turned).swapaxes(-1, -2)
        parts = [weights[..., :width] @ turned[..., :width, first:end] for first, end, width in self.cuts]
        return np.concatenate(parts, axis=-1).swapaxes(-1, -2)

    def gathered(self, slopes: Float[ndarray, "*s n M"]) -> Float[ndarray, "*s M N"]:
        """The sums S^T X over the points."""
        turned = slopes.swapaxes(-1, -2)
        if len(self.cuts) == 1:
            return turned @ self.x
        total = np.zeros((*turned.shape[:-1], self.x.shape[-1]))
        for first, end, width in self.cuts:
            total[..., :width] += turned[..., first:end] @ self.x[..., first:end, :width]
        return total


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
    if not np.isfinite([x.min(), x.max()]).all():  # no second array as large as x
        raise InputError("x", "holds NaN or infinite values", "clean the data first")
    if targets.shape != x.shape[:-1]:
        raise InputError("targets", f"have shape {targets.shape}", "give one per point")


MeanLoss = TypeVar("MeanLoss", bound="MeanOverPoints")


@dataclass(frozen=True, eq=False)
class MeanOverPoints:
    """The mean loss of a network over points, as a function of some of its arrays.

    Args:
        x: the points.
        targets: +-1 for one output, the index of the output otherwise.
        net: supplies whatever is not trained.
        loss: of outputs and targets.
        trainable: names of the network's arrays.
    """

    x: Float[ndarray, "*s n N"]
    targets: Int[ndarray, "*s n"]
    net: Any
    loss: Loss
    trainable: Sequence[str] = ()

    def __post_init__(self) -> None:
        check_points(self.x, self.targets)
        if self.x.shape[-1] != self.net.dimension:
            problem = f"has {self.x.shape[-1]} columns"
            raise InputError("x", problem, f"the network reads {self.net.dimension}")
        self.loss.check_targets(self.targets, self.net.outputs)

    @property
    def data(self) -> Sequence[ndarray]:
        """The points and their targets."""
        return self.x, self.targets

    @property
    def points(self) -> int:
        """The number of points."""
        return self.x.shape[-2]

    def on(self: MeanLoss, rows: Int[ndarray, "*s b"]) -> MeanLoss:
        """The mean loss of some of the points."""
        x, targets = chosen_rows(self.x, self.targets, rows)
        return replace(self, x=x, targets=targets)

    @cached_property
    def blocks(self) -> RowBlocks:
        """The points, cut so that known zeros are skipped."""
        return RowBlocks(self.x)

    def params_of(self, net: Any) -> Params:
        """The trainable arrays of a network."""
        arrays = net.arrays()
        return tuple(arrays[name] for name in self.trainable)

    def net_with(self, params: Params) -> Any:
        """The network that has these trainable arrays."""
        return self.net.with_arrays(dict(zip(self.trainable, params, strict=True)))


@runtime_checkable
class OnProducts(Protocol):
    """An objective of a two-layer network whose points, `blocks`, are only ever multiplied with."""

    @property
    def trainable(self) -> Sequence[str]:
        """Which of "weights", "biases", "head"."""

    @property
    def blocks(self) -> Any:
        """The points, with the methods of `RowBlocks`."""


@dataclass(eq=False)
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
        # The axes of the pre-activations lie the other way round in memory: one byte is faster to turn.
        upstream *= np.ascontiguousarray(self.preactivations >= 0.0)
        return upstream

    @cached_property
    def gradient(self) -> Params:
        """(dL/dtheta) / L for the trainable parameters."""
        slopes, parts = self.neuron_slopes, []
        for name in self.objective.trainable:
            if name == "weights":
                parts.append(self.objective.blocks.gathered(slopes))
            elif name == "biases":
                parts.append(np.add.reduce(slopes, axis=-2))
            else:
                parts.append(self.loss.slopes.swapaxes(-1, -2) @ np.maximum(self.preactivations, 0.0))
        return tuple(parts)


@dataclass(frozen=True, eq=False)
class TwoLayerObjective(MeanOverPoints):
    """The mean loss of a two-layer network, with z = X W^T + b and F = relu(z) A^T:

    dL/dz = (dL/dF A) * 1[z >= 0],   dL/dW = (dL/dz)^T X,   dL/db = sum_i dL/dz_i.
    """

    net: TwoLayer
    trainable: Sequence[str] = ("weights", "biases")

    def evaluate(self, params: Params) -> TwoLayerEvaluation:
        """Forward pass."""
        net = self.net_with(params)
        z = self.blocks.times(net.weights)
        z += net.biases[..., None, :]
        outputs = np.maximum(z, 0.0) @ net.head.swapaxes(-1, -2)
        return TwoLayerEvaluation(self, net, z, self.loss(outputs, self.targets))


@dataclass(eq=False)
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
    """The mean loss of a deep network; all arrays are trained if `trainable` is empty."""

    net: Deep

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "trainable", tuple(self.trainable) or tuple(self.net.arrays()))
        for name in self.trainable:
            one_of("trainable", name, self.net.arrays())

    @cached_property
    def skips_zeros(self) -> bool:
        """Whether there are enough known zeros in the points to go round them."""
        return len(self.blocks.cuts) > 1

    def evaluate(self, params: Params) -> DeepEvaluation:
        """Forward pass."""
        net = self.net_with(params)
        first = self.blocks.times(net.weights[0]) if self.skips_zeros else None
        z = net.preactivations(self.x, first)
        return DeepEvaluation(self, net, z, self.loss(z[-1], self.targets))
