"""A network as the exact radius sees it: unit rows in as few coordinates as there are neurons."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from featavg.nets.network import one_network, unchecked
from featavg.nets.two_layer import TwoLayer
from featavg.robustness.models.model import TwoLayerModel

ROUND_OFF = 2.0**-53


@dataclass(frozen=True, eq=False)
class Subspace:
    r"""F(x + Q u) = head @ relu(z + rows @ u) + constant, where z = normals @ x + offsets.

    Only the span of the weights matters: a perturbation orthogonal to every w_r changes nothing and
    costs length. Since relu(c t) = c relu(t), each row is scaled to |w_r| = 1 and its norm goes
    into the head, so that weights of 1e-8 and of 1e8 pose the same, well-scaled problem; a neuron
    with w_r = 0 is the constant relu(b_r).

    W^T = Q R is a plain Householder QR: a rank-deficient network only gives R small entries, and no
    threshold decides which direction to drop.

    Attributes:
        normals: w_r / |w_r| for the M neurons with a weight.
        offsets: b_r / |w_r|.
        rows: the same normals in the coordinates u.
        basis: Q, whose columns are orthonormal.
        head: head_{jr} |w_r|.
        constant: what the neurons without a weight add to each output.
        error: bound on the relative rounding error of any dot product made here.
    """

    normals: Float[ndarray, "M N"]
    offsets: Float[ndarray, " M"]
    rows: Float[ndarray, "M r"]
    basis: Float[ndarray, "N r"]
    head: Float[ndarray, "c M"]
    constant: Float[ndarray, " c"]
    error: float

    def preactivations(self, x: Float[ndarray, "n N"]) -> Float[ndarray, "n M"]:
        """z = normals @ x + offsets, in units of length."""
        return x @ self.normals.T + self.offsets


def reduce(net: TwoLayer) -> Subspace:
    """Write `net` in the coordinates of the span of its weights.

    >>> flat = reduce(TwoLayer(np.array([[3.0, 4.0, 0.0]]), np.array([10.0]), np.array([[1.0]])))
    >>> flat.rows.shape, flat.offsets, flat.head
    ((1, 1), array([2.]), array([[5.]]))
    """
    one_network(net)
    # Two steps, so that squares of very small or very large weights neither vanish nor overflow.
    largest = np.abs(net.weights).max(axis=1)
    alive: Bool[ndarray, " m"] = largest > 0
    scaled = net.weights[alive] / largest[alive, None]
    lengths = np.linalg.norm(scaled, axis=1)
    normals = scaled / lengths[:, None]
    norms = lengths * largest[alive]
    basis, triangle = np.linalg.qr(normals.T)
    return Subspace(
        normals=normals,
        offsets=net.biases[alive] / norms,
        rows=np.ascontiguousarray(triangle.T),
        basis=basis,
        head=net.head[:, alive] * norms,
        constant=net.head[:, ~alive] @ np.maximum(net.biases[~alive], 0.0),
        error=(net.dimension + net.neurons + 8) * ROUND_OFF,
    )


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
        self, x: Float[ndarray, "n N"], at: Float[ndarray, "n r"], point: Float[ndarray, "n r"]
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
    # Unchecked: the span of weights that are all zero has no coordinates.
    net = unchecked(TwoLayer, {"weights": rows, "biases": offsets, "head": head})
    return Span(space, replace(model, net=net))
