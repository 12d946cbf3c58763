"""The result of a sweep: a table with one row per run, its figures, and its files."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import ndarray

import featavg
from featavg.errors import InputError, one_of
from featavg.figures.figure import Axis, Contour, Figure, Heatmap, Lines, Plane, Result, Series
from featavg.figures.typeset import number
from featavg.simulate.sweep.plan import Plan, SweepAxis
from featavg.simulate.sweep.store import Row, load_arrays
from featavg.storage.files import dumps, write

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

PAGE = "sweep.html"
SHOWN = 200  # rows of the table on the page; the CSV has all
# What the theory says of a column, as a function of the fields of the setting.
THEORY: dict[str, tuple[str, Callable[[Mapping[str, Any]], float]]] = {
    "radius_coarse": ("√(d(1−c)/k)", lambda s: _farthest(s) / math.sqrt(s["k"])),
    "radius_fine_max": ("√(d(1−c)/2)", lambda s: _farthest(s) / math.sqrt(2)),
    "gain": ("√(k/2)", lambda s: math.sqrt(s["k"] / 2)),
    "index_coarse": ("an average", lambda s: 1.0),
    "index_fine": ("one feature", lambda s: 0.0),
}


def _farthest(setting: Mapping[str, Any]) -> float:
    return float(setting["alpha"] * math.sqrt(setting["d"] * (1 - setting["cosine"])))


@dataclass(frozen=True, eq=False, repr=False)
class Sweep(Result):
    """A sweep's table: a column per varied field, `seed`, a column per measured number, `error`.

    Attributes:
        plan: what was asked for.
        columns: arrays of equal length, by name; a missing number is NaN.
        store: the folder of the index, where measured arrays are.
        ids: the runs of every line of the table, one for each measure.

    Returned by `fa.sweep`, which has an example.
    """

    plan: Plan
    columns: dict[str, ndarray]
    store: Path = Path()
    ids: tuple[tuple[str, ...], ...] = ()

    @staticmethod
    def of(
        plan: Plan,
        points: Sequence[Mapping[str, Any]],
        settings: Sequence[str],
        rows: Sequence[Row],
        store: Path = Path(),
    ) -> Sweep:
        """Join the rows of all measures: one line per setting and seed, in the plan's order."""
        by_run: dict[tuple[str, int], list[Row]] = {}
        for row in rows:
            by_run.setdefault((row.setting, row.seed), []).append(row)
        names = dict.fromkeys(name for row in rows for name in row.values)
        lines, ids = [], []
        for point, setting in zip(points, settings, strict=True):
            for seed in plan.seeds:
                found = by_run.get((setting, seed), [])
                values = {k: v for row in found for k, v in row.values.items() if v is not None}
                line = {**point, "seed": seed} | dict.fromkeys(names, math.nan) | values
                line["seconds"] = sum((row.seconds for row in found), 0.0)
                line["error"] = next((row.error for row in found if row.error), "")
                lines.append(line)
                ids.append(tuple(row.id for row in found))
        columns = {name: np.array([line[name] for line in lines]) for name in lines[0]}
        return Sweep(plan, columns, store, tuple(ids))

    def __len__(self) -> int:
        return len(self.columns["seed"])

    @property
    def measured(self) -> list[str]:
        """The names of the measured columns."""
        fields = {axis.field for axis in self.plan.axes}
        return [c for c in self.columns if c not in fields | {"seed", "seconds", "error"}]

    def cells(self, column: str) -> ndarray:
        """The values of a column, one row per setting and one column per seed."""
        one_of("column", column, self.measured)
        return self.columns[column].astype(float).reshape(-1, len(self.plan.seeds))

    def array(self, name: str) -> list[ndarray | None]:
        """A measured array of every run, read from its file: one per line of the table, None if missing.

        Args:
            name: such as `cosine_matrix_coarse` of the measure "cosines".
        """
        cells = []
        for ids in self.ids:
            arrays = {k: v for one in ids for k, v in load_arrays(self.store, one).items()}
            cells.append(arrays.get(name))
        if self.ids and all(array is None for array in cells):
            known = sorted({k for one in self.ids[0] for k in load_arrays(self.store, one)})
            one_of("name", name, known or ["(no measure of this sweep has arrays)"])
        return cells

    def to_pandas(self) -> pd.DataFrame:
        """The table as a pandas DataFrame, one row per run."""
        import pandas as pd

        return pd.DataFrame(self.columns)

    def to_xarray(self) -> xr.Dataset:
        """The table with labelled axes: the varied fields and `seed`; random points have one axis, `point`.

        >>> import tempfile
        >>> import featavg as fa
        >>> fixed = {"k": 4, "d": 50, "n": 20, "steps": 5, "engine": "serial"}
        >>> table = fa.sweep({"cosine": [0, 0.5]}, tempfile.mkdtemp(), measures="loss", seeds=2, **fixed)
        >>> dict(table.to_xarray()["log10_loss_fine"].sizes)
        {'cosine': 2, 'seed': 2}
        """
        import xarray as xr

        axes, seeds = self.plan.axes, self.plan.seeds
        coordinates: dict[str, Any] = {"seed": list(seeds)}
        if self.plan.way == "grid":
            coordinates = {axis.field: list(axis.values) for axis in axes} | coordinates
            inner = tuple(axis.field for axis in axes)
            shape = tuple(len(axis.values) for axis in axes)
        else:
            inner, shape = ("point",), (len(self.plan),)
            fields = {axis.field: self.columns[axis.field][:: len(seeds)] for axis in axes}
            coordinates |= {name: ("point", values) for name, values in fields.items()}
        names = [*self.measured, "seconds", "error"]
        cells = {name: self.columns[name].reshape(*shape, len(seeds)) for name in names}
        return xr.Dataset({n: ((*inner, "seed"), cell) for n, cell in cells.items()}, coordinates)

    def to_csv(self, path: str | Path | None = None) -> str:
        """The table as CSV, written to `path` if one is given."""
        text: str = self.to_pandas().to_csv(index=False, na_rep="nan", lineterminator="\n")
        if path is not None:
            write(Path(path), text)
        return text

    def to_parquet(self, path: str | Path) -> Path:
        """The table as a Parquet file."""
        try:
            return write(Path(path), self.to_pandas().to_parquet(index=False))
        except ImportError:
            raise InputError("pyarrow", "is not installed", "pip install pyarrow") from None

    def to_json(self) -> dict[str, Any]:
        """Plain values; a missing number is None."""
        return {
            "base": dict(self.plan.base),
            "vary": {axis.field: list(axis.values) for axis in self.plan.axes},
            "seeds": list(self.plan.seeds),
            "columns": {
                name: [None if isinstance(v, float) and math.isnan(v) else v for v in col.tolist()]
                for name, col in self.columns.items()
            },
        }

    def summary(self) -> str:
        """The size of the table and the range of each measured column."""
        varied = ", ".join(f"{axis.field} ({len(axis.values)})" for axis in self.plan.axes)
        failed = int(np.count_nonzero(self.columns["error"] != ""))
        lines = [f"Sweep over {varied}: {len(self)} runs, {failed} failed"]
        for name in self.measured:
            values = self.columns[name].astype(float)
            known = values[np.isfinite(values)]
            span = f"{number(known.min())} to {number(known.max())}" if len(known) else "no number"
            lines.append(f"  {name}: {span}")
        return "\n".join(lines)

    def figure(self, column: str | None = None) -> Figure:
        """One measured column: a line with its band over seeds, or a map over two fields.

        Args:
            column: which; the first by default.
        """
        name = column or self.measured[0]
        values = self.cells(name)
        numeric = [axis for axis in self.plan.axes if _numbers(axis.values)]
        if self.plan.way != "grid" or not numeric:
            return self._scatter(name, np.nanmedian(values, axis=1))
        if len(self.plan.axes) == len(numeric) == 2:
            return self._map(name, np.nanmedian(values, axis=1))
        return self._lines(name, values, numeric[0])

    def _theory(self, name: str) -> tuple[str, list[float]] | None:
        """What the theory says of a column at each setting, and its formula."""
        if name not in THEORY:
            return None
        label, formula = THEORY[name]
        settings = (self.plan.setting(point).to_json() for point in self.plan.points())
        try:
            return label, [formula(setting) for setting in settings]
        except (ValueError, ZeroDivisionError):
            return None

    def _lines(self, name: str, values: ndarray, axis: SweepAxis) -> Figure:
        groups: dict[str, list[int]] = {}
        points = list(self.plan.points())
        for i, point in enumerate(points):
            others = (f"{other} {value}" for other, value in point.items() if other != axis.field)
            groups.setdefault(", ".join(others) or name, []).append(i)
        series = []
        for place, (label, members) in enumerate(groups.items()):
            x, runs = [points[i][axis.field] for i in members], values[members]
            shade = 1.0 if len(groups) == 1 else 0.3 + 0.7 * place / (len(groups) - 1)
            middle, band = np.nanmedian(runs, axis=1), (np.nanmin(runs, 1), np.nanmax(runs, 1))
            series.append(Series(label, x, middle, "averaged", "solid", *band, shade))
        if (theory := self._theory(name)) is not None:
            members = next(iter(groups.values()))
            x, y = [points[i][axis.field] for i in members], [theory[1][i] for i in members]
            series.append(Series(theory[0], x, y, "reference", "dashed"))
        panel = Lines(Axis(axis.field, log=axis.log), Axis(name), tuple(series))
        caption = f"Median over {len(self.plan.seeds)} seeds; bands from the least to the largest."
        return _figure(name, f"{name} against {axis.field}", caption, panel)

    def _map(self, name: str, medians: ndarray) -> Figure:
        first, second = self.plan.axes
        middle = medians.reshape(len(first.values), len(second.values))
        known = middle[np.isfinite(middle)]
        heat = Heatmap(
            np.where(np.isfinite(middle), middle, np.nan)[::-1],
            tuple(number(v) for v in first.values[::-1]),
            tuple(number(v) for v in second.values),
            label=name,
            row_label=first.field,
            column_label=second.field,
            printed=len(second.values) <= 8,
        )
        (x, across), (y, up) = _scale(second), _scale(first)
        levels = tuple(np.unique(np.quantile(known, [0.25, 0.5, 0.75]))) if len(known) else (0.0,)
        filled = np.where(np.isfinite(middle), middle, float(known.mean()) if len(known) else 0.0)
        contours = [Contour("measured", x, y, filled, "averaged", levels)]
        if (theory := self._theory(name)) is not None and np.ptp(theory[1]) > 0:
            predicted = np.reshape(theory[1], middle.shape)
            contours.append(Contour(theory[0], x, y, predicted, "reference", levels))
        plane = Plane(across, up, contours=tuple(contours))
        listed = ", ".join(number(level) for level in levels)
        caption = f"Median over {len(self.plan.seeds)} seeds. Right: where {name} is {listed}."
        return _figure(name, f"{name} over {first.field} and {second.field}", caption, heat, plane)

    def _scatter(self, name: str, medians: ndarray) -> Figure:
        axis, points = self.plan.axes[0], list(self.plan.points())
        x = [p[axis.field] if _numbers(axis.values) else i for i, p in enumerate(points)]
        dots = (Series(name, x, medians, "averaged", "markers"),)
        caption = f"One point per setting, the median over {len(self.plan.seeds)} seeds."
        panel = Lines(Axis(axis.field, log=axis.log), Axis(name), dots)
        return _figure(name, f"{name} against {axis.field}", caption, panel)


