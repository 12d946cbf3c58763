"""A two-layer network in the span of its weights, where an unbounded l2 attack loses nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.nets.two_layer import TwoLayer
from featavg.robustness.exact.subspace import Subspace, reduce
from featavg.robustness.models.model import TwoLayerModel


@dataclass(frozen=True, eq=False)
class Span:
    """The same network, decision and distances in as many coordinates as it has neurons.

    A perturbation orthogonal to every weight changes no output and costs length, so the nearest
    flipped point differs from x only inside the span: 10 coordinates instead of 3072.
    """

    space: Subspace
    model: TwoLayerModel

    def into(self, x: Float[ndarray, "n N"]) -> Float[ndarray, "n r"]:
        """The coordinates of points in the span."""
        return np.asarray(x @ self.space.basis)

    def back(
        self,
        x: Float[ndarray, "n N"],
        at: Float[ndarray, "n r"],
        point: Float[ndarray, "n r"],
    ) -> Float[ndarray, "n N"]:
        """The flipped points themselves: x moved as far and in the same direction."""
        return np.asarray(x + (point - at) @ self.space.basis.T)


def span_of(model: TwoLayerModel) -> Span:
    """Write the model in the span of its weights; the cost of questions is still counted on it."""
    space = reduce(model.net)
    rows, offsets, head = space.rows, space.offsets, space.head
    if np.any(space.constant != 0):
        # Neurons without a weight are constants: one neuron that is always 1 carries them all.
        rows = np.concatenate([rows, np.zeros((1, rows.shape[1]))])
        offsets, head = np.append(offsets, 1.0), np.column_stack([head, space.constant])
    return Span(space, replace(model, net=TwoLayer(rows, offsets, head)))
