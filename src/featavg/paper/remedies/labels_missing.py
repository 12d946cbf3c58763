"""Clusters without any fine label: who keeps which radius?

In each class some of the five clusters never carry a fine label, all points of the others do.

The tolerances were written before the first run, without a trial: what labelled clusters keep follows from
an output that learns its own feature and a fifth of each unlabelled one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from featavg.data.clusters import MultiCluster
from featavg.data.labels import Labels
from featavg.figures.figure import Axis, Figure, Lines, Series
from featavg.figures.marks import Role
from featavg.paper.engine.claim import Check, Context, Evidence, claim
from featavg.simulate.label_means import label_run, mean_run
from featavg.training.recipe import Recipe

if TYPE_CHECKING:
    import xarray as xr

WITHOUT = (0, 1, 2, 3, 4, 5)


@claim(
    "question-labels-missing", "Clusters with fine labels keep most of their radius, those without do not",
    theme="Open questions", source="Summary of arXiv 2410.10322, mechanism 3 and its break condition",
    measured="median exact l2 radius (by `max`) of the points of clusters with and without fine labels, none to "
    "all five of each class without, k = 10, d = 3072, n = 1000, beside its prediction by means",
    minutes=0.2, statements=("summary-break-3",),
)  # fmt: skip
def labels_missing(
    run: Context, k: int = 10, d: int = 3072, n: int = 1000, test_points: int = 60
) -> Evidence:
    """If one cluster of five in each class has no fine labels, the others keep most of their
    radius; the cluster without has less, and all lose as more clusters have none.
    """
    table = measured(run, MultiCluster(k=k, d=d), n, test_points)
    whole = table["with"].sel(without=0)
    kept, left = table["with"].sel(without=1) / whole, table["lacking"].sel(without=1) / whole
    mean = table.mean("seed", skipna=True)
    errors = [abs(mean[f"{name}_predicted"] / mean[name] - 1).max() for name in ("with", "lacking")]
    falls = mean["with"].sel(without=[0, 1, 2, 3, 4]).diff("without").max(skipna=False)
    said = "; ".join(
        f"{w}: {float(mean['with'].sel(without=w)):.1f} and {float(mean['lacking'].sel(without=w)):.1f}"
        for w in (1, 2, 3, 4)
    )
    return Evidence(
        Check("radius of clusters with labels, one without, over all with", kept, ">=", 0.8),
        Check("radius of the cluster without labels over all with", left, "<=", 0.8),
        Check("largest change of the radius of clusters with labels as more have none", falls, "<=", 0.5),
        Check("error of both radii predicted by means, the largest", max(errors), "<=", 0.15),
        figure=figure(table),
        numbers=table,
        finding=f"Clusters without fine labels in each class, and the radius of those with and without: {said} "
        f"(all with: {float(whole.mean()):.1f}). The means are off by at most {100 * float(max(errors)):.0f}%.",
    )  # fmt: skip


def measured(run: Context, task: MultiCluster, n: int, points: int) -> xr.Dataset:
    """Radii of clusters with and without fine labels, measured and predicted."""
    import xarray as xr

    names = ("with", "lacking", "with_predicted", "lacking_predicted")
    cells = {name: np.full((len(WITHOUT), len(run.seeds)), np.nan) for name in names}
    half = task.k // 2
    for i, count in enumerate(WITHOUT):
        run.progress(i / len(WITHOUT), f"{count} clusters without")
        without = [j for j in range(task.k) if j % half < count]
        having = [j for j in range(task.k) if j not in without]
        recipe = Recipe(labels=Labels(without=without))
        for s, seed in enumerate(run.seeds):
            both = label_run(task, recipe, n, seed, points), mean_run(task, recipe, n, seed)
            for one, end in zip(both, ("", "_predicted"), strict=True):
                if having:
                    cells[f"with{end}"][i, s] = one.of(having)
                if without:
                    cells[f"lacking{end}"][i, s] = one.of(without)
    return xr.Dataset(
        {name: (("without", "seed"), values) for name, values in cells.items()},
        {"without": list(WITHOUT), "seed": list(run.seeds)},
    )


def figure(table: xr.Dataset) -> Figure:
    """Both radii against the number of clusters without fine labels."""
    x, series = table["without"].values, []
    kinds: dict[str, tuple[str, Role]] = {
        "with": ("clusters with fine labels", "decoupled"),
        "lacking": ("clusters without", "averaged"),
    }
    for name, (label, role) in kinds.items():
        runs = table[name].transpose("seed", "without").values
        low, high = runs.min(axis=0), runs.max(axis=0)
        series.append(Series(label, x, runs.mean(axis=0), role, "markers", low, high))
        means = table[f"{name}_predicted"].mean("seed").values
        series.append(Series(f"{label}, means", x, means, role, "dashed"))
    axes = Axis("clusters of each class without fine labels"), Axis("median radius", "l2")
    about = "Median exact radius of points of clusters with and without fine labels: measured, and predicted by"
    return Figure(
        "labels-missing",
        "Clusters without fine labels",
        f"{about} the mean of each kind of point.",
        (Lines(*axes, tuple(series)),),
    )
