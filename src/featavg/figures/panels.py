"""The kinds of panel a figure is made of: lines, heat map, bars, plane.

Each is a frozen dataclass, checked when it is made, and knows its own rows for the CSV file.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from featavg.errors import InputError
from featavg.figures.marks import (
    Arrow,
    Axis,
    Bar,
    Circle,
    Contour,
    Label,
    Matrix,
    Note,
    Number,
    Numbers,
    Panel,
    Points,
    Role,
    Row,
    Rule,
    Series,
    same_length,
)

# Of rows of marks that share a colour.
SHAPES = ("circle", "square", "diamond", "cross")


@dataclass(frozen=True)
class Lines(Panel):
    """Curves and markers over two axes, either of them logarithmic."""

    x: Axis
    y: Axis
    series: tuple[Series, ...]
    title: str = ""
    rules: tuple[Rule, ...] = ()
    notes: tuple[Note, ...] = ()

    @classmethod
    def histogram(
        cls,
        x: Axis,
        samples: Mapping[str, tuple[Numbers, Role]],
        *,
        bins: int = 40,
        title: str = "",
        rules: Sequence[Rule] = (),
    ) -> Lines:
        """The share of each sample (label -> values, role) a bin, bins shared and equal in `x`, as outlines."""
        arrays = {name: np.asarray(v, dtype=np.float64) for name, (v, _) in samples.items()}
        pooled = np.concatenate(list(arrays.values()))
        pooled = pooled[np.isfinite(pooled)]
        _positive_if_log(x, "samples", pooled)
        edges = np.histogram_bin_edges(np.log(pooled) if x.log else pooled, bins)
        edges = np.exp(edges) if x.log else edges
        series = []
        for name, (_, role) in samples.items():
            shares = np.histogram(arrays[name], edges)[0] / max(len(arrays[name]), 1)
            series.append(Series(name, np.repeat(edges, 2), [0.0, *np.repeat(shares, 2), 0.0], role))
        return cls(x, Axis("share of points"), tuple(series), title, tuple(rules))

    @property
    def markers(self) -> tuple[str, ...]:
        """The marker of each series: another one for the second row of marks of one colour."""
        looks = [(one.role, one.shade, "markers" in one.style) for one in self.series]
        return tuple(SHAPES[looks[:i].count(look) % len(SHAPES)] for i, look in enumerate(looks))

    def labels(self) -> Iterator[Label]:
        """One for each series."""
        for one, marker in zip(self.series, self.markers, strict=True):
            look = f"{one.style} {marker}" if "markers" in one.style else one.style
            yield Label(one.label, one.role, float(one.shade), look)

    def _check(self) -> None:
        for one in self.series:
            _positive_if_log(self.x, f"x of {one.label}", one.x)
            for values in (one.y, one.lo, one.hi):
                _positive_if_log(self.y, f"y of {one.label}", values)
        _check_overlays(self.x, self.y, self.rules, self.notes)

    def table(self) -> Iterator[Row]:
        """One row per point."""
        for one in self.series:
            for i, (x, y) in enumerate(zip(one.x, one.y, strict=True)):
                yield {"name": one.label, "x": x, "y": y} | _ends(one, i)
        yield from _rule_rows(self.rules)


@dataclass(frozen=True)
class Heatmap(Panel):
    """A matrix of values on a diverging scale, symmetric around zero.

    `limit` is the value at either end of the scale (by default the largest |value|). `row_breaks`
    and `column_breaks` are the indices before which a line separates two blocks of classes.
    `printed` writes the values into the cells; by default it does so for up to 12 columns.
    """

    values: Matrix
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    label: str = ""
    title: str = ""
    row_label: str = ""
    column_label: str = ""
    limit: Number | None = None
    printed: bool | None = None
    row_breaks: tuple[int, ...] = ()
    column_breaks: tuple[int, ...] = ()
    equal: ClassVar[bool] = True

    def _check(self) -> None:
        same_length(values=self.values, rows=self.rows)
        same_length(values_in_a_row=self.values[0], columns=self.columns)
        if self.limit is not None and not 0 < self.limit < math.inf:
            raise InputError("limit", f"is {self.limit}", "give a positive number")

    @property
    def scale(self) -> float:
        """The value at the ends of the colour scale; never zero."""
        if self.limit is not None:
            return float(self.limit)
        known = [abs(float(v)) for row in self.values for v in row if not math.isnan(v)]
        return max(known, default=1.0) or 1.0

    @property
    def shows_values(self) -> bool:
        """Whether the values are written into the cells."""
        return self.printed if self.printed is not None else len(self.columns) <= 12

    def table(self) -> Iterator[Row]:
        """One row a cell."""
        for name, row in zip(self.rows, self.values, strict=True):
            for column, value in zip(self.columns, row, strict=True):
                yield {"name": name, "x": column, "value": value}


@dataclass(frozen=True)
class Bars(Panel):
    """Groups of bars: `bars[b].values[g]` stands over `groups[g]`."""

    groups: tuple[str, ...]
    bars: tuple[Bar, ...]
    y: Axis
    x_label: str = ""
    title: str = ""
    rules: tuple[Rule, ...] = ()

    def labels(self) -> Iterator[Label]:
        """One for each colour of bars."""
        for bar in self.bars:
            yield Label(bar.label, bar.role, float(bar.shade), "block")

    def _check(self) -> None:
        for bar in self.bars:
            same_length(groups=self.groups, values=bar.values)
            _positive_if_log(self.y, f"values of {bar.label}", bar.values)
        if any(rule.axis != "y" for rule in self.rules):
            raise InputError("rules", "has a vertical line", "use horizontal ones over bars")

    def table(self) -> Iterator[Row]:
        """One row a bar."""
        for bar in self.bars:
            for i, (group, value) in enumerate(zip(self.groups, bar.values, strict=True)):
                yield {"name": bar.label, "x": group, "y": value} | _ends(bar, i)
        yield from _rule_rows(self.rules)


@dataclass(frozen=True)
class Plane(Panel):
    """A scatter plot or a plane through the data: contours below, points, arrows and circles above.

    `equal` gives both axes the same scale, so that circles are round and distances comparable.
    """

    x: Axis
    y: Axis
    points: tuple[Points, ...] = ()
    contours: tuple[Contour, ...] = ()
    arrows: tuple[Arrow, ...] = ()
    circles: tuple[Circle, ...] = ()
    equal: bool = True
    title: str = ""
    rules: tuple[Rule, ...] = ()
    notes: tuple[Note, ...] = ()

    def labels(self) -> Iterator[Label]:
        """Contours, then points."""
        for field in self.contours:
            yield Label(field.label, field.role, float(field.shade), "solid")
        for cloud in self.points:
            shape = {"s": "square", "x": "cross", "+": "cross", "*": "diamond"}.get(cloud.marker, "circle")
            yield Label(cloud.label, cloud.role, float(cloud.shade), f"markers {shape}")

    def _check(self) -> None:
        if self.equal and self.x.log != self.y.log:
            raise InputError("equal", "cannot mix scales", "make both axes logarithmic or neither")
        for cloud in self.points:
            _positive_if_log(self.x, f"x of {cloud.label}", cloud.x)
            _positive_if_log(self.y, f"y of {cloud.label}", cloud.y)
        _check_overlays(self.x, self.y, self.rules, self.notes)

    def table(self) -> Iterator[Row]:
        """Points, then contour fields cell by cell, arrows from start to end, circles."""
        for cloud in self.points:
            for x, y in zip(cloud.x, cloud.y, strict=True):
                yield {"layer": "points", "name": cloud.label, "x": x, "y": y}
        for field in self.contours:
            for y, line in zip(field.y, field.z, strict=True):
                for x, z in zip(field.x, line, strict=True):
                    yield {"layer": "field", "name": field.label, "x": x, "y": y, "value": z}
        for arrow in self.arrows:
            (x, y), (x_end, y_end) = arrow.start, arrow.end
            ends: Row = {"x": x, "y": y, "x_end": x_end, "y_end": y_end}
            yield ends | {"layer": "arrow", "name": arrow.label}
        for circle in self.circles:
            x, y = circle.center
            yield {"layer": "circle", "name": circle.label, "x": x, "y": y, "value": circle.radius}
        yield from _rule_rows(self.rules)


def _positive_if_log(axis: Axis, name: str, values: Numbers | None) -> None:
    if axis.log and values is not None and any(v <= 0 for v in values):
        remedy = "use NaN for a gap, or a linear scale"
        raise InputError(name, "has a value <= 0 on a logarithmic axis", remedy)


def _check_overlays(x: Axis, y: Axis, rules: Sequence[Rule], notes: Sequence[Note]) -> None:
    for rule in rules:
        _positive_if_log(x if rule.axis == "x" else y, "rule", (rule.at,))
    for note in notes:
        _positive_if_log(x, "x of note", (note.x,))
        _positive_if_log(y, "y of note", (note.y,))


def _ends(mark: Series | Bar, i: int) -> Row:
    if mark.lo is None or mark.hi is None:
        return {}
    return {"lo": mark.lo[i], "hi": mark.hi[i]}


def _rule_rows(rules: Sequence[Rule]) -> Iterator[Row]:
    for rule in rules:
        yield {"layer": f"line at {rule.axis}", "name": rule.label, rule.axis: rule.at}
