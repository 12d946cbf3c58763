"""Figure 2 (a) and (b): cosines between features and equivalent weights, at the paper's setting."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.data.clusters import MultiCluster
from featavg.figures.figure import Figure, Heatmap
from featavg.figures.result import Result
from featavg.measures.alignment import cosines
from featavg.measures.averaging import AveragingIndex, averaging_index
from featavg.training.train import train

K, D, N_TRAIN = 10, 3072, 1000
TEXTS = {
    "coarse": (
        "cosines-averaged",
        "Class labels: every neuron is an average",
        "Cosine between feature μᵢ and equivalent weight wⱼ, mean over seeds, at the paper's setting "
        "with class labels. Each weight has the same cosine, near 1/√5, with all features of its "
        "class.",
        "class labels (averaged)",
    ),
    "fine": (
        "cosines-decoupled",
        "Cluster labels: every group is one feature",
        "The same matrix for the network trained on the same data with cluster labels: one cosine "
        "near 1 in every row, all others near 0.",
        "cluster labels (decoupled)",
    ),
}


@dataclass(frozen=True, eq=False, repr=False)
class CosineMatrices(Result):
    """The matrix of each seed, entry (i, j) = cos(mu_i, w_j), and the averaging index of all.

    Attributes:
        labels: "coarse" or "fine".
        task: what was learned.
        matrices: one for each seed.
        index: over all neurons of all seeds.

    >>> import featavg as fa
    >>> fa.cosine_matrices("fine", seeds=(0,)).matrices.shape
    (1, 10, 10)
    """

    labels: str
    task: MultiCluster
    matrices: Float[ndarray, "s k k"]
    index: AveragingIndex

    @property
    def _same(self) -> ndarray:
        labels = self.task.cluster_labels
        return np.asarray(labels[:, None] == labels[None, :])

    @property
    def same_class(self) -> Float[ndarray, "s q"]:
        """The cosines inside the classes, the diagonal included."""
        return self.matrices[:, self._same]

    @property
    def other_class(self) -> Float[ndarray, "s q"]:
        """The cosines across the classes."""
        return self.matrices[:, ~self._same]

    @property
    def diagonal(self) -> Float[ndarray, "s k"]:
        """The cosine of each weight with its own feature."""
        return self.matrices[:, np.eye(self.task.k, dtype=bool)]

    @property
    def off_diagonal(self) -> Float[ndarray, "s q"]:
        """All other cosines."""
        return self.matrices[:, ~np.eye(self.task.k, dtype=bool)]

    def figure(self) -> Figure:
        """The mean matrix."""
        name, title, caption, panel = TEXTS[self.labels]
        split = (self.task.positive_count,)
        heatmap = Heatmap(
            self.matrices.mean(axis=0),
            tuple(f"μ<sub>{j + 1}</sub>" for j in range(self.task.k)),
            tuple(f"w<sub>{j + 1}</sub>" for j in range(self.task.k)),
            label="cosine",
            title=panel,
            limit=1.0,
            row_breaks=split,
            column_breaks=split,
        )
        return Figure(name, title, caption, (heatmap,), headline=True)

    def to_json(self) -> dict[str, Any]:
        """The mean matrix, ranges, and the index with its null."""

        def ends(values: ndarray) -> list[float]:
            return [float(values.min()), float(values.mean()), float(values.max())]

        return {
            "mean_matrix": self.matrices.mean(axis=0).tolist(),
            "same_class": ends(self.same_class),
            "other_class": ends(self.other_class),
            "diagonal": ends(self.diagonal),
            "off_diagonal_abs_max": float(np.abs(self.off_diagonal).max()),
            "averaging_index": self.index.value,
            "averaging_index_interval": list(self.index.interval),
            "averaging_index_null": self.index.null,
            "evenness": self.index.evenness,
            "span_share": self.index.share,
        }

    def summary(self) -> str:
        """Cosines and index in two lines."""
        return (
            f"Cosines with {self.labels} labels, k = {self.task.k}, d = {self.task.d}: own "
            f"{self.diagonal.mean():.3f}, inside the class {self.same_class.mean():.3f}, across "
            f"{self.other_class.mean():.3f}\n{self.index!r}"
        )


@cache
def cosine_matrices(labels: str, seeds: tuple[int, ...] = (0, 1, 2, 3, 4)) -> CosineMatrices:
    """Train at the paper's setting with `labels`, one network for each seed, and measure.

    Args:
        labels: "coarse" or "fine".
        seeds: one network and one sample for each.

    >>> import featavg as fa
    >>> fa.cosine_matrices("fine", (0,)).diagonal.round(1).min()
    np.float64(1.0)
    """
    task = MultiCluster(k=K, d=D)
    nets = train(task, labels=labels, n=N_TRAIN, seed=seeds).net
    return CosineMatrices(labels, task, cosines(nets, task), averaging_index(nets, task))
