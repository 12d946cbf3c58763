"""Shallow networks whose neurons are of degree one in their weights: power and leaky ReLU.

f(x) = sum_j v_j phi(<w_j, x>, |w_j|) with phi(s z, s r) = s phi(z, r) for s > 0. So f has degree
two in (w, v) whatever the activation, and the theory of margins applies alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.errors import InputError
from featavg.nets.activations.leaky_relu import LeakyReLU


@runtime_checkable
class DegreeOneActivation(Protocol):
    """phi(z, r) of a pre-activation z = <w, x> and the norm r = |w|, of degree one in (z, r)."""

    @property
    def name(self) -> str:
        """The name it has in settings and figures."""

    @property
    def degree(self) -> float:
        """q with z dphi/dz = q phi; then r dphi/dr = (1 - q) phi."""

    def value(
        self, z: Float[ndarray, "*s n h"], r: Float[ndarray, "*s 1 h"]
    ) -> Float[ndarray, "*s n h"]:
        """phi(z, r)."""

    def slope(
        self, z: Float[ndarray, "*s n h"], r: Float[ndarray, "*s 1 h"]
    ) -> Float[ndarray, "*s n h"]:
        """d phi / dz."""


@dataclass(frozen=True)
class PowerReLU:
    """phi(z, r) = relu(z)^p / r^(p-1), the pReLU of Min and Vidal (2024); p = 1 is the ReLU.

    >>> import numpy as np
    >>> import featavg as fa
    >>> fa.PowerReLU(3.0).value(np.array([[2.0, -1.0]]), np.array([[1.0, 1.0]]))
    array([[8., 0.]])
    """

    p: float

    def __post_init__(self) -> None:
        if not self.p >= 1:
            raise InputError("p", f"is {self.p}", "give a power of 1 or more")

    @property
    def name(self) -> str:
        """Such as "p = 3"."""
        return f"p = {self.p:g}"

    @property
    def degree(self) -> float:
        """The degree p of homogeneity in the weights."""
        return self.p

    def value(
        self, z: Float[ndarray, "*s n h"], r: Float[ndarray, "*s 1 h"]
    ) -> Float[ndarray, "*s n h"]:
        """r (z/r)^p: the ratio never overflows, however small the initial weights are."""
        positive = np.maximum(z, 0.0)
        return np.asarray(positive if self.p == 1 else r * _power(positive / r, self.p))

    def slope(
        self, z: Float[ndarray, "*s n h"], r: Float[ndarray, "*s 1 h"]
    ) -> Float[ndarray, "*s n h"]:
        """p (z/r)^(p-1) where z > 0."""
        if self.p == 1:
            return (z >= 0.0).astype(float)
        return self.p * _power(np.maximum(z, 0.0) / r, self.p - 1)


def _power(base: ndarray, exponent: float) -> ndarray:
    """base^exponent; small whole powers as products, ten times faster than pow."""
    if exponent in (1.0, 2.0, 3.0, 4.0):
        power = base
        for _ in range(int(exponent) - 1):
            power = power * base
        return power
    return np.asarray(base**exponent)


@dataclass(frozen=True, eq=False)
class Shallow:
    """h neurons and one output, both layers free; leading axes `*s` are independent networks.

    >>> import numpy as np
    >>> import featavg as fa
    >>> net = fa.Shallow(2.0 * np.eye(2), np.array([1.0, -1.0]), fa.PowerReLU(3.0))
    >>> net(np.array([[1.0, 0.5]]))
    array([1.75])
    """

    weights: Float[ndarray, "*s h N"]
    head: Float[ndarray, "*s h"]
    activation: DegreeOneActivation

    def __post_init__(self) -> None:
        if self.head.shape != self.weights.shape[:-1]:
            raise InputError("head", f"has shape {self.head.shape}", "give one number per neuron")

    @property
    def dimension(self) -> int:
        """N, the number of input coordinates."""
        return self.weights.shape[-1]

    @property
    def norms(self) -> Float[ndarray, "*s 1 h"]:
        """|w_j|, shaped to multiply pre-activations."""
        return np.asarray(np.linalg.norm(self.weights, axis=-1))[..., None, :]

    @property
    def contributions(self) -> Float[ndarray, "*s h"]:
        """v_j |w_j|: how much of the function is neuron j's, with its sign."""
        return np.asarray(self.head * self.norms[..., 0, :])

    @property
    def directions(self) -> Float[ndarray, "*s h N"]:
        """The directions w_j / |w_j| of the neurons."""
        return np.asarray(self.weights / np.swapaxes(self.norms, -1, -2))

    def __call__(self, x: Float[ndarray, "*s n N"]) -> Float[ndarray, "*s n"]:
        """The output f(x) at every point."""
        z = x @ np.swapaxes(self.weights, -1, -2)
        active = self.activation.value(z, self.norms)
        return np.asarray(np.einsum("...nh,...h->...n", active, self.head))

    def gradient(self, x: Float[ndarray, "n N"]) -> Float[ndarray, "n N"]:
        """df/dx at each point."""
        return self.value_and_gradient(x)[1]

    def value_and_gradient(
        self, x: Float[ndarray, "n N"]
    ) -> tuple[Float[ndarray, " n"], Float[ndarray, "n N"]]:
        """f(x) and df/dx from one set of pre-activations."""
        z, norms = x @ self.weights.T, self.norms
        slopes = self.activation.slope(z, norms) * self.head
        return self.activation.value(z, norms) @ self.head, slopes @ self.weights

    @property
    def batch(self) -> tuple[int, ...]:
        """The leading axes: () for one network."""
        return self.weights.shape[:-2]

    def __getitem__(self, index: int) -> Shallow:
        """One network of a batch."""
        return Shallow(self.weights[index], self.head[index], self.activation)

    def arrays(self) -> dict[str, ndarray]:
        """Weights and head by name."""
        return {"weights": self.weights, "head": self.head}

    def with_arrays(self, arrays: Mapping[str, ndarray]) -> Shallow:
        """The network with some of its arrays replaced."""
        return Shallow(**(self.arrays() | dict(arrays)), activation=self.activation)

    def structure(self) -> dict[str, Any]:
        """All but the arrays: the kind, and the power or the leak of the activation."""
        return {"kind": "shallow"} | vars(self.activation)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, ndarray], **activation: float) -> Shallow:
        """The inverse of `arrays` and `structure`."""
        phi = PowerReLU(**activation) if "p" in activation else LeakyReLU(**activation)
        return cls(**arrays, activation=phi)

    def strongest(self, share: float = 0.99) -> ndarray:
        """The fewest neurons, strongest first, whose |v_j||w_j| make up `share` of the whole."""
        strength = np.abs(self.contributions)
        order = np.argsort(-strength)
        total = np.cumsum(strength[order])
        count = int(np.searchsorted(total, share * total[-1])) + 1
        return np.asarray(order[:count])


