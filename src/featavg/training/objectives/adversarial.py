r"""The worst-case loss: every point where a perturbation of length r hurts most.

    L_r(theta) = mean_i max_{|delta| <= r} loss(y_i f(x_i + delta)).

By Danskin's theorem its gradient is that of the loss at the worst points. The loss falls with the
margin, so the inner problem is to minimise y f over a ball: y f = P - N is a difference of convex
functions, linear on every pattern of active neurons, where the best step is r against the gradient.
Where the pattern cannot change within the ball that step is exact. Elsewhere the inner problem is
attacked: from several patterns (the point's own; all neurons; those of the own class with one of the
other class) the step is repeated on the pattern it leads to, and the best of all is kept. Dead
neurons do not hide from it, because patterns are tried that have them active.

Only the span of the weights matters: with delta = W^T c everything is a product with the M x M Gram
matrix of the weights, whatever the dimension is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from featavg.errors import InputError, finite
from featavg.nets.two_layer import TwoLayer
from featavg.shapes import PerSeed
from featavg.training.losses import LossValue
from featavg.training.objectives.objective import Params, TwoLayerObjective

# The pattern of a worst point is usually found at the second step; more than this changes nothing.
REPEATS = 4


@dataclass(frozen=True, eq=False)
class WorstCase:
    """The worst points that were found within the radius of some points.

    Attributes:
        steps: c_i with delta_i = W^T c_i.
        preactivations: of the neurons at x_i + delta_i.
        margins: y_i f(x_i + delta_i).
        stable: whether the neurons active at x_i are the same in the whole ball: then it is exact.
    """

    steps: Float[ndarray, "*s n M"]
    preactivations: Float[ndarray, "*s n M"]
    margins: Float[ndarray, "*s n"]
    stable: Bool[ndarray, "*s n"]


def worst_case(
    net: TwoLayer, z: Float[ndarray, "*s n M"], y: Float[ndarray, "*s n"], radius: float
) -> WorstCase:
    """Attack the margins y f of a network with one output within an l2 ball around each point.

    Args:
        net: the network, or a batch.
        z: the points' pre-activations.
        y: their classes, +1 or -1.
        radius: of the ball.

    >>> from featavg.nets.two_layer import binary
    >>> net = binary(np.eye(2))
    >>> found = worst_case(net, net.preactivations(np.array([[3.0, 1.0]])), np.array([1.0]), 0.5)
    >>> found.margins.round(6), found.stable
    (array([1.292893]), array([ True]))
    """
    gram = net.weights @ np.swapaxes(net.weights, -1, -2)
    head = net.head  # (*s, 1, M)
    lengths = np.sqrt(np.diagonal(gram, axis1=-2, axis2=-1))[..., None, :]
    stable = (np.abs(z) > radius * lengths).all(axis=-1)
    if radius == 0:
        return WorstCase(np.zeros_like(z), z, y * (np.maximum(z, 0.0) * head).sum(axis=-1), stable)
    active = _patterns(z, y, head)
    # Against the gradient of y f, whose share in neuron r is y a_r where r is active.
    push = -y[..., None] * head
    # The point itself is the first candidate; then all patterns at once, step by step.
    tried = [(np.zeros_like(z)[None], z[None])]
    for _ in range(REPEATS):
        slopes = push * active
        pulled = slopes @ gram
        square = np.maximum((slopes * pulled).sum(axis=-1, keepdims=True), 0.0)
        scale = np.divide(radius, np.sqrt(square), out=np.zeros_like(square), where=square > 0)
        reached = z + scale * pulled
        tried.append((scale * slopes, reached))
        active = reached >= 0.0
    steps = np.concatenate([step for step, _ in tried])
    places = np.concatenate([place for _, place in tried])
    margins = y * (np.maximum(places, 0.0) * head).sum(axis=-1)
    best = margins.argmin(axis=0)[None]
    return WorstCase(
        np.take_along_axis(steps, best[..., None], 0)[0],
        np.take_along_axis(places, best[..., None], 0)[0],
        np.take_along_axis(margins, best, 0)[0],
        stable,
    )


def _patterns(z: ndarray, y: ndarray, head: ndarray) -> Bool[ndarray, "p *s n M"]:
    """Where to begin: own pattern, all neurons, and the own class with one neuron of the other."""
    own = (head > 0) == (y[..., None] > 0)
    now = z >= 0.0
    # A neuron of the own class is active already or is left alone; the same patterns then come twice.
    single = np.eye(z.shape[-1], dtype=bool).reshape(-1, *([1] * (z.ndim - 1)), z.shape[-1])
    return np.concatenate([now[None], np.ones_like(now)[None], (now & own) | (single & ~own)])


@dataclass(frozen=True, eq=False)
class AdversarialEvaluation:
    """The worst-case loss at one point of the parameters."""

    objective: AdversarialObjective
    net: TwoLayer
    worst: WorstCase
    loss: LossValue

    @property
    def log_loss(self) -> PerSeed:
        """log L_r."""
        return self.loss.log_mean

    @cached_property
    def gradient(self) -> Params:
        """(dL_r/dtheta) / L_r: at the worst points, X + C W instead of X."""
        slopes = (self.loss.slopes @ self.net.head) * (self.worst.preactivations >= 0.0)
        turned = np.swapaxes(slopes, -1, -2)
        weights = self.objective.plain.blocks.gathered(slopes)
        weights = weights + (turned @ self.worst.steps) @ self.net.weights
        parts = {"weights": weights, "biases": np.asarray(slopes.sum(axis=-2))}
        return tuple(parts[name] for name in self.objective.trainable)


@dataclass(frozen=True, eq=False)
class AdversarialObjective:
    """The worst-case loss of a binary network within a radius.

    Args:
        plain: the objective without an adversary: points, network, loss, what is trained.
        radius: l2, in the units of x; 0 is the plain objective.
    """

    plain: TwoLayerObjective
    radius: float

    def __post_init__(self) -> None:
        finite("radius", self.radius, least=0)
        if self.plain.net.outputs != 1:
            problem = f"has {self.plain.net.outputs} outputs"
            raise InputError("net", problem, "adversarial training is for class labels")
        if "head" in self.plain.trainable:
            raise InputError("trainable", "names the head", "train weights and biases")

    @property
    def trainable(self) -> Sequence[str]:
        """As of the plain objective."""
        return self.plain.trainable

    @property
    def data(self) -> Sequence[ndarray]:
        """Points, targets, and the radius."""
        return (*self.plain.data, np.array(self.radius))

    def net_with(self, params: Params) -> TwoLayer:
        """The network that has these parameters."""
        return self.plain.net_with(params)

    def evaluate(self, params: Params) -> AdversarialEvaluation:
        """Find the worst points, then a forward pass on them."""
        net = self.net_with(params)
        z = self.plain.blocks.times(net.weights) + net.biases[..., None, :]
        y = self.plain.targets.astype(float)
        worst = worst_case(net, z, y, self.radius)
        outputs = (y * worst.margins)[..., None]
        return AdversarialEvaluation(self, net, worst, self.plain.loss(outputs, self.plain.targets))
