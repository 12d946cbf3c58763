"""What is known of each training point: its class, its cluster, or anything between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray

from featavg.boundary.public import check_fields
from featavg.data.clusters import MultiCluster
from featavg.data.streams import stream
from featavg.errors import InputError


@dataclass(frozen=True)
class Labels:
    r"""How points are labelled, anywhere between class and cluster.

    Clusters are merged into super-labels, one output of the network each. A share of the points carries
    its super-label, of which a share is wrong; every other point carries its class alone, and has the
    loss -log of the summed softmax of its class. Share 1 is training with fine labels, share 0 the
    coarse task on the same network.

    Args:
        groups: super-labels of each class, or the super-label of each cluster; None for one a cluster.
        share: of the points that carry their super-label: one number, one for each class (J- first), or
            one for each cluster.
        wrong: share of the super-labels that is wrong, drawn uniformly among the others of the class;
            or a confusion matrix, row i the law of the label of super-label i.
        per_cluster: number of labelled points in each cluster, instead of a share; all where there are fewer.
        without: clusters whose points never carry a super-label.
        known: whether each point carries its super-label, instead of a share.

    >>> import numpy as np
    >>> import featavg as fa
    >>> task = fa.MultiCluster(k=4, d=100)
    >>> some = fa.Labels(share=0.5)
    >>> targets = some.targets(task, np.array([0, 1, 2, 3] * 3), seed=0)
    >>> targets.shape, set(targets.tolist()) <= {0, 1, 2, 3, 4, 5}
    ((12,), True)
    """

    groups: int | Sequence[int] | None = None
    share: float | Sequence[float] = 1.0
    wrong: float | Sequence[Sequence[float]] = 0.0
    per_cluster: int | None = None
    without: Sequence[int] = ()
    known: Sequence[bool] | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        shares = np.atleast_1d(np.asarray(self.share, dtype=float))
        if not np.all((shares >= 0) & (shares <= 1)):
            raise InputError("share", f"is {self.share}", "give shares from 0 to 1")
        if self.per_cluster is not None and self.per_cluster < 0:
            raise InputError("per_cluster", f"is {self.per_cluster}", "give 0 or more")
        beside = [name for name in ("per_cluster", "known") if getattr(self, name) is not None]
        beside += ["share"] if shares.size > 1 or shares[0] != 1.0 else []
        if len(beside) > 1:
            raise InputError(beside[0], f"is given beside {beside[1]}", "give one of the two")
        rows = [self.wrong] if isinstance(self.wrong, float | int) else self.wrong
        if len({np.size(row) for row in rows}) > 1:
            raise InputError("wrong", "is not a confusion matrix", "give rows of one length")
        wrong = np.asarray(self.wrong, dtype=float)
        if wrong.ndim == 0 and not 0 <= wrong <= 1:
            raise InputError("wrong", f"is {self.wrong}", "give a share from 0 to 1")

    def outputs(self, task: MultiCluster) -> Int[ndarray, " k"]:
        """The super-label of each cluster, 0 to L-1; super-labels of J+ come first."""
        positive = task.positive_clusters
        if self.groups is None:
            return np.arange(task.k)
        if isinstance(self.groups, int | np.integer):
            return self._split(positive, int(self.groups))
        index = np.asarray(self.groups)
        if index.shape != (task.k,) or not np.array_equal(np.unique(index), np.arange(len(np.unique(index)))):
            remedy = f"give {task.k} numbers 0, 1, ..., none left out"
            raise InputError("groups", "are not one super-label for each cluster", remedy)
        for label in np.unique(index):
            if len(set(positive[index == label].tolist())) > 1:
                problem = f"put clusters of both classes into {label}"
                raise InputError("groups", problem, "keep classes apart")
        return index.astype(int)

    def _split(self, positive: Bool[ndarray, " k"], count: int) -> Int[ndarray, " k"]:
        outputs, used = np.zeros(len(positive), dtype=int), 0
        for sign in (True, False):
            members = np.flatnonzero(positive == sign)
            if not 1 <= count <= len(members):
                problem = f"are {count} for a class of {len(members)} clusters"
                raise InputError("groups", problem, f"give 1 to {len(members)}")
            for label, part in enumerate(np.array_split(members, count)):
                outputs[part] = used + label
            used += count
        return outputs

    def count(self, k: int) -> int:
        """L, the number of super-labels of k clusters."""
        if self.groups is None:
            return k
        if isinstance(self.groups, int | np.integer):
            return 2 * int(self.groups)
        return int(max(self.groups, default=0)) + 1

    def output_classes(self, task: MultiCluster) -> Bool[ndarray, " L"]:
        """Whether each super-label is of the class +1."""
        outputs = self.outputs(task)
        classes = np.zeros(outputs.max() + 1, dtype=bool)
        classes[outputs] = task.positive_clusters
        return classes

    def targets(
        self, task: MultiCluster, clusters: Int[ndarray, "*s n"], seed: int | Sequence[int]
    ) -> Int[ndarray, "*s n"]:
        """The target of each point: its super-label, or L for the class -1 and L + 1 for +1.

        Args:
            task: with the clusters of these points.
            clusters: of each point.
            seed: of the choice of points and of wrong labels; one for each leading index.
        """
        if clusters.ndim > 1:
            seeds = [seed] if isinstance(seed, int | np.integer) else list(seed)
            rows = zip(clusters, seeds, strict=True)
            return np.stack([self.targets(task, row, one) for row, one in rows])
        one = int(seed) if isinstance(seed, int | np.integer) else int(seed[0])
        rng = stream(one, "labels")
        outputs, classes = self.outputs(task), self.output_classes(task)
        known = self._known(task, clusters, rng)
        labels = self._given(outputs[clusters], classes, rng)
        coarse = len(classes) + task.positive_clusters[clusters].astype(int)
        return np.where(known, labels, coarse)

    def _known(self, task: MultiCluster, clusters: Int[ndarray, " n"], rng: np.random.Generator) -> Bool[ndarray, " n"]:
        """Which points carry their super-label."""
        order = rng.random(len(clusters))
        if self.known is not None:
            known = np.asarray(self.known, dtype=bool)
            if known.shape != clusters.shape:
                problem = f"has shape {known.shape} for {len(clusters)} points"
                raise InputError("known", problem, "say it of each point")
        elif self.per_cluster is not None:
            known = np.zeros(len(clusters), dtype=bool)
            for j in range(task.k):
                members = np.flatnonzero(clusters == j)
                known[members[np.argsort(order[members])[: self.per_cluster]]] = True
        else:
            known = order < self._shares(task)[clusters]
        without = np.asarray(self.without, dtype=int)
        if without.size and not np.all((without >= 0) & (without < task.k)):
            problem = f"is {list(self.without)}"
            raise InputError("without", problem, f"give clusters 0 to {task.k - 1}")
        return known & ~np.isin(clusters, without)

    def _shares(self, task: MultiCluster) -> Float[ndarray, " k"]:
        shares = np.atleast_1d(np.asarray(self.share, dtype=float))
        if shares.size == 2 and task.k != 2:
            return shares[task.positive_clusters.astype(int)]
        if shares.size not in (1, task.k):
            remedy = f"give one, one for each class, or {task.k}"
            raise InputError("share", f"has {shares.size} numbers", remedy)
        return np.broadcast_to(shares, task.k)

    def _given(
        self, labels: Int[ndarray, " n"], classes: Bool[ndarray, " L"], rng: np.random.Generator
    ) -> Int[ndarray, " n"]:
        """The super-labels with the wrong ones among them."""
        confusion = self.confusion(classes)
        draws = rng.random(len(labels))
        return (draws[:, None] >= np.cumsum(confusion, axis=1)[labels][:, :-1]).sum(axis=1)

    def confusion(self, classes: Bool[ndarray, " L"]) -> Float[ndarray, "L L"]:
        """Row i: the law of the label that a point of super-label i is given."""
        wrong, count = np.asarray(self.wrong, dtype=float), len(classes)
        if wrong.ndim:
            sums = wrong.shape == (count, count) and np.allclose(wrong.sum(axis=1), 1.0)
            if not sums or np.any(wrong < 0):
                remedy = f"give {count} x {count} shares, each row with sum 1"
                raise InputError("wrong", "is not a confusion matrix", remedy)
            if np.any(wrong[classes[:, None] != classes[None, :]] > 0):
                raise InputError("wrong", "leads into another class", "keep classes apart")
            return wrong
        matrix = np.eye(count)
        for i in range(count):
            others = (classes == classes[i]) & (np.arange(count) != i)
            if others.any():
                matrix[i, i] = 1.0 - float(wrong)
                matrix[i, others] = float(wrong) / others.sum()
        return matrix

    def to_json(self) -> dict[str, Any]:
        """Plain values, those that differ from the default."""
        plain = {name: np.asarray(value).tolist() for name, value in vars(self).items() if value is not None}
        default = {"share": 1.0, "wrong": 0.0, "without": []}
        return {name: value for name, value in plain.items() if default.get(name) != value}
