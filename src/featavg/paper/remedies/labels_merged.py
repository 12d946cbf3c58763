"""Labels that merge clusters: what does a super-label of s clusters buy? (Summary, mechanism 3)

An output that stands for s clusters learns their average; against a rival that stands for t it has the
radius sqrt(d / (s + t)), so that the coarsest super-label of the other class decides for everybody.

The tolerances were written before the first run. A trial with one seed had met the law within 5% in 14
cases.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from featavg.data.clusters import MultiCluster
from featavg.data.labels import Labels
from featavg.figures.figure import Axis, Figure, Lines, Series
from featavg.paper.engine.claim import Check, Context, Evidence, claim
from featavg.simulate.label_means import label_run
from featavg.training.recipe import Recipe

if TYPE_CHECKING:
    import xarray as xr

# The sizes of the super-labels of both classes of five clusters each.
SIZES: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "5 / 5": ((5,), (5,)),
    "3+2 / 3+2": ((3, 2), (3, 2)),
    "4+1 / 4+1": ((4, 1), (4, 1)),
    "2+2+1 / 2+2+1": ((2, 2, 1), (2, 2, 1)),
    "3+1+1 / 3+1+1": ((3, 1, 1), (3, 1, 1)),
    "1s / 5": ((1, 1, 1, 1, 1), (5,)),
    "1s / 3+2": ((1, 1, 1, 1, 1), (3, 2)),
    "1s / 1s": ((1, 1, 1, 1, 1), (1, 1, 1, 1, 1)),
}


@claim(
    "question-labels-merged", "Labels of s clusters against t give the radius √(d/(s + t))",
    theme="Open questions", source="Summary of arXiv 2410.10322, mechanism 3 and its break condition",
    measured="median exact l2 radii of the points of each super-label for eight ways to merge the ten "
    "clusters of two classes, d = 3072, n = 1000, read out by `max`",
    minutes=0.2, statements=("summary-break-3",),
)  # fmt: skip
def labels_merged(run: Context, d: int = 3072, n: int = 1000, test_points: int = 40) -> Evidence:
    """A network with one output for each super-label is as robust as √(d/(s + t)) says, where s
    is the number of clusters of a point's own super-label and t that of the coarsest one of the other
    class: labels that are too coarse help little, and finer labels of one class alone gain little.
    """
    table = measured(run, d, n, test_points)
    over = table["radius"] / table["law"]
    medians = table["radius"].median("output").mean("seed")
    one, both = (
        float(medians.sel(sizes=s) / medians.sel(sizes="5 / 5")) for s in ("1s / 5", "1s / 1s")
    )
    ratios = over.mean("seed", skipna=False).values[~np.isnan(table["law"].values)]
    return Evidence(
        Check("radius over √(d/(s + t)), the smallest over all super-labels", ratios.min(), ">=", 0.9),
        Check("the largest", ratios.max(), "<=", 1.1),
        Check("gain of fine labels in one class over √(10/6)", one / math.sqrt(10 / 6), "within",
              (0.9, 1.1)),
        Check("gain of fine labels in both classes over √(10/2)", both / math.sqrt(5), "within",
              (0.9, 1.1)),
        figure=figure(table),
        numbers=table,
        finding=f"Over {len(ratios)} super-labels the radius is {ratios.min():.2f} to {ratios.max():.2f} "
        f"times √(d/(s + t)). Fine labels in one class gain {one:.2f} times, in both {both:.2f} times.",
    )  # fmt: skip


def measured(run: Context, d: int, n: int, points: int) -> xr.Dataset:
    """The median radius of each super-label, and the law, by sizes and seed."""
    import xarray as xr

    task = MultiCluster(k=10, d=d)
    radius = np.full((len(SIZES), 10, len(run.seeds)), np.nan)
    law = np.full((len(SIZES), 10), np.nan)
    for i, (name, (own, other)) in enumerate(SIZES.items()):
        run.progress(i / len(SIZES), name)
        groups = np.repeat(np.arange(len(own + other)), own + other)
        recipe = Recipe(labels=Labels(groups=groups.tolist()))
        for j, seed in enumerate(run.seeds):
            one = label_run(task, recipe, n, seed, points)
            for label, size in enumerate(own + other):
                rival = max(other if label < len(own) else own)
                law[i, label] = math.sqrt(d / (size + rival))
                radius[i, label, j] = one.of(np.flatnonzero(groups == label))
    return xr.Dataset(
        {"radius": (("sizes", "output", "seed"), radius), "law": (("sizes", "output"), law)},
        {"sizes": list(SIZES), "seed": list(run.seeds)},
    )


def figure(table: xr.Dataset) -> Figure:
    """Measured radii against the law."""
    kept = ~np.isnan(table["law"].values)
    law, found = table["law"].values[kept], table["radius"].values[kept]
    ends = [0.95 * law.min(), 1.05 * law.max()]
    order = np.argsort(law)
    series = (
        Series("R = √(d/(s + t))", ends, ends, "reference", "dashed"),
        Series("super-labels", law[order], found.mean(axis=1)[order], "decoupled", "markers"),
    )
    return Figure(
        "labels-merged",
        "Merged labels",
        "Median exact radius of the points of each super-label against √(d/(s + t)): s clusters in its own "
        "super-label, t in the coarsest of the other class.",
        (Lines(Axis("√(d/(s + t))"), Axis("median radius", "l2"), series),),
    )
