"""Activation rates and per-class loss gradients during training: what Lemmas 3 to 5 are about."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray

from featavg.data.compress import TrainingSet
from featavg.measures.alignment import neuron_signs
from featavg.nets.two_layer import TwoLayer
from featavg.shapes import PerSeed
from featavg.training.objectives.objective import Evaluation, Params, TwoLayerEvaluation
from featavg.training.state import StepView


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
        return {
            "ratio": np.exp(_largest_spread(np.log(pulls), labels)),
            "clusters": self._cluster_sums(pulls),
        }

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
        error = np.divide(
            np.abs(gated - whole), np.abs(whole), out=np.zeros_like(whole), where=whole != 0
        )
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
