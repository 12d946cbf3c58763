"""Which labels: those that merge clusters, clusters without any, wrong ones, which points to label, and found ones.

An output that stands for s clusters learns their average; against a rival that stands for t it has the
radius sqrt(d / (s + t)), so that the coarsest super-label of the other class decides for everybody. The
tolerances of all claims were written before their first runs. A trial with one seed had met the law within 5%
in 14 cases, and had 14.4 for 5% of 200 points at random and 33.0 for two of each cluster; clusters without
fine labels had no trial: what the others keep follows from an output that learns its own feature and a fifth
of each unlabelled one.

Wrong labels: a part is drawn at random inside the class, so that at 1 they have nothing to do with the
clusters: the control. A network that is trained long enough memorises them. Tolerances after a trial with
one seed (radii 37.9, 27.0, 17.8 for 0, 50 and 90% at random; 33.8, 26.8, 17.8, 10.8 after 10, 100, 300,
1000 steps at 50%), before the first run.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from featavg.data.clusters import MultiCluster, Sample
from featavg.data.compress import TrainingSet, draw
from featavg.data.labels import Labels
from featavg.data.streams import stream
from featavg.figures.figure import Axis, Bar, Bars, Figure, Lines, Series
from featavg.figures.marks import Role
from featavg.nets.readouts._readout import score
from featavg.paper.engine.claim import Check, Context, Evidence, claim
from featavg.paper.engine.tables import tabulate
from featavg.paper.remedies.labels_share import SOURCE, beside_means
from featavg.progress import part
from featavg.robustness.radii import radii
from featavg.simulate.label_means import label_run, mean_run
from featavg.training.recipe import Recipe
from featavg.training.train import train

MERGED_SOURCE = "Summary of arXiv 2410.10322, mechanism 3 and its break condition"
RADIUS = Axis("median radius", "l2")
# The sizes of the super-labels of both classes of five clusters each.
SIZES: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "5 / 5": ((5,), (5,)), "3+2 / 3+2": ((3, 2), (3, 2)), "4+1 / 4+1": ((4, 1), (4, 1)),
    "2+2+1 / 2+2+1": ((2, 2, 1), (2, 2, 1)), "3+1+1 / 3+1+1": ((3, 1, 1), (3, 1, 1)),
    "1s / 5": ((1, 1, 1, 1, 1), (5,)), "1s / 3+2": ((1, 1, 1, 1, 1), (3, 2)),
    "1s / 1s": ((1, 1, 1, 1, 1), (1, 1, 1, 1, 1)),
}  # fmt: skip
# Clusters of each class without fine labels.
WITHOUT = (0, 1, 2, 3, 4, 5)
KINDS: dict[str, tuple[str, Role]] = {
    "with": ("clusters with fine labels", "decoupled"),
    "lacking": ("clusters without", "averaged"),
}
# Parts of the fine labels that are random, and steps.
RANDOM = (0.0, 0.25, 0.5, 0.7, 0.9, 1.0)
STEPS = (10, 100, 300, 1000)
# Curves against n: their columns, names and colours.
LATE: tuple[tuple[str, str, Role], ...] = (
    ("half", "half random, 100 steps", "decoupled"),
    ("late", "half random, 1000 steps", "averaged"),
    ("random", "all random, 100 steps", "neutral"),
    ("none", "none, 100 steps", "reference"),
)
# How points to label are chosen, and how many for each cluster.
WAYS: dict[str, Role] = {
    "random": "reference", "of each cluster": "decoupled",
    "nearest the boundary": "averaged", "farthest from it": "neutral",
}  # fmt: skip
PER_CLUSTER = (1, 2, 5)
# Ways to spend two labels a cluster where clusters differ in size, with and without clustering.
SIZED_WAYS = ("random", "of each cluster", "smallest clusters", "found", "found, two of each named")
LARGEST = 4.0


@claim(
    "question-labels-merged", "Labels of s clusters against t give the radius √(d/(s + t))",
    theme="Open questions", source=MERGED_SOURCE,
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
    medians = table["radius"].median("output").mean("seed")
    one, both = (float(medians.sel(sizes=s) / medians.sel(sizes="5 / 5")) for s in ("1s / 5", "1s / 1s"))
    kept = ~np.isnan(table["law"].values)
    ratios = (table["radius"] / table["law"]).mean("seed", skipna=False).values[kept]
    law, found = table["law"].values[kept], table["radius"].values[kept].mean(axis=1)
    ends, order = [0.95 * law.min(), 1.05 * law.max()], np.argsort(law)
    series = (
        Series("R = √(d/(s + t))", ends, ends, "reference", "dashed"),
        Series("super-labels", law[order], found[order], "decoupled", "markers"),
    )
    return Evidence(
        Check("radius over √(d/(s + t)), the smallest over all super-labels", ratios.min(), ">=", 0.9),
        Check("the largest", ratios.max(), "<=", 1.1),
        Check("gain of fine labels in one class over √(10/6)", one / math.sqrt(10 / 6), "within", (0.9, 1.1)),
        Check("gain of fine labels in both classes over √(10/2)", both / math.sqrt(5), "within", (0.9, 1.1)),
        figure=Figure(
            "labels-merged",
            "Merged labels",
            "Median exact radius of the points of each super-label against √(d/(s + t)): s clusters in its own "
            "super-label, t in the coarsest of the other class.",
            (Lines(Axis("√(d/(s + t))"), RADIUS, series),),
        ),
        numbers=table,
        finding=f"Over {len(ratios)} super-labels the radius is {ratios.min():.2f} to {ratios.max():.2f} "
        f"times √(d/(s + t)). Fine labels in one class gain {one:.2f} times, in both {both:.2f} times.",
    )


@claim(
    "question-labels-missing", "Clusters with fine labels keep most of their radius, those without do not",
    theme="Open questions", source=MERGED_SOURCE,
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
    series = []
    for name, (label, role) in KINDS.items():
        measured, means = beside_means(label, table, "without", (name, f"{name}_predicted"), role)
        series += [measured, replace(means, role=role, style="dashed")]
    axes = Axis("clusters of each class without fine labels"), RADIUS
    return Evidence(
        Check("radius of clusters with labels, one without, over all with", kept, ">=", 0.8),
        Check("radius of the cluster without labels over all with", left, "<=", 0.8),
        Check("largest change of the radius of clusters with labels as more have none", falls, "<=", 0.5),
        Check("error of both radii predicted by means, the largest", max(errors), "<=", 0.15),
        figure=Figure(
            "labels-missing",
            "Clusters without fine labels",
            "Median exact radius of points of clusters with and without fine labels: measured, and "
            "predicted by the mean of each kind of point.",
            (Lines(*axes, tuple(series)),),
        ),
        numbers=table,
        finding=f"Clusters without fine labels in each class, and the radius of those with and without: {said} "
        f"(all with: {float(whole.mean()):.1f}). The means are off by at most {100 * float(max(errors)):.0f}%.",
    )


@claim(
    "question-labels-wrong", "Wrong fine labels harm, and more so with time: leave out rather than guess",
    theme="Open questions", source=SOURCE,
    measured="median exact l2 radius (by `max`) against the part of the fine labels that is drawn at random "
    "inside the class and against steps, k = 10, d = 3072, n = 1000, beside its prediction by means",
    tier="full", minutes=2, statements=("summary-tradeoffs",),
)  # fmt: skip
def labels_wrong(run: Context, k: int = 10, d: int = 3072, n: int = 1000, test_points: int = 20) -> Evidence:
    """Fine labels of which a part is random inside the class give a smaller radius the larger that
    part is and the longer training lasts; random labels that have nothing to do with clusters are no
    better than none, and 10% right labels alone are better than the same among 90% random ones.
    """
    task = MultiCluster(k=k, d=d)

    def measure(random: float, steps: int, seed: int) -> dict[str, float]:
        # A random label is the right one with probability 2/k.
        recipe = Recipe(labels=Labels(wrong=random * (k // 2 - 1) / (k // 2)), steps=steps)
        one = label_run(task, recipe, n, seed, test_points)
        return {"radius": one.radius, "predicted": mean_run(task, recipe, n, seed).radius}

    table = tabulate(measure, run.seeds, run.progress, random=RANDOM, steps=STEPS)
    for name, share in (("none", 0.0), ("tenth", 0.1)):
        given = Recipe(labels=Labels(share=share))
        table[name] = "seed", [label_run(task, given, n, seed, test_points).radius for seed in run.seeds]
    radius, usual = table["radius"], table["radius"].sel(steps=100)
    mean = table.mean("seed", skipna=False)
    error = abs(mean["predicted"] / mean["radius"] - 1)
    harm = radius.sel(random=0.5, steps=1000) / radius.sel(random=0.5, steps=10)
    control, guess = usual.sel(random=1.0) / table["none"], usual.sel(random=0.9) / table["tenth"]
    half = usual.sel(random=0.5) / usual.sel(random=0.0)
    at_half = ", ".join(f"{float(mean['radius'].sel(random=0.5, steps=s)):.1f}" for s in STEPS)
    series: list[Series] = []
    for s, shade in zip(STEPS, np.linspace(0.3, 1, len(STEPS)), strict=True):
        series += beside_means(f"{s} steps", table.sel(steps=s), "random", ("radius", "predicted"), "averaged", shade)
    return Evidence(
        Check("radius at 50% random labels: after 1000 steps over after 10", harm, "<=", 0.5),
        Check("radius at 50% random labels over that at none, 100 steps", half, "<=", 0.85),
        Check("radius at 100% random labels over that without fine labels", control, "<=", 1.05),
        Check("90% random labels over 10% right ones and no others", guess, "<=", 0.7),
        Check("error of the radius predicted by means, the largest", error.max(skipna=False), "<=", 0.2, role="note"),
        Check("the same after 10 and 100 steps", error.sel(steps=[10, 100]).max(skipna=False), "<=", 0.2, role="note"),
        figure=Figure(
            "labels-wrong",
            "Wrong fine labels",
            "Median exact radius against the part of the fine labels that is drawn at random inside the class, after "
            "more and more steps: measured, and predicted by the mean of each kind of point.",
            (Lines(Axis("part of the fine labels that is random"), RADIUS, tuple(series)),),
        ),
        numbers=table,
        finding=f"At 50% random labels the radius is {at_half} after {', '.join(map(str, STEPS))} steps. Random "
        f"labels alone have {float(control.mean()):.2f} of the radius without any; 90% random ones have "
        f"{float(guess.mean()):.2f} of what their right tenth has alone. The means are off by at most "
        f"{100 * float(error.max()):.0f}%.",
    )


@claim(
    "question-labels-memorised", "More points make wrong labels harmless for longer",
    theme="Open questions", source=SOURCE,
    measured="median exact l2 radius (by `max`) with half of the fine labels random inside the class, after 100 "
    "and 1000 steps, against n; as a control all of them random; k = 10, d = 3072",
    tier="full", minutes=1, statements=("summary-tradeoffs",),
)  # fmt: skip
def labels_memorised(run: Context, sizes: tuple[int, ...] = (125, 250, 500, 1000), test_points: int = 20) -> Evidence:
    """With half of the fine labels random, the radius after long training grows with the number of
    points, since fewer of them are memorised; labels that are all random are no better than none at
    any number of points.
    """
    task = MultiCluster(k=10, d=3072)

    def measure(n: int, seed: int) -> dict[str, float]:
        half, dealt, none = Labels(wrong=0.4), Labels(wrong=0.8), Labels(share=0.0)
        recipes = {"half": Recipe(labels=half), "late": Recipe(labels=half, steps=1000)}
        recipes |= {"random": Recipe(labels=dealt), "none": Recipe(labels=none)}
        return {name: label_run(task, recipe, n, seed, test_points).radius for name, recipe in recipes.items()}

    table = tabulate(measure, run.seeds, run.progress, n=sizes)
    mean, first, last = table.mean("seed", skipna=False), sizes[0], sizes[-1]
    more = table["late"].sel(n=last) / table["late"].sel(n=first)
    control = (table["random"] / table["none"]).mean("seed").max()
    said = ", ".join(
        f"{float(mean['half'].sel(n=n)):.1f} and {float(mean['late'].sel(n=n)):.1f} (n = {n})" for n in sizes
    )
    lines = tuple(
        Series.over_seeds(label, sizes, table[name].transpose("seed", "n").values, role, "line+markers")
        for name, label, role in LATE
    )
    return Evidence(
        Check(f"radius after 1000 steps, n = {last} over n = {first}", more, ">=", 1.3),
        Check("all random over none, 100 steps, the largest over n", control, "<=", 1.1),
        figure=Figure(
            "labels-memorised",
            "Wrong labels and the number of points",
            "Median exact radius with half of the fine labels random, after 100 and 1000 steps, with all "
            "of them random, and with none; from the smallest to the largest seed.",
            (Lines(Axis("training points n", log=True), RADIUS, lines),),
        ),
        numbers=table,
        finding=f"With half of the labels random the radius is, after 100 and after 1000 steps, {said}.",
    )


@claim(
    "question-labels-chosen", "A few labels of each cluster beat as many at random or near the boundary",
    theme="Open questions", source=SOURCE,
    measured="median exact l2 radius (by `max`) with 10, 20 and 50 fine labels that are chosen in four ways, "
    "k = 10, d = 3072, n = 500; the mean of twenty seeds",
    minutes=0.5, statements=("summary-tradeoffs",), times=4,
)  # fmt: skip
def labels_chosen(run: Context, k: int = 10, d: int = 3072, n: int = 500, test_points: int = 40) -> Evidence:
    """With as many fine labels, a few of each cluster give a larger radius than labels of random points;
    labels of the points nearest the boundary are no better than random ones.
    """
    task = MultiCluster(k=k, d=d)

    @cache
    def drawn(seed: int) -> tuple[TrainingSet, Sample, Float[ndarray, " n"]]:
        data = draw(task, n, k, seed)
        net = train(data, Recipe(labels=Labels(share=0.0))).net
        # How far the score of each training point is from zero without any fine label.
        margins = data.y * score(net(data.x), task.positive_clusters, "max")
        return data, task.sample(test_points, seed), margins

    def measure(way: str, each: int, seed: int) -> dict[str, float]:
        data, sample, margins = drawn(seed)
        return {"radius": median(data, chosen(way, data, margins, each, seed), sample)}

    # The statement is about two labels a cluster; the other numbers are drawn beside it, from fewer seeds.
    table = tabulate(measure, run.seeds[:5], part(run.progress, 0.0, 0.4), way=tuple(WAYS), each=PER_CLUSTER)
    radius = tabulate(measure, run.seeds, part(run.progress, 0.4, 1.0), way=tuple(WAYS), each=(2,))["radius"][:, 0]
    random = radius.sel(way="random").mean("seed", skipna=False)
    gain = {way: radius.sel(way=way) / random for way in WAYS}
    mean = table["radius"].mean("seed", skipna=False)
    said = "; ".join(
        f"{way}: {', '.join(f'{float(mean.sel(way=way, each=e)):.1f}' for e in PER_CLUSTER)}" for way in WAYS
    )
    by_seed = table["radius"].transpose("way", "seed", "each").values
    bars = tuple(map(Bar.over_seeds, WAYS, by_seed, WAYS.values()))
    return Evidence(
        Check("two labels of each cluster over as many at random", gain["of each cluster"], ">=", 1.1,
              of="mean"),
        Check("labels nearest the boundary over as many at random", gain["nearest the boundary"], "<=", 1.1,
              of="mean"),
        Check("labels farthest from it over as many at random", gain["farthest from it"], "<=", 1.1,
              role="note", of="mean"),
        figure=Figure(
            "labels-chosen",
            "Which points to label",
            "Median exact radius by how the points with a fine label are chosen; from the smallest to the largest "
            "seed.",
            (Bars(tuple(f"{k * each} labels" for each in PER_CLUSTER), bars, RADIUS),),
        ),
        numbers={"by_count": table, "two_of_each": radius.values},
        finding=f"Median radius with {', '.join(str(k * e) for e in PER_CLUSTER)} labels: {said}.",
    )  # fmt: skip


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


@claim(
    "question-labels-found", "Where clusters differ in size, clustering plus two labels each beats labels alone",
    theme="Open questions", source=SOURCE,
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

    def measure(way: str, seed: int) -> dict[str, float]:
        labelled, known = spent(way, draw(task, n, k, seed), each, seed)
        return {"radius": median(labelled, known, task.sample(test_points, seed))}

    table = tabulate(measure, run.seeds, run.progress, way=SIZED_WAYS)
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
            (Bars(SIZED_WAYS, (Bar.over_seeds("radius", table["radius"].values.T, "decoupled"),), RADIUS),),
        ),
        numbers=table,
        finding=f"Median radius with {k * each} labels: {said}.",
    )  # fmt: skip


def median(data: TrainingSet, known: Bool[ndarray, " n"], sample: Sample) -> float:
    """The upper end of the median radius after training on these fine labels."""
    net = train(data, Recipe(labels=Labels(known=known.tolist()))).net
    return radii(net, sample, readout="max", jobs=1).median[1]


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