def averaged_limit(
    features: Float[ndarray, "k N"], labels: Float[ndarray, " k"], p: float = 1.0
) -> Shallow:
    """F(x) = sqrt(K1) relu(<mu_bar_+, x>) - sqrt(K2) relu(<mu_bar_-, x>), |mu_bar_s| = 1 (p = 1).

    `p` other than 1 gives the same two directions and the same contributions under relu^p, for
    comparisons that should not be won by the power alone.

    Args:
        features: orthonormal, one row for each cluster.
        labels: the class of each, +1 or -1.
        p: the power of the ReLU.

    >>> import numpy as np
    >>> import featavg as fa
    >>> net = fa.averaged_limit(np.eye(4), np.array([1.0, 1.0, -1.0, -1.0]))
    >>> net(np.eye(4)[:1]).round(3)
    array([1.])
    """
    sums = np.array([features[labels == s].sum(axis=0) for s in (1, -1)])
    counts = np.array([np.sqrt(np.sum(labels == s)) for s in (1, -1)])
    units = sums / np.linalg.norm(sums, axis=1, keepdims=True)
    return Shallow(units, np.array([1.0, -1.0]) * counts, PowerReLU(p))


def decoupled_limit(
    features: Float[ndarray, "k N"], labels: Float[ndarray, " k"], p: float
) -> Shallow:
    """F^(p)(x) = sum_{J+} relu(<mu_k, x>)^p - sum_{J-} relu(<mu_k, x>)^p for unit features.

    Args:
        features: orthonormal, one row for each cluster.
        labels: the class of each, +1 or -1.
        p: the power of the ReLU.

    >>> import numpy as np
    >>> import featavg as fa
    >>> fa.decoupled_limit(np.eye(2), np.array([1.0, -1.0]), 3.0)(np.array([[0.0, 0.5]]))
    array([-0.125])
    """
    return Shallow(features, np.asarray(labels, dtype=float), PowerReLU(p))