def _figure(column: str, title: str, caption: str, *panels: Any) -> Figure:
    return Figure(f"sweep-{column.replace('_', '-')}", title, caption, panels)


def _scale(axis: SweepAxis) -> tuple[ndarray, Axis]:
    """The places of an axis's values on a plane, and its label there."""
    if axis.log:
        return np.log10(axis.values), Axis(f"log10 {axis.field}")
    return np.asarray(axis.values, float), Axis(axis.field)


def _numbers(values: Sequence[Any]) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def write_sweep(result: Sweep, out: str | Path, command: str = "") -> Path:
    """Write the table as CSV and JSON, every figure, and the page; return the page's path."""
    from featavg.figures import palette
    from featavg.figures.html import environment
    from featavg.figures.matplotlib_figure import save

    folder, pictures = Path(out), []
    result.to_csv(folder / "table.csv")
    write(folder / "table.json", dumps(result.to_json()))
    for name in result.measured:
        figure = result.figure(name)
        pictures.append((figure, base64.b64encode(save(figure, folder / "figures")["png"]).decode()))
    columns = [column.tolist() for column in result.columns.values()]
    rows = list(zip(*columns, strict=True))[:SHOWN]
    about = {"version": featavg.__version__, "command": command, "palette": palette.css()}
    template = environment(Path(__file__).parent).get_template(PAGE)
    return write(folder / PAGE, template.render(about, sweep=result, pictures=pictures, rows=rows))
