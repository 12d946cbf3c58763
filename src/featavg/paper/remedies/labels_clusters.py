"""Which labels: those that merge clusters, clusters without any, which points to label, and found ones.

An output that stands for s clusters learns their average; against a rival that stands for t it has the
radius sqrt(d / (s + t)), so that the coarsest super-label of the other class decides for everybody. The
tolerances of all three claims were written before their first runs. A trial with one seed had met the
law within 5% in 14 cases, and had 14.4 for 5% of 200 points at random and 33.0 for two of each cluster;
clusters without fine labels had no trial: what the others keep follows from an output that learns its own
feature and a fifth of each unlabelled one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from featavg.data.clusters import MultiCluster
from featavg.data.compress import TrainingSet, draw
from featavg.data.labels import Labels
from featavg.data.streams import stream
from featavg.figures.figure import Axis, Bar, Bars, Figure, Lines, Series
from featavg.figures.marks import Role
from featavg.nets.readouts._readout import score
from featavg.paper.engine.claim import Check, Context, Evidence, claim
from featavg.paper.engine.tables import tabulate
from featavg.progress import Progress, part
from featavg.robustness.radii import radii
from featavg.simulate.label_means import label_run, mean_run
from featavg.training.recipe import Recipe
from featavg.training.train import train

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
# Clusters of each class without fine labels.
WITHOUT = (0, 1, 2, 3, 4, 5)
KINDS: dict[str, tuple[str, Role]] = {
    "with": ("clusters with fine labels", "decoupled"),
    "lacking": ("clusters without", "averaged"),
}
# How points to label are chosen, and how many for each cluster.
WAYS = ("random", "of each cluster", "nearest the boundary", "farthest from it")
PER_CLUSTER = (1, 2, 5)


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

    def measure(sizes: str, seed: int) -> dict[str, ndarray]:
        own, other = SIZES[sizes]
        groups = np.repeat(np.arange(len(own + other)), own + other)
        recipe = Recipe(labels=Labels(groups=groups.tolist()))
        one = label_run(MultiCluster(k=10, d=d), recipe, n, seed, test_points)
        radius, law = np.full((2, 10), np.nan)
        for label, size in enumerate(own + other):
            rival = max(other if label < len(own) else own)
            law[label] = math.sqrt(d / (size + rival))
            radius[label] = one.of(np.flatnonzero(groups == label))
        return {"radius": radius, "law": law}

    names = "radius", "law"
    table = tabulate(measure, run.seeds, run.progress, ("output",), missing=names, sizes=tuple(SIZES))
    table = table.transpose("sizes", "output", "seed").assign(law=table["law"].isel(seed=0))
    over = table["radius"] / table["law"]
    medians = table["radius"].median("output").mean("seed")
    one, both = (float(medians.sel(sizes=s) / medians.sel(sizes="5 / 5")) for s in ("1s / 5", "1s / 1s"))
    ratios = over.mean("seed", skipna=False).values[~np.isnan(table["law"].values)]
    return Evidence(
        Check("radius over √(d/(s + t)), the smallest over all super-labels", ratios.min(), ">=", 0.9),
        Check("the largest", ratios.max(), "<=", 1.1),
        Check("gain of fine labels in one class over √(10/6)", one / math.sqrt(10 / 6), "within", (0.9, 1.1)),
        Check("gain of fine labels in both classes over √(10/2)", both / math.sqrt(5), "within", (0.9, 1.1)),
        figure=merged_figure(table),
        numbers=table,
        finding=f"Over {len(ratios)} super-labels the radius is {ratios.min():.2f} to {ratios.max():.2f} "
        f"times √(d/(s + t)). Fine labels in one class gain {one:.2f} times, in both {both:.2f} times.",
    )


def merged_figure(table: xr.Dataset) -> Figure:
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


@claim(
    "question-labels-missing", "Clusters with fine labels keep most of their radius, those without do not",
    theme="Open questions", source="Summary of arXiv 2410.10322, mechanism 3 and its break condition",
    measured="median exact l2 radius (by `max`) of the points of clusters with and without fine labels, none to "
    "all five of each class without, k = 10, d = 3072, n = 1000, beside its prediction by means",
    minutes=0.2, statements=("summary-break-3",),
)  # fmt: skip
def labels_missing(run: Context, k: int = 10, d: int = 3072, n: int = 1000, test_points: int = 60) -> Evidence:
    """If one cluster of five in each class has no fine labels, the others keep most of their
    radius; the cluster without has less, and all lose as more clusters have none.
    """
    task = MultiCluster(k=k, d=d)

    def measure(without: int, seed: int) -> dict[str, float]:
        lacking = [j for j in range(k) if j % (k // 2) < without]
        sides = {"with": [j for j in range(k) if j not in lacking], "lacking": lacking}
        recipe = Recipe(labels=Labels(without=lacking))
        runs = {"": label_run(task, recipe, n, seed, test_points), "_predicted": mean_run(task, recipe, n, seed)}
        return {
            f"{side}{end}": one.of(clusters) if clusters else math.nan
            for end, one in runs.items()
            for side, clusters in sides.items()
        }

    names = tuple(f"{side}{end}" for end in ("", "_predicted") for side in KINDS)
    table = tabulate(measure, run.seeds, run.progress, missing=names, without=WITHOUT)
    whole = table["with"].sel(without=0)
    kept, left = table["with"].sel(without=1) / whole, table["lacking"].sel(without=1) / whole
    mean = table.mean("seed", skipna=True)
    errors = [abs(mean[f"{name}_predicted"] / mean[name] - 1).max() for name in KINDS]
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
        figure=missing_figure(table),
        numbers=table,
        finding=f"Clusters without fine labels in each class, and the radius of those with and without: {said} "
        f"(all with: {float(whole.mean()):.1f}). The means are off by at most {100 * float(max(errors)):.0f}%.",
    )


def missing_figure(table: xr.Dataset) -> Figure:
    """Both radii against the number of clusters without fine labels."""
    x, series = table["without"].values, []
    for name, (label, role) in KINDS.items():
        runs = table[name]
        ends = runs.min("seed", skipna=False).values, runs.max("seed", skipna=False).values
        middle = runs.mean("seed", skipna=False).values
        series.append(Series(label, x, middle, role, "markers", *ends))
        means = table[f"{name}_predicted"].mean("seed").values
        series.append(Series(f"{label}, means", x, means, role, "dashed"))
    axes = Axis("clusters of each class without fine labels"), Axis("median radius", "l2")
    return Figure(
        "labels-missing",
        "Clusters without fine labels",
        "Median exact radius of points of clusters with and without fine labels: measured, and "
        "predicted by the mean of each kind of point.",
        (Lines(*axes, tuple(series)),),
    )


@claim(
    "question-labels-chosen", "A few labels of each cluster beat as many at random or near the boundary",
    theme="Open questions", source="Summary of arXiv 2410.10322, design tradeoffs: finer labels cost",
    measured="median exact l2 radius (by `max`) with 10, 20 and 50 fine labels that are chosen in four ways, "
    "k = 10, d = 3072, n = 500; the mean of twenty seeds",
    minutes=0.5, statements=("summary-tradeoffs",), times=4,
)  # fmt: skip
def labels_chosen(run: Context, k: int = 10, d: int = 3072, n: int = 500, test_points: int = 40) -> Evidence:
    """With as many fine labels, a few of each cluster give a larger radius than labels of random points;
    labels of the points nearest the boundary are no better than random ones.
    """
    task = MultiCluster(k=k, d=d)

    def measure(counts: Sequence[int], seed: int) -> dict[str, list[list[float]]]:
        data, sample = draw(task, n, k, seed), task.sample(test_points, seed)
        margins = coarse_margins(data)

        def median(way: str, each: int) -> float:
            known = chosen(way, data, margins, each, seed)
            net = train(data, Recipe(labels=Labels(known=known.tolist()))).net
            return radii(net, sample, readout="max", jobs=1).median[1]

        return {"radius": [[median(way, each) for each in counts] for way in WAYS]}

    def radii_of(counts: Sequence[int], seeds: tuple[int, ...], progress: Progress) -> xr.Dataset:
        found = tabulate(partial(measure, counts), seeds, progress, ("way", "each"))
        found = found.assign_coords(way=list(WAYS), each=list(counts))
        return found.transpose("way", "each", "seed")

    # The statement is about two labels a cluster; the other numbers are drawn beside it, from fewer seeds.
    table = radii_of(PER_CLUSTER, run.seeds[:5], part(run.progress, 0.0, 0.4))
    radius = radii_of((2,), run.seeds, part(run.progress, 0.4, 1.0))["radius"].sel(each=2)
    random = radius.sel(way="random").mean("seed", skipna=False)
    gain = {way: radius.sel(way=way) / random for way in WAYS[1:]}
    mean = table["radius"].mean("seed", skipna=False)
    said = "; ".join(
        f"{way}: {', '.join(f'{float(mean.sel(way=way, each=e)):.1f}' for e in PER_CLUSTER)}" for way in WAYS
    )
    return Evidence(
        Check("two labels of each cluster over as many at random", gain["of each cluster"], ">=", 1.1,
              of="mean"),
        Check("labels nearest the boundary over as many at random", gain["nearest the boundary"], "<=", 1.1,
              of="mean"),
        Check("labels farthest from it over as many at random", gain["farthest from it"], "<=", 1.1,
              role="note", of="mean"),
        figure=chosen_figure(table, k),
        numbers={"by_count": table, "two_of_each": radius.values},
        finding=f"Median radius with {', '.join(str(k * e) for e in PER_CLUSTER)} labels: {said}.",
    )  # fmt: skip


def coarse_margins(data: TrainingSet) -> Float[ndarray, " n"]:
    """How far the score of each training point is from zero without any fine label."""
    net = train(data, Recipe(labels=Labels(share=0.0))).net
    return data.y * score(net(data.x), data.task.positive_clusters, "max")


def chosen(way: str, data: TrainingSet, margins: Float[ndarray, " n"], each: int, seed: int) -> Bool[ndarray, " n"]:
    """Which points carry their fine label."""
    order = stream(seed, "chosen labels").permutation(len(margins))
    if way == "of each cluster":
        clusters = data.clusters[order]
        picked = [order[clusters == j][:each] for j in range(data.task.k)]
        return np.isin(np.arange(len(margins)), np.concatenate(picked))
    if way != "random":
        order = np.argsort(margins if way == "nearest the boundary" else -margins)
    return np.isin(np.arange(len(margins)), order[: each * data.task.k])


def chosen_figure(table: xr.Dataset, k: int) -> Figure:
    """Bars of the radius, one group for each number of labels."""
    roles: tuple[Role, ...] = ("reference", "decoupled", "averaged", "neutral")
    by_seed = table["radius"].transpose("way", "seed", "each").values
    bars = tuple(map(Bar.over_seeds, WAYS, by_seed, roles))
    names = tuple(f"{k * each} labels" for each in PER_CLUSTER)
    return Figure(
        "labels-chosen",
        "Which points to label",
        "Median exact radius by how the points with a fine label are chosen; from the smallest to the largest seed.",
        (Bars(names, bars, Axis("median radius", "l2")),),
    )


# Ways to spend two labels a cluster where clusters differ in size, with and without clustering.
SIZED_WAYS = ("random", "of each cluster", "smallest clusters", "found", "found, two of each named")
LARGEST = 4.0


@claim(
    "question-labels-found", "Where clusters differ in size, clustering plus two labels each beats labels alone",
    theme="Open questions", source="Summary of arXiv 2410.10322, design tradeoffs: finer labels cost",
    measured="median exact l2 radius (by `max`) with 20 fine labels: at random, two of each cluster, those of "
    "the smallest clusters, none but clusters that k-means finds in each class, and such clusters named by "
    "two true labels each; the clusters of a class in sizes up to 4 to 1, k = 10, d = 3072, n = 500",
    minutes=0.2, statements=("summary-tradeoffs",),
)  # fmt: skip
def labels_found(
    run: Context, k: int = 10, d: int = 3072, n: int = 500, each: int = 2, test_points: int = 40
) -> Evidence:
    """With 20 fine labels for ten clusters of unequal sizes, labels of the smallest clusters are no
    better than random ones, and clusters found by k-means and named by two labels each are better than
    those labels alone.
    """
    shares = np.tile(np.geomspace(1.0, LARGEST, k // 2), 2)
    task = MultiCluster(k=k, d=d, probabilities=tuple(shares / shares.sum()))

    def measure(seed: int) -> dict[str, list[float]]:
        data, sample = draw(task, n, k, seed), task.sample(test_points, seed)

        def median(way: str) -> float:
            labelled, known = spent(way, data, each, seed)
            net = train(labelled, Recipe(labels=Labels(known=known.tolist()))).net
            return radii(net, sample, readout="max", jobs=1).median[1]

        return {"radius": [median(way) for way in SIZED_WAYS]}

    table = tabulate(measure, run.seeds, run.progress, ("way",)).assign_coords(way=list(SIZED_WAYS))
    radius = {way: table["radius"].sel(way=way) for way in SIZED_WAYS}
    few, named = radius["of each cluster"], radius["found, two of each named"]
    said = ", ".join(f"{way} {float(values.mean()):.1f}" for way, values in radius.items())
    return Evidence(
        Check("clusters found and named by two labels each over the labels alone", named / few, ">=", 1.05),
        Check("labels of the smallest clusters over as many at random",
              radius["smallest clusters"] / radius["random"].mean(), "<=", 1.0),
        Check("clusters found, without a label, over the labels alone", radius["found"] / few, ">=", 1.05,
              role="note"),
        figure=Figure(
            "labels-found",
            "Twenty labels for clusters of unequal sizes",
            "Median exact radius by how the labels are spent; from the smallest to the largest seed.",
            (Bars(SIZED_WAYS, (Bar.over_seeds("radius", table["radius"].values, "decoupled"),),
                  Axis("median radius", "l2")),),
        ),
        numbers=table,
        finding=f"Median radius with {k * each} labels: {said}.",
    )  # fmt: skip


def spent(way: str, data: TrainingSet, each: int, seed: int) -> tuple[TrainingSet, Bool[ndarray, " n"]]:
    """The training set with the labels that a way leads to, and which points carry one."""
    task, every = data.task, np.arange(len(data.clusters))
    if way == "smallest clusters":
        order = np.argsort(np.bincount(data.clusters, minlength=task.k)[data.clusters], kind="stable")
        return data, np.isin(every, order[: each * task.k])
    if not way.startswith("found"):
        return data, chosen(way, data, np.zeros(len(every)), each, seed)
    from featavg.audit.subclasses import clustered

    found = clustered(data.x, (data.y < 0).astype(int), task.k // 2, seed)[0]
    if way == "found":
        return replace(data, clusters=found), np.ones(len(every), dtype=bool)
    true = chosen("of each cluster", data, np.zeros(len(every)), each, seed)
    votes = np.zeros((task.k, task.k))
    np.add.at(votes, (found[true], data.clusters[true]), 1)
    # A cluster without a true label says only its class, as its points do.
    voted: Bool[ndarray, " k"] = votes.sum(axis=1) > 0
    named = np.where(voted, votes.argmax(axis=1), np.arange(task.k))
    known = voted[found] | true
    return replace(data, clusters=np.where(true, data.clusters, named[found])), known
