"""Why averages are fragile: which neurons are active on a point, and how steep the network is there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.data.clusters import MultiCluster
from featavg.figures.figure import Axis, Figure, Lines, Series
from featavg.figures.marks import Role
from featavg.figures.result import Result
from featavg.measures.power_law import power_law_exponent
from featavg.nets.ideal import biased_robust
from featavg.nets.two_layer import TwoLayer
from featavg.paper.theorems.radius_runs import (
    RADIUS_CLUSTERS,
    RADIUS_CLUSTERS_D,
    RadiusCase,
    fresh,
    networks,
)
from featavg.progress import Progress, silent

POINTS = 200
ROLES: dict[str, tuple[str, Role]] = {
    "averaged": ("averaged, trained", "averaged"),
    "biased": ("robust solution", "decoupled"),
}


@dataclass(frozen=True, eq=False, repr=False)
class Slopes(Result):
    """Steepness and activity at fresh points against k, d = CLUSTERS_D.

    Attributes:
        steepness: median of sqrt(d) |grad f(x)| / (y f(x)): the gradient at equal margin; a row for
            each k, a column for each seed.
        active: mean share of the neurons of the point's own class that are active on it.
        one_neuron: share of points on which the neuron of their cluster is active and no other.

    Returned by `fa.slopes`, which has an example.
    """

    steepness: Mapping[str, Float[ndarray, "v s"]]
    active: Mapping[str, Float[ndarray, "v s"]]
    one_neuron: Float[ndarray, "v s"]

    @property
    def ratio(self) -> Float[ndarray, "v s"]:
        """Steepness of the averaged network over that of the robust solution."""
        return self.steepness["averaged"] / self.steepness["biased"]

    def exponents(self) -> list[float]:
        """Of that ratio in k, for each seed."""
        return [power_law_exponent(RADIUS_CLUSTERS, column) for column in self.ratio.T]

    def figure(self) -> Figure:
        """Steepness and activity against k."""
        axis = Axis(
            "clusters k",
            log=True,
            ticks=RADIUS_CLUSTERS,
            tick_labels=tuple(map(str, RADIUS_CLUSTERS)),
        )

        def lines(tables: Mapping[str, ndarray]) -> tuple[Series, ...]:
            return tuple(
                Series.over_seeds(
                    ROLES[name][0], RADIUS_CLUSTERS, table.T, ROLES[name][1], "line+markers"
                )
                for name, table in tables.items()
            )

        return Figure(
            "slopes",
            "At equal margin the average is steeper",
            "Left: median of √d |∇f(x)| / (y f(x)) at fresh points. Right: share of the neurons of a "
            f"point's class that are active on it. d = {RADIUS_CLUSTERS_D:,}; band: seeds.",
            (
                Lines(axis, Axis("√d |∇f| / margin", log=True), lines(self.steepness)),
                Lines(axis, Axis("share of own-class neurons active"), lines(self.active)),
            ),
        )

    def to_json(self) -> dict[str, Any]:
        """Every number."""
        return {
            "clusters": list(RADIUS_CLUSTERS),
            "steepness": {name: table.tolist() for name, table in self.steepness.items()},
            "active": {name: table.tolist() for name, table in self.active.items()},
            "one_neuron": self.one_neuron.tolist(),
        }

    def summary(self) -> str:
        """The ratio for each k."""
        lines = [
            f"  k = {k:>2}: {np.median(row):.2f}"
            for k, row in zip(RADIUS_CLUSTERS, self.ratio, strict=True)
        ]
        return "\n".join(["|∇f| at equal margin, averaged over robust solution", *lines])


def slopes(seeds: tuple[int, ...] = (0, 1, 2, 3, 4), progress: Progress = silent) -> Slopes:
    """Measure averaged trained networks and the robust solution at the same fresh points.

    Args:
        seeds: one network and one sample for each.
        progress: called with the share done and a note.

    >>> import featavg as fa
    >>> fa.slopes(seeds=(0,))
    |∇f| at equal margin, averaged over robust solution
    ...
    """
    steepness: dict[str, list[list[float]]] = {"averaged": [], "biased": []}
    active: dict[str, list[list[float]]] = {"averaged": [], "biased": []}
    alone = []
    for i, k in enumerate(RADIUS_CLUSTERS):
        progress(i / len(RADIUS_CLUSTERS), f"k = {k}")
        case = RadiusCase("coarse", k=k, d=RADIUS_CLUSTERS_D, paper=False)
        robust = biased_robust(case.task)
        nets = {"averaged": networks(case, seeds), "biased": (robust,) * len(seeds)}
        for name, row in nets.items():
            pairs = [_at_points(case.task, net, seed) for net, seed in zip(row, seeds, strict=True)]
            steepness[name].append([pair[0] for pair in pairs])
            active[name].append([pair[1] for pair in pairs])
        alone.append([_one_neuron(case.task, robust, seed) for seed in seeds])
    return Slopes(
        {name: np.array(rows) for name, rows in steepness.items()},
        {name: np.array(rows) for name, rows in active.items()},
        np.array(alone),
    )


def _at_points(task: MultiCluster, net: TwoLayer, seed: int) -> tuple[float, float]:
    """Median steepness at equal margin, and mean share of own-class neurons that are active."""
    test = fresh(task, POINTS, seed)
    x = test.coordinates(net.dimension)
    on = net.preactivations(x) >= 0
    gradients = (on * net.head[0]) @ net.weights
    margins = test.y * net(x)[:, 0]
    steep = np.sqrt(task.d) * np.linalg.norm(gradients, axis=1) / margins
    own = np.sign(net.head[0])[None, :] == test.y[:, None]
    return float(np.median(steep[margins > 0])), float((on & own).sum() / own.sum())


def _one_neuron(task: MultiCluster, net: TwoLayer, seed: int) -> float:
    """Share of points on which the neuron of their cluster is active and no other."""
    test = fresh(task, POINTS, seed)
    on = net.preactivations(test.coordinates(net.dimension)) >= 0
    return float(np.mean(np.all(on == (test.clusters[:, None] == np.arange(task.k)), axis=1)))
