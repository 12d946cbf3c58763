r"""Unequal partitions and unequal clusters: what is averaged, with which weights.

Once every neuron of a class is active on all of it, f(x) = lambda_j on cluster j, and with p_j the
share of the sample in cluster j gradient flow gives

    d lambda_j / dt = (d p_j / m) / (1 + e^{lambda_j}),   lambda_j + e^{lambda_j} - 1 = (d p_j / m) t.

At first the weights are in proportion to the
clusters' sizes; later lambda_j = log((d p_j / m) t) up to lower terms, and large clusters lead by
log(p_j / p_j') only. Nothing in it depends on how many clusters each class has.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.special import lambertw

from featavg.data.clusters import MultiCluster
from featavg.data.compress import draw
from featavg.figures.figure import Axis, Figure, Lines, Series
from featavg.figures.result import Result
from featavg.measures.averaging import averaging_index
from featavg.measures.decomposition import projected_coefficients
from featavg.measures.dynamics import own_clusters
from featavg.paper.theorems.theorem_runs import scaled_recipe
from featavg.progress import Progress, silent
from featavg.training.train import train

K, D, N_TRAIN = 10, 10**6, 500
PARTITIONS = (2, 5, 8)  # |J+|: a ratio of up to c = 4
# The claim bears 5% of lambda; the flow is off by 0.4% at this tolerance.
TOLERANCE = 1e-3
# Largest over smallest cluster 4, in both classes.
UNEQUAL = tuple(np.tile(np.geomspace(1.0, 4.0, 5), 2) / (2 * np.geomspace(1.0, 4.0, 5).sum()))


def predicted_coefficients(shares: Float[ndarray, " k"], pace: float) -> Float[ndarray, " k"]:
    """lambda_j with lambda_j + e^{lambda_j} - 1 = p_j * pace, pace = d t / m.

    With v = 1 + p_j pace that is v - W(e^v), W the Lambert function.

    >>> lam = predicted_coefficients(np.array([0.1]), 60.0)
    >>> round(float(lam[0] + np.exp(lam[0]) - 1), 9)
    6.0
    """
    v = 1.0 + shares * pace
    return np.asarray(v - lambertw(np.exp(v)).real)


@dataclass(frozen=True, eq=False, repr=False)
class UnequalClusters(Result):
    """Coefficients under unequal partitions and unequal clusters.

    Attributes:
        partitions: |J+| of each row.
        evenness: smallest evenness of a neuron, a column for each seed.
        error: largest relative distance of a class's mean coefficient on a feature from the
            prediction, the same layout, partitions first and then the unequal clusters.
        shares: p_j of the sample with unequal clusters, a row for each seed.
        measured, predicted: lambda_j there.

    Returned by `fa.unequal_clusters`, which has an example.
    """

    partitions: tuple[int, ...]
    evenness: Float[ndarray, "v s"]
    error: Float[ndarray, "u s"]
    shares: Float[ndarray, "s k"]
    measured: Float[ndarray, "s k"]
    predicted: Float[ndarray, "s k"]

    def figure(self) -> Figure:
        """lambda_j against the size of its cluster, and evenness against the partition."""
        order = np.argsort(self.shares[0])
        weights = (
            Series(
                "measured", self.shares[0][order], self.measured[0][order], "averaged", "markers"
            ),
            Series(
                "λ + e^λ = 1 + dpt/m", self.shares[0][order], self.predicted[0][order], "reference"
            ),
        )
        even = Series.over_seeds("smallest evenness", self.partitions, self.evenness.T, "averaged")
        return Figure(
            "unequal",
            "Large clusters weigh more, by a known amount",
            "Left: coefficient of each feature in the weights of its class against the share of the "
            "sample in its cluster (first seed), with the prediction. Right: how evenly neurons "
            "spread over the features of their class when classes have different numbers of clusters.",
            (
                Lines(Axis("share of the sample"), Axis("λ<sub>j</sub>"), weights),
                Lines(Axis("clusters in class +"), Axis("evenness", range=(0.0, 1.05)), (even,)),
            ),
        )

    def to_json(self) -> dict[str, Any]:
        """Every number."""
        names = ("evenness", "error", "shares", "measured", "predicted")
        return {"partitions": list(self.partitions)} | {n: getattr(self, n).tolist() for n in names}

    def summary(self) -> str:
        """Evenness for each partition, and the largest error."""
        rows = zip(self.partitions, self.evenness, strict=True)
        lines = [f"  |J+| = {plus}: smallest evenness {row.min():.3f}" for plus, row in rows]
        last = f"  λ_j against λ + e^λ = 1 + d p_j t/m: off by at most {self.error.max():.1%}"
        return "\n".join([f"Unequal clusters, k = {K}, d = {D:,}", *lines, last])


@cache
def _learned(
    positive: int, probabilities: tuple[float, ...] | None, seed: int
) -> tuple[float, ndarray, ndarray, ndarray]:
    """Smallest evenness, shares of the sample, measured and predicted lambda_j of one run."""
    task = MultiCluster(k=K, d=D, positive=positive, probabilities=probabilities)
    recipe = scaled_recipe("coarse", D, tolerance=TOLERANCE)
    data = draw(task, N_TRAIN, recipe.neurons(K), seed)
    run = train(data, recipe)
    lambdas, _ = projected_coefficients(run.net.weights, run.initial.weights, data)
    own = own_clusters(run.net, data).T
    measured = np.where(own, lambdas, 0.0).sum(axis=0) / own.sum(axis=0)
    shares = np.bincount(data.clusters, minlength=K) / N_TRAIN
    pace = D * float(np.exp(run.log_times[-1])) / recipe.m
    even = averaging_index(run.net, task).neuron_evenness
    return float(np.nanmin(even)), shares, measured, predicted_coefficients(shares, pace)


def unequal_clusters(
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4), progress: Progress = silent
) -> UnequalClusters:
    """Train with unequal partitions of equal clusters, then with equal classes of unequal clusters.

    Args:
        seeds: one network and one sample for each.
        progress: called with the share done and a note.

    >>> import featavg as fa
    >>> fa.unequal_clusters(seeds=(0,))
    Unequal clusters, k = 10, d = 1,000,000
    ...
    """
    settings: list[tuple[int, tuple[float, ...] | None]] = [(p, None) for p in PARTITIONS]
    settings.append((K // 2, UNEQUAL))
    rows = []
    for i, (positive, probabilities) in enumerate(settings):
        progress(i / len(settings), f"|J+| = {positive}")
        rows.append([_learned(positive, probabilities, seed) for seed in seeds])
    error = [[np.abs(m / p - 1.0).max() for _, _, m, p in row] for row in rows]
    last = rows[-1]
    return UnequalClusters(
        PARTITIONS,
        np.array([[run[0] for run in row] for row in rows[:-1]]),
        np.array(error),
        *(np.array([run[i] for run in last]) for i in (1, 2, 3)),
    )
