"""Deep networks of the simulator, trained on one task, and what each of them has learned."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.data.clusters import MultiCluster
from featavg.errors import InputError
from featavg.measures.effective_weights import gradient_cosines, gradient_index
from featavg.nets.deep import Deep
from featavg.nets.two_layer import TwoLayer
from featavg.robustness.exact.budget import Budget
from featavg.robustness.radii import radii
from featavg.storage.cache import kept_values
from featavg.training.train import Recipe, train

K, D, N_TRAIN = 10, 3072, 300
# Networks are compared at the same loss, not at the same time: signals fade in narrow random layers.
LOSS, STEPS, LR = 0.1, 2000, 1e-3
TESTED, POINTS = 400, 6
# Test points have seeds of their own, far from those of training.
TEST = 3_000_000
BUDGET = Budget(nodes=100)
# Of what is measured here: kept results of another version are computed anew.
VERSION = 1
_MEASURED = ("accuracy", "index", "own", "certified", "attack")


@dataclass(frozen=True)
class Architecture:
    """A network and its start.

    Attributes:
        depth: layers of weights.
        residual: whether hidden layers behind the first add what they are fed.
        layers: which are trained, "first" or "all".
        neurons: of every hidden layer.
        sigma_w: scale of the first layer's start.
        inner_scale: of the Gaussian layers behind it, in units of sqrt(2 / neurons).

    >>> import featavg as fa
    >>> fa.Architecture(depth=3, residual=True).depth
    3
    """

    depth: int = 2
    residual: bool = False
    layers: str = "all"
    neurons: int = 10
    sigma_w: float = 1e-5
    inner_scale: float = 1.0

    @property
    def name(self) -> str:
        """In words."""
        kind = ", residual" if self.residual else ""
        return f"{self.depth} layers{kind}, {self.layers} trained"

    def recipe(self, labels: str, task: MultiCluster) -> Recipe:
        """How it is trained: steps and start shrink with d, so that every d has the same course."""
        if self.neurons % (2 if labels == "coarse" else task.k):
            remedy = "give an even number" if labels == "coarse" else f"give a multiple of {task.k}"
            raise InputError("neurons", f"are {self.neurons} with {labels} labels", remedy)
        return Recipe(
            labels=labels,
            m=max(1, self.neurons // 2),
            h=max(1, self.neurons // task.k),
            depth=self.depth,
            residual=self.residual,
            layers=self.layers,
            sigma_w=self.sigma_w * math.sqrt(D / task.d),
            lr=LR * D / task.d,
            inner_scale=self.inner_scale,
            steps=STEPS,
            target_log_loss=math.log(LOSS),
        )


@dataclass(frozen=True, eq=False)
class Learned:
    """What the networks of one architecture learned, one number for each seed.

    Attributes:
        architecture, labels, k, d: what was run.
        loss: at the end of training.
        accuracy: of the coarse decision on fresh points.
        index: the averaging index of the effective weights.
        null: the index of random directions, mean over the seeds.
        own: the mean cosine of an effective weight with its own feature.
        certified, attack: the ends of the median radius over sqrt(d/k) (coarse labels) or over
            sqrt(d/2) (cluster labels, read-out `max`); equal where all radii are exact.
    """

    architecture: Architecture
    labels: str
    k: int
    d: int
    loss: Float[ndarray, " s"]
    accuracy: Float[ndarray, " s"]
    index: Float[ndarray, " s"]
    null: float
    own: Float[ndarray, " s"]
    certified: Float[ndarray, " s"]
    attack: Float[ndarray, " s"]

    @property
    def radius(self) -> Float[ndarray, " s"]:
        """The middle of the bracket of each seed's median."""
        return np.asarray((self.certified + self.attack) / 2)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        arrays = ("loss", "accuracy", "index", "own", "certified", "attack")
        return {
            "architecture": asdict(self.architecture),
            "labels": self.labels,
            "k": self.k,
            "d": self.d,
            "null": self.null,
        } | {name: getattr(self, name).tolist() for name in arrays}


