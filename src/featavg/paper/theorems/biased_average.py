"""The average with any biases: what is left of its accuracy, clean and under attack."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.data.clusters import MultiCluster
from featavg.figures.figure import Figure, Heatmap
from featavg.figures.result import Result
from featavg.measures.accuracy import decisions
from featavg.nets.ideal import feature_averaging
from featavg.paper.theorems.radius_runs import fresh
from featavg.progress import Progress, remembered, silent
from featavg.robustness.radii import radii

K, D, POINTS = 10, 10**6, 40
# Biases in units of the signal d: b = -threshold * d. Negative thresholds keep a neuron on always.
THRESHOLDS = (-4.0, -1.0, 0.0, 0.3, 0.6, 0.9, 1.5)
# With thresholds u and v, 0 <= u, v < 1, a point is flipped by taking 1 - u of the signal from its own
# sum and adding v to the other one, a step of sqrt((1 - u)^2 + v^2) sqrt(2 d / k): at most 2 sqrt(d/k).
BIAS_GRID_RADIUS = 2.2  # in units of sqrt(d/k)


@dataclass(frozen=True, eq=False, repr=False)
class BiasGrid(Result):
    """f_FA with biases (b_+, b_-) = -(u, v) d: clean and robust accuracy for each pair.

    Attributes:
        clean: accuracy on fresh points; rows u, columns v.
        robust: accuracy under the nearest flip within RADIUS sqrt(d/k), by exact radii.

    >>> import featavg as fa
    >>> fa.bias_grid().clean.shape
    (7, 7)
    """

    clean: Float[ndarray, "u v"]
    robust: Float[ndarray, "u v"]

    def best_robust(self, clean_at_least: float = 0.0) -> float:
        """The largest robust accuracy of any biases with this clean accuracy."""
        return float(self.robust[self.clean >= clean_at_least].max(initial=0.0))

    def figure(self) -> Figure:
        """Both as matrices."""
        names = tuple(f"{threshold:g}" for threshold in THRESHOLDS)
        panels = tuple(
            Heatmap(values, names, names, label="accuracy", title=title, limit=1.0)
            for values, title in (
                (self.clean, "clean"),
                (self.robust, f"at {BIAS_GRID_RADIUS} √(d/k)"),
            )
        )
        return Figure(
            "biases",
            "No biases save the average, but a constant keeps half",
            "Accuracy of f<sub>FA</sub> with biases −u d and −v d (rows u, columns v) on fresh points, "
            f"clean and at the radius {BIAS_GRID_RADIUS} √(d/k).",
            panels,
        )

    def to_json(self) -> dict[str, Any]:
        """Both matrices."""
        return {
            "thresholds": list(THRESHOLDS),
            "radius": BIAS_GRID_RADIUS,
            "clean": self.clean.tolist(),
            "robust": self.robust.tolist(),
        }

    def summary(self) -> str:
        """What is left, with and without asking for clean accuracy."""
        return (
            f"f_FA with any biases, at {BIAS_GRID_RADIUS} √(d/k): robust accuracy at most "
            f"{self.best_robust():.2f}, and {self.best_robust(0.99):.2f} where the clean one is 0.99"
        )


@remembered
def bias_grid(seed: int = 0, progress: Progress = silent) -> BiasGrid:
    """Exact robust accuracy of f_FA over a grid of biases, on fresh points of one seed.

    >>> import featavg as fa
    >>> fa.bias_grid()
    f_FA with any biases, at ...
    """
    task = MultiCluster(k=K, d=D)
    net, points = feature_averaging(task), fresh(task, POINTS, seed)
    x = points.coordinates(net.dimension)
    shape = (len(THRESHOLDS), len(THRESHOLDS))
    clean, robust = np.zeros(shape), np.zeros(shape)
    reach = np.array([BIAS_GRID_RADIUS * math.sqrt(D / K)])
    for i, up in enumerate(THRESHOLDS):
        progress(i / len(THRESHOLDS), f"threshold {up:g}")
        for j, down in enumerate(THRESHOLDS):
            biased = replace(net, biases=-D * np.array([up, down]))
            clean[i, j] = np.mean(decisions(biased, x) == points.y)
            robust[i, j] = radii(biased, points).robust_accuracy(reach)[1][0]
    return BiasGrid(clean, robust)
