"""Sub-classes that nobody has named: clusters inside each class, and how far they can be trusted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.audit.labels import LEAST_PER_SUBCLASS
from featavg.data.streams import stream
from featavg.errors import InputError
from featavg.progress import Progress, silent

NUMBERS = (2, 3, 4, 5, 6, 8)


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
class Discovery:
    """Sub-classes found by clustering.

    Attributes:
        labels: the sub-class of each image, 0..k-1.
        where: the layer that was clustered.
        rows: the table over numbers of clusters.
        clusters_per_class: the number of clusters per class, before those that are too small were merged.
        given: whether the user gave that number.
        examples: of each sub-class, the images nearest to its centre, as numbers of `labels`.
    """

    labels: Int[ndarray, " n"]
    where: str
    rows: tuple[ClusterRow, ...]
    clusters_per_class: int
    given: bool
    examples: dict[int, list[int]]


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
        raise InputError(
            "coarse",
            f"has {smallest_class} images of a class",
            f"give at least {2 * LEAST_PER_SUBCLASS} of each, so that it can be divided",
        )
    if clusters is not None and not 2 <= clusters <= most:
        problem = f"is {clusters} for {smallest_class} images of a class"
        remedy = f"give from 2 to {most}, since each needs {LEAST_PER_SUBCLASS} images"
        raise InputError("clusters", problem, remedy)
    x = np.asarray(features, dtype=float)
    numbers = [k for k in NUMBERS if k <= most]
    rows = tuple(_row(x, coarse, k, seed) for k in numbers)
    large = [row for row in rows if row.smallest >= LEAST_PER_SUBCLASS] or list(rows)
    clusters_per_class = clusters or max(large, key=lambda row: row.stability).clusters
    labels = merged(x, coarse, clustered(x, coarse, clusters_per_class, seed)[0])
    if len(np.unique(labels)) == len(np.unique(coarse)):
        problem = f"fall into no sub-classes of {LEAST_PER_SUBCLASS} or more"
        raise InputError("images", problem, "give more of them, or fine labels")
    distance = np.linalg.norm(x - _centres(x, labels)[labels], axis=1)
    examples = {
        int(j): np.flatnonzero(labels == j)[np.argsort(distance[labels == j])[:8]].tolist()
        for j in np.unique(labels)
    }
    return Discovery(labels, where, rows, clusters_per_class, clusters is not None, examples)


def clustered(
    x: ndarray,
    coarse: ndarray,
    clusters: int,
    seed: int,
    fit: ndarray | None = None,
    progress: Progress = silent,
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
    x: Float[ndarray, "n N"],
    coarse: Int[ndarray, " n"],
    labels: Int[ndarray, " n"],
    least: int = LEAST_PER_SUBCLASS,
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


def _centres(x: ndarray, labels: ndarray) -> ndarray:
    return np.stack([x[labels == j].mean(axis=0) for j in range(int(labels.max()) + 1)])


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