@cache
def networks(
    architecture: Architecture, labels: str, seeds: tuple[int, ...], k: int = K, d: int = D
) -> tuple[tuple[TwoLayer | Deep, ...], Float[ndarray, " s"]]:
    """One trained network for each seed, and the loss that it ended with."""
    task = MultiCluster(k=k, d=d)
    run = train(task, architecture.recipe(labels, task), n=N_TRAIN, seed=seeds)
    return tuple(run.net[i] for i in range(len(seeds))), np.exp(np.asarray(run.log_loss)[-1])


@cache
def learned(
    architecture: Architecture,
    labels: str = "coarse",
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4),
    k: int = K,
    d: int = D,
    points: int = POINTS,
    keep: Path | None = None,
) -> Learned:
    """Train, and measure index, cosines and exact radii; without radii (NaN) for no points.

    With a folder `keep` a killed run goes on where it stopped.

    >>> learned(Architecture(3, neurons=4), seeds=(0,), k=4, d=500, points=2).accuracy
    array([1.])
    """
    about = [asdict(architecture), labels, list(seeds), k, d, points, BUDGET.nodes]
    kept = kept_cell(keep, about, lambda: _measured(architecture, labels, seeds, k, d, points))
    null = float(kept.pop("null"))
    arrays = {name: np.array(values, dtype=float) for name, values in kept.items()}
    return Learned(architecture, labels, k, d, null=null, **arrays)


def kept_cell(
    keep: Path | None, about: list[Any], compute: Callable[[], dict[str, Any]]
) -> dict[str, Any]:
    """What `compute` returns, from the folder `keep` if an earlier run computed it for `about`."""
    key = hashlib.sha256(json.dumps([VERSION, *about]).encode()).hexdigest()
    return kept_values(None if keep is None else keep / f"{key[:24]}.json", key, compute)


def _measured(
    architecture: Architecture, labels: str, seeds: tuple[int, ...], k: int, d: int, points: int
) -> dict[str, Any]:
    """The numbers of `Learned`, as plain values; what is not measured is a null."""
    task = MultiCluster(k=k, d=d)
    nets, loss = networks(architecture, labels, seeds, k, d)
    columns: dict[str, list[float]] = {name: [] for name in _MEASURED}
    nulls = []
    for net, seed in zip(nets, seeds, strict=True):
        test = task.sample(TESTED, seed=TEST + seed)
        x = test.coordinates(net.dimension)
        index = gradient_index(net, task, test)
        certified, attack = median_radius(net, task, x[:points], test.y[:points])
        columns["accuracy"].append(_accuracy(net, task, x, test.y))
        columns["index"].append(index.value)
        columns["own"].append(float(np.mean(np.diagonal(gradient_cosines(net, task, test)))))
        columns["certified"].append(certified)
        columns["attack"].append(attack)
        nulls.append(index.null)
    plain = {name: [_or_null(value) for value in values] for name, values in columns.items()}
    return plain | {"loss": loss.tolist(), "null": float(np.mean(nulls))}


def _or_null(value: float) -> float | None:
    return None if math.isnan(value) else value


def _accuracy(net: TwoLayer | Deep, task: MultiCluster, x: ndarray, y: ndarray) -> float:
    outputs = net(x)
    if net.outputs == 1:
        score = outputs[:, 0]
    else:
        mask = task.positive_clusters
        score = outputs[:, mask].max(axis=1) - outputs[:, ~mask].max(axis=1)
    return float(np.mean(y * score > 0))


def median_radius(
    net: TwoLayer | Deep, task: MultiCluster, x: ndarray, y: ndarray
) -> tuple[float, float]:
    """Both ends of the median radius over sqrt(d/k), or over sqrt(d/2) for k outputs."""
    if not len(x):
        return math.nan, math.nan
    unit = math.sqrt(task.d / task.k) if net.outputs == 1 else math.sqrt(task.d / 2)
    ends = radii(net, x, y, readout="max", positive=task.positive_clusters, budget=BUDGET, jobs=1)
    return float(np.median(ends.certified)) / unit, float(np.median(ends.attack)) / unit
