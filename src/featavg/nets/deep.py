"""Deep ReLU networks without biases (or with them, to see what they break)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.data.streams import stream
from featavg.errors import InputError


@dataclass(frozen=True, eq=False)
class Deep:
    r"""F(x) = W_L relu(W_{L-1} ... relu(W_1 x)), homogeneous of order L in its weights.

    Leading axes `*s`, if any, are independent networks of the same shape, one for each seed.

    Attributes:
        weights: W_1, ..., W_L; the rows are neurons.
        biases: b_1, ..., b_L, or None where a layer has none.

    >>> net = Deep((np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[1.0, -1.0]])))
    >>> net(np.array([[3.0, 1.0]])), net.homogeneity()
    (array([[2.]]), 2)
    """

    weights: tuple[Float[ndarray, "..."], ...]
    biases: tuple[Float[ndarray, "..."] | None, ...] | None = None

    def __post_init__(self) -> None:
        if not self.weights:
            raise InputError("weights", "are empty", "give at least one layer")
        for number, (below, above) in enumerate(pairwise(self.weights), start=2):
            if above.shape[:-2] != below.shape[:-2] or above.shape[-1] != below.shape[-2]:
                raise InputError(
                    f"layer {number}",
                    f"has shape {above.shape} above a layer of {below.shape[-2]} neurons",
                    "give every layer as many columns as the one below has rows",
                )
        if self.biases is not None and len(self.biases) != len(self.weights):
            raise InputError("biases", f"are {len(self.biases)}", "give one, or None, a layer")

    @property
    def depth(self) -> int:
        """L."""
        return len(self.weights)

    @property
    def dimension(self) -> int:
        """The number of input coordinates."""
        return self.weights[0].shape[-1]

    @property
    def outputs(self) -> int:
        """c."""
        return self.weights[-1].shape[-2]

    def homogeneity(self) -> int:
        """The order L with F(c theta) = c^L F(theta), or the layer that leaves the network none.

        A bias in the first layer joins one more input that is always 1; one in a later layer is of
        too low an order.
        """
        for number, bias in enumerate(self.biases or (), start=1):
            if number > 1 and bias is not None:
                raise InputError(
                    "network",
                    f"is not homogeneous, layer {number} has a bias",
                    "keep a bias in the first layer only, or none",
                )
        return self.depth

    def layers(self, x: Float[ndarray, "*s n N"]) -> list[ndarray]:
        """Pre-activations of every layer; the last are the outputs."""
        found, h = [], x
        for number, weight in enumerate(self.weights):
            z = h @ np.swapaxes(weight, -1, -2)
            bias = self.biases[number] if self.biases else None
            if bias is not None:
                z = z + bias[..., None, :]
            found.append(z)
            h = np.maximum(z, 0.0)
        return found

    def __call__(self, x: Float[ndarray, "*s n N"]) -> Float[ndarray, "*s n c"]:
        """The outputs."""
        return self.layers(x)[-1]

    def __getitem__(self, index: int) -> Deep:
        """One network of a batch."""
        biases = self.biases and tuple(None if b is None else b[index] for b in self.biases)
        return Deep(tuple(w[index] for w in self.weights), biases)


def random_deep(dimension: int, widths: Sequence[int], scale: float, seeds: Sequence[int]) -> Deep:
    """A batch of networks with He weights times `scale`, one for each seed; `widths` end in c."""
    sizes = (dimension, *widths)
    draws = [stream(seed, "deep-weights") for seed in seeds]
    return Deep(
        tuple(
            np.stack(
                [scale * math.sqrt(2 / below) * d.standard_normal((here, below)) for d in draws]
            )
            for below, here in pairwise(sizes)
        )
    )


def two_sided(
    x: Float[ndarray, "s n N"],
    y: Int[ndarray, "s n"],
    widths: Sequence[int],
    seeds: Sequence[int],
    scale: float = 0.5,
) -> Deep:
    """A start with one path for each class, near the class average: no neuron hangs on a kink.

    Half of every hidden layer is fed by, and feeds, its own half with positive weights; the first
    layer is the mean of y_i x_i, with the sign of the half, plus noise. From a generic start deep
    flows stick to kinks of inner layers, where no explicit integrator follows them.
    """
    plain = random_deep(x.shape[-1], widths, scale, seeds)
    weights = list(plain.weights)
    if len(weights) == 1:
        return plain
    mean = np.mean(y[..., None] * x, axis=-2, keepdims=True)
    mean = mean / np.linalg.norm(mean, axis=-1, keepdims=True)
    sides = [np.repeat([1.0, -1.0], width // 2) for width in widths[:-1]]
    weights[0] = scale * sides[0][:, None] * mean + 0.5 * weights[0]
    for number in range(1, len(weights)):
        kept = (
            sides[number - 1]
            if number == len(widths) - 1
            else (sides[number][:, None] == sides[number - 1])
        )
        weights[number] = np.abs(weights[number]) * kept
    return Deep(tuple(weights))
