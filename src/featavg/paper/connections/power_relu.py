"""Shallow networks whose neurons are of degree one in their weights: power and leaky ReLU.

f(x) = sum_j v_j phi(<w_j, x>, |w_j|) with phi(s z, s r) = s phi(z, r) for s > 0. So f has degree
two in (w, v) whatever the activation, and the theory of margins applies alike. Both layers are
trained, from a small balanced start.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.errors import InputError
from featavg.nets.activations._activation import LeakyReLU
from featavg.progress import Progress
from featavg.registry import NETWORKS
from featavg.training.controllers import ErrorControl
from featavg.training.driver import Stop, run
from featavg.training.losses import Exponential
from featavg.training.objectives import check_points
from featavg.training.parts import LossValue, Params, require_signs
from featavg.training.steppers.flow import GradientFlow
from featavg.training.trajectory import Trajectory


@dataclass(frozen=True)
class PowerReLU:
    """phi(z, r) = relu(z)^p / r^(p-1), the pReLU of Min and Vidal (2024); p = 1 is the ReLU.

    >>> PowerReLU(3.0).value(np.array([[2.0, -1.0]]), np.array([[1.0, 1.0]]))
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
        """q with z dphi/dz = q phi; then r dphi/dr = (1 - q) phi."""
        return self.p

    def value(self, z: Float[ndarray, "*s n h"], r: Float[ndarray, "*s 1 h"]) -> Float[ndarray, "*s n h"]:
        """r (z/r)^p: the ratio never overflows, however small the initial weights are."""
        positive = np.maximum(z, 0.0)
        return np.asarray(positive if self.p == 1 else r * _power(positive / r, self.p))

    def slope(self, z: Float[ndarray, "*s n h"], r: Float[ndarray, "*s 1 h"]) -> Float[ndarray, "*s n h"]:
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


@NETWORKS.add  # a saved run may hold one
@dataclass(frozen=True, eq=False)
class Shallow:
    """h neurons and one output, both layers free; leading axes `*s` are independent networks.

    >>> net = Shallow(2.0 * np.eye(2), np.array([1.0, -1.0]), PowerReLU(3.0))
    >>> net(np.array([[1.0, 0.5]]))
    array([1.75])
    """

    weights: Float[ndarray, "*s h N"]
    head: Float[ndarray, "*s h"]
    activation: PowerReLU | LeakyReLU
    name: ClassVar[str] = "shallow"

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

    def value_and_gradient(self, x: Float[ndarray, "n N"]) -> tuple[Float[ndarray, " n"], Float[ndarray, "n N"]]:
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
        return {"kind": self.name} | vars(self.activation)

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


def averaged_limit(features: Float[ndarray, "k N"], labels: Float[ndarray, " k"]) -> Shallow:
    """F(x) = sqrt(K1) relu(<mu_bar_+, x>) - sqrt(K2) relu(<mu_bar_-, x>), |mu_bar_s| = 1.

    Features are orthonormal, labels are +1 and -1.

    >>> averaged_limit(np.eye(4), np.array([1.0, 1.0, -1.0, -1.0]))(np.eye(4)[:1]).round(3)
    array([1.])
    """
    sums = np.array([features[labels == s].sum(axis=0) for s in (1, -1)])
    counts = np.array([np.sqrt(np.sum(labels == s)) for s in (1, -1)])
    units = sums / np.linalg.norm(sums, axis=1, keepdims=True)
    return Shallow(units, np.array([1.0, -1.0]) * counts, PowerReLU(1.0))


def decoupled_limit(features: Float[ndarray, "k N"], labels: Float[ndarray, " k"], p: float) -> Shallow:
    """F^(p)(x) = sum_{J+} relu(<mu_k, x>)^p - sum_{J-} relu(<mu_k, x>)^p for unit features.

    >>> decoupled_limit(np.eye(2), np.array([1.0, -1.0]), 3.0)(np.array([[0.0, 0.5]]))
    array([-0.125])
    """
    return Shallow(features, np.asarray(labels, dtype=float), PowerReLU(p))


