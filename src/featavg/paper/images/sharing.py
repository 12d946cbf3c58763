"""The shared gradient of pairs of networks that differ in their labels: does it tell them apart?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from featavg.data.clusters import MultiCluster
from featavg.figures.figure import Axis, Bar, Bars, Figure
from featavg.figures.result import Result
from featavg.measures.shared_gradient import SharedGradient, shared_gradient
from featavg.robustness.models.decision import ALL
from featavg.robustness.models.model import network_model
from featavg.training.train import train


@dataclass(frozen=True)
class SharingRow:
    """A of networks with coarse and with fine labels on one kind of data, one value per seed.

    Attributes:
        panel, tick: the two halves of its name in a figure, where the whole would not fit.
    """

    name: str
    coarse: tuple[float, ...]
    fine: tuple[float, ...]
    nulls: tuple[float, ...]
    layer: str = "input"
    panel: str = ""
    tick: str = ""

    @property
    def told(self) -> bool:
        """Whether every network had a layer where A is well defined."""
        return bool(np.isfinite([*self.coarse, *self.fine, *self.nulls]).all())

    @property
    def gap(self) -> float:
        """The smallest with coarse labels minus the largest with fine ones; positive: no overlap.

        NaN where the statistic cannot tell.
        """
        return min(self.coarse) - max(self.fine) if self.told else float("nan")

    def to_json(self) -> dict[str, Any]:
        """Plain values; None where no layer has a valid null."""
        return {
            "name": self.name,
            "coarse": [_number(value) for value in self.coarse],
            "fine": [_number(value) for value in self.fine],
            "nulls": [_number(value) for value in self.nulls],
            "layer": self.layer,
            "gap": _number(self.gap),
        }


@dataclass(frozen=True, repr=False)
class SharingStudy(Result):
    """Rows for several kinds of data."""

    rows: tuple[SharingRow, ...]

    def figure(self) -> Figure:
        """A with either kind of labels, mean and range over seeds."""

        def bar(rows: Sequence[SharingRow], labels: str, role: Any, title: str) -> Bar:
            values = [getattr(row, labels) for row in rows]
            means = [float(np.mean(each)) for each in values]
            return Bar(
                title, means, role, [min(each) for each in values], [max(each) for each in values]
            )

        # A bar of a network that has no valid layer would read as decoupled.
        told = [row for row in self.rows if row.told]

        def bars(name: str) -> Bars:
            rows = [row for row in told if row.panel == name]
            both = (
                bar(rows, "coarse", "averaged", "coarse labels"),
                bar(rows, "fine", "decoupled", "fine labels"),
            )
            ticks = tuple(row.tick or row.name for row in rows)
            return Bars(ticks, both, Axis("shared gradient A", range=(0, 1)), title=name)

        return Figure(
            "shared-gradient",
            "The shared gradient tells averaged from decoupled networks",
            "Shared gradient A of the coarse decision, mean and range over seeds, of networks trained with "
            "coarse and with fine labels. 1 is one sensitive direction for a whole class.",
            tuple(bars(name) for name in dict.fromkeys(row.panel for row in told)),
        )

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {"rows": [row.to_json() for row in self.rows]}

    def summary(self) -> str:
        """A line for each row."""
        return "\n".join(
            f"{row.name:28} coarse {np.mean(row.coarse):5.2f}  fine {np.mean(row.fine):5.2f}  "
            f"gap {row.gap:+.2f}  null at least {min(row.nulls):.2f}"
            for row in self.rows
        )


def simulated_sharing(
    task: MultiCluster, seeds: Sequence[int], readout: str = "probability", n: int = 1000
) -> SharingRow:
    """A of the simulator's networks on fresh points, gradients in closed form."""
    values: dict[str, list[float]] = {"coarse": [], "fine": []}
    nulls = []
    for labels, each in values.items():
        for seed in seeds:
            shared = network_sharing(task, labels, seed, readout, n)
            each.append(shared.value)
            nulls.append(shared.null)
    panel = f"k={task.k}, cosine {task.cosine:g}"
    coarse, fine = tuple(values["coarse"]), tuple(values["fine"])
    return SharingRow(f"{panel}, {readout}", coarse, fine, tuple(nulls), panel=panel, tick=readout)


def network_sharing(
    task: MultiCluster, labels: str, seed: int, readout: str = "probability", n: int = 1000
) -> SharedGradient:
    """Train a network of the simulator and measure its shared gradient at the input."""
    net = train(task, labels=labels, n=n, steps=100, seed=seed).net
    points = task.sample(n, seed=seed + 1)
    positive = task.positive_clusters if net.outputs > 1 else None
    model = network_model(net, positive, readout)
    x = model.rows(points.coordinates(net.dimension))
    label = model.decision.labels(points.y)
    margin, _, gradient = model.descend(x, label, np.full(len(x), ALL))
    right = margin > 0
    groups = task.positive_clusters.astype(int)
    return shared_gradient(gradient[right], points.clusters[right], groups, 20, 20, seed)


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
