"""What partly known labels lead to, predicted without training on a sample."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.data.clusters import MultiCluster
from featavg.data.compress import TrainingSet
from featavg.data.labels import Labels
from featavg.data.streams import stream
from featavg.errors import InputError
from featavg.measures.averaging import averaging_index_of
from featavg.nets.two_layer import TwoLayer, grouped
from featavg.robustness.radii import radii
from featavg.training.controllers import Constant
from featavg.training.driver import Stop, run
from featavg.training.objectives import TwoLayerObjective
from featavg.training.parts import Loss, LossValue, log_sum_exp
from featavg.training.recipe import Recipe
from featavg.training.train import loss_of, train


def two_coefficients(
    k: int, d: int, share: float, lr: float = 1e-3, steps: int = 100, h: int = 1
) -> tuple[float, float, float]:
    r"""The simplest law of a share p of fine labels: two unknowns, no noise.

    An output has learned a times its own feature and b times each other one of its class. With c = k/2,
    F_a = a d, F_b = b d, Z = e^F_a + (c - 1) e^F_b + c and S = Z - c, a step of descent adds

        lr/(k h) [p (1 - P_a) + (1 - p) (q_a - P_a)]   to a,
        lr/(k h) [-p P_b + (1 - p) (q_b - P_b)]        to b,        P = e^F / Z,  q = e^F / S,

    and the radius is R = sqrt(d / (2 (1 + (c - 1) r^2))) with r = b/a. An output below zero is zero and
    no longer moves.

    Args:
        k, d: clusters of two equal classes, and the dimension; orthogonal features of length sqrt(d).
        share: p.
        lr, steps: of gradient descent.
        h: neurons of each output.

    Returns: a, b, R.

    >>> [round(two_coefficients(10, 3072, p)[2], 1) for p in (0.0, 0.05, 0.1, 1.0)]
    [17.5, 34.8, 37.8, 39.2]
    """
    c, a, b = k / 2, 0.0, 0.0
    for _ in range(steps):
        e_a, e_b = math.exp(max(a * d, 0.0)), math.exp(max(b * d, 0.0))
        s = e_a + (c - 1) * e_b
        z = s + c
        a += lr / (k * h) * (share * (1 - e_a / z) + (1 - share) * (e_a / s - e_a / z))
        if b >= 0:
            b += lr / (k * h) * (-share * e_b / z + (1 - share) * (e_b / s - e_b / z))
    ratio = b / a if a else 1.0
    return a, b, math.sqrt(d / (2 * (1 + (c - 1) * ratio**2)))


@dataclass(frozen=True, eq=False)
class _Weighted(Loss):
    """Another loss, its mean taken with weights."""

    loss: Loss
    weights: Float[ndarray, " n"]
    name: ClassVar[str] = "weighted"
    one_output: ClassVar[bool] = False

    def check_targets(self, targets: Int[ndarray, "*s n"], outputs: int) -> None:
        self.loss.check_targets(targets, outputs)

    def __call__(self, outputs: Float[ndarray, "n c"], targets: Int[ndarray, " n"]) -> LossValue:
        plain = self.loss(outputs, targets)
        log_mean = log_sum_exp(plain.log_losses + np.log(self.weights))
        scale = len(targets) * np.exp(plain.log_mean - log_mean)
        return LossValue(plain.log_losses, log_mean, scale * self.weights[:, None] * plain.slopes)


@dataclass(frozen=True, eq=False)
class MeanNetwork:
    """A network trained on means, in the coordinates of the features and of the noise of each mean.

    Attributes:
        net: one output for each super-label.
        features: mu_j.
        points: the noiseless point of each cluster.
    """

    net: TwoLayer
    features: Float[ndarray, "k N"]
    points: Float[ndarray, "k N"]


def mean_network(task: MultiCluster, recipe: Recipe, n: int, seed: int) -> MeanNetwork:
    r"""The network that training tends to if all points of a kind are pulled alike.

    A kind is a cluster together with what is known of a point: its super-label (right or wrong), or its
    class alone. Points of one kind have nearly the same outputs, so the network learns from their sum
    only: the N points of a kind are replaced by their mean, alpha mu_j plus noise of squared length
    sigma^2 d / N, with the weight N/n; nothing is fitted. Training begins at zero. In its first step a
    neuron is active on a part of each cluster, Phi of a standard normal number for a small start, so
    uniform between 0 and 1: what breaks the symmetry of the outputs. From then on means decide.

    Args:
        task: the clusters.
        recipe: the training, with a `Labels`.
        n: training points.
        seed: of the numbers of points and the parts that are active.

    >>> import featavg as fa
    >>> task = fa.MultiCluster(k=4, d=1000)
    >>> half = mean_network(task, fa.Recipe(labels=fa.Labels(share=0.5)), n=100, seed=0)
    >>> half.net.outputs, half.points.shape
    (4, (4, 12))
    """
    labels = recipe.labels
    if not isinstance(labels, Labels):
        raise InputError("labels", f"is {labels!r}", "give a Labels")
    rng = stream(seed, "label means")
    clusters = rng.choice(task.k, n, p=task.cluster_probabilities)
    both = np.stack([clusters, labels.targets(task, clusters, seed)])
    (cluster, target), counts = np.unique(both, axis=1, return_counts=True)
    features = np.concatenate([task.features, np.zeros((task.k, len(counts)))], axis=1)
    points = task.alpha * features
    noise = np.diag(task.sigma * np.sqrt(task.d / counts))
    x = points[cluster] + np.pad(noise, ((0, 0), (task.k, 0)))
    outputs = labels.count(task.k)
    start = np.zeros((outputs * recipe.h, x.shape[1]))
    data = TrainingSet(task, (seed,), x, cluster, start, "compressed")
    loss = _Weighted(loss_of(data, recipe), counts / n)
    objective = TwoLayerObjective(x, target, grouped(start, outputs), loss, ("weights",))
    controller, first = recipe.chosen_controller, 0
    if isinstance(controller, Constant) and recipe.steps:
        active = rng.random((task.k, len(start)))[cluster]
        objective, first = _after_one_step(objective, active, controller.rate), 1
    trained = run(
        objective,
        objective.params_of(objective.net),
        stepper=recipe.chosen_stepper,
        controller=controller,
        stop=Stop(recipe.steps - first, recipe.target_log_loss),
    )
    return MeanNetwork(trained.net, features, points)


def _after_one_step(objective: TwoLayerObjective, active: Float[ndarray, "n M"], rate: float) -> TwoLayerObjective:
    """The objective at the weights after a step of descent in which parts of the points are active."""
    at_start = objective.evaluate(objective.params_of(objective.net))
    slopes = at_start.neuron_slopes * active * np.exp(at_start.log_loss)
    weights = objective.net.weights - rate * objective.blocks.gathered(slopes)
    return replace(objective, net=objective.net.with_arrays({"weights": weights}))


@dataclass(frozen=True, eq=False)
class LabelRun:
    """What a network with partly known labels stands.

    Attributes:
        radii: exact l2 radii of the decision by `max`, one for each test point.
        clusters: of the test points.
        index: the averaging index.
    """

    radii: Float[ndarray, " t"]
    clusters: Int[ndarray, " t"]
    index: float

    @property
    def radius(self) -> float:
        """The median radius."""
        return float(np.median(self.radii))

    def of(self, clusters: Sequence[int] | ndarray) -> float:
        """The median radius of the points of some clusters."""
        return float(np.median(self.radii[np.isin(self.clusters, clusters)]))


def label_run(task: MultiCluster, recipe: Recipe, n: int, seed: int, points: int = 20) -> LabelRun:
    """Trains on `n` points and measures `points` fresh ones."""
    net = train(task, recipe, n=n, seed=seed).net
    sample, features = task.sample(points, seed), task.features_in(net.dimension)
    x = sample.coordinates(net.dimension)
    return _measured(task, recipe, net, x, sample.clusters, features)


def mean_run(task: MultiCluster, recipe: Recipe, n: int, seed: int) -> LabelRun:
    """The prediction of the same, by `mean_network`, with other numbers of points than the run has."""
    means = mean_network(task, recipe, n, seed + 1_000_003)
    return _measured(task, recipe, means.net, means.points, np.arange(task.k), means.features)


def _measured(
    task: MultiCluster,
    recipe: Recipe,
    net: TwoLayer,
    x: Float[ndarray, "t N"],
    clusters: Int[ndarray, " t"],
    features: Float[ndarray, "k N"],
) -> LabelRun:
    positive, readout = recipe.decision(task, "max")
    exact = radii(net, x, task.cluster_labels[clusters], readout=readout, positive=positive, jobs=1)
    view = recipe.by_cluster(net, task)
    index = averaging_index_of(view, features, task.cluster_labels)
    return LabelRun(exact.attack, clusters, index.value)


def with_share(recipe: Recipe, share: float) -> Recipe:
    """The recipe with this share of fine labels, all else of its labels kept."""
    if recipe.labels == "coarse":
        raise InputError("labels", "is coarse", "give a Labels, whose share is varied")
    labels = recipe.labels if isinstance(recipe.labels, Labels) else Labels()
    return replace(recipe, labels=replace(labels, share=share))
