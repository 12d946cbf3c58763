"""Does depth change the radius sqrt(d/k) of networks trained on class labels?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.errors import InputError
from featavg.figures.figure import Axis, Figure, Lines, Series
from featavg.figures.marks import Role
from featavg.figures.result import Result
from featavg.paper.questions.depth_networks import Architecture, K, Learned, learned
from featavg.progress import Progress, silent

DIMENSIONS = (1_000, 10_000, 100_000, 1_000_000)
CLUSTERS = (4, 6, 10, 16)
CLUSTERS_D = 100_000
SHAPES = (Architecture(2), Architecture(3), Architecture(3, True), Architecture(4, True))
POINTS = 10


@dataclass(frozen=True, repr=False, eq=False)
class DepthScaling(Result):
    """Radii against d and k for several architectures.

    Attributes:
        shapes: the architectures.
        along_d: for each architecture, what was learned at each of `dimensions`, k = 10.
        along_k: for each architecture, what was learned for each of `clusters`, d = 100,000.

    Returned by `fa.depth_scaling`, which has an example.
    """

    shapes: tuple[Architecture, ...]
    along_d: tuple[tuple[Learned, ...], ...]
    along_k: tuple[tuple[Learned, ...], ...]

    def slopes_d(self, shape: int) -> Float[ndarray, " s"]:
        """The exponent of d in the radius, one for each seed; the theory says 1/2."""
        return _slopes(self.along_d[shape], "d")

    def slopes_k(self, shape: int) -> Float[ndarray, " s"]:
        """The exponent of k in the radius, one for each seed; the theory says -1/2."""
        return _slopes(self.along_k[shape], "k")

    def ratios(self, shape: int) -> Float[ndarray, " s"]:
        """Radius over sqrt(d/k) of each seed, the mean over all d and k."""
        rows = (*self.along_d[shape], *self.along_k[shape])
        return np.asarray(np.mean([row.radius for row in rows], axis=0))

    def figure(self) -> Figure:
        """Radius over sqrt(d/k) against d and against k."""
        panels = []
        for name, rows in (("d", self.along_d), ("k", self.along_k)):
            series = []
            for i, (shape, cells) in enumerate(zip(self.shapes, rows, strict=True)):
                role: Role = "averaged" if shape.residual else "neutral"
                series.append(
                    Series(
                        f"{shape.depth} layers{', residual' if shape.residual else ''}",
                        [getattr(row, name) for row in cells],
                        [float(row.radius.mean()) for row in cells],
                        role,
                        "line+markers",
                        [float(row.certified.min()) for row in cells],
                        [float(row.attack.max()) for row in cells],
                        shade=1.0 - 0.2 * i,
                    )
                )
            panels.append(
                Lines(Axis(name, log=True), Axis("radius / √(d/k)", range=(0, 2)), tuple(series))
            )
        return Figure(
            "depth-scaling",
            "√(d/k) at every depth",
            f"Median exact radius over √(d/k) of networks trained on class labels, against d (k = {K}, "
            f"left) and k (d = {CLUSTERS_D:,}, right). Level lines say that depth changes no exponent.",
            tuple(panels),
        )

    def to_json(self) -> dict[str, Any]:
        """Every cell and the exponents."""
        return {
            "along_d": [[row.to_json() for row in rows] for rows in self.along_d],
            "along_k": [[row.to_json() for row in rows] for rows in self.along_k],
            "slopes_d": [self.slopes_d(i).tolist() for i in range(len(self.shapes))],
            "slopes_k": [self.slopes_k(i).tolist() for i in range(len(self.shapes))],
        }

    def summary(self) -> str:
        """A line for each architecture."""
        lines = ["exponents of d and k in the radius (theory: 0.5, -0.5), and radius / sqrt(d/k)"]
        for i, shape in enumerate(self.shapes):
            lines.append(
                f"  {shape.name:32} {self.slopes_d(i).mean():.3f}  {self.slopes_k(i).mean():.3f}  "
                f"{self.ratios(i).mean():.2f}"
            )
        return "\n".join(lines)


def _slopes(rows: tuple[Learned, ...], name: str) -> Float[ndarray, " s"]:
    size = np.log([getattr(row, name) for row in rows])
    lengths = [row.radius * math.sqrt(row.d / row.k) for row in rows]
    return np.asarray(np.polyfit(size, np.log(lengths), 1)[0])


def depth_scaling(
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4),
    shapes: Sequence[Architecture] = SHAPES,
    dimensions: Sequence[int] = DIMENSIONS,
    clusters: Sequence[int] = CLUSTERS,
    progress: Progress = silent,
    keep: Path | None = None,
) -> DepthScaling:
    """Train every architecture at several d and k on class labels; exact radii of fresh points.

    Args:
        seeds: of data and weights.
        shapes: architectures.
        dimensions, clusters: values of d (for k = 10) and of k (for d = 100,000).
        progress: called with the share done and a note.
        keep: a folder for finished cells, so that a killed run goes on.

    >>> import featavg as fa
    >>> study = fa.depth_scaling((0,), (fa.Architecture(3),), (1000, 4000), (4, 6))
    >>> bool(abs(study.slopes_d(0)[0] - 0.5) < 0.2)
    True
    """
    for name, values in (("dimensions", dimensions), ("clusters", clusters)):
        if len(set(values)) < 2:
            raise InputError(name, f"has {len(set(values))} value", "an exponent needs two")
    along_d, along_k = [], []
    for i, shape in enumerate(shapes):
        progress(i / len(shapes), shape.name)
        along_d.append(
            tuple(learned(shape, "coarse", tuple(seeds), K, d, POINTS, keep) for d in dimensions)
        )
        along_k.append(
            tuple(
                learned(shape, "coarse", tuple(seeds), k, CLUSTERS_D, POINTS, keep)
                for k in clusters
            )
        )
    return DepthScaling(tuple(shapes), tuple(along_d), tuple(along_k))
