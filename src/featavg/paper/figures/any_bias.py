"""The average with any biases: what is left of its accuracy, clean and under attack."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from featavg.data.clusters import MultiCluster
from featavg.figures.figure import Figure, Heatmap
from featavg.measures.accuracy import decisions
from featavg.nets.two_layer import feature_averaging
from featavg.paper.engine.claim import Check, Context, Evidence, claim
from featavg.paper.engine.tables import tabulate
from featavg.paper.figures.networks import fresh
from featavg.robustness.radii import radii

if TYPE_CHECKING:
    import xarray as xr

K, D = 10, 10**6
# With thresholds u and v, 0 <= u, v < 1, a point is flipped by taking 1 - u of the signal from its own
# sum and adding v to the other one, a step of sqrt((1 - u)^2 + v^2) sqrt(2 d / k): at most 2 sqrt(d/k).
RADIUS = 2.2  # in units of sqrt(d/k)


def figure(table: xr.Dataset) -> Figure:
    """Clean and robust accuracy as matrices."""
    names = tuple(f"{threshold:g}" for threshold in table["u"].values)
    titles = {"clean": "clean", "robust": f"at {RADIUS} √(d/k)"}
    panels = tuple(
        Heatmap(table[name].values, names, names, label="accuracy", title=title, limit=1.0)
        for name, title in titles.items()
    )
    return Figure(
        "biases",
        "No biases save the average, but a constant keeps half",
        "Accuracy of f<sub>FA</sub> with biases −u d and −v d (rows u, columns v) on fresh points, "
        f"clean and at the radius {RADIUS} √(d/k).",
        panels,
    )


@claim(
    "average-any-bias", "No biases save the average", theme="Exact robustness",
    source="Talks at iTCS and CSML 2024, average features are non-robust features",
    measured="exact robust accuracy of f<sub>FA</sub> over a grid of biases, d = 10⁶, k = 10",
    minutes=0.05, seeds=1, runs=0, statements=("itcs-theorem-nonrobust", "csml-theorem-nonrobust"),
)  # fmt: skip
def any_bias(
    run: Context,
    thresholds: tuple[float, ...] = (-4.0, -1.0, 0.0, 0.3, 0.6, 0.9, 1.5),
    points: int = 40,
) -> Evidence:
    """With the weights of a feature-averaging solution, for any choice of biases, the robust
    accuracy at δ = ω(√(d/k)) is nearly zero.
    """
    task = MultiCluster(k=K, d=D)
    net, sample = feature_averaging(task), fresh(task, points, run.seeds[0])
    x, reach = sample.coordinates(net.dimension), np.array([RADIUS * math.sqrt(D / K)])

    def measure(u: float, v: float, seed: int) -> dict[str, float]:
        # In units of the signal d; a negative threshold keeps a neuron on always.
        biased = replace(net, biases=-D * np.array([u, v]))
        return {
            "clean": float(np.mean(decisions(biased, x) == sample.y)),
            "robust": radii(biased, sample).robust_accuracy(reach)[1][0],
        }

    table = tabulate(measure, run.seeds, run.progress, u=thresholds, v=thresholds).isel(seed=0)
    anything = float(table["robust"].max())
    useful = float(table["robust"].where(table["clean"] >= 0.99, 0.0).max())
    return Evidence(
        Check(f"robust accuracy at {RADIUS} √(d/k), best biases with clean accuracy 0.99", useful, "<=", 0.01,
              role="main"),
        Check(f"robust accuracy at {RADIUS} √(d/k), best biases of all", anything, "<=", 0.01,
              note="the statement to the letter"),
        figure=figure(table), numbers=table,
        finding=f"To the letter it is false: biases that make f<sub>FA</sub> constant keep {anything:.0%} of the "
        "points at any radius. True is: with biases b<sub>±</sub> for which clean points are decided "
        f"rightly, nothing is left at {RADIUS} √(d/k); the nearest flip is √((1−u)² + v²) √(2d/k) away "
        "for thresholds u, v in [0, 1), at most 2 √(d/k).",
    )  # fmt: skip
