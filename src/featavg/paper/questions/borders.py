r"""Where is the border? Maps of the averaging index and of the exact gain over two settings at a time.

All maps train by the paper's gradient descent at d = 1000, k = 10, m = 5, n = 120 unless an axis says
otherwise, for the time rate * steps = 1 (the product with d is what counts, so the rate falls like
1/d where d varies). Every cell is the median over its seeds, every run is one of `featavg.sweep`.

What to expect. With n/k samples a cluster, a neuron that is the sum of its class's samples has the
signal (n/k)^2 d k/2 and the noise sigma^2 d n/2 in its squared length, so the share of it in the span
of the features, which bounds the index, is

    share = 1 / (1 + k sigma^2 / n):        averaging ends where k sigma^2 = n.

An initial weight of squared length sigma_w^2 d stays beside what is learned, lambda^2 k / (2 d), and
lambda + e^lambda - 1 = d p t / m; the lazy regime begins where both are equal,

    sigma_w = lambda sqrt(k/2) / d.

Neither d nor the number of neurons is in the first formula, and the rate is in neither.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.errors import one_of
from featavg.figures.figure import Axis, Contour, Figure, Heatmap, Plane
from featavg.figures.result import Result
from featavg.paper.theorems.unequal_sizes import predicted_coefficients
from featavg.progress import Progress, silent
from featavg.simulate.sweep.engines import Engine
from featavg.simulate.sweep.run import sweep

K, D, N, M, TIME, STEPS, TEST_POINTS = 10, 1000, 120, 5, 1.0, 100, 8
MEASURES = ("index", "gain")
Cells = Float[ndarray, "r c s"]


def _whole(low: float, high: float, count: int = 20) -> tuple[int, ...]:
    return tuple(dict.fromkeys(round(float(v)) for v in np.geomspace(low, high, count)))


def _log(low: float, high: float, count: int = 20) -> tuple[float, ...]:
    return tuple(float(f"{v:.4g}") for v in np.geomspace(low, high, count))


CLUSTERS = tuple(range(4, 24))


def _tick(value: float) -> str:
    """Two digits, below 0.01 one, which is what fits below a cell.

    >>> _tick(0.6952), _tick(1e-4), _tick(23), _tick(144000), _tick(10**6)
    ('0.7', '1e-4', '23', '140k', '1M')
    """
    rounded = float(f"{value:.2g}")
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if rounded >= size:
            return f"{rounded / size:g}{unit}"
    if rounded >= 0.01:
        return f"{rounded:g}"
    return f"{value:.0e}".replace("e-0", "e-")


@dataclass(frozen=True)
class Diagram:
    """Two fields of a setting with their values; `tied` is what must follow the value of the row."""

    rows: tuple[str, tuple[Any, ...]]
    columns: tuple[str, tuple[Any, ...]]
    row_label: str
    column_label: str
    tied: Callable[[Any], Mapping[str, Any]]
    log_rows: bool = True
    log_columns: bool = True


def _usual(_: Any) -> dict[str, Any]:
    return {"d": D, "lr": TIME / STEPS}


DIAGRAMS = {
    "noise": Diagram(
        ("k", CLUSTERS), ("sigma", _log(0.1, 10)), "clusters k", "noise σ", _usual, log_rows=False
    ),
    "samples": Diagram(
        ("d", _whole(30, 10**6)),
        ("n", _whole(10, 400)),
        "dimension d",
        "samples n",
        # As in the theorems everything that is multiplied with d falls like 1/d.
        lambda d: {"lr": TIME * D / d / STEPS, "sigma_w": 1e-2 / d, "sigma_b": 1e-2 / d},
    ),
    "initialisation": Diagram(
        ("lr", _log(2e-3, 1.0)),
        ("sigma_w", _log(1e-4, 1.0)),
        "learning rate η",
        "initial weights σ<sub>w</sub>",
        lambda lr: {"d": D, "steps": max(1, round(TIME / lr))},
    ),
    "neurons": Diagram(
        ("k", CLUSTERS),
        ("m", tuple(range(1, 21))),
        "clusters k",
        "neurons per class m",
        _usual,
        log_rows=False,
        log_columns=False,
    ),
}


def signal_share(k: float, sigma: float, n: float) -> float:
    """1 / (1 + k sigma^2 / n), what noise leaves of a neuron for the features.

    >>> signal_share(10, 1.0, 30)
    0.75
    """
    return 1.0 / (1.0 + k * sigma**2 / n)


def lazy_border() -> float:
    """sigma_w = lambda sqrt(k/2) / d at which the initial weights are as long as what is learned."""
    lam = float(predicted_coefficients(np.array([1.0 / K]), D * TIME / M)[0])
    return lam * math.sqrt(K / 2) / D


@dataclass(frozen=True, eq=False, repr=False)
class BorderMap(Result):
    """Index and gain over two fields, a value for each seed.

    Attributes:
        name: a key of `DIAGRAMS`.
        index, share: of the network with class labels, averaging index and share in the span.
        gain: median exact radius with cluster labels (`max`) over that with class labels; NaN where
            the latter is zero.
        failed: runs that ended in an error.

    Returned by `fa.border_map`, which has an example.
    """

    name: str
    seeds: tuple[int, ...]
    index: Cells
    share: Cells
    gain: Cells
    failed: int

    @property
    def diagram(self) -> Diagram:
        """The axes."""
        return DIAGRAMS[self.name]

    def middle(self, cells: Cells) -> Float[ndarray, "r c"]:
        """The median over the seeds of each cell; NaN where most seeds have none."""
        counted = np.isfinite(cells).sum(axis=-1) > cells.shape[-1] / 2
        filled = np.where(counted[..., None], cells, 0.0)
        return np.where(counted, np.nanmedian(filled, axis=-1), np.nan)

    @property
    def grid(self) -> tuple[Float[ndarray, "r c"], Float[ndarray, "r c"]]:
        """The values of the row's and of the column's field at every cell."""
        rows, columns = self.diagram.rows[1], self.diagram.columns[1]
        lines, across = np.meshgrid(np.array(rows, float), np.array(columns, float), indexing="ij")
        return lines, across

    def field(self, name: str) -> Float[ndarray, "r c"]:
        """One field of the setting at every cell."""
        lines, across = self.grid
        usual = {"k": K, "d": D, "n": N, "m": M, "sigma": 1.0}
        if name == self.diagram.rows[0]:
            return lines
        return (
            across if name == self.diagram.columns[0] else np.full(lines.shape, float(usual[name]))
        )

    @property
    def relative_gain(self) -> Float[ndarray, "r c"]:
        """The gain over the theory's sqrt(k/2)."""
        return self.middle(self.gain) / np.sqrt(self.field("k") / 2)

    @property
    def predicted_share(self) -> Float[ndarray, "r c"]:
        """1 / (1 + k sigma^2 / n)."""
        return 1.0 / (1.0 + self.field("k") * self.field("sigma") ** 2 / self.field("n"))

    def crossing(self) -> Float[ndarray, " r"]:
        """For each row the value of the column's field at which the index falls below one half.

        Between two columns by a straight line over the logarithm; NaN where it does not cross.
        """
        middle, values = self.middle(self.index), np.log(self.diagram.columns[1])
        places = []
        for row in middle:
            below = np.flatnonzero((row[1:] < 0.5) & (row[:-1] >= 0.5))
            if not len(below):
                places.append(math.nan)
                continue
            i = int(below[0])
            part = (row[i] - 0.5) / (row[i] - row[i + 1])
            places.append(math.exp(values[i] + part * (values[i + 1] - values[i])))
        return np.array(places)

    def figure(self) -> Figure:
        """Both maps, and the borders as lines."""
        diagram = self.diagram
        maps = (("averaging index", self.middle(self.index)), ("gain / √(k/2)", self.relative_gain))
        heats = tuple(
            Heatmap(
                values[::-1],
                tuple(_tick(v) for v in diagram.rows[1][::-1]),
                tuple(_tick(v) for v in diagram.columns[1]),
                label=label,
                limit=1.0 if label.startswith("averaging") else 2.0,
                row_label=diagram.row_label,
                column_label=diagram.column_label,
                title=label,
            )
            for label, values in maps
        )
        return Figure(
            f"border-{self.name}",
            f"Averaging over {diagram.column_label} and {diagram.row_label}",
            f"Median over {len(self.seeds)} seeds in each of {self.index[..., 0].size} cells. Left: the "
            "averaging index with class labels. Middle: the exact gain in radius of cluster labels over "
            "the theory's √(k/2); empty where half of the points are misclassified with class labels. "
            "Right: where the index is one half, measured and as predicted.",
            (*heats, self._lines()),
        )

    def _lines(self) -> Plane:
        diagram = self.diagram
        # Lists: the axes of a map need not have as many values as each other.
        x, y = (
            [math.log10(value) if log else value for value in axis[1]]
            for axis, log in (
                (diagram.columns, diagram.log_columns),
                (diagram.rows, diagram.log_rows),
            )
        )
        middle = np.nan_to_num(self.middle(self.index))
        contours = [Contour("index ½, measured", x, y, middle, "averaged", (0.5,))]
        if self.name == "initialisation":
            predicted = np.log(lazy_border() / self.grid[1])
            contours.append(Contour("λ√(k/2)/d", x, y, predicted, "reference", (0.0,)))
        elif self.name != "neurons":
            share = self.predicted_share
            contours.append(Contour("kσ² = n", x, y, share, "reference", (0.5,)))
        return Plane(
            Axis(f"log₁₀ {diagram.column_label}" if diagram.log_columns else diagram.column_label),
            Axis(f"log₁₀ {diagram.row_label}" if diagram.log_rows else diagram.row_label),
            contours=tuple(contours),
            equal=False,
            title="borders",
        )

    def to_json(self) -> dict[str, Any]:
        """The axes and every cell's median, rounded to what the seeds let one say."""

        def plain(values: ndarray) -> list[list[float | None]]:
            return [[None if math.isnan(v) else round(float(v), 4) for v in row] for row in values]

        return {
            "rows": {self.diagram.rows[0]: list(self.diagram.rows[1])},
            "columns": {self.diagram.columns[0]: list(self.diagram.columns[1])},
            "seeds": list(self.seeds),
            "index": plain(self.middle(self.index)),
            "share": plain(self.middle(self.share)),
            "gain": plain(self.middle(self.gain)),
            "failed": self.failed,
        }

    def summary(self) -> str:
        """The size of the map and the ranges in it."""
        index, gain = self.middle(self.index), self.relative_gain
        return (
            f"Map over {self.diagram.rows[0]} and {self.diagram.columns[0]}: {index.size} cells of "
            f"{len(self.seeds)} seeds, {self.failed} runs failed\n"
            f"  averaging index {np.nanmin(index):.2f} to {np.nanmax(index):.2f}\n"
            f"  gain / √(k/2) {np.nanmin(gain):.2f} to {np.nanmax(gain):.2f}"
        )


