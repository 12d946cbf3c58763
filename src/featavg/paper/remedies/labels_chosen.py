"""Which points to label, at the same number of labels?

At random; as many of each cluster (which takes a look at the clusters); those nearest the boundary of a
network that was trained without fine labels; those farthest from it.

The tolerances were written before the first run. A trial with one seed had 14.4 for 5% at random of 200
points and 33.0 for two of each cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from featavg.data.clusters import MultiCluster
from featavg.data.compress import TrainingSet, draw
from featavg.data.labels import Labels
from featavg.data.streams import stream
from featavg.figures.figure import Axis, Bar, Bars, Figure
from featavg.figures.marks import Role
from featavg.nets.readouts._readout import score
from featavg.paper.engine.claim import Check, Context, Evidence, claim
from featavg.robustness.radii import radii
from featavg.training.recipe import Recipe
from featavg.training.train import train

if TYPE_CHECKING:
    import xarray as xr

WAYS = ("random", "of each cluster", "nearest the boundary", "farthest from it")
PER_CLUSTER = (1, 2, 5)


@claim(
    "question-labels-chosen", "A few labels of each cluster beat as many at random or near the boundary",
    theme="Open questions", source="Summary of arXiv 2410.10322, design tradeoffs: finer labels cost",
    measured="median exact l2 radius (by `max`) with 10, 20 and 50 fine labels that are chosen in four ways, "
    "k = 10, d = 3072, n = 500",
    minutes=0.2, statements=("summary-tradeoffs",),
)  # fmt: skip
def labels_chosen(
    run: Context, k: int = 10, d: int = 3072, n: int = 500, test_points: int = 40
) -> Evidence:
    """With as many fine labels, a few of each cluster give a larger radius than labels of random points;
    labels of the points nearest the boundary are no better than random ones.
    """
    table = measured(run, MultiCluster(k=k, d=d), n, test_points)
    radius = table["radius"].sel(each=2)
    random = radius.sel(way="random").mean("seed", skipna=False)
    gain = {way: radius.sel(way=way) / random for way in WAYS[1:]}
    mean = table["radius"].mean("seed", skipna=False)
    said = "; ".join(
        f"{way}: {', '.join(f'{float(mean.sel(way=way, each=e)):.1f}' for e in PER_CLUSTER)}"
        for way in WAYS
    )
    return Evidence(
        Check("two labels of each cluster over as many at random", gain["of each cluster"], ">=", 1.1),
        Check("labels nearest the boundary over as many at random", gain["nearest the boundary"], "<=", 1.1),
        Check("labels farthest from it over as many at random", gain["farthest from it"], "<=", 1.1,
              role="note"),
        figure=figure(table, k),
        numbers=table,
        finding=f"Median radius with {', '.join(str(k * e) for e in PER_CLUSTER)} labels: {said}.",
    )  # fmt: skip


def measured(run: Context, task: MultiCluster, n: int, points: int) -> xr.Dataset:
    """Radii by way, labels for each cluster, and seed."""
    import xarray as xr

    positive = task.positive_clusters
    radius = np.full((len(WAYS), len(PER_CLUSTER), len(run.seeds)), np.nan)
    for s, seed in enumerate(run.seeds):
        run.progress(s / len(run.seeds), f"seed {seed}")
        data, sample = draw(task, n, task.k, seed), task.sample(points, seed)
        margins = coarse_margins(data)
        for i, way in enumerate(WAYS):
            for j, each in enumerate(PER_CLUSTER):
                known = chosen(way, data, margins, each, seed)
                net = train(data, Recipe(labels=Labels(known=known.tolist()))).net
                x = sample.coordinates(net.dimension)
                exact = radii(net, x, sample.y, readout="max", positive=positive, jobs=1)
                radius[i, j, s] = exact.median[1]
    return xr.Dataset(
        {"radius": (("way", "each", "seed"), radius)},
        {"way": list(WAYS), "each": list(PER_CLUSTER), "seed": list(run.seeds)},
    )


def coarse_margins(data: TrainingSet) -> Float[ndarray, " n"]:
    """How far the score of each training point is from zero without any fine label."""
    net = train(data, Recipe(labels=Labels(share=0.0))).net
    return data.y * score(net(data.x), data.task.positive_clusters, "max")


def chosen(
    way: str, data: TrainingSet, margins: Float[ndarray, " n"], each: int, seed: int
) -> Bool[ndarray, " n"]:
    """Which points carry their fine label."""
    order = stream(seed, "chosen labels").permutation(len(margins))
    if way == "of each cluster":
        clusters = data.clusters[order]
        picked = [order[clusters == j][:each] for j in range(data.task.k)]
        return np.isin(np.arange(len(margins)), np.concatenate(picked))
    if way != "random":
        order = np.argsort(margins if way == "nearest the boundary" else -margins)
    return np.isin(np.arange(len(margins)), order[: each * data.task.k])


def figure(table: xr.Dataset, k: int) -> Figure:
    """Bars of the radius, one group for each number of labels."""
    roles: tuple[Role, ...] = ("reference", "decoupled", "averaged", "neutral")
    by_seed = table["radius"].transpose("way", "seed", "each").values
    bars = tuple(map(Bar.over_seeds, WAYS, by_seed, roles))
    names = tuple(f"{k * each} labels" for each in PER_CLUSTER)
    about = "Median exact radius by how the points with a fine label are chosen; from the smallest to the largest"
    return Figure(
        "labels-chosen",
        "Which points to label",
        f"{about} seed.",
        (Bars(names, bars, Axis("median radius", "l2")),),
    )
