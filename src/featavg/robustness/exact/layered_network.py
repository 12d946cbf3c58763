"""A deep ReLU network as the exact radius sees it: affine maps in the span of its first layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.errors import InputError
from featavg.nets.deep import Deep
from featavg.nets.two_layer import TwoLayer

ROUND_OFF = 2.0**-53
LARGE = 10**6  # weights of a first layer: turning it takes longer, and is no use where it needs all coordinates
AT_ZERO = 1e-9  # of the largest pre-activation of a layer


@dataclass(frozen=True, eq=False)
class Layered:
    r"""F(x + Q u) for u in R^r, where r is at most the number of first-layer neurons.

    With z_1 = z + rows u and z = W_1 x + b_1,

        h_l = phi(z_l) [+ h_{l-1}],   z_{l+1} = weights_l h_l + biases_l,   F = the last z,

    where phi(t) = t for t >= 0 and leak * t below. A perturbation orthogonal to every row of W_1
    changes nothing and costs length, so the nearest flipped point is in the span, whatever d is.

    Attributes:
        first: W_1, in the coordinates of the input.
        offset: b_1.
        rows: W_1 Q, where the columns of Q are an orthonormal basis of the span.
        basis: Q.
        weights: W_2, ..., W_L; the last one gives the outputs.
        biases: b_2, ..., b_L.
        skips: for every hidden layer, whether its input is added to its output.
        leak: slope of phi on the negative side, from 0 (ReLU) to 1.
        error: bound on the relative rounding error of a chain of the products made here.
    """

    first: Float[ndarray, "m N"]
    offset: Float[ndarray, " m"]
    rows: Float[ndarray, "m r"]
    basis: Float[ndarray, "N r"]
    weights: tuple[Float[ndarray, "_ _"], ...]
    biases: tuple[Float[ndarray, " _"], ...]
    skips: tuple[bool, ...]
    leak: float
    error: float

    @property
    def hidden(self) -> int:
        """How many layers have an activation."""
        return len(self.weights)

    def unturned(self) -> Layered:
        """The network in all coordinates of the input: a box has no sides in the span of a layer."""
        return replace(self, rows=self.first, basis=np.zeros((self.first.shape[1], 0)))

    @cached_property
    def lengths(self) -> Float[ndarray, " m"]:
        """|w_r| of the first layer."""
        return np.sqrt(np.einsum("mr,mr->m", self.rows, self.rows))

    @cached_property
    def _farthest_kink(self) -> float:
        """Of a neuron of the first layer, from zero; one without weights has none."""
        lengths = np.linalg.norm(self.first, axis=1)
        some = lengths > 0
        return float(np.max(np.abs(self.offset[some]) / lengths[some], initial=0.0))

    def reach(self, x: Float[ndarray, " N"]) -> float:
        """|x|, and as far as the farthest kink of the first layer: the scale of a search from x."""
        return float(np.linalg.norm(x)) + self._farthest_kink

    def phi(self, z: ndarray) -> ndarray:
        """The activation."""
        return np.maximum(z, self.leak * z)

    def start(self, x: Float[ndarray, "n N"]) -> Float[ndarray, "n m"]:
        """z = W_1 x + b_1."""
        return x @ self.first.T + self.offset

    def forward(self, z: Float[ndarray, "... m"]) -> list[ndarray]:
        """Pre-activations of every layer from those of the first; the last are the outputs."""
        layers, below = [z], np.zeros(0)
        for number, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            h = self.phi(layers[-1])
            below = h + below if self.skips[number] else h
            layers.append(below @ weight.T + bias)
        return layers

    def gradient(self, layers: list[ndarray], functional: Float[ndarray, " c"]) -> Float[ndarray, " r"]:
        """The derivative of functional . F in u, in the activation region of these layers."""
        g = functional
        extra: ndarray | None = None
        for number in range(self.hidden - 1, -1, -1):
            on_h = g @ self.weights[number]
            if extra is not None:
                on_h = on_h + extra
            g = on_h * np.where(layers[number] >= 0, 1.0, self.leak)
            extra = on_h if self.skips[number] else None
        return g @ self.rows

    def kinks(
        self, layers: list[ndarray], scales: list[ndarray], functionals: Float[ndarray, "p c"]
    ) -> Float[ndarray, "q r"]:
        """Normals of the neurons that are at zero here, pointing to where they raise the functionals.

        Behind them the slopes of the functionals if none does. So a step down all of these rows at
        once leaves the kinks on the sides where the functionals are lowest, which a step down the
        functionals alone need not do: it may fall in the sum and rise in one neuron. `scales` are the
        pre-activations of a point that says what counts as zero.
        """
        zero = [
            np.abs(z) <= AT_ZERO * float(np.abs(scale).max()) for z, scale in zip(layers[:-1], scales[:-1], strict=True)
        ]
        slopes = [np.where(z >= 0, 1.0, self.leak) for z in layers[:-1]]
        signs: list[ndarray] = []
        g, extra = functionals.sum(axis=0), 0.0
        for number in range(self.hidden - 1, -1, -1):
            on_h = g @ self.weights[number] + extra
            signs.insert(0, np.where(on_h > 0, 1.0, -1.0))
            lowest = np.where(on_h > 0, self.leak, 1.0)
            slopes[number] = np.where(zero[number], lowest, slopes[number])
            g = on_h * slopes[number]
            extra = on_h if self.skips[number] else 0.0
        normals, of_layer, below = [], self.rows, np.zeros_like(self.rows)
        for number in range(self.hidden):
            normals.append((signs[number][:, None] * of_layer)[zero[number]])
            carried = slopes[number][:, None] * of_layer
            below = carried + below if self.skips[number] else carried
            of_layer = self.weights[number] @ below
        return np.concatenate([*normals, functionals @ of_layer])

    def absolute(self, sizes: Sequence[ndarray]) -> tuple[list[Float[ndarray, " _"]], list[Float[ndarray, " _"]]]:
        """How large the sums are that make each pre-activation, and the rows of its gradient.

        `sizes` bounds |z_l| in the ball that is searched. A rounding error of a bound on z_l, or of
        any functional c of it, is at most `error` times |c| . (the l-th vector).
        """
        magnitudes, slopes = [sizes[0]], [self.lengths]
        below, below_slope = np.zeros(0), np.zeros(0)
        for number, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            # phi has slopes in [leak, 1] and phi(0) = 0: neither values nor errors grow in it.
            h, s = magnitudes[-1] + sizes[number], slopes[-1]
            if self.skips[number]:
                h, s = h + below, s + below_slope
            below, below_slope = h, s
            magnitudes.append(h @ np.abs(weight).T + np.abs(bias))
            slopes.append(s @ np.abs(weight).T)
        return magnitudes, slopes


def layered(
    weights: Sequence[ndarray],
    biases: Sequence[ndarray | None] | None = None,
    skips: Sequence[bool] | None = None,
    leak: float = 0.0,
) -> Layered:
    """Write a fully connected network in the coordinates of the span of its first layer.

    Args:
        weights: W_1, ..., W_L.
        biases: b_1, ..., b_L; None for none.
        skips: for every hidden layer, whether its input is added to its output (not the first).
        leak: slope of the activation on the negative side.

    >>> net = layered([np.array([[3.0, 4.0, 0.0]]), np.array([[2.0]])])
    >>> net.rows.shape, net.forward(net.start(np.array([[1.0, 1.0, 9.0]])))[-1]
    ((1, 1), array([[14.]]))
    """
    arrays = [np.asarray(weight, dtype=float) for weight in weights]
    if len(arrays) < 2:
        raise InputError("weights", f"are {len(arrays)} layers", "give at least two")
    for number, (below, above) in enumerate(pairwise(arrays), start=2):
        if above.ndim != 2 or below.ndim != 2 or above.shape[1] != below.shape[0]:
            raise InputError(
                f"layer {number}",
                f"has shape {above.shape} above one of shape {below.shape}",
                "give every layer as many columns as the layer below has rows",
            )
    given = [None] * len(arrays) if biases is None else list(biases)
    offsets = [
        np.zeros(len(w)) if b is None else np.asarray(b, dtype=float) for w, b in zip(arrays, given, strict=True)
    ]
    joined = tuple(False for _ in arrays[1:]) if skips is None else tuple(map(bool, skips))
    _check(arrays, offsets, joined, leak)
    # W_1 = triangle^T basis^T with orthonormal columns of the basis: W_1 (x + basis u) + b_1 is
    # z + triangle^T u, and |basis u| = |u|.
    first = arrays[0].T
    all_needed = first.shape[0] <= first.shape[1] and first.size > LARGE
    basis, triangle = (np.eye(len(first)), first) if all_needed else np.linalg.qr(first)
    # A sum of n products is off by at most n 2^-53 (to first order) of the sum of absolute values
    # (Higham, Accuracy and Stability, 3.1); going through the layers these counts add up. 16 covers
    # the additions between them, and the factor 2 the QR and the second order.
    size = sum(sum(w.shape) for w in arrays) + 16
    return Layered(
        first=arrays[0],
        offset=offsets[0],
        rows=np.ascontiguousarray(triangle.T),
        basis=basis,
        weights=tuple(arrays[1:]),
        biases=tuple(offsets[1:]),
        skips=joined,
        leak=float(leak),
        error=2.0 * size * ROUND_OFF,
    )


def layered_of(net: Deep | TwoLayer) -> Layered:
    """A network of featavg in the form that the deep search takes."""
    if isinstance(net, TwoLayer):
        return layered([net.weights, net.head], [net.biases, None])
    leak = net.phi.negative_slope
    if leak is None:
        problem = f"has the activation {net.phi.name}, which is not linear on both sides of zero"
        raise InputError("net", problem, "exact radii need a ReLU or a leaky one")
    return layered(net.weights, net.biases, [layer.skip for layer in net.layers[:-1]], leak)


def _check(weights: list[ndarray], biases: list[ndarray], skips: tuple[bool, ...], leak: float) -> None:
    if not 0.0 <= leak <= 1.0:
        raise InputError("leak", f"is {leak}", "give a slope from 0 (ReLU) to 1")
    for number, (weight, bias) in enumerate(zip(weights, biases, strict=True), start=1):
        if bias.shape != (len(weight),):
            raise InputError(f"bias {number}", f"has shape {bias.shape}", "give one value per neuron")
        if not (np.all(np.isfinite(weight)) and np.all(np.isfinite(bias))):
            raise InputError(f"layer {number}", "is not finite", "train the network again")
    if len(skips) != len(weights) - 1:
        raise InputError("skips", f"are {len(skips)}", f"give {len(weights) - 1}, one per hidden layer")
    if skips and skips[0]:
        raise InputError("skips", "begin with the first layer", "start them at the second")
    for number, skip in enumerate(skips):
        if skip and len(weights[number]) != len(weights[number - 1]):
            raise InputError(f"layer {number + 1}", "adds an input of another width", "keep the width the same")
