"""Clean accuracy, with the interval that a finite sample deserves."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray

from featavg.data.clusters import Sample
from featavg.nets.readout import score
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

    def __str__(self) -> str:
        return f"{100 * self.value:.2f}% [{100 * self.low:.2f}, {100 * self.high:.2f}], n={self.n}"


def wilson(right: int, n: int, z: float = 1.959963984540054) -> Accuracy:
    """The share right/n with the Wilson score interval.

    >>> print(wilson(1000, 1000))
    100.00% [99.62, 100.00], n=1000
    """
    share = right / n
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return Accuracy(share, max(0.0, centre - half), min(1.0, centre + half), n)


def decisions(
    net: TwoLayer,
    x: Float[ndarray, "*s n N"],
    positive: Bool[ndarray, " k"] | None = None,
    readout: str = "probability",
) -> Int[ndarray, "*s n"]:
    """The sign of the score; a score of exactly zero decides nothing and counts for nobody (0)."""
    return np.sign(score(net(x), positive, readout)).astype(int)


def accuracy(net: TwoLayer, points: Sample, readout: str = "probability") -> Accuracy:
    """How often the coarse decision is the class of the point, over all seeds of a batch."""
    x = points.coordinates(net.dimension)
    right = decisions(net, x, points.task.positive_clusters, readout) == points.y
    return wilson(int(right.sum()), right.size)


def fine_accuracy(net: TwoLayer, points: Sample) -> Accuracy:
    """How often the largest output of a grouped network is that of the point's cluster."""
    outputs = net(points.coordinates(net.dimension))
    right = outputs.argmax(axis=-1) == points.clusters
    return wilson(int(right.sum()), right.size)
