"""Networks that several claims measure, trained or written down, and their exact radii: computed once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import xarray as xr
from jaxtyping import Float
from numpy import ndarray

from featavg.data.clusters import MultiCluster, Sample
from featavg.figures.marks import Role
from featavg.nets.two_layer import TwoLayer, biased_robust, feature_averaging, feature_decoupling
from featavg.paper.theorems.runs import scaled_recipe
from featavg.progress import Progress, silent
from featavg.robustness.exact.result import Radii
from featavg.robustness.radii import radii
from featavg.training.train import train

K, D, N_TRAIN = 10, 3072, 1000
# Against d at k = 10, against k at d = 100,000.
DIMENSIONS, CLUSTERS, CLUSTERS_D = (3_162, 10_000, 100_000, 1_000_000), (4, 6, 10, 16, 20), 100_000
SAMPLES = 300  # of training at any d
# Claims on radii bear 5%, and an error of 0.4% in all weights alike changes no radius at all.
TOLERANCE = 1e-3
# Test points have seeds of their own, far from those of training.
TEST = 1_000_000
POINTS, IDEAL_POINTS = 100, 60  # of each seed, for trained networks and for those written down
# Kind of network: what it is called, its colour, and what is trained (labels, read-out) if anything.
KINDS: dict[str, tuple[str, Role, tuple[str, str] | None]] = {
    "averaged": ("averaged, trained", "averaged", ("coarse", "sum")),
    "decoupled-max": ("decoupled, trained, max", "decoupled", ("fine", "max")),
    "decoupled-sum": ("decoupled, trained, sum", "neutral", ("fine", "sum")),
    "f_FA": ("f<sub>FA</sub>", "averaged", None),
    "f_FD": ("f<sub>FD</sub>", "neutral", None),
    "biased": ("f<sub>FD</sub> with biases", "decoupled", None),
}


@dataclass(frozen=True)
class Case:
    """A trained network: at the paper's setting, or by its gradient flow at any d (`flow`)."""

    labels: str
    k: int = K
    d: int = D
    n: int = N_TRAIN
    flow: bool = False

    @property
    def task(self) -> MultiCluster:
        """The distribution."""
        return MultiCluster(k=self.k, d=self.d)


def flow_case(labels: str, d: int, k: int = K) -> Case:
    """The case at any d."""
    return Case(labels, k, d, SAMPLES, flow=True)


@cache
def networks(case: Case, seeds: tuple[int, ...]) -> tuple[TwoLayer, ...]:
    """One trained network for each seed, trained as one batch."""
    if case.flow:
        recipe = scaled_recipe(case.labels, case.d, tolerance=TOLERANCE)
        net = train(case.task, recipe, n=case.n, seed=seeds).net
    else:
        net = train(case.task, labels=case.labels, n=case.n, seed=seeds).net
    return tuple(net[i] for i in range(len(seeds)))


def fresh(task: MultiCluster, points: int, seed: int) -> Sample:
    """Test points that no training has seen."""
    return task.sample(points, seed=TEST + seed)


@cache
def measured_radii(case: Case, readout: str, seeds: tuple[int, ...], points: int, gap: float = 0.01) -> Radii:
    """Radii of `points` fresh points for each seed, all seeds in a row."""
    return Radii.joined(
        [
            radii(net, fresh(case.task, points, seed), readout=readout, gap=gap)
            for net, seed in zip(networks(case, seeds), seeds, strict=True)
        ]
    )


@cache
def radii_of_kind(kind: str, k: int, d: int, seeds: tuple[int, ...]) -> Radii:
    """Exact radii of fresh points under one of `KINDS`, all seeds in a row."""
    trained = KINDS[kind][2]
    if trained is not None:
        labels, readout = trained
        return measured_radii(flow_case(labels, d, k), readout, seeds, POINTS)
    task = MultiCluster(k=k, d=d)
    if kind == "biased":
        net = biased_robust(task)
    else:
        net = feature_averaging(task) if kind == "f_FA" else feature_decoupling(task)
    return Radii.joined([radii(net, fresh(task, IDEAL_POINTS, seed)) for seed in seeds])


def seed_medians(result: Radii, seeds: tuple[int, ...]) -> Float[ndarray, " s"]:
    """The median radius of each seed; the middle of a bracket where there is one."""
    middle = (result.certified + result.attack) / 2
    return np.median(middle.reshape(len(seeds), -1), axis=1)


def growth(
    kinds: Sequence[str], seeds: tuple[int, ...], axis: str, values: Sequence[int], progress: Progress = silent
) -> xr.Dataset:
    """Median radius of each kind and seed against "d" at k = 10, or against "k" at d = 100,000."""
    table = {}
    for i, kind in enumerate(kinds):
        progress(i / len(kinds), kind)
        cases = [(K, value) if axis == "d" else (value, CLUSTERS_D) for value in values]
        rows = [seed_medians(radii_of_kind(kind, *case, seeds), seeds) for case in cases]
        table[kind] = ((axis, "seed"), np.array(rows))
    return xr.Dataset(table, {axis: list(values), "seed": list(seeds)})
