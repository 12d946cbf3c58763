"""Does a deep network trained on class labels know the clusters in one of its inner layers?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.data.clusters import MultiCluster
from featavg.figures.figure import Axis, Figure, Lines, Rule, Series
from featavg.figures.marks import Role
from featavg.figures.result import Result
from featavg.measures.averaging import evenness
from featavg.nets.deep import Deep
from featavg.nets.two_layer import TwoLayer
from featavg.paper.questions.depth_networks import (
    TEST,
    Architecture,
    D,
    K,
    kept_cell,
    networks,
)
from featavg.progress import Progress, silent
from featavg.training.train import train

FITTED, TESTED = 2000, 1000
# Differences of neurons that are a thousandth of what the layer says count for little.
RIDGE = 1e-3
SHAPES = (Architecture(3), Architecture(4), Architecture(4, True), Architecture(6, True))
ROLES: dict[str, Role] = {"coarse": "averaged", "fine": "decoupled", "untrained": "neutral"}


def hidden_layers(net: TwoLayer | Deep, x: Float[ndarray, "n N"]) -> list[Float[ndarray, "n m"]]:
    """What every hidden layer says about each point."""
    if isinstance(net, TwoLayer):
        return [np.maximum(net.preactivations(x), 0.0)]
    return net.hidden(net.preactivations(x))


def probe_accuracy(
    fit: Float[ndarray, "n m"],
    fit_clusters: Int[ndarray, " n"],
    test: Float[ndarray, "q m"],
    test_clusters: Int[ndarray, " q"],
    labels: Int[ndarray, " k"],
) -> float:
    r"""The share of points whose cluster a linear probe names, the class being known.

    The probe is ridge regression of one-hot clusters, with RIDGE times the mean variance of the
    layer's neurons as its penalty; among the clusters of the point's class the largest output wins,
    so chance is 1 / |J_s|.

    >>> x = np.repeat(np.eye(4), 5, axis=0)
    >>> c = np.repeat(np.arange(4), 5)
    >>> probe_accuracy(x, c, x, c, np.array([1, 1, -1, -1]))
    1.0
    """
    mean = fit.mean(axis=0)
    centred = fit - mean
    covariance = centred.T @ centred / len(fit)
    penalty = RIDGE * float(np.trace(covariance)) / len(covariance)
    if not penalty > 0.0:  # a dead layer says nothing
        return float(np.mean(1.0 / np.bincount(labels + 1)[labels[test_clusters] + 1]))
    targets = np.eye(len(labels))[fit_clusters]
    moved = centred.T @ (targets - targets.mean(axis=0)) / len(fit)
    probe = np.linalg.solve(covariance + penalty * np.eye(len(covariance)), moved)
    outputs = (test - mean) @ probe + targets.mean(axis=0)
    allowed = labels[None, :] == labels[test_clusters][:, None]
    return float(np.mean(np.where(allowed, outputs, -np.inf).argmax(axis=1) == test_clusters))


def selectivity(
    hidden: Float[ndarray, "n m"], clusters: Int[ndarray, " n"], labels: Int[ndarray, " k"]
) -> float:
    """How evenly neurons answer to the clusters of the class that they answer to most.

    The mean over neurons of the evenness of their mean activations (see `measures.averaging`): 1 if
    all clusters of the class excite a neuron alike, 0 if one does. Neurons are weighted with their
    activation, so that dead ones do not count.
    """
    k = len(labels)
    means = np.stack([hidden[clusters == j].mean(axis=0) for j in range(k)], axis=-1)
    sides = np.stack([means[:, labels == s].sum(axis=1) for s in (1, -1)], axis=-1)
    even = np.where(
        sides[:, 0] >= sides[:, 1],
        evenness(means[:, labels == 1]),
        evenness(means[:, labels == -1]),
    )
    weight = sides.max(axis=1)
    return float(np.sum(even * weight) / np.sum(weight)) if weight.sum() > 0 else 1.0


@dataclass(frozen=True, repr=False, eq=False)
class DepthProbe(Result):
    """Probes of every hidden layer: arrays have one row for each seed and one column for each layer.

    Attributes:
        shapes: the architectures.
        accuracy: for "coarse", "fine" and "untrained" networks, one array for each architecture.
        evenness: the same for `selectivity`.
        chance: 1 / |J_s|.

    Returned by `fa.depth_probe`, which has an example.
    """

    shapes: tuple[Architecture, ...]
    accuracy: dict[str, tuple[Float[ndarray, "s l"], ...]]
    evenness: dict[str, tuple[Float[ndarray, "s l"], ...]]
    chance: float

    def figure(self) -> Figure:
        """Accuracy of the probe against the layer, one panel for each architecture."""
        panels = []
        for i, shape in enumerate(self.shapes):
            layers = list(range(1, shape.depth))
            series = []
            for kind, role in ROLES.items():
                values = self.accuracy[kind][i]
                series.append(
                    Series(
                        {"coarse": "class labels", "fine": "cluster labels"}.get(kind, kind),
                        layers,
                        values.mean(axis=0),
                        role,
                        "line+markers",
                        values.min(axis=0),
                        values.max(axis=0),
                    )
                )
            panels.append(
                Lines(
                    Axis("hidden layer", ticks=layers),
                    Axis("clusters named", range=(0, 1)),
                    tuple(series),
                    title=f"{shape.depth} layers{', residual' if shape.residual else ''}",
                    rules=(Rule(self.chance, label="chance"),),
                )
            )
        return Figure(
            "depth-probe",
            "What inner layers know of the clusters",
            "Share of fresh points whose cluster a linear probe of a hidden layer names, the class being "
            "known, for networks trained on class labels, on cluster labels, and not at all.",
            tuple(panels),
        )

    def to_json(self) -> dict[str, Any]:
        """Every number, by name."""
        return {
            "shapes": [shape.name for shape in self.shapes],
            "chance": self.chance,
            "accuracy": {k: [a.tolist() for a in v] for k, v in self.accuracy.items()},
            "evenness": {k: [a.tolist() for a in v] for k, v in self.evenness.items()},
        }

    def summary(self) -> str:
        """A line for each architecture and kind of network."""
        lines = [f"clusters named by layer (chance {self.chance:.2f}); evenness of activations"]
        for i, shape in enumerate(self.shapes):
            for kind in ROLES:
                named = " ".join(f"{v:.2f}" for v in self.accuracy[kind][i].mean(axis=0))
                even = " ".join(f"{v:.2f}" for v in self.evenness[kind][i].mean(axis=0))
                lines.append(f"  {shape.name:32} {kind:10} {named};  {even}")
        return "\n".join(lines)


def depth_probe(
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4),
    shapes: Sequence[Architecture] = SHAPES,
    progress: Progress = silent,
    keep: Path | None = None,
) -> DepthProbe:
    """Probe every hidden layer of networks trained on class labels, on cluster labels, and untrained.

    Args:
        seeds: of data and weights.
        shapes: architectures.
        progress: called with the share done and a note.
        keep: a folder for finished cells, so that a killed run goes on.

    >>> import featavg as fa
    >>> fa.depth_probe((0,), (fa.Architecture(3),)).accuracy["coarse"][0].shape
    (1, 2)
    """
    task = MultiCluster(k=K, d=D)
    accuracy: dict[str, list[ndarray]] = {kind: [] for kind in ROLES}
    even: dict[str, list[ndarray]] = {kind: [] for kind in ROLES}
    for i, shape in enumerate(shapes):
        progress(i / len(shapes), shape.name)
        for kind in ROLES:
            about = ["probe", asdict(shape), kind, list(seeds), FITTED, TESTED, RIDGE]
            cell = kept_cell(keep, about, partial(_cell, shape, kind, tuple(seeds), task))
            accuracy[kind].append(np.array(cell["accuracy"]))
            even[kind].append(np.array(cell["evenness"]))
    return DepthProbe(
        tuple(shapes),
        {kind: tuple(arrays) for kind, arrays in accuracy.items()},
        {kind: tuple(arrays) for kind, arrays in even.items()},
        1.0 / task.positive_count,
    )


def _cell(
    shape: Architecture, kind: str, seeds: tuple[int, ...], task: MultiCluster
) -> dict[str, Any]:
    """Every seed's probes of one architecture, as plain values."""
    nets = _networks(shape, kind, seeds)
    pairs = [_probed(net, task, seed) for net, seed in zip(nets, seeds, strict=True)]
    return {"accuracy": [named for named, _ in pairs], "evenness": [even for _, even in pairs]}


def _networks(
    shape: Architecture, kind: str, seeds: tuple[int, ...]
) -> tuple[TwoLayer | Deep, ...]:
    if kind != "untrained":
        return networks(shape, kind, seeds)[0]
    task = MultiCluster(k=K, d=D)
    run = train(
        task, shape.recipe("coarse", task), n=300, seed=seeds, steps=0, target_log_loss=-1e9
    )
    return tuple(run.net[i] for i in range(len(seeds)))


def _probed(net: TwoLayer | Deep, task: MultiCluster, seed: int) -> tuple[list[float], list[float]]:
    labels = task.cluster_labels
    fit, test = task.sample(FITTED, TEST + seed), task.sample(TESTED, 2 * TEST + seed)
    known = hidden_layers(net, fit.coordinates(net.dimension))
    fresh = hidden_layers(net, test.coordinates(net.dimension))
    named = [
        probe_accuracy(a, fit.clusters, b, test.clusters, labels)
        for a, b in zip(known, fresh, strict=True)
    ]
    return named, [selectivity(b, test.clusters, labels) for b in fresh]