def border_map(
    name: str,
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4),
    store: str | Path | None = None,
    engine: str | Engine = "serial",
    progress: Progress = silent,
) -> BorderMap:
    """Run (or go on with) one map, row by row.

    Args:
        name: "noise", "samples", "initialisation" or "neurons".
        seeds: of each cell.
        store: folder of the index of runs; without one nothing is kept.
        engine: as of `sweep`.

    >>> import featavg as fa  # needs minutes
    >>> borders = fa.border_map("noise", seeds=(0,))
    """
    one_of("name", name, DIAGRAMS)
    if store is None:
        with tempfile.TemporaryDirectory() as folder:
            return border_map(name, seeds, folder, engine, progress)
    diagram = DIAGRAMS[name]
    field, values = diagram.rows
    tables = []
    for i, value in enumerate(values):
        progress(i / len(values), f"{field} = {value}")
        given: dict[str, Any] = {"k": K, "n": N, "m": M, "steps": STEPS, "n_test": TEST_POINTS}
        given |= {**diagram.tied(value), field: value}
        given.pop(diagram.columns[0], None)
        vary = {diagram.columns[0]: diagram.columns[1]}
        tables.append(sweep(vary, store, measures=MEASURES, seeds=seeds, engine=engine, **given))
    index, share, gain = (
        np.stack([table.cells(column) for table in tables])
        for column in ("index_coarse", "span_share_coarse", "gain")
    )
    failed = sum(int(np.count_nonzero(table.columns["error"] != "")) for table in tables)
    return BorderMap(name, tuple(seeds), index, share, gain, failed)
