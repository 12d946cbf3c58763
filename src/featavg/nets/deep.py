"""Fully connected networks of any depth, plain or residual."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from featavg.boundary.public import check_fields
from featavg.errors import InputError
from featavg.nets.activations._activation import Activation, ReLU
from featavg.nets.network import check_finite, unchecked
from featavg.registry import ACTIVATIONS, spec


class Layer(NamedTuple):
    """One layer: z = weights @ h + biases, from h to phi(z), or to h + phi(z) if it skips.

    The last layer of a network is linear: its z are the outputs.
    """

    weights: Float[ndarray, "*s m p"]
    biases: Float[ndarray, "*s m"]
    skip: bool


@dataclass(frozen=True, eq=False, repr=False)
class Deep:
    r"""L layers: z_l = W_l h_{l-1} + b_l, h_0 = x, h_l = phi(z_l), and F(x) = z_L.

    A residual network adds what a hidden layer was fed, h_l = h_{l-1} + phi(z_l), in every hidden
    layer but the first, which changes the width. Without biases and skips F is homogeneous of order
    L in its weights (for a ReLU or a leaky one). Leading axes `*s`, if any, are independent networks
    of the same shape, one for each seed.

    Args:
        weights: W_1, ..., W_L; the rows are neurons.
        biases: b_1, ..., b_L, or None where a layer has none.
        activation: phi, or its name, such as "leaky-relu:leak=0.1".
        residual: whether hidden layers add what they were fed.

    >>> import numpy as np
    >>> import featavg as fa
    >>> net = fa.Deep((np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[1.0, -1.0]])))
    >>> net(np.array([[3.0, 1.0]])), net.homogeneity()
    (array([[2.]]), 2)
    >>> net.input_gradient(np.array([[3.0, -1.0]]))
    array([[1., 0.]])
    """

    weights: tuple[Float[ndarray, "..."], ...]
    biases: tuple[Float[ndarray, "..."] | None, ...] | None = None
    activation: Activation | str = field(default_factory=ReLU)
    residual: bool = False
    name: ClassVar[str] = "deep"

    def __post_init__(self) -> None:
        check_fields(self)
        object.__setattr__(self, "activation", ACTIVATIONS.build(self.activation))
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
            raise InputError("biases", f"are {len(self.biases)}", "give one, or None, per layer")
        for number, (w, b) in enumerate(zip(self.weights, self.biases or (), strict=False), 1):
            if b is not None and b.shape != w.shape[:-1]:
                problem = f"of layer {number} have shape {b.shape}"
                raise InputError("biases", problem, f"give {w.shape[-2]}, one per neuron")
        if self.residual and len(set(self.widths[:-1])) > 1:
            problem = f"is set for hidden layers of {', '.join(map(str, self.widths[:-1]))} neurons"
            raise InputError("residual", problem, "give all hidden layers the same width")
        check_finite(self.arrays())

    def __repr__(self) -> str:
        residual = ", residual" if self.residual else ""
        seeds = f", seeds={self.batch}" if self.batch else ""
        widths = " to ".join(map(str, (self.dimension, *self.widths)))
        return f"Deep({widths}, {self.phi!r}{residual}{seeds})"

    @property
    def phi(self) -> Activation:
        """The activation."""
        assert isinstance(self.activation, Activation)
        return self.activation

    @property
    def depth(self) -> int:
        """L, the number of layers of weights."""
        return len(self.weights)

    @property
    def widths(self) -> tuple[int, ...]:
        """How many neurons each layer has; the last number is that of the outputs."""
        return tuple(w.shape[-2] for w in self.weights)

    @property
    def dimension(self) -> int:
        """The number of input coordinates."""
        return self.weights[0].shape[-1]

    @property
    def outputs(self) -> int:
        """c, the number of outputs."""
        return self.widths[-1]

    @property
    def batch(self) -> tuple[int, ...]:
        """The leading axes: () for one network."""
        return self.weights[0].shape[:-2]

    @property
    def layers(self) -> tuple[Layer, ...]:
        """Weights, biases (zero where there are none) and skips, from the input up."""
        given = self.biases or (None,) * self.depth
        return tuple(
            Layer(w, np.zeros(w.shape[:-1]) if b is None else b, self._skips(number))
            for number, (w, b) in enumerate(zip(self.weights, given, strict=True))
        )

    def _skips(self, number: int) -> bool:
        return self.residual and 0 < number < self.depth - 1

    def homogeneity(self) -> int:
        """The order L with F(c theta) = c^L F(theta), or what leaves the network none.

        A bias in the first layer joins one more input that is always 1; one in a later layer is of
        too low an order.
        """
        if self.residual and self.depth > 2:
            raise InputError("network", "is not homogeneous, it is residual", "give a plain one")
        if self.phi.negative_slope is None:
            problem = f"is not homogeneous, its activation is {self.phi.name}"
            raise InputError("network", problem, "give a ReLU or a leaky one")
        for number, bias in enumerate(self.biases or (), start=1):
            if number > 1 and bias is not None:
                raise InputError(
                    "network",
                    f"is not homogeneous, layer {number} has a bias",
                    "keep a bias in the first layer only, or none",
                )
        return self.depth

    def preactivations(
        self, x: Float[ndarray, "... n N"], first: Float[ndarray, "... n M"] | None = None
    ) -> list[ndarray]:
        """z_1, ..., z_L; the last are the outputs.

        Args:
            x: the points.
            first: W_1 x where somebody has a faster way to compute it.
        """
        layers: list[ndarray] = []
        h = x
        for number, weight in enumerate(self.weights):
            given = first is not None and number == 0
            z = first if first is not None and given else h @ weight.swapaxes(-1, -2)
            bias = self.biases[number] if self.biases else None
            if bias is not None:
                z = z + bias[..., None, :]
            layers.append(z)
            active = self.phi.value(z)
            h = h + active if self._skips(number) else active
        return layers

    def hidden(self, preactivations: Sequence[ndarray]) -> list[ndarray]:
        """h_1, ..., h_{L-1}: what the layers behind the first are fed."""
        fed: list[ndarray] = []
        for number, z in enumerate(preactivations[:-1]):
            active = self.phi.value(z)
            fed.append(fed[-1] + active if self._skips(number) else active)
        return fed

    def backward(
        self, x: Float[ndarray, "... n N"], preactivations: Sequence[ndarray], slopes: Float[ndarray, "... n c"]
    ) -> Iterator[tuple[ndarray, ndarray]]:
        """From the last layer down: d_l = dL/dz_l, and what the layer was fed, h_{l-1}.

        With g_l = dL/dh_l: d_L = dL/dF, d_l = g_l phi'(z_l), g_{l-1} = d_l W_l (+ g_l where layer l
        skips). Then dL/dW_l = d_l^T h_{l-1} and dL/db_l = sum_i d_{l,i}.
        """
        fed = [x, *self.hidden(preactivations)]
        d, g = slopes, slopes
        for number in range(self.depth - 1, -1, -1):
            if number < self.depth - 1:
                d = g * self.phi.slope(preactivations[number])
            yield d, fed[number]
            if number:
                below = d @ self.weights[number]
                g = below + g if self._skips(number) else below

    def __call__(self, x: Float[ndarray, "... n N"]) -> Float[ndarray, "... n c"]:
        """The outputs F(x)."""
        return self.preactivations(x)[-1]

    forward = __call__

    def input_gradient(
        self, x: Float[ndarray, "... n N"], slopes: Float[ndarray, "... n c"] | None = None
    ) -> Float[ndarray, "... n N"]:
        """sum_j slopes_j dF_j/dx at each point; for one output, dF/dx unless given."""
        z = self.preactivations(x)
        if slopes is None:
            if self.outputs != 1:
                raise InputError("slopes", f"are missing for {self.outputs} outputs", "say which to sum")
            slopes = np.ones_like(z[-1])
        *_, (d, _) = self.backward(x, z, slopes)
        return d @ self.weights[0]

    def pattern(self, x: Float[ndarray, "... n N"]) -> list[Bool[ndarray, "... n m"]]:
        """Which neurons of each hidden layer are on (z >= 0): on a pattern F is affine."""
        return [z >= 0.0 for z in self.preactivations(x)[:-1]]

    def __getitem__(self, index: int) -> Deep:
        """One network of a batch."""
        return self.with_arrays({name: array[index] for name, array in self.arrays().items()})

    def arrays(self) -> dict[str, ndarray]:
        """weights1, biases1, weights2, ...: the biases that there are."""
        named: dict[str, ndarray] = {}
        for number, weight in enumerate(self.weights):
            named[f"weights{number + 1}"] = weight
            bias = self.biases[number] if self.biases else None
            if bias is not None:
                named[f"biases{number + 1}"] = bias
        return named

    def with_arrays(self, arrays: Mapping[str, ndarray]) -> Deep:
        """The network with some of its arrays replaced, unchecked: see `TwoLayer.with_arrays`."""
        weights, biases = _in_order(self.arrays() | dict(arrays))
        options = {"activation": self.activation, "residual": self.residual}
        return unchecked(Deep, {"weights": weights, "biases": biases} | options)

    def structure(self) -> dict[str, Any]:
        """All but the arrays, as plain values."""
        return {"kind": self.name, "activation": spec(self.phi), "residual": self.residual}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, ndarray], **options: Any) -> Deep:
        """The inverse of `arrays`; the options are those of `structure`."""
        return cls(*_in_order(arrays), **options)


def _in_order(arrays: Mapping[str, ndarray]) -> tuple[tuple[ndarray, ...], tuple[ndarray | None, ...] | None]:
    """Weights and biases by layer, from their names."""
    numbers = range(1, 1 + sum(name.startswith("weights") for name in arrays))
    biases = tuple(arrays.get(f"biases{number}") for number in numbers)
    weights = tuple(arrays[f"weights{number}"] for number in numbers)
    return weights, None if all(b is None for b in biases) else biases
