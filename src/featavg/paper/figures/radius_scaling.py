"""How the exact radius grows with d and falls with k: trained networks and those written down."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.data.clusters import MultiCluster
from featavg.errors import one_of
from featavg.figures.figure import Axis, Figure, Lines, Series
from featavg.figures.marks import Role
from featavg.figures.result import Result
from featavg.measures.power_law import power_law_exponent
from featavg.nets.ideal import biased_robust, feature_averaging, feature_decoupling
from featavg.nets.two_layer import TwoLayer
from featavg.paper.theorems.radius_runs import (
    RADIUS_CLUSTERS,
    RADIUS_CLUSTERS_D,
    RADIUS_DIMENSIONS,
    K,
    RadiusCase,
    fresh,
    measured_radii,
    seed_medians,
)
from featavg.progress import Progress, silent
from featavg.robustness.exact.result import Radii
from featavg.robustness.radii import radii

POINTS, IDEAL_POINTS = 100, 60
Table = Float[ndarray, "_ s"]
# Kind of network: what it is called, its colour, and what is trained (labels, read-out) if anything.
KINDS: dict[str, tuple[str, Role, tuple[str, str] | None]] = {
    "averaged": ("averaged, trained", "averaged", ("coarse", "sum")),
    "decoupled-max": ("decoupled, trained, max", "decoupled", ("fine", "max")),
    "decoupled-sum": ("decoupled, trained, sum", "neutral", ("fine", "sum")),
    "f_FA": ("f<sub>FA</sub>", "averaged", None),
    "f_FD": ("f<sub>FD</sub>", "neutral", None),
    "biased": ("f<sub>FD</sub> with biases", "decoupled", None),
}


def ideal_network(kind: str, task: MultiCluster) -> TwoLayer:
    """One of the networks that are written down rather than trained."""
    if kind == "f_FA":
        return feature_averaging(task)
    return feature_decoupling(task) if kind == "f_FD" else biased_robust(task)


@cache
def radii_of_kind(kind: str, k: int, d: int, seeds: tuple[int, ...]) -> Radii:
    """Exact radii of fresh points under one kind of network, all seeds in a row."""
    one_of("kind", kind, tuple(KINDS))
    trained = KINDS[kind][2]
    if trained is not None:
        labels, readout = trained
        return measured_radii(RadiusCase(labels, k=k, d=d, paper=False), readout, seeds, POINTS)
    task = MultiCluster(k=k, d=d)
    net = ideal_network(kind, task)
    return Radii.joined([radii(net, fresh(task, IDEAL_POINTS, seed)) for seed in seeds])


@dataclass(frozen=True, eq=False, repr=False)
class RadiusGrowth(Result):
    """Median radius of each seed: against d at k = 10, and against k at d = CLUSTERS_D.

    Attributes:
        seeds: whose medians the columns are.
        by_d, by_k: for each kind of network, a row for each value.

    Returned by `fa.radius_growth`, which has an example.
    """

    seeds: tuple[int, ...]
    by_d: Mapping[str, Table]
    by_k: Mapping[str, Table]

    def in_d(self, kind: str) -> list[float]:
        """The exponent of the median radius in d, for each seed."""
        return [power_law_exponent(RADIUS_DIMENSIONS, column) for column in self.by_d[kind].T]

    def in_k(self, kind: str) -> list[float]:
        """The exponent of the median radius in k, for each seed."""
        return [power_law_exponent(RADIUS_CLUSTERS, column) for column in self.by_k[kind].T]

    def figure(self) -> Figure:
        """Both, logarithmic, with sqrt(d/k) beside them."""
        ticks = tuple(map(str, RADIUS_CLUSTERS))
        sides = (
            (
                Axis("dimension d", log=True),
                RADIUS_DIMENSIONS,
                self.by_d,
                np.sqrt(np.array(RADIUS_DIMENSIONS) / K),
            ),
            (
                Axis("clusters k", log=True, ticks=RADIUS_CLUSTERS, tick_labels=ticks),
                RADIUS_CLUSTERS,
                self.by_k,
                np.sqrt(RADIUS_CLUSTERS_D / np.array(RADIUS_CLUSTERS)),
            ),
        )
        panels = []
        for axis, values, tables, theory in sides:
            lines = [
                Series.over_seeds(KINDS[kind][0], values, table.T, KINDS[kind][1], "line+markers")
                for kind, table in tables.items()
            ]
            lines.append(Series("√(d/k)", values, theory, "reference", "dashed"))
            panels.append(Lines(axis, Axis("median radius", "l2", log=True), tuple(lines)))
        return Figure(
            "growth",
            "How the radius grows with d and falls with k",
            "Median exact l2 radius of fresh points; band: seeds.",
            tuple(panels),
        )

    def to_json(self) -> dict[str, Any]:
        """The median radius of every seed at every d and k."""
        return {
            "seeds": list(self.seeds),
            "dimensions": list(RADIUS_DIMENSIONS),
            "clusters": list(RADIUS_CLUSTERS),
            "by_d": {kind: table.tolist() for kind, table in self.by_d.items()},
            "by_k": {kind: table.tolist() for kind, table in self.by_k.items()},
        }

    def summary(self) -> str:
        """The exponents of each kind."""
        lines = [
            f"  {kind}: d^{np.mean(self.in_d(kind)):.3f} k^{np.mean(self.in_k(kind)):.3f}, at the "
            f"largest d {np.median(table[-1]) / math.sqrt(RADIUS_DIMENSIONS[-1] / K):.3f} √(d/k)"
            for kind, table in self.by_d.items()
        ]
        return "\n".join(["Median exact l2 radii", *lines])


def radius_growth(
    kinds: tuple[str, ...] = ("averaged",),
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4),
    progress: Progress = silent,
) -> RadiusGrowth:
    """Exact median radii of some kinds of networks (keys of `KINDS`) against d and against k.

    Args:
        kinds: which networks, keys of `KINDS`.
        seeds: one network and one sample for each.
        progress: called with the share done and a note.

    >>> import featavg as fa
    >>> fa.radius_growth(seeds=(0,))
    Median exact l2 radii
    ...
    """
    by_d, by_k = {}, {}
    for i, kind in enumerate(kinds):
        progress(i / len(kinds), kind)
        by_d[kind] = np.array(
            [seed_medians(radii_of_kind(kind, K, d, seeds), seeds) for d in RADIUS_DIMENSIONS]
        )
        by_k[kind] = np.array(
            [
                seed_medians(radii_of_kind(kind, k, RADIUS_CLUSTERS_D, seeds), seeds)
                for k in RADIUS_CLUSTERS
            ]
        )
    return RadiusGrowth(seeds, by_d, by_k)
