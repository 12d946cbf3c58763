"""Sub-classes: found by clustering where none are given, and a probe of whether they can be distinguished."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.audit.labels import LEAST_PER_SUBCLASS
from featavg.audit.parts import Audited, Part, Row
from featavg.data.streams import stream
from featavg.errors import InputError
from featavg.measures.accuracy import Accuracy, wilson
from featavg.measures.collapse import SubclassCollapse, probe_answers
from featavg.progress import Progress, silent
from featavg.training.heads import class_features

NUMBERS = (2, 3, 4, 5, 6, 8)


@dataclass(frozen=True)
class SubclassProbe:
    """How well a linear probe names the sub-class of an image whose class is given.

    Attributes:
        label: the class.
        subclasses: how many it has.
        accuracy: of the probe, on images that it was not fitted to.
        chance: of always naming the largest sub-class.
        where: what the probe reads, the input or the features.
    """

    label: int
    subclasses: int
    accuracy: Accuracy
    chance: float
    where: str

    @property
    def above_chance(self) -> bool:
        """Whether the whole interval lies above chance."""
        return self.accuracy.low > self.chance

    @property
    def decoupled(self) -> float:
        r"""The A that a decoupled network can show with sub-classes that are known no better than this.

        If a share r of the labels is right and the others are drawn at random, a sub-class's mean
        gradient is a times its own direction and b times each of the k - 1 others, a = r + (1 - r)/k,
        b = (1 - r)/k, and A = (2ab + (k - 2) b^2) / (a^2 + (k - 1) b^2): 0 at r = 1, 1 at r = 0.
        """
        k, r = self.subclasses, (self.accuracy.low - self.chance) / max(1.0 - self.chance, 1e-9)
        b = (1.0 - max(0.0, r)) / k
        a = max(0.0, r) + b
        return (2 * a * b + (k - 2) * b**2) / (a**2 + (k - 1) * b**2)

    def __str__(self) -> str:
        return f"a probe names {self.accuracy.value:.0%} rightly, {self.chance:.0%} by chance"


class Probes(dict[int, SubclassProbe], Part):
    """The probe of each class that has two sub-classes or more."""

    def rows(self, name: str, audit: Audited) -> list[Row]:
        """Accuracy against chance, class by class."""
        each = "; ".join(f"class {c}: {probe} ({probe.where})" for c, probe in self.items())
        text = f"{each}. Near chance the sub-classes may not exist"
        return [Row("sub-class probe", text)] if self else []


def subclass_probes(
    spaces: Mapping[str, Float[ndarray, "n _"]], fine: Int[ndarray, " n"], groups: Int[ndarray, " k"], seed: int = 0
) -> Probes:
    """The better probe of several spaces for each class that has two sub-classes or more."""
    answers = {where: probe_answers(x, fine, groups, seed) for where, x in spaces.items()}
    found = Probes()
    for c in np.flatnonzero(np.bincount(groups) > 1).tolist():
        counts = np.bincount(fine[groups[fine] == c])
        inside = {where: right[groups[fine[rows]] == c] for where, (rows, right) in answers.items()}
        where = max(inside, key=lambda name: inside[name].sum())
        right = wilson(int(inside[where].sum()), max(1, len(inside[where])))
        chance = float(counts.max() / counts.sum())
        found[c] = SubclassProbe(c, int(np.sum(groups == c)), right, chance, where)
    return found


@dataclass(frozen=True)
class FeatureCollapse(SubclassCollapse, Part):
    """Collapse of the features before the last layer."""

    def rows(self, name: str, audit: Audited) -> list[Row]:
        """Details: the cosine of sub-class means, and NC1 to NC4 at both levels."""
        cosine = (
            f"{self.same_class_cosine:.2f} between sub-class means of a class, at 1 they lie in one "
            f"place (other classes {self.other_class_cosine:.2f})"
        )
        found = [Row("same-class cosine", cosine, is_detail=True)]
        for sign, meaning in (
            ("nc1", "variability inside against between"),
            ("nc2", "distance of means from a simplex"),
            ("nc3", "distance of weights from means"),
            ("nc4", "share decided otherwise by the nearest mean"),
        ):
            values = [getattr(level, sign) for level in (self.classes, self.subclasses)]
            if all(value is None for value in values):
                continue
            classes, subclasses = (_plain(value) for value in values)
            text = f"{classes} of classes, {subclasses} of sub-classes: {meaning}; 0 is full collapse"
            found.append(Row(f"collapse ({sign.upper()})", text, is_detail=True))
        return found


def _plain(value: float | None) -> str:
    if value is None or not np.isfinite(value):
        return "–"
    return "0" if abs(value) < 1e-9 else f"{value:.3g}"  # round-off, not a measurement


@dataclass(frozen=True)
class ClusterRow:
    """One number of clusters per class.

    Attributes:
        clusters: per class.
        stability: mean adjusted Rand index between clusterings of two halves, read on all images.
        silhouette: mean silhouette inside the classes.
        smallest: images of the smallest cluster.
    """

    clusters: int
    stability: float
    silhouette: float
    smallest: int


@dataclass(frozen=True, eq=False)
class Discovery(Part):
    """Sub-classes found by clustering.

    Attributes:
        labels: the sub-class of each image, 0..k-1.
        where: the layer that was clustered.
        table: a row for each number of clusters that was tried.
        clusters_per_class: the number of clusters per class, before those that are too small were merged.
        given: whether the user gave that number.
        examples: of each sub-class, the images nearest to its centre, as numbers of `labels`.
    """

    labels: Int[ndarray, " n"]
    where: str
    table: tuple[ClusterRow, ...]
    clusters_per_class: int
    given: bool
    examples: dict[int, list[int]]

    def rows(self, name: str, audit: Audited) -> list[Row]:
        """Where and how they were found."""
        how = "given" if self.given else "the most stable"
        text = f"k-means, {self.clusters_per_class} per class ({how})"
        return [Row("sub-classes", f"discovered in {self.where}: {text}")]


def can_discover(coarse: Int[ndarray, " n"]) -> bool:
    """Whether each class has images for two clusters."""
    return int(np.bincount(coarse).min()) >= 2 * LEAST_PER_SUBCLASS


def discover(
    features: Float[ndarray, "n N"],
    coarse: Int[ndarray, " n"],
    clusters: int | None = None,
    where: str = "features",
    seed: int = 0,
) -> Discovery:
    """Cluster the features of each class.

    The number of clusters does not come out of the data by any rule that was tried: without one from
    the user, the most stable number of the table is taken, and the table is shown.

    Args:
        clusters: per class.
    """
    smallest_class = int(np.bincount(coarse).min())
    most = smallest_class // LEAST_PER_SUBCLASS
    if most < 2:
        problem = f"has {smallest_class} images of a class"
        remedy = f"give at least {2 * LEAST_PER_SUBCLASS} of each, so that it can be divided"
        raise InputError("coarse", problem, remedy)
    if clusters is not None and not 2 <= clusters <= most:
        problem = f"is {clusters} for {smallest_class} images of a class"
        remedy = f"give from 2 to {most}, since each needs {LEAST_PER_SUBCLASS} images"
        raise InputError("clusters", problem, remedy)
    x = np.asarray(features, dtype=float)
    table = tuple(_row(x, coarse, k, seed) for k in NUMBERS if k <= most)
    large = [row for row in table if row.smallest >= LEAST_PER_SUBCLASS] or list(table)
    clusters_per_class = clusters or max(large, key=lambda row: row.stability).clusters
    labels = merged(x, coarse, clustered(x, coarse, clusters_per_class, seed)[0])
    k = int(labels.max()) + 1
    if k == len(np.unique(coarse)):
        problem = f"fall into no sub-classes of {LEAST_PER_SUBCLASS} or more"
        raise InputError("images", problem, "give more of them, or fine labels")
    distance = np.linalg.norm(x - class_features(x, labels, k)[labels], axis=1)
    nearest = np.argsort(distance, kind="stable")
    examples = {j: nearest[labels[nearest] == j][:8].tolist() for j in range(k)}
    return Discovery(labels, where, table, clusters_per_class, clusters is not None, examples)


def clustered(
    x: ndarray, coarse: ndarray, clusters: int, seed: int, fit: ndarray | None = None, progress: Progress = silent
) -> tuple[ndarray, ndarray]:
    """k-means inside each class: sub-class numbers of all rows, and distances to their centres.

    Args:
        clusters: per class.
        fit: rows that the centres are found on; all unless given.
    """
    from sklearn.cluster import KMeans

    labels, distance = np.zeros(len(x), dtype=int), np.zeros(len(x))
    classes = int(coarse.max()) + 1
    for c in range(classes):
        progress(c / classes, f"clusters of class {c}")
        members = np.flatnonzero(coarse == c)
        rows = members if fit is None else np.intersect1d(members, fit)
        # Seeds of scikit-learn are whole numbers: ours become one through their stream.
        state = int(stream(seed, f"clusters {c}").integers(2**31))
        means = KMeans(clusters, n_init=4, random_state=state).fit(x[rows])
        labels[members] = c * clusters + means.predict(x[members])
        distance[members] = means.transform(x[members]).min(axis=1)
    return labels, distance


def merged(
    x: Float[ndarray, "n N"], coarse: Int[ndarray, " n"], labels: Int[ndarray, " n"], least: int = LEAST_PER_SUBCLASS
) -> Int[ndarray, " n"]:
    """Clusters of fewer than `least` images, each given to the nearest of its class; renumbered.

    A handful of outliers is no sub-class: nothing can be measured on it.
    """
    labels = labels.copy()
    while True:
        names, sizes = np.unique(labels, return_counts=True)
        for small in names[np.argsort(sizes)]:
            members = labels == small
            others = np.unique(labels[(coarse == coarse[members][0]) & ~members])
            if members.sum() < least and len(others):
                break
        else:
            return np.searchsorted(names, labels)
        centres = np.stack([x[labels == j].mean(axis=0) for j in others])
        apart = ((x[members][:, None, :] - centres[None]) ** 2).sum(axis=2)
        labels[members] = others[apart.argmin(axis=1)]


def _row(x: ndarray, coarse: ndarray, clusters: int, seed: int) -> ClusterRow:
    from sklearn.metrics import adjusted_rand_score, silhouette_score

    labels, _ = clustered(x, coarse, clusters, seed)
    order = stream(seed, f"halves of {clusters}").permutation(len(x))
    halves = (order[: len(x) // 2], order[len(x) // 2 :])
    first, second = (clustered(x, coarse, clusters, seed, half)[0] for half in halves)
    agree, shape = [], []
    for c in range(int(coarse.max()) + 1):
        inside = coarse == c
        agree.append(float(adjusted_rand_score(first[inside], second[inside])))
        shape.append(float(silhouette_score(x[inside], labels[inside])))
    smallest = int(np.bincount(labels, minlength=clusters * (int(coarse.max()) + 1)).min())
    return ClusterRow(clusters, float(np.mean(agree)), float(np.mean(shape)), smallest)
