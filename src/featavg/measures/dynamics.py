"""What the lemmas say about a run while it goes on: who is active, and whose loss pulls how hard."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from featavg.data.compress import TrainingSet
from featavg.measures.alignment import neuron_signs
from featavg.nets.two_layer import TwoLayer
from featavg.shapes import PerSeed
from featavg.training.objective import Evaluation, Params, TwoLayerEvaluation
from featavg.training.state import StepView


class _Series(ABC):
    """Numbers taken before the first step and after each one."""

    names: tuple[str, ...]

    def __init__(self, data: TrainingSet) -> None:
        self.data = data
        self._values: dict[str, list[PerSeed]] = {}

    @abstractmethod
    def take(self, evaluation: TwoLayerEvaluation) -> dict[str, PerSeed]:
        """The numbers of one moment."""

    def start(self, params: Params, evaluation: Evaluation) -> None:
        """The moment before the first step."""
        self._values = {name: [] for name in self.names}
        self._append(evaluation)

    def see(self, view: StepView) -> None:
        """The moment after a step."""
        self._append(view.after)

    def _append(self, evaluation: Evaluation) -> None:
        if not isinstance(evaluation, TwoLayerEvaluation):
            raise TypeError("the lemmas are about two-layer networks")
        for name, value in self.take(evaluation).items():
            self._values[name].append(value)

    def __getitem__(self, name: str) -> Float[ndarray, "t *s"]:
        """A series by name: one row a moment."""
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
    """

    names = ("own", "other")

    def take(self, evaluation: TwoLayerEvaluation) -> dict[str, PerSeed]:
        """Both shares now."""
        own = own_pairs(evaluation.net, self.data)
        active = evaluation.preactivations >= 0.0
        return {
            "own": (active & own).sum(axis=(-1, -2)) / own.sum(axis=(-1, -2)),
            "other": (active & ~own).sum(axis=(-1, -2)) / (~own).sum(axis=(-1, -2)),
        }


class LossBalance(_Series):
    """Lemma 5: the largest ratio of loss derivatives l'_i / l'_i' between samples of one label.

    Labels are the classes for a binary network and the clusters for a grouped one.
    """

    names = ("ratio",)

    def take(self, evaluation: TwoLayerEvaluation) -> dict[str, PerSeed]:
        """The ratio now, the worst label of each network."""
        binary = evaluation.net.outputs == 1
        labels = self.data.y if binary else self.data.clusters
        # For cross-entropy the derivative by the own output is 1 - p: the sample's pull.
        index = np.zeros_like(labels) if binary else labels
        slopes = np.take_along_axis(evaluation.loss.slopes, index[..., None], axis=-1)[..., 0]
        logs = np.log(np.abs(slopes))
        spread = np.zeros(logs.shape[:-1])
        for label in np.unique(labels):
            inside = labels == label
            high = np.where(inside, logs, -np.inf).max(axis=-1)
            low = np.where(inside, logs, np.inf).min(axis=-1)
            spread = np.maximum(spread, np.where(inside.any(axis=-1), high - low, 0.0))
        return {"ratio": np.exp(spread)}


def own_pairs(net: TwoLayer, data: TrainingSet) -> Bool[ndarray, "*s n M"]:
    """Which neurons speak for the label of which sample."""
    if net.outputs == 1:
        return np.asarray(data.y[..., :, None] == neuron_signs(net))
    head = net.head[(0,) * len(net.batch)]
    return np.asarray(data.clusters[..., :, None] == np.argmax(head != 0, axis=0))
