"""Deep networks of the simulator, trained on one task, and what each of them has learned (open question 2).

Networks here are small (10 neurons in every hidden layer, 300 points) so that radii are exact. The
paper's own claim asks for an index of 0.9 with 1000 points; 300 leave two layers near 0.93, and what
is asked of deeper ones is 0.8. Radii may differ by a third from the theory: points of unequal classes
already do by a quarter (see `universal-vector`).
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from jaxtyping import Float
from numpy import ndarray

from featavg.data.clusters import MultiCluster
from featavg.measures.averaging import gradient_cosines, gradient_index
from featavg.nets.deep import Deep
from featavg.nets.two_layer import TwoLayer
from featavg.progress import Progress, silent
from featavg.robustness.exact.budget import Budget
from featavg.robustness.radii import radii
from featavg.storage.cache import kept_values
from featavg.training.recipe import Recipe
from featavg.training.train import train

# What the claims on depth have in common, and their tolerances.
COMMON: Mapping[str, Any] = {"theme": "Open questions", "tier": "full"}
SOURCE = (
    "Open question 2 and next check 2 of the summary of arXiv 2410.10322: deeper networks, three "
    "layers and residual ones"
)
AVERAGED, RADIUS = 0.8, (0.75, 4 / 3)

K, D, N_TRAIN = 10, 3072, 300
# Networks are compared at the same loss, not at the same time: signals fade in narrow random layers.
LOSS, STEPS, LR = 0.1, 2000, 1e-3
TESTED, POINTS = 400, 6
# Test points have seeds of their own, far from those of training.
TEST = 3_000_000
BUDGET = Budget(nodes=100)
# Of what is measured here: kept results of another version are computed anew.
VERSION = 1


@dataclass(frozen=True)
class Architecture:
    """A network and its start: `layers` says which are trained, "first" or "all"; every hidden layer
    has `neurons`; those behind the first start Gaussian, `inner_scale` in units of sqrt(2 / neurons).
    """

    depth: int = 2
    residual: bool = False
    layers: str = "all"
    neurons: int = 10
    sigma_w: float = 1e-5
    inner_scale: float = 1.0

    def recipe(self, labels: str, task: MultiCluster) -> Recipe:
        """How it is trained: steps and start shrink with d, so that every d has the same course."""
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


def kind(depth: int, residual: bool) -> str:
    """A kind of network in the words of the checks."""
    return f"{depth} layers, {'residual' if residual else 'plain'}"


def short(depth: int, residual: bool) -> str:
    """A kind of network in the words of the figures."""
    return f"{depth} layers{', residual' if residual else ''}"


@cache
def networks(
    architecture: Architecture, labels: str, seeds: tuple[int, ...], k: int = K, d: int = D
) -> tuple[tuple[TwoLayer | Deep, ...], Float[ndarray, " s"]]:
    """One trained network for each seed, and the loss that it ended with."""
    task = MultiCluster(k=k, d=d)
    run = train(task, architecture.recipe(labels, task), n=N_TRAIN, seed=seeds)
    return tuple(run.net[i] for i in range(len(seeds))), np.exp(np.asarray(run.log_loss)[-1])


def learned(
    shapes: Sequence[Architecture],
    labels: str,
    seeds: Sequence[int],
    k: int = K,
    d: int = D,
    points: int = POINTS,
    keep: Path | None = None,
    progress: Progress = silent,
) -> xr.Dataset:
    """Trains every architecture and measures what each network learned, by network and seed.

    accuracy is that of the class on fresh points, index the averaging index of the effective weights
    and null that of random directions, own the mean cosine of an effective weight with its own feature;
    certified and attack are the ends of the median radius over sqrt(d/k), or over sqrt(d/2) with cluster
    labels read out by `max`, and radius is their middle; NaN without points. With a folder `keep` a
    killed run resumes where it stopped.

    >>> learned([Architecture(3, neurons=4)], "coarse", (0,), k=4, d=500, points=2)["accuracy"].values
    array([[1.]])
    """
    cells = []
    for i, shape in enumerate(shapes):
        progress(i / len(shapes), f"{labels} labels, {short(shape.depth, shape.residual)}")
        about = [asdict(shape), labels, list(seeds), k, d, points, BUDGET.nodes]
        measure = partial(_measured, shape, labels, tuple(seeds), k, d, points)
        cells.append(kept_cell(keep, about, measure))
    columns = {name: np.array([cell[name] for cell in cells], dtype=float) for name in cells[0]}
    dims = {name: ("network", "seed")[: array.ndim] for name, array in columns.items()}
    rows = [asdict(shape) for shape in shapes]
    coords = {name: ("network", [row[name] for row in rows]) for name in rows[0]}
    table = xr.Dataset({name: (dims[name], array) for name, array in columns.items()}, coords | {"seed": list(seeds)})
    return table.assign(radius=(table["certified"] + table["attack"]) / 2)


def kept_cell(keep: Path | None, about: list[Any], compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What `compute` returns, from the folder `keep` if an earlier run computed it for `about`."""
    key = hashlib.sha256(json.dumps([VERSION, *about]).encode()).hexdigest()
    return kept_values(None if keep is None else keep / f"{key[:24]}.json", key, compute)


def _measured(
    architecture: Architecture, labels: str, seeds: tuple[int, ...], k: int, d: int, points: int
) -> dict[str, Any]:
    """The numbers of `learned` for one architecture, as plain values; None is not measured."""
    task = MultiCluster(k=k, d=d)
    nets, loss = networks(architecture, labels, seeds, k, d)
    rows = []
    for net, seed in zip(nets, seeds, strict=True):
        test = task.sample(TESTED, seed=TEST + seed)
        x = test.coordinates(net.dimension)
        index = gradient_index(net, task, test)
        certified, attack = median_radius(net, task, x[:points], test.y[:points])
        rows.append(
            {
                "accuracy": _accuracy(net, task, x, test.y),
                "index": float(index.value),
                "own": float(np.mean(np.diagonal(gradient_cosines(net, task, test)))),
                "certified": certified,
                "attack": attack,
                "null": float(index.null),
            }
        )
    columns = {name: [None if math.isnan(row[name]) else row[name] for row in rows] for name in rows[0]}
    null = float(np.mean([row["null"] for row in rows]))
    return columns | {"loss": loss.tolist(), "null": null}


def _accuracy(net: TwoLayer | Deep, task: MultiCluster, x: ndarray, y: ndarray) -> float:
    outputs = net(x)
    if net.outputs == 1:
        score = outputs[:, 0]
    else:
        mask = task.positive_clusters
        score = outputs[:, mask].max(axis=1) - outputs[:, ~mask].max(axis=1)
    return float(np.mean(y * score > 0))


def median_radius(net: TwoLayer | Deep, task: MultiCluster, x: ndarray, y: ndarray) -> tuple[float, float]:
    """Both ends of the median radius over sqrt(d/k), or over sqrt(d/2) for k outputs."""
    if not len(x):
        return math.nan, math.nan
    unit = math.sqrt(task.d / task.k) if net.outputs == 1 else math.sqrt(task.d / 2)
    ends = radii(net, x, y, readout="max", positive=task.positive_clusters, budget=BUDGET, jobs=1)
    return float(np.median(ends.certified)) / unit, float(np.median(ends.attack)) / unit
