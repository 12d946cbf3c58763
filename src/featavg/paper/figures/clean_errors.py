"""Theorem 2: how often the average decides clean points wrongly, exactly and measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.integrate import quad
from scipy.stats import norm

from featavg.data.clusters import MultiCluster
from featavg.figures.figure import Axis, Figure, Lines, Series
from featavg.figures.result import Result
from featavg.measures.accuracy import accuracy
from featavg.nets.ideal import feature_averaging
from featavg.progress import Progress, silent

DIMENSIONS, POINTS = (30, 100, 300, 1000, 3000, 10_000), 20_000


def exact_clean_error(task: MultiCluster) -> float:
    """The probability that f_FA decides a fresh point wrongly, for orthogonal features, by one integral.

    For a point of a cluster of class s, a = sum_{J_s} <mu_j, x> is N(alpha |mu|^2, sigma^2 |J_s| |mu|^2)
    and the other class's sum b is N(0, sigma^2 |J_-s| |mu|^2), independent. The decision is right when
    a > max(b, 0).
    """
    square = float(task.gram_matrix[0, 0])
    total = 0.0
    for sign in (1, -1):
        own, other = len(task.class_clusters(sign)), len(task.class_clusters(-sign))
        spread_a = task.sigma * np.sqrt(own * square)
        spread_b = task.sigma * np.sqrt(other * square)
        mean = task.alpha * square
        # Wrong: a <= 0, or 0 < a <= b.
        tail = quad(
            lambda a, m=mean, p=spread_a, q=spread_b: norm.pdf(a, m, p) * norm.sf(a / q),
            0.0,
            mean + 10 * spread_a,
            points=[mean / 2, mean],
            limit=200,
        )[0]
        total += (norm.cdf(-mean / spread_a) + tail) * own / task.k
    return float(total)


@dataclass(frozen=True, repr=False)
class CleanError(Result):
    """Exact and measured error of f_FA against d, k = 10; `points` fresh points for each d.

    Returned by `fa.clean_error`, which has an example.
    """

    dimensions: tuple[int, ...]
    exact: tuple[float, ...]
    measured: tuple[float, ...]
    points: int

    @property
    def worst_distance(self) -> float:
        """Largest distance of measured and exact error in standard deviations, where errors are seen."""
        return max(
            abs(m - e) / np.sqrt(e * (1 - e) / self.points)
            for m, e in zip(self.measured, self.exact, strict=True)
            if e > 1e-4
        )

    def figure(self) -> Figure:
        """Both against d."""
        seen = [m if m > 0 else np.nan for m in self.measured]
        lines = (
            Series("exact", self.dimensions, self.exact, "reference"),
            Series("measured", self.dimensions, seen, "averaged", "markers"),
        )
        return Figure(
            "clean-error",
            "The average classifies clean data",
            "Probability that f<sub>FA</sub> decides a fresh point wrongly (k = 10): exact, and "
            f"measured on {self.points:,} points for each dimension.",
            (Lines(Axis("dimension d", log=True), Axis("clean error", log=True), lines),),
        )

    def to_json(self) -> dict[str, Any]:
        """The three rows."""
        return {
            "dimensions": list(self.dimensions),
            "exact": list(self.exact),
            "measured": list(self.measured),
            "points": self.points,
        }

    def summary(self) -> str:
        """One line for each dimension."""
        rows = zip(self.dimensions, self.exact, self.measured, strict=True)
        lines = [f"  d = {d:>6,}  exact {e:9.3g}  measured {m:9.3g}" for d, e, m in rows]
        return "\n".join(["Clean error of f_FA, k = 10", *lines])


def clean_error(
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4), progress: Progress = silent
) -> CleanError:
    """Exact and measured clean error of the feature-averaging network against d.

    Args:
        seeds: of the fresh points.
        progress: called with the share done and a note.

    >>> import featavg as fa
    >>> fa.clean_error(seeds=(0,))
    Clean error of f_FA, k = 10
    ...
    """
    exact, measured = [], []
    for i, d in enumerate(DIMENSIONS):
        progress(i / len(DIMENSIONS), f"d = {d}")
        task = MultiCluster(k=10, d=d)
        net = feature_averaging(task)
        runs = [accuracy(net, task.sample(POINTS, seed)) for seed in seeds]
        exact.append(exact_clean_error(task))
        measured.append(1 - float(np.mean([run.value for run in runs])))
    return CleanError(DIMENSIONS, tuple(exact), tuple(measured), POINTS * len(seeds))
