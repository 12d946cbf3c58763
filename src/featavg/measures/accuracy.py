"""Clean accuracy, with the interval that a finite sample deserves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray
from scipy.special import ndtri

from featavg.boundary.public import public
from featavg.data.clusters import Sample
from featavg.errors import InputError
from featavg.nets.deep import Deep
from featavg.nets.readouts._readout import ReadOut, coarse_score
from featavg.nets.two_layer import TwoLayer


@dataclass(frozen=True)
class Accuracy:
    """A share of correct decisions and its 95% Wilson interval.

    The Wilson interval stays honest at 100%: 1000 of 1000 right means "at least 99.6%".
    """

    value: float
    low: float
    high: float
    n: int

    def __repr__(self) -> str:
        return f"Accuracy({self})"

    def __str__(self) -> str:
        return f"{100 * self.value:.2f}% [{100 * self.low:.2f}, {100 * self.high:.2f}], n={self.n}"


def wilson_interval(
    count: Int[ndarray, " q"], n: int, confidence: float = 0.95
) -> tuple[Float[ndarray, " q"], Float[ndarray, " q"]]:
    r"""The Wilson interval of a share, which unlike p +- 2 s is honest at 0, at 1 and for small n.

    (p + z^2/2n +- z sqrt(p(1-p)/n + z^2/4n^2)) / (1 + z^2/n), p = count/n.

    >>> [round(float(end[0]), 3) for end in wilson_interval(np.array([10]), 10)]
    [0.722, 1.0]
    """
    if n < 1 or not 0 < confidence < 1:
        raise InputError("confidence", f"is {confidence} for {n} points", "give a share in (0, 1)")
    z = float(ndtri(0.5 + confidence / 2))
    p = count / n
    middle, wide = p + z**2 / (2 * n), z * np.sqrt(p * (1 - p) / n + z**2 / (4 * n**2))
    scale = 1 + z**2 / n
    return np.maximum((middle - wide) / scale, 0.0), np.minimum((middle + wide) / scale, 1.0)


def robust_share(radii: Float[ndarray, " n"], at: Sequence[float] | Float[ndarray, " q"]) -> Float[ndarray, " q"]:
    """The share of radii above each of `at`: a point is not robust at its own radius.

    >>> robust_share(np.array([1.0, 2.0]), [0.5, 1.0, 2.0])
    array([1. , 0.5, 0. ])
    """
    return np.mean(radii[None, :] > np.asarray(at, dtype=float)[:, None], axis=1)


def wilson(right: int, n: int) -> Accuracy:
    """The share right/n with its 95% Wilson interval.

    >>> print(wilson(1000, 1000))
    100.00% [99.62, 100.00], n=1000
    """
    low, high = wilson_interval(np.array([right]), n)
    return Accuracy(right / n, float(low[0]), float(high[0]), n)


def decisions(
    net: TwoLayer | Deep,
    x: Float[ndarray, "*s n N"],
    positive: Bool[ndarray, " k"] | None = None,
    readout: str | ReadOut = "probability",
) -> Int[ndarray, "*s n"]:
    """The sign of the score; a score of zero returns 0 (no class)."""
    return np.sign(coarse_score(net(x), positive, readout)).astype(int)


@public
def accuracy(net: TwoLayer | Deep, points: Sample, readout: str | ReadOut = "probability") -> Accuracy:
    """How often the coarse decision is the class of the point, over all seeds of a batch.

    Args:
        net: a network with one output or with one for each cluster, or a batch.
        points: a sample of its task.
        readout: how outputs of clusters become a class: `probability`, `max` or `sum`.

    >>> import featavg as fa
    >>> task = fa.MultiCluster(k=4, d=100)
    >>> fa.accuracy(fa.feature_averaging(task), task.sample(100, seed=0)).value
    1.0
    """
    x = points.coordinates(net.dimension)
    right = decisions(net, x, points.task.positive_clusters, readout) == points.y
    return wilson(int(right.sum()), right.size)


@public
def fine_accuracy(net: TwoLayer | Deep, points: Sample) -> Accuracy:
    """How often the largest output of a grouped network is that of the point's cluster.

    Args:
        net: a network with one output for each cluster, or a batch.
        points: a sample of its task.

    >>> import featavg as fa
    >>> task = fa.MultiCluster(k=4, d=100)
    >>> run = fa.train(task, labels="fine", n=100, seed=0)
    >>> fa.fine_accuracy(run.net, task.sample(100, seed=1)).value
    1.0
    """
    outputs = net(points.coordinates(net.dimension))
    if outputs.shape[-1] != points.task.k:
        problem = f"has {outputs.shape[-1]} outputs for {points.task.k} clusters"
        raise InputError("net", problem, "give one that was trained with fine labels")
    right = outputs.argmax(axis=-1) == points.clusters
    return wilson(int(right.sum()), right.size)
