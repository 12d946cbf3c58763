"""What a simulation measures of each network, and its figures."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.data.clusters import MultiCluster
from featavg.figures.figure import Axis, Figure, Heatmap, Lines, Role, Series
from featavg.measures.accuracy import Accuracy, decisions, wilson
from featavg.measures.alignment import block_cosines, cosine_matrix, equivalent_weights
from featavg.measures.averaging import AveragingIndex, averaging_index_of, effective_weights, index_of
from featavg.nets.deep import Deep
from featavg.nets.two_layer import TwoLayer
from featavg.simulate.points import SimulationPoints
from featavg.simulate.setting import Setting
from featavg.training.trajectory import Outcome, Trajectory

ROLES: dict[str, Role] = {"coarse": "averaged", "fine": "decoupled"}
_MOST_POINTS = 400


@dataclass(frozen=True)
class RunNumbers:
    """One network of a simulation in numbers; None where there is nothing to measure.

    Attributes:
        outcome: how training ended, a name of `Outcome`.
        log10_loss: of the training loss at the end.
        log10_time: of the gradient-flow time (the sum of learning rates) at the end.
        train_right, train_n, test_right, test_n: correct coarse decisions, and of how many points.
        cluster_right: test points whose largest output is that of their cluster (fine labels).
        own_cosine: mean cosine of an equivalent weight with the feature of its own cluster.
        same_class_cosine: with the other features of its class.
        other_class_cosine: with the features of the other class.
        averaging_index, averaging_index_null: mean over the neurons, and of random directions
            with as large a share in the span of the features.
        span_share: mean share of |w|^2 in that span.
    """

    labels: str
    seed: int
    outcome: str
    steps: int
    log10_loss: float | None
    log10_time: float | None
    train_right: int
    train_n: int
    test_right: int | None
    test_n: int | None
    cluster_right: int | None
    own_cosine: float | None
    same_class_cosine: float | None
    other_class_cosine: float | None
    averaging_index: float | None
    averaging_index_null: float | None
    span_share: float | None = None

    @property
    def train_accuracy(self) -> Accuracy:
        """Share of correct decisions on the training points, with its interval."""
        return wilson(self.train_right, self.train_n)

    @property
    def test_accuracy(self) -> Accuracy | None:
        """Share of correct decisions on fresh points, with its interval."""
        if self.test_right is None or self.test_n is None:
            return None
        return wilson(self.test_right, self.test_n)


# The rows of a table of networks: a column of `RunNumbers`, or how many of how many.
_ROWS: dict[str, str | tuple[str, str]] = {
    "log10 of the training loss": "log10_loss",
    "training accuracy": ("train_right", "train_n"),
    "test accuracy": ("test_right", "test_n"),
    "clusters named right": ("cluster_right", "test_n"),
    "cosine with the own feature": "own_cosine",
    "  with others of its class": "same_class_cosine",
    "  with the other class": "other_class_cosine",
    "averaging index": "averaging_index",
    "  the same for random directions": "averaging_index_null",
    "  share of |w|² in the features' span": "span_share",
}


def table_rows(networks: Sequence[Sequence[RunNumbers]]) -> list[tuple[str, list[str]]]:
    """The numbers of networks as text, a cell for each; a network is the list of its seeds."""
    rows = [("how it ended (steps)", [_outcome(runs) for runs in networks])]
    for name, column in _ROWS.items():
        cell = partial(_share, column) if isinstance(column, tuple) else partial(_middle, column)
        rows.append((name, [cell(runs) for runs in networks]))
    return [(name, cells) for name, cells in rows if any(cells)]


def _outcome(runs: Sequence[RunNumbers]) -> str:
    endings = []
    for name in dict.fromkeys(run.outcome for run in runs):
        steps = [run.steps for run in runs if run.outcome == name]
        counts = f"{steps[0]}" if len(set(steps)) == 1 else f"{min(steps)} to {max(steps)}"
        endings.append(f"{Outcome[name].value} ({counts})")
    return "; ".join(endings)


def _middle(column: str, runs: Sequence[RunNumbers]) -> str:
    """The median over the seeds, and their range if there are several."""
    values = [value for run in runs if (value := getattr(run, column)) is not None]
    if not values:
        return ""
    middle = f"{statistics.median(values):.3f}"
    return middle if len(runs) == 1 else f"{middle}  [{min(values):.3f}, {max(values):.3f}]"


def _share(columns: tuple[str, str], runs: Sequence[RunNumbers]) -> str:
    """All seeds' points in one share, with its 95% interval."""
    right, n = ([getattr(run, column) for run in runs] for column in columns)
    return "" if None in right or None in n else str(wilson(sum(right), sum(n)))


