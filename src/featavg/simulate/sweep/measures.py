"""What a sweep measures of a run: a registered function each, with a version of its own."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy import ndarray

from featavg.errors import InputError, one_of
from featavg.measures.accuracy import decisions
from featavg.measures.alignment import block_cosines, cosine_matrix
from featavg.measures.averaging import feature_coefficients
from featavg.nets.deep import Deep
from featavg.nets.two_layer import TwoLayer
from featavg.robustness.exact.result import Radii
from featavg.robustness.radii import radii
from featavg.simulate.measurements import net_of, seed_index, seed_weights
from featavg.simulate.points import SimulationPoints
from featavg.simulate.setting import Setting
from featavg.training.trajectory import Trajectory

# Test points per run: enough for a median, few enough for thousands of runs. A setting whose
# n_test is smaller gets by with fewer.
POINTS = 20


Measured: TypeAlias = Mapping[str, float | ndarray]


@dataclass(frozen=True, eq=False)
class Run:
    """One seed of one setting, trained: what a measure is given."""

    setting: Setting
    points: SimulationPoints
    trajectories: Mapping[str, Trajectory]
    index: int
    seed: int

    @cached_property
    def nets(self) -> dict[str, TwoLayer | Deep]:
        """All trained networks by their labels."""
        return {labels: net_of(run, self.index) for labels, run in self.trajectories.items()}

    @cached_property
    def by_cluster(self) -> dict[str, TwoLayer | Deep]:
        """The same with one output, or one for each cluster, for measures of weights."""
        task = self.points.task
        return {labels: self.setting.recipe(labels).by_cluster(net, task) for labels, net in self.nets.items()}

    @cached_property
    def weights(self) -> dict[str, ndarray]:
        """What each network looks for in each cluster."""
        nets = self.by_cluster.items()
        return {labels: seed_weights(self.points, net, self.index) for labels, net in nets}

    @cached_property
    def fresh(self) -> tuple[ndarray, ndarray, ndarray]:
        """Test points, their clusters and their classes."""
        drawn = self.points.fresh(self.seed + 1_000_003, min(POINTS, self.setting.n_test))
        if drawn is None:
            raise InputError("data", "has no test points", "give x_test and clusters_test")
        x, clusters = drawn
        return x, clusters, self.points.task.cluster_labels[clusters]

    def radii(self, labels: str, readout: str) -> Radii:
        """Exact l2 radii of the test points; several measures ask for them."""
        kept: dict[tuple[str, str], Radii] = self.__dict__.setdefault("_radii", {})
        if (labels, readout) not in kept:
            x, _, y = self.fresh
            positive, rule = self.setting.recipe(labels).decision(self.points.task, readout)
            exact = radii(self.nets[labels], x, y, readout=rule, positive=positive, jobs=1)
            kept[labels, readout] = exact
        return kept[labels, readout]

    def median_radius(self, labels: str, readout: str) -> float:
        """The median exact l2 radius over the test points (their attack end)."""
        return self.radii(labels, readout).median[1]


@dataclass(frozen=True)
class Measure:
    """A name, what it is, and the function; `version` rises whenever its numbers change.

    Numbers become columns of the table; arrays go to files beside the index (`Sweep.array`).
    """

    name: str
    about: str
    version: int
    function: Callable[[Run], Measured]


MEASURES: dict[str, Measure] = {}


def measure(name: str, about: str, version: int = 1) -> Callable[..., Callable[..., object]]:
    """Register a function Run -> {name: number or array} as a measure.

    Args:
        name: as `sweep(measures=)` takes it.
        about: one line for lists and help.
        version: raised when the numbers change, so that stored ones are measured again.
    """

    def keep(function: Callable[[Run], Measured]) -> Callable[..., object]:
        MEASURES[name] = Measure(name, about, version, function)
        return function

    return keep


@measure("index", "averaging index of each network, and the share of its weights in the span")
def _index(run: Run) -> dict[str, float]:
    values = {}
    for labels, net in run.by_cluster.items():
        spread = seed_index(run.points, net, run.index)
        values[f"index_{labels}"] = float(spread.value)
        values[f"span_share_{labels}"] = float(spread.share)
    return values


@measure("cosines", "cosines with the own feature, its class, the other; their matrix", version=2)
def _cosines(run: Run) -> Measured:
    values: dict[str, float | ndarray] = {}
    for labels, weights in run.weights.items():
        matrix = cosine_matrix(run.points.features, weights)
        blocks = block_cosines(matrix, run.points.task.cluster_labels, diagonal=False)
        values[f"own_cosine_{labels}"] = float(np.diag(matrix).mean())
        values[f"same_class_cosine_{labels}"] = float(blocks.same_class)
        values[f"other_class_cosine_{labels}"] = float(blocks.other_class)
        values[f"cosine_matrix_{labels}"] = matrix
    return values


@measure("coefficients", "mean coefficient a_j |mu_j|^2 of own and other features; all of them")
def _coefficients(run: Run) -> Measured:
    values: dict[str, float | ndarray] = {}
    features, signs = run.points.features, run.points.task.cluster_labels
    same = np.equal.outer(signs, signs)
    for labels, weights in run.weights.items():
        table = feature_coefficients(weights, features) * (features**2).sum(axis=-1)
        values[f"own_coefficient_{labels}"] = float(np.diag(table).mean())
        values[f"same_class_coefficient_{labels}"] = float(table[same].mean())
        values[f"other_class_coefficient_{labels}"] = float(table[~same].mean())
        values[f"coefficients_{labels}"] = table
    return values


@measure("loss", "log10 of the training loss")
def _loss(run: Run) -> dict[str, float]:
    return {
        f"log10_loss_{labels}": float(np.atleast_1d(ran.log_loss[-1])[run.index] / math.log(10))
        for labels, ran in run.trajectories.items()
    }


@measure("accuracy", "share of correct coarse decisions on fresh points")
def _accuracy(run: Run) -> dict[str, float]:
    x, _, y = run.fresh
    values = {}
    for labels, net in run.nets.items():
        rule = run.setting.recipe(labels).decision(run.points.task, run.setting.readout)
        values[f"accuracy_{labels}"] = float(np.mean(decisions(net, x, *rule) == y))
    return values


@measure("radii", "median exact l2 radii: class labels; cluster labels by `max` and `sum`")
def _radii(run: Run) -> dict[str, float]:
    values = {}
    if "coarse" in run.trajectories:
        values["radius_coarse"] = run.median_radius("coarse", "sum")
    if "fine" in run.trajectories:
        values["radius_fine_max"] = run.median_radius("fine", "max")
        values["radius_fine_sum"] = run.median_radius("fine", "sum")
    return values


@measure("max", "median exact l2 radius of cluster labels by `max` alone, for many clusters")
def _max(run: Run) -> dict[str, float]:
    return {"radius_fine_max": run.median_radius("fine", "max")} if "fine" in run.nets else {}


@measure("probability", "median l2 radius of cluster labels by `probability`, to 1% (slower)")
def _probability(run: Run) -> dict[str, float]:
    if "fine" not in run.trajectories:
        return {}
    return {"radius_fine_probability": run.median_radius("fine", "probability")}


@measure("curve", "mean exact l2 radius (area under robust accuracy); the radii in order")
def _curve(run: Run) -> Measured:
    values: dict[str, float | ndarray] = {}
    for labels in run.trajectories:
        # The share of points that a perturbation of length r leaves is the share of radii above r.
        ordered = np.sort(run.radii(labels, "max").attack)
        values[f"mean_radius_{labels}"] = float(ordered.mean())
        values[f"curve_{labels}"] = ordered
    return values


@measure("gain", "median exact radius of cluster labels (`max`) over that of class labels")
def _gain(run: Run) -> dict[str, float]:
    if len(run.trajectories) < 2:
        raise InputError("gain", "compares two networks", "set labels to both")
    coarse, fine = run.median_radius("coarse", "sum"), run.median_radius("fine", "max")
    return {"gain": fine / coarse if coarse > 0 else math.nan}


def measures_named(names: tuple[str, ...] | str) -> tuple[Measure, ...]:
    """The measures with these names; a comma separates them in one string."""
    wanted = [part.strip() for part in names.split(",")] if isinstance(names, str) else list(names)
    for name in wanted or [""]:
        one_of("measure", name, MEASURES)
    return tuple(MEASURES[name] for name in dict.fromkeys(wanted))
