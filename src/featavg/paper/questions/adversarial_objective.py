r"""The worst-case loss: every point where a perturbation of length r hurts most.

    L_r(theta) = mean_i max_{|delta| <= r} loss(y_i f(x_i + delta)).

By Danskin's theorem its gradient is that of the loss at the worst points. The loss falls with the
margin, so the inner problem is to minimise y f over a ball, and y f = P - N with P and N sums of the
ReLUs of the own and of the other class. N is the largest of the linear N_S over sets S of neurons of the
other class, so the minimum is that over S of convex problems; each of them is its dual

    min_{|delta| <= r} P - N_S = max_{0 <= theta <= 1} <v, z> - r |W^T v|,
    v_j = a theta_j for the own class, v_q = -a for q in S, 0 for the rest of the other class,

concave in one theta for each neuron of the own class and solved by exact steps in one of them after the
other. With up to `EXACT` neurons per class all S are tried and the inner problem is exact up to the gap
between the two sides, which is returned. With more it is attacked, by steps of length r against the
gradient on several patterns of active neurons, repeated on the pattern they lead to.

Only the span of the weights matters: with delta = W^T c everything is a product with the M x M Gram
matrix of the weights, whatever the dimension is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.errors import InputError, finite
from featavg.nets.two_layer import TwoLayer
from featavg.shapes import PerSeed
from featavg.training.objectives import TwoLayerObjective
from featavg.training.parts import LossValue, Params

# 2^6 convex problems for each point; beyond that it is attacked.
EXACT = 6
# Times that every theta is set; the gap that is left is returned.
SWEEPS = 4
# Steps on the pattern that the last one led to, where the inner problem is attacked.
REPEATS = 4


@dataclass(frozen=True, eq=False)
class WorstCase:
    """The worst points that were found within the radius of some points.

    Attributes:
        steps: c_i with delta_i = W^T c_i.
        preactivations: of the neurons at x_i + delta_i.
        margins: y_i f(x_i + delta_i).
        bounds: what no margin within the radius is below; minus infinity where it was attacked.
    """

    steps: Float[ndarray, "*s n M"]
    preactivations: Float[ndarray, "*s n M"]
    margins: Float[ndarray, "*s n"]
    bounds: Float[ndarray, "*s n"]


def worst_case(net: TwoLayer, z: Float[ndarray, "*s n M"], y: Float[ndarray, "*s n"], radius: float) -> WorstCase:
    """The smallest margins y f of a network with one output within an l2 ball around each point.

    Args:
        net: the network, or a batch.
        z: the points' pre-activations.
        y: their classes, +1 or -1.
        radius: of the ball.

    >>> from featavg.nets.two_layer import binary
    >>> net = binary(np.eye(2))
    >>> found = worst_case(net, net.preactivations(np.array([[3.0, 1.0]])), np.array([1.0]), 0.5)
    >>> found.margins.round(6), found.bounds.round(6)
    (array([1.292893]), array([1.292893]))
    """
    if net.batch:
        each = [worst_case(net[i], z[i], y[i], radius) for i in range(net.batch[0])]
        names = ("steps", "preactivations", "margins", "bounds")
        return WorstCase(*(np.stack([getattr(one, name) for one in each]) for name in names))
    gram, head = net.weights @ net.weights.T, net.head[0]
    if radius == 0:
        margins = y * (np.maximum(z, 0.0) @ head)
        return WorstCase(np.zeros_like(z), z, margins, margins)
    if max((head > 0).sum(), (head < 0).sum()) > EXACT:
        return _attacked(gram, head, z, y, radius)
    steps, bounds = np.zeros_like(z), np.zeros(len(z))
    for sign in (1.0, -1.0):
        mine = y == sign
        steps[mine], bounds[mine] = _solved(gram, sign * head, z[mine], radius)
    moved = z + steps @ gram
    margins = y * (np.maximum(moved, 0.0) @ head)
    return WorstCase(steps, moved, margins, np.minimum(bounds, margins))


def _solved(
    gram: Float[ndarray, "M M"], head: Float[ndarray, " M"], z: Float[ndarray, "n M"], radius: float
) -> tuple[Float[ndarray, "n M"], Float[ndarray, " n"]]:
    """Steps and lower bounds for points whose own class is that of the neurons with positive head."""
    own, other = np.flatnonzero(head > 0), np.flatnonzero(head < 0)
    sets = np.array(list(product((0.0, 1.0), repeat=len(other)))).reshape(-1, len(other))
    # v_r = a_r theta_r on the own class, a_q (negative) on S: the gradient of P - N_S is W^T v.
    # Neurons come first here, so that a step in one of them is one contiguous piece of memory.
    v = np.zeros((len(head), len(sets), len(z)))
    v[other] = (sets * head[other]).T[:, :, None]
    v[own] = (head[own, None] * (z[:, own].T > 0))[:, None]
    u = np.tensordot(gram[own], v, 1)
    square = np.einsum("rsn,rsn->sn", v, np.tensordot(gram, v, 1))
    for place, neuron in list(enumerate(own)) * SWEEPS:
        alpha, pull, now = gram[neuron, neuron], z[:, neuron], v[neuron]
        if alpha <= 0:
            continue
        # |W^T v|^2 = alpha t^2 + 2 beta t + gamma in t = v_neuron; its least value over t is `rest`.
        beta = u[place] - alpha * now
        rest = np.maximum(square - u[place] ** 2 / alpha, 0.0)
        slack = radius**2 - pull**2 / alpha
        inner = np.sqrt(rest / np.where(slack > 0, slack, 1.0)) * pull
        # Where |z| >= r |w| the neuron cannot switch within the ball.
        best = np.where(slack > 0, (inner - beta) / alpha, np.where(pull > 0, np.inf, -np.inf))
        change = np.clip(best, 0.0, head[neuron]) - now
        square += change * (2.0 * u[place] + alpha * change)
        u += gram[own, neuron][:, None, None] * change
        v[neuron] += change
    whole = np.tensordot(gram, v, 1)
    lengths = np.sqrt(np.maximum(np.einsum("rsn,rsn->sn", v, whole), 0.0))
    dual = np.einsum("rsn,nr->sn", v, z) - radius * lengths
    scale = np.divide(radius, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    primal = np.tensordot(head, np.maximum(z.T[:, None] - scale * whole, 0.0), 1)
    best, points = primal.argmin(axis=0), np.arange(len(z))
    return -(scale * v)[:, best, points].T, dual.min(axis=0)


def _attacked(
    gram: Float[ndarray, "M M"], head: Float[ndarray, " M"], z: ndarray, y: ndarray, radius: float
) -> WorstCase:
    """Steps on the own pattern, on that of all neurons, on the own class with one of the other."""
    own = (head > 0) == (y[:, None] > 0)
    now = z >= 0.0
    # A neuron of the own class is active already or is left alone; the same patterns then come twice.
    single = np.eye(len(head), dtype=bool)[:, None]
    active = np.concatenate([now[None], np.ones_like(now)[None], (now & own) | (single & ~own)])
    push = -y[:, None] * head
    tried = [(np.zeros_like(z)[None], z[None])]
    for _ in range(REPEATS):
        slopes = push * active
        pulled = slopes @ gram
        square = np.maximum((slopes * pulled).sum(axis=-1, keepdims=True), 0.0)
        scale = np.divide(radius, np.sqrt(square), out=np.zeros_like(square), where=square > 0)
        tried.append((scale * slopes, z + scale * pulled))
        active = tried[-1][1] >= 0.0
    steps, places = (np.concatenate(parts) for parts in zip(*tried, strict=True))
    margins = y * (np.maximum(places, 0.0) @ head)
    best, points = margins.argmin(axis=0), np.arange(len(z))
    nothing = np.full(len(z), -np.inf)
    return WorstCase(steps[best, points], places[best, points], margins[best, points], nothing)


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