def measure(
    setting: Setting, points: SimulationPoints, labels: str, run: Trajectory
) -> tuple[list[RunNumbers], Float[ndarray, "s k k"]]:
    """The numbers of each seed's network, and the matrix of Figure 2: entry (i, j) is cos(mu_i, w_j)."""
    pairs = [_numbers(setting, points, labels, run, index) for index in range(len(setting.seeds))]
    return [numbers for numbers, _ in pairs], np.stack([matrix for _, matrix in pairs])


def seed_weights(points: SimulationPoints, net: TwoLayer | Deep, index: int) -> Float[ndarray, "k N"]:
    """What the network of one seed looks for in each cluster."""
    labels = points.task.cluster_labels
    if isinstance(net, TwoLayer):
        return equivalent_weights(net, labels)
    return effective_weights(net, *points.trained_on(index), labels)


def seed_index(points: SimulationPoints, net: TwoLayer | Deep, index: int) -> AveragingIndex:
    """The averaging index of one seed's network: of its neurons, or of its effective weights."""
    labels = points.task.cluster_labels
    if isinstance(net, TwoLayer):
        return averaging_index_of(net, points.features, labels)
    return index_of(seed_weights(points, net, index), points.features, labels)


def net_of(run: Trajectory, index: int) -> TwoLayer | Deep:
    """The trained network of the seed at `index`."""
    return run.net[index] if run.net.batch else run.net


def _numbers(
    setting: Setting, points: SimulationPoints, labels: str, run: Trajectory, index: int
) -> tuple[RunNumbers, Float[ndarray, "k k"]]:
    net, seed, task, recipe = (net_of(run, index), setting.seeds[index], points.task, setting.recipe(labels))
    view = recipe.by_cluster(net, task)
    matrix = cosine_matrix(points.features, seed_weights(points, view, index))
    blocks = block_cosines(matrix, task.cluster_labels, diagonal=False)
    spread = seed_index(points, view, index)

    def right(x: ndarray, clusters: ndarray) -> int:
        decided = decisions(net, x, *recipe.decision(task, setting.readout))
        return int((decided == task.cluster_labels[clusters]).sum())

    def log10(logs: ndarray) -> float | None:
        return _finite(np.atleast_1d(logs[-1])[index] / math.log(10))

    x, clusters = points.trained_on(index)
    test_right = test_n = cluster_right = None
    if (fresh := points.fresh(seed, setting.n_test)) is not None:
        test_right, test_n = right(*fresh), len(fresh[0])
        if labels == "fine":
            named = net(fresh[0]).argmax(axis=-1) == recipe.targets(task)[fresh[1]]
            cluster_right = int(named.sum())
    numbers = RunNumbers(
        labels=labels,
        seed=seed,
        outcome=run.outcomes[index].name,
        steps=int(np.atleast_1d(run.steps[-1])[index]),
        log10_loss=log10(run.log_loss),
        log10_time=log10(run.log_times),
        train_right=right(x, clusters),
        train_n=len(x),
        test_right=test_right,
        test_n=test_n,
        cluster_right=cluster_right,
        own_cosine=_finite(np.diag(matrix).mean()),
        same_class_cosine=_finite(blocks.same_class),
        other_class_cosine=_finite(blocks.other_class),
        averaging_index=_finite(spread.value),
        averaging_index_null=_finite(spread.null),
        span_share=_finite(spread.share),
    )
    return numbers, matrix


def _finite(value: float) -> float | None:
    """JSON has no NaN; None says that there is no number."""
    return float(value) if math.isfinite(value) else None


def cosine_figure(cosines: Mapping[str, Float[ndarray, "s k k"]], task: MultiCluster) -> Figure:
    """A heat map for each network, as in Figure 2 of the paper; several seeds are averaged."""
    # Clusters of one class next to one another, so that an average shows as a block.
    order = np.argsort(~task.positive_clusters, kind="stable")
    breaks = (task.positive_count,)
    panels = []
    for labels, matrices in cosines.items():
        features, weights = (tuple(f"{w}<sub>{j + 1}</sub>" for j in order) for w in "μw")
        heat = Heatmap(
            matrices.mean(axis=0)[np.ix_(order, order)],
            features,
            weights,
            label="cosine",
            title=f"{labels} labels",
            limit=1.0,
            row_breaks=breaks,
            column_breaks=breaks,
        )
        panels.append(heat)
    caption = "Cosine of each feature (row) with each equivalent weight (column); lines part classes."
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
