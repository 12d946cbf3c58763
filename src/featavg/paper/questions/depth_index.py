"""Open question 2: do deeper networks average, and what does depth change?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy import ndarray

from featavg.figures.figure import Axis, Figure, Lines, Rule, Series
from featavg.figures.marks import Role
from featavg.figures.result import Result
from featavg.paper.questions.depth_networks import POINTS, Architecture, Learned, learned
from featavg.progress import Progress, silent

DEPTHS = (2, 3, 4, 6)
# Starts and widths at one depth: the first layer's scale, that of inner layers, and the neurons.
SIGMAS = (1e-5, 1e-3, 1e-2)
SCALES = (0.25, 0.5, 1.0, 2.0)
WIDTHS = (10, 20, 40)
VARIED_DEPTH = 4


def architectures(depths: Sequence[int] = DEPTHS) -> tuple[Architecture, ...]:
    """Plain and residual networks of every depth, with the first or all layers trained."""
    return tuple(
        Architecture(depth, residual, layers)
        for depth in depths
        for residual in (False, True)
        for layers in ("first", "all")
        if depth > 2 or not residual
    )


def variations(depth: int = VARIED_DEPTH) -> tuple[Architecture, ...]:
    """Residual networks of one depth with other starts and widths, each once."""
    varied = (
        *(Architecture(depth, True, sigma_w=sigma) for sigma in SIGMAS),
        *(Architecture(depth, True, inner_scale=scale) for scale in SCALES),
        *(Architecture(depth, True, neurons=width) for width in WIDTHS),
    )
    return tuple(dict.fromkeys(varied))


@dataclass(frozen=True, repr=False, eq=False)
class DepthAveraging(Result):
    """Index and radius of deep networks, one row for each architecture.

    Attributes:
        labels: "coarse" or "fine".
        rows: plain and residual networks of all depths.
        varied: other starts and widths at one depth, without radii.

    Returned by `fa.depth_averaging`, which has an example.
    """

    labels: str
    rows: tuple[Learned, ...]
    varied: tuple[Learned, ...]

    @property
    def shallow(self) -> tuple[Learned, ...]:
        """The rows with two layers."""
        return tuple(row for row in self.rows if row.architecture.depth == 2)

    @property
    def deep(self) -> tuple[Learned, ...]:
        """The rows with more."""
        return tuple(row for row in self.rows if row.architecture.depth > 2)

    def extreme(self, of: Callable[[Learned], ndarray], largest: bool = False) -> Learned:
        """The deep row whose mean over the seeds is smallest, or largest."""
        means = [float(np.mean(of(row))) for row in self.deep]
        return self.deep[int(np.argmax(means) if largest else np.argmin(means))]

    def figure(self) -> Figure:
        """Index and radius against depth."""
        unit = "√(d/k)" if self.labels == "coarse" else "√(d/2)"
        role: Role = "averaged" if self.labels == "coarse" else "decoupled"
        axis = Axis("layers", ticks=DEPTHS)
        index, radius = (
            tuple(self._series(residual, name, role) for residual in (False, True))
            for name in ("index", "radius")
        )
        what = "class" if self.labels == "coarse" else "cluster"
        return Figure(
            f"depth-{self.labels}",
            f"Depth, with {what} labels",
            f"Averaging index of the effective weights (left) and median exact radius over {unit} "
            f"(right) against depth; all layers trained with {what} labels to a loss of 0.1. Bands span "
            "the seeds; those of radii include what the budget left open.",
            (
                Lines(axis, Axis("averaging index", range=(0.0, 1.0)), index),
                Lines(axis, Axis(f"radius / {unit}"), radius, rules=(Rule(1.0, label="theory"),)),
            ),
            headline=self.labels == "coarse",
        )

    def _series(self, residual: bool, name: str, role: Role) -> Series:
        rows = [
            row
            for row in self.rows
            if row.architecture.layers == "all"
            and (row.architecture.residual is residual or row.architecture.depth == 2)
        ]
        low = [row.certified if name == "radius" else row.index for row in rows]
        high = [row.attack if name == "radius" else row.index for row in rows]
        return Series(
            "residual" if residual else "plain",
            [row.architecture.depth for row in rows],
            [float(np.mean(getattr(row, name))) for row in rows],
            role if residual else "neutral",
            "line+markers",
            [float(values.min()) for values in low],
            [float(values.max()) for values in high],
        )

    def to_json(self) -> dict[str, Any]:
        """Every row."""
        return {
            "labels": self.labels,
            "rows": [row.to_json() for row in self.rows],
            "varied": [row.to_json() for row in self.varied],
        }

    def summary(self) -> str:
        """A line for each architecture."""
        lines = [f"{self.labels} labels: index, own cosine, radius in units of the theory"]
        for row in self.rows:
            lines.append(
                f"  {row.architecture.name:32} {row.index.mean():.2f}  {row.own.mean():.2f}  "
                f"{row.certified.mean():.2f} to {row.attack.mean():.2f}"
            )
        for row in self.varied:
            start = row.architecture
            lines.append(
                f"  {start.name}, {start.neurons} neurons, start {start.sigma_w:g}, inner "
                f"{start.inner_scale:g}: {row.index.mean():.2f}  {row.own.mean():.2f}"
            )
        return "\n".join(lines)


def depth_averaging(
    labels: str = "coarse",
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4),
    depths: Sequence[int] = DEPTHS,
    points: int = POINTS,
    progress: Progress = silent,
    keep: Path | None = None,
) -> DepthAveraging:
    """Train networks of every depth, plain and residual, and measure what they learned.

    Args:
        labels: "coarse" (the average is expected) or "fine" (one feature for each output).
        seeds: of data and weights.
        depths: numbers of layers.
        points: fresh points whose radii are measured, for each seed; none for 0.
        progress: called with the share done and a note.
        keep: a folder for finished cells, so that a killed run goes on.

    >>> import featavg as fa
    >>> fa.depth_averaging(seeds=(0,), depths=(2,), points=1).deep
    ()
    """
    varied = variations() if VARIED_DEPTH in depths else ()
    grid = architectures(depths)
    rows = []
    wanted = [*((one, points) for one in grid), *((one, 0) for one in varied)]
    for i, (architecture, count) in enumerate(wanted):
        progress(i / len(wanted), f"{labels} labels, {architecture.name}")
        rows.append(learned(architecture, labels, tuple(seeds), points=count, keep=keep))
    return DepthAveraging(labels, tuple(rows[: len(grid)]), tuple(rows[len(grid) :]))