@dataclass(frozen=True, eq=False)
class ShallowEvaluation:
    """The network on its training set; the gradient is computed when it is asked for."""

    x: Float[ndarray, "*s n N"]
    net: Shallow
    preactivations: Float[ndarray, "*s n h"]
    norms: Float[ndarray, "*s 1 h"]
    activations: Float[ndarray, "*s n h"]
    loss: LossValue

    @property
    def log_loss(self) -> Float[ndarray, "*s"]:
        """The logarithm of the mean loss."""
        return self.loss.log_mean

    @cached_property
    def gradient(self) -> Params:
        """(dL/dW) / L and (dL/dv) / L."""
        outer = self.loss.slopes  # n x 1
        by_head = (np.swapaxes(self.activations, -1, -2) @ outer)[..., 0]
        slope = self.net.activation.slope(self.preactivations, self.norms)
        by_weights = np.swapaxes(outer * slope, -1, -2) @ self.x
        # r dphi/dr = (1 - q) phi for an activation of degree q in z, and dr/dw = w / r.
        radial = (1.0 - self.net.activation.degree) * by_head / self.norms[..., 0, :] ** 2
        by_weights += radial[..., None] * self.net.weights
        return by_weights * self.net.head[..., None], by_head


@dataclass(frozen=True, eq=False)
class ShallowObjective:
    """The mean exponential loss of f(x) = sum_j v_j phi(<w_j, x>, |w_j|), labels +1 or -1."""

    x: Float[ndarray, "*s n N"]
    y: Int[ndarray, "*s n"]
    activation: PowerReLU | LeakyReLU
    name: ClassVar[str] = "shallow"

    def __post_init__(self) -> None:
        check_points(self.x, self.y)
        require_signs(self.y)

    @property
    def trainable(self) -> Sequence[str]:
        """Both layers."""
        return ("weights", "head")

    @property
    def data(self) -> Sequence[ndarray]:
        """The points and their labels."""
        return self.x, self.y

    def net_with(self, params: Params) -> Shallow:
        """The network that has these parameters."""
        return Shallow(params[0], params[1], self.activation)

    def evaluate(self, params: Params) -> ShallowEvaluation:
        """Forward pass."""
        net = self.net_with(params)
        z, norms = self.x @ np.swapaxes(net.weights, -1, -2), net.norms
        active = self.activation.value(z, norms)
        outputs = active @ net.head[..., None]
        return ShallowEvaluation(self.x, net, z, norms, active, Exponential()(outputs, self.y))


def balanced_start(
    unit_weights: Float[ndarray, "*s h N"], scale: float
) -> tuple[Float[ndarray, "*s h N"], Float[ndarray, "*s h"]]:
    """w_j = scale * direction, v_j = +-|w_j|, signs in turn; the flow keeps |v_j| = |w_j|."""
    if not scale > 0:
        raise InputError("scale", f"is {scale}", "start from weights that are not all zero")
    if unit_weights.shape[-2] < 2:
        raise InputError("width", f"is {unit_weights.shape[-2]}", "give a neuron of each sign")
    weights = scale * unit_weights
    signs = np.where(np.arange(weights.shape[-2]) % 2 == 0, 1.0, -1.0)
    return weights, signs * np.linalg.norm(weights, axis=-1)


def train_shallow(
    objective: ShallowObjective,
    unit_weights: Float[ndarray, "*s h N"],
    *,
    scale: float = 1e-7,
    time: float = 16_000.0,
    progress: Progress | None = None,
) -> Trajectory:
    """Follow the gradient flow to `time`; the default is Min and Vidal's 401 epochs at rate 0.2."""
    if not time > 0:
        raise InputError("time", f"is {time}", "follow the flow for a positive time")
    return run(
        objective,
        balanced_start(unit_weights, scale),
        stepper=GradientFlow(1e-2),
        controller=ErrorControl(),
        stop=Stop(4000, log_time=math.log(time)),
        progress=progress,
        settings={"activation": objective.activation.name, "scale": scale, "time": time},
    )
