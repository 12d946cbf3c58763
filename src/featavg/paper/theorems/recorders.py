"""Recorders of training: the coefficients of Lemmas 1 and 2, and what Lemmas 3 to 5 are about."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray
from scipy.linalg import solve_triangular

from featavg.boundary.public import public
from featavg.data.compress import TrainingSet
from featavg.measures.alignment import neuron_signs
from featavg.nets.two_layer import TwoLayer
from featavg.shapes import PerSeed
from featavg.training.objectives import TwoLayerEvaluation
from featavg.training.parts import Evaluation, Params, StepView


class Coefficients:
    r"""Records lambda and sigma during plain gradient descent.

        w_r(t) = w_r(0) + sum_j lambda_{r,j}(t) mu_j/|mu_j|^2 + sum_i sigma_{r,i}(t) xi_i/|xi_i|^2

    With g_{i,r} = dL/dz_r on sample i, putting x_i = alpha mu_{c(i)} + sigma xi_i into a step of
    gradient descent gives

        lambda_{r,j} -= rate * alpha |mu_j|^2 sum_{i in I_j} g_{i,r},
        sigma_{r,i}  -= rate * sigma |xi_i|^2 g_{i,r}:

    products with the squared norms, where the lecture notes print quotients. After each step the
    weights are rebuilt from the coefficients and compared with the real ones.

    Args:
        data: the training set of the run.
        rebuild: whether to compare after each step; it costs as much as the step itself.

    >>> import featavg as fa
    >>> task = fa.MultiCluster(k=4, d=100)
    >>> watch = Coefficients(fa.draw(task, n=40, neurons=10, seed=0))
    >>> run = fa.train(task, n=40, seed=0, steps=20, recorders=[watch])
    >>> watch.feature.shape, bool(watch.errors.max() < 1e-12)
    ((10, 4), True)
    """

    def __init__(self, data: TrainingSet, rebuild: bool = True) -> None:
        self.data, self.rebuild = data, rebuild
        self._noise = data.noise
        self._noise_squares = (self._noise**2).sum(axis=-1)
        features = data.features
        self._feature_squares = (features**2).sum(axis=-1)
        self._members = np.swapaxes(np.eye(data.task.k)[data.clusters], -1, -2)

    def start(self, params: Params, evaluation: Evaluation) -> None:
        """All coefficients are zero before the first step."""
        self._initial = params[0]
        batch, k = params[0].shape[:-1], self.data.task.k
        self.sigma: Float[ndarray, "*s M n"] = np.zeros((*batch, self.data.x.shape[-2]))
        self._lambdas: list[ndarray] = [np.zeros((*batch, k))]
        self._errors: list[ndarray] = []

    def see(self, view: StepView) -> None:
        """One step of the recursion."""
        if not isinstance(view.before, TwoLayerEvaluation):
            raise TypeError("coefficients are those of a two-layer network")
        slopes = view.factor[..., None, None] * view.before.neuron_slopes
        task = self.data.task
        inside = np.swapaxes(self._members @ slopes, -1, -2)
        self._lambdas.append(self._lambdas[-1] - task.alpha * self._feature_squares * inside)
        # sigma |xi|^2 = |sigma xi|^2 / sigma; without noise there is nothing to follow.
        if task.sigma > 0:
            squares = self._noise_squares[..., None, :] / task.sigma
            self.sigma = self.sigma - squares * np.swapaxes(slopes, -1, -2)
        if self.rebuild:
            self._errors.append(self._error(view.params[0]))

    @property
    def history(self) -> Float[ndarray, "t *s M k"]:
        """lambda before the first step and after each."""
        return np.stack(self._lambdas)

    @property
    def feature(self) -> Float[ndarray, "*s M k"]:
        """lambda after the last step."""
        return self._lambdas[-1]

    @property
    def errors(self) -> Float[ndarray, "t *s"]:
        """|rebuilt - w| / |w| after each step, the worst neuron of each network."""
        return np.stack(self._errors)

    def rebuilt(self) -> Float[ndarray, "*s M N"]:
        """The weights computed from the coefficients."""
        weights = self._initial + (self.feature / self._feature_squares) @ self.data.features
        if self.data.task.sigma > 0:
            scale = self.data.task.sigma / self._noise_squares[..., None, :]
            weights = weights + (self.sigma * scale) @ self._noise
        return weights

    def _error(self, weights: Float[ndarray, "*s M N"]) -> PerSeed:
        off = np.linalg.norm(self.rebuilt() - weights, axis=-1)
        return np.asarray((off / np.linalg.norm(weights, axis=-1)).max(axis=-1))

    def arrays(self) -> dict[str, ndarray]:
        """For a checkpoint."""
        return {
            "initial": self._initial,
            "sigma": self.sigma,
            "lambda": self.history,
            "errors": np.asarray(self._errors),
        }

    def restore(self, arrays: dict[str, ndarray]) -> None:
        """From a checkpoint."""
        self._initial, self.sigma = arrays["initial"], arrays["sigma"]
        self._lambdas, self._errors = list(arrays["lambda"]), list(arrays["errors"])


@public
def projected_coefficients(
    weights: Float[ndarray, "*t M N"], initial: Float[ndarray, "M N"], data: TrainingSet
) -> tuple[Float[ndarray, "*t M k"], Float[ndarray, "*t M n"]]:
    """Solves the decomposition for lambda and sigma, for any weights in the span.

    They are unique whenever features and noise are linearly independent. Compressed noise is lower
    triangular behind the k features and M weights, so its coefficients are one triangular solve, and
    what they leave in the first k coordinates is the features' part; in R^d it is least squares.
    Several moments of one run, stacked, cost little more than one.

    Args:
        weights: of the network, at any time.
        initial: the weights that training began with.
        data: what it was trained on.

    >>> import numpy as np
    >>> import featavg as fa
    >>> task = fa.MultiCluster(k=4, d=100)
    >>> data = fa.draw(task, n=40, neurons=10, seed=0)
    >>> start = np.zeros((10, data.x.shape[-1]))
    >>> lam, sigma = projected_coefficients(start + data.features[0], start, data)
    >>> lam.shape, sigma.shape
    ((10, 4), (10, 40))
    """
    squares = (data.features**2).sum(axis=-1)
    noise = data.noise
    noise /= data.task.sigma
    noise_squares = (noise**2).sum(axis=-1)
    size = weights.shape[:-1]
    moved = (weights - initial).reshape(-1, weights.shape[-1])
    if data.coordinates == "compressed":
        before = data.dimension - len(noise)
        tail = solve_triangular(noise[:, before:], moved[:, before:].T, lower=True, trans="T")
        rest = moved[:, : data.task.k] - tail.T @ noise[:, : data.task.k]
        lambdas = np.linalg.solve(data.task.features.T, rest.T).T
        sigmas = tail.T
    else:
        directions = np.concatenate([data.features, noise])
        solution = np.linalg.lstsq(directions.T, moved.T, rcond=None)[0].T
        lambdas, sigmas = solution[:, : data.task.k], solution[:, data.task.k :]
    return ((lambdas * squares).reshape(*size, data.task.k), (sigmas * noise_squares).reshape(*size, len(noise)))


class _Series(ABC):
    """A recorder of named numbers, before the first step and after each one."""

    names: tuple[str, ...]

    def __init__(self, data: TrainingSet) -> None:
        self.data = data
        self._values: dict[str, list[PerSeed]] = {}

    @abstractmethod
    def take(self, evaluation: TwoLayerEvaluation) -> dict[str, PerSeed]:
        """The numbers of one state of the network."""

    def start(self, params: Params, evaluation: Evaluation) -> None:
        """Record the initial network."""
        self._values = {name: [] for name in self.names}
        self._append(evaluation)

    def see(self, view: StepView) -> None:
        """Record the network after a step."""
        self._append(view.after)

    def _append(self, evaluation: Evaluation) -> None:
        if not isinstance(evaluation, TwoLayerEvaluation):
            raise TypeError("the lemmas are about two-layer networks")
        for name, value in self.take(evaluation).items():
            self._values[name].append(value)

    def __getitem__(self, name: str) -> Float[ndarray, "t *s"]:
        """A series by name: one row before the first step and one after each."""
        return np.stack(self._values[name])

    def arrays(self) -> dict[str, ndarray]:
        """For a checkpoint."""
        return {name: self[name] for name in self.names}

    def restore(self, arrays: dict[str, ndarray]) -> None:
        """From a checkpoint."""
        self._values = {name: list(arrays[name]) for name in self.names}


class Activations(_Series):
    """Lemma 3: the share of active pairs (neuron, sample), `own` class and `other` class.

    The lemma says that `own` is 1 from the first step on: every neuron of a class is active on every
    sample of that class. For a grouped network, own means own cluster.

    >>> import featavg as fa
    >>> task = fa.MultiCluster(k=4, d=100)
    >>> watch = Activations(fa.draw(task, n=40, neurons=10, seed=0))
    >>> run = fa.train(task, n=40, seed=0, steps=20, recorders=[watch])
    >>> float(watch["own"][-1])
    1.0
    """

    names = ("own", "other")

    def take(self, evaluation: TwoLayerEvaluation) -> dict[str, PerSeed]:
        """Both shares now."""
        own = own_clusters(evaluation.net, self.data)[self.data.clusters]
        active = evaluation.preactivations >= 0.0
        return {
            "own": (active & own).sum(axis=(-1, -2)) / own.sum(axis=(-1, -2)),
            "other": (active & ~own).sum(axis=(-1, -2)) / (~own).sum(axis=(-1, -2)),
        }


class LossBalance(_Series):
    """Lemma 5: how equally the samples of one label pull, and the clusters of one class.

    `ratio` is the largest l'_i / l'_i' between samples of one label. `clusters` is the largest
    distance from 1 of a cluster's pull relative to what an equal share of its class would be,

        sum_{i in I_j} l'_i / (n/k * mean_{i: y_i = s} l'_i),    j in J_s.

    Labels are the classes for a binary network and the clusters for a grouped one.

    >>> import featavg as fa
    >>> task = fa.MultiCluster(k=4, d=100)
    >>> watch = LossBalance(fa.draw(task, n=40, neurons=10, seed=0))
    >>> run = fa.train(task, n=40, seed=0, steps=20, recorders=[watch])
    >>> bool(watch["ratio"][-1] >= 1)
    True
    """

    names = ("ratio", "clusters")

    def take(self, evaluation: TwoLayerEvaluation) -> dict[str, PerSeed]:
        """Both now, the worst label and the worst cluster of each network."""
        binary = evaluation.net.outputs == 1
        labels = self.data.y if binary else self.data.clusters
        # For cross-entropy the derivative by the own output is 1 - p: the sample's pull.
        index = np.zeros_like(labels) if binary else labels
        slopes = np.take_along_axis(evaluation.loss.slopes, index[..., None], axis=-1)[..., 0]
        pulls = np.abs(slopes)
        return {"ratio": np.exp(_largest_spread(np.log(pulls), labels)), "clusters": self._cluster_sums(pulls)}

    def _cluster_sums(self, pulls: Float[ndarray, "*s n"]) -> PerSeed:
        task, worst = self.data.task, np.zeros(pulls.shape[:-1])
        share = pulls.shape[-1] / task.k
        for sign in (1, -1):
            inside = self.data.y == sign
            mean = (pulls * inside).sum(axis=-1) / np.maximum(inside.sum(axis=-1), 1)
            for cluster in task.class_clusters(sign):
                total = (pulls * (self.data.clusters == cluster)).sum(axis=-1)
                worst = np.maximum(worst, np.abs(total / (share * mean) - 1.0))
        return worst


class UngatedUpdates(_Series):
    """Lemma 4: the error of the update of lambda without its indicator.

    For neuron r and cluster j, with g_i the derivative of the loss by the neuron's output on sample i,

        |sum_{i in I_j} g_i 1[r active on i] - sum_{i in I_j} g_i| / |sum_{i in I_j} g_i|,

    the largest over the clusters of the neuron's label (`own`) and over the others (`other`).
    Own means own class for a binary network and own cluster for a grouped one.

    >>> import featavg as fa
    >>> task = fa.MultiCluster(k=4, d=100)
    >>> watch = UngatedUpdates(fa.draw(task, n=40, neurons=10, seed=0))
    >>> run = fa.train(task, n=40, seed=0, steps=20, recorders=[watch])
    >>> len(watch["own"])
    21
    """

    names = ("own", "other")

    def take(self, evaluation: TwoLayerEvaluation) -> dict[str, PerSeed]:
        """Both relative errors now."""
        members = np.swapaxes(np.eye(self.data.task.k)[self.data.clusters], -1, -2)
        whole = members @ (evaluation.loss.slopes @ evaluation.net.head)
        gated = members @ evaluation.neuron_slopes
        error = np.divide(np.abs(gated - whole), np.abs(whole), out=np.zeros_like(whole), where=whole != 0)
        own = own_clusters(evaluation.net, self.data)
        return {
            "own": np.where(own, error, 0.0).max(axis=(-1, -2)),
            "other": np.where(own, 0.0, error).max(axis=(-1, -2)),
        }


def _largest_spread(logs: Float[ndarray, "*s n"], labels: Int[ndarray, "*s n"]) -> PerSeed:
    """The largest difference inside a label, over all labels."""
    spread = np.zeros(logs.shape[:-1])
    for label in np.unique(labels):
        inside = labels == label
        high = np.where(inside, logs, -np.inf).max(axis=-1)
        low = np.where(inside, logs, np.inf).min(axis=-1)
        spread = np.maximum(spread, np.where(inside.any(axis=-1), high - low, 0.0))
    return spread


def own_clusters(net: TwoLayer, data: TrainingSet) -> Bool[ndarray, "k M"]:
    """Which neurons belong to which cluster: those of its class, or of its group."""
    if net.outputs == 1:
        return np.asarray(data.task.cluster_labels[:, None] == neuron_signs(net))
    return net.head[(0,) * len(net.batch)] != 0
