"""Theorem 2: how often the average decides clean points wrongly, exactly and measured."""

from __future__ import annotations

import numpy as np
import xarray as xr
from scipy.integrate import quad
from scipy.stats import norm

from featavg.data.clusters import MultiCluster
from featavg.figures.figure import Axis, Figure, Lines, Series
from featavg.figures.typeset import number
from featavg.measures.accuracy import accuracy
from featavg.nets.two_layer import feature_averaging
from featavg.paper.engine.claim import Check, Context, Evidence, claim
from featavg.paper.engine.tables import tabulate

DIMENSIONS = (30, 100, 300, 1000, 3000, 10_000)


def exact_clean_error(task: MultiCluster) -> float:
    """The probability that f_FA decides a fresh point wrongly, for orthogonal features, by one integral.

    For a point of a cluster of class s, a = sum_{J_s} <mu_j, x> is N(alpha |mu|^2, sigma^2 |J_s| |mu|^2)
    and the other class's sum b is N(0, sigma^2 |J_-s| |mu|^2), independent. The decision is right when
    a > max(b, 0).
    """
    square = float(task.gram_matrix[0, 0])
    mean, total = task.alpha * square, 0.0
    for sign in (1, -1):
        own, other = len(task.class_clusters(sign)), len(task.class_clusters(-sign))
        spread_a = task.sigma * np.sqrt(own * square)
        spread_b = task.sigma * np.sqrt(other * square)
        # Wrong: a <= 0, or 0 < a <= b.
        tail = quad(
            lambda a, p=spread_a, q=spread_b: norm.pdf(a, mean, p) * norm.sf(a / q),
            0.0,
            mean + 10 * spread_a,
            points=[mean / 2, mean],
            limit=200,
        )[0]
        total += (norm.cdf(-mean / spread_a) + tail) * own / task.k
    return float(total)


def figure(table: xr.Dataset, points: int) -> Figure:
    """Exact and measured error against d."""
    d, seen = table["d"].values, table["measured"].values
    lines = (
        Series("exact", d, table["exact"].values, "reference"),
        Series("measured", d, np.where(seen > 0, seen, np.nan), "averaged", "markers"),
    )
    return Figure(
        "clean-error",
        "The average classifies clean data",
        "Probability that f<sub>FA</sub> decides a fresh point wrongly (k = 10): exact, and "
        f"measured on {points:,} points for each dimension.",
        (Lines(Axis("dimension d", log=True), Axis("clean error", log=True), lines),),
    )


@claim(
    "theorem-2-clean", "The average classifies clean data", theme="Theorem 1: averaging",
    source="Lecture notes on arXiv 2410.10322, Theorem 2",
    measured="clean error of f<sub>FA</sub> against d: exactly, and on fresh points",
    minutes=0.01, statements=("notes-theorem-2", "summary-break-2",),
)  # fmt: skip
def average_classifies(run: Context, points: int = 20_000) -> Evidence:
    """The feature-averaging network has standard accuracy 1 − o(1)."""

    def measure(d: int, seed: int) -> dict[str, float]:
        task = MultiCluster(k=10, d=d)
        return {"measured": 1 - accuracy(feature_averaging(task), task.sample(points, seed)).value}

    table = tabulate(measure, run.seeds, run.progress, d=DIMENSIONS).mean("seed")
    table["exact"] = "d", [exact_clean_error(MultiCluster(k=10, d=d)) for d in DIMENSIONS]
    exact, all_points = table["exact"], points * len(run.seeds)
    distance = abs(table["measured"] - exact) / np.sqrt(exact * (1 - exact) / all_points)
    small, middle, large = (float(exact.sel(d=d)) for d in (100, 1000, 10_000))
    return Evidence(
        Check("exact error at d = 1000", middle, "<=", 1e-6),
        Check("error at d = 10,000 over error at d = 100", large / small, "<=", 1e-6),
        Check("largest distance of measured and exact error", distance.where(exact > 1e-4).max(), "<=", 4.0,
              note="in standard deviations, where errors are seen"),
        figure=figure(table, all_points), numbers=table,
        finding=f"The exact error of f<sub>FA</sub> falls from {number(small)} at d = 100 to "
        f"{number(middle)} at d = 1000: on clean data nothing is lost by averaging.",
    )  # fmt: skip
