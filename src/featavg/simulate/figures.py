"""The figures of a simulation: what the weights point at, and how the loss fell."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.data.clusters import MultiCluster
from featavg.figures.figure import Axis, Figure, Heatmap, Lines, Role, Series
from featavg.training.trajectory import Trajectory

ROLES: dict[str, Role] = {"coarse": "averaged", "fine": "decoupled"}
_MOST_POINTS = 400


def figures_of(
    runs: Mapping[str, Trajectory], cosines: Mapping[str, ndarray], task: MultiCluster
) -> tuple[Figure, ...]:
    """The cosine heat maps and the loss curves."""
    return cosine_figure(cosines, task), loss_figure(runs)


def cosine_figure(cosines: Mapping[str, Float[ndarray, "s k k"]], task: MultiCluster) -> Figure:
    """A heat map for each network, as in Figure 2 of the paper; several seeds are averaged."""
    # Clusters of one class next to one another, so that an average shows as a block.
    order = np.argsort(~task.positive_clusters, kind="stable")
    breaks = (task.positive_count,)
    panels = []
    for labels, matrices in cosines.items():
        mean = matrices.mean(axis=0)[np.ix_(order, order)]
        panels.append(
            Heatmap(
                mean,
                tuple(f"μ<sub>{j + 1}</sub>" for j in order),
                tuple(f"w<sub>{j + 1}</sub>" for j in order),
                label="cosine",
                title=f"{labels} labels",
                limit=1.0,
                row_breaks=breaks,
                column_breaks=breaks,
            )
        )
    caption = (
        "Cosine of each feature (row) with each equivalent weight (column); lines part classes."
    )
    return Figure("cosines", "What the weights point at", caption, tuple(panels))


def loss_figure(runs: Mapping[str, Trajectory]) -> Figure:
    """log10 of the training loss after each step; a band spans the seeds."""
    series = []
    for labels, run in runs.items():
        log10 = np.asarray(run.log_loss).reshape(len(run.log_loss), -1) / math.log(10)
        kept = np.unique(np.linspace(0, len(log10) - 1, _MOST_POINTS).astype(int))
        values = np.where(np.isfinite(log10), log10, np.nan)[kept].T
        name = f"{labels} labels"
        if len(values) == 1:
            series.append(Series(name, kept, values[0], ROLES[labels]))
        else:
            series.append(Series.over_seeds(name, kept, values, ROLES[labels]))
    panel = Lines(Axis("step"), Axis("log<sub>10</sub> of the training loss"), tuple(series))
    return Figure("loss", "How the loss fell", "Training loss after each step.", (panel,))
