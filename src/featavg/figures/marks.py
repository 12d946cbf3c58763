"""The marks a panel is made of: axes, series, bars, points, contours, arrows, rules, notes.

Pure data. A mark has a *role* instead of a colour, so that "averaged" looks the same in every
figure of the report, on paper, on screen, in light and in dark. Texts are plain Unicode and may
use `<sub>`, `<sup>`, `<i>` and `<b>`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import partial
from itertools import pairwise
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, get_args

import numpy as np
from jaxtyping import Real

from featavg.errors import InputError, one_of

Role: TypeAlias = Literal["averaged", "decoupled", "reference", "published", "neutral"]
Style: TypeAlias = Literal["solid", "dashed", "dotted", "markers", "line+markers"]
Marker: TypeAlias = Literal["o", "x", "+", "s", "*"]
Side: TypeAlias = Literal["x", "y"]
# What a claim may hand over; every mark keeps plain floats.
Number: TypeAlias = float | int | np.integer[Any] | np.floating[Any]
Pair: TypeAlias = tuple[Number, Number]
Numbers: TypeAlias = Sequence[Number] | Real[np.ndarray, "n"]
Matrix: TypeAlias = Sequence[Numbers] | Real[np.ndarray, "rows columns"]

# The same, for fields that are checked in another way.
Gapped: TypeAlias = Numbers
Place: TypeAlias = Number
Shade: TypeAlias = Number

ROLES: tuple[str, ...] = get_args(Role)


def numbers(name: str, values: Numbers, *, gaps: bool = False) -> tuple[float, ...]:
    """`values` as a tuple of floats: finite, or NaN where `gaps` allows an explicit gap."""
    result = tuple(float(v) for v in values)
    if any(math.isinf(v) or (math.isnan(v) and not gaps) for v in result):
        allowed = "finite numbers or NaN for a gap" if gaps else "finite numbers"
        raise InputError(name, "has a value that cannot be drawn", f"give {allowed}")
    return result


def matrix(name: str, values: Matrix) -> tuple[tuple[float, ...], ...]:
    """`values` as rows of equal length; NaN is an empty cell."""
    rows = tuple(numbers(name, row, gaps=True) for row in values)
    if not rows or any(len(row) != len(rows[0]) or not row for row in rows):
        raise InputError(name, "is not a matrix", "give rows of equal, non-zero length")
    return rows


def same_length(**named: Sequence[object] | Numbers | None) -> None:
    """Refuse arrays that should have one length and do not."""
    lengths = {name: len(values) for name, values in named.items() if values is not None}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise InputError(" and ".join(lengths), f"differ in length ({listed})", "make them agree")


def _pair(name: str, values: Numbers) -> tuple[float, ...]:
    x, y = numbers(name, values)
    return x, y


def _shade(name: str, value: Number) -> Number:
    if not 0.0 <= value <= 1.0:
        raise InputError(name, f"is {value}", "give a number from 0 (pale) to 1 (full)")
    return value


# What a field becomes, by its annotation.
_FITS: dict[str, Callable[[str, Any], Any]] = {
    "Numbers": numbers,
    "Gapped": partial(numbers, gaps=True),
    "Matrix": matrix,
    "Pair": _pair,
    "Place": lambda name, value: numbers(name, (value,))[0],
    "Shade": _shade,
    "Role": partial(one_of, allowed=ROLES),
    "Style": partial(one_of, allowed=get_args(Style)),
    "Marker": partial(one_of, allowed=get_args(Marker)),
    "Side": partial(one_of, allowed=get_args(Side)),
}


# What a figure is made of, by name.
PARTS: dict[str, type[Any]] = {}


class Described:
    """A frozen dataclass that fits its fields to their annotations, checks itself, and is read back by its name."""

    def __init_subclass__(cls) -> None:
        PARTS[cls.__name__] = cls

    def __post_init__(self) -> None:
        described: Any = self
        for one in fields(described):
            value, kind = getattr(self, one.name), str(one.type).removesuffix(" | None")
            fit = (lambda _, many: tuple(many)) if kind.startswith("tuple[") else _FITS.get(kind)
            if value is not None and fit is not None:
                object.__setattr__(self, one.name, fit(one.name, value))
        self._check()

    def _check(self) -> None:
        """Refuse fields that do not go together."""


@dataclass(frozen=True)
class Axis(Described):
    """What is on an axis: label, unit, scale; range and named ticks if not automatic."""

    label: str
    unit: str = ""
    log: bool = False
    range: Pair | None = None
    ticks: Numbers | None = None
    tick_labels: tuple[str, ...] | None = None

    def _check(self) -> None:
        same_length(ticks=self.ticks, tick_labels=self.tick_labels)
        if self.range is not None:
            low, high = self.range
            if low >= high or (self.log and low <= 0):
                raise InputError("range", f"is {self.range}", "give low < high (positive if log)")

    @property
    def text(self) -> str:
        """Label with its unit in brackets."""
        return f"{self.label} ({self.unit})" if self.unit else self.label


def _over_seeds(runs: Matrix) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Median, smallest and largest of the rows, one a seed."""
    values = np.asarray(runs, dtype=np.float64)
    return np.median(values, axis=0), values.min(axis=0), values.max(axis=0)


def _band(lo: Numbers | None, hi: Numbers | None) -> None:
    if (lo is None) != (hi is None):
        raise InputError("lo, hi", "come one without the other", "give both or neither")


@dataclass(frozen=True)
class Series(Described):
    """A curve or a row of markers, with an optional band from `lo` to `hi`.

    `shade` from 0 to 1 orders a family of curves of one role (0 pale, 1 full), such as one curve
    a depth. NaN in `y`, `lo` or `hi` is a gap.
    """

    label: str
    x: Numbers
    y: Gapped
    role: Role = "neutral"
    style: Style = "solid"
    lo: Gapped | None = None
    hi: Gapped | None = None
    shade: Shade = 1.0

    def _check(self) -> None:
        same_length(x=self.x, y=self.y, lo=self.lo, hi=self.hi)
        _band(self.lo, self.hi)

    @classmethod
    def survival(cls, label: str, values: Numbers, role: Role = "neutral", style: Style = "solid") -> Series:
        """The share of values above x, as steps; infinite ones are above every x."""
        falls = sorted(float(v) for v in values if math.isfinite(v))
        left = [1 - i / max(len(values), 1) for i in range(len(falls) + 1)]
        x = [0.0, *(v for fall in falls for v in (fall, fall))]
        return cls(label, x, [1.0, *(y for pair in pairwise(left) for y in pair)], role, style)

    @classmethod
    def over_seeds(cls, label: str, x: Numbers, runs: Matrix, role: Role = "neutral", style: Style = "solid") -> Series:
        """One row of `runs` per seed: the median, and a band from the smallest to the largest."""
        middle, low, high = _over_seeds(runs)
        return cls(label, x, middle, role, style, low, high)


@dataclass(frozen=True)
class Bar(Described):
    """One bar a group (or one count a bin), with optional error bars from `lo` to `hi`."""

    label: str
    values: Gapped
    role: Role = "neutral"
    lo: Gapped | None = None
    hi: Gapped | None = None
    shade: Shade = 1.0

    def _check(self) -> None:
        same_length(values=self.values, lo=self.lo, hi=self.hi)
        _band(self.lo, self.hi)

    @classmethod
    def over_seeds(cls, label: str, runs: Matrix, role: Role = "neutral") -> Bar:
        """One row of `runs` per seed: the median, with error bars from the smallest to the largest."""
        middle, low, high = _over_seeds(runs)
        return cls(label, middle, role, low, high)


@dataclass(frozen=True)
class Points(Described):
    """A cloud of points in a plane. `marker`: "o", "x", "+" (a plus), "s" (a square), "*"."""

    label: str
    x: Numbers
    y: Numbers
    role: Role = "neutral"
    marker: Marker = "o"
    size: Number = 6.0
    shade: Shade = 1.0

    def _check(self) -> None:
        same_length(x=self.x, y=self.y)


@dataclass(frozen=True)
class Contour(Described):
    """Level lines of a field given on a grid: `z[i][j]` is its value at `(x[j], y[i])`.

    `fill` tints the two sides of zero: a decision boundary with its regions.
    """

    label: str
    x: Numbers
    y: Numbers
    z: Matrix
    role: Role = "neutral"
    levels: Numbers = (0.0,)
    fill: bool = False
    shade: Shade = 1.0

    def _check(self) -> None:
        same_length(y=self.y, rows_of_z=self.z)
        same_length(x=self.x, columns_of_z=self.z[0])


@dataclass(frozen=True)
class Arrow(Described):
    """An arrow from one point of a plane to another, such as a minimal perturbation."""

    start: Pair
    end: Pair
    label: str = ""
    role: Role = "reference"


@dataclass(frozen=True)
class Circle(Described):
    """A circle in a plane, such as the ball of a radius around a point."""

    center: Pair
    radius: Place
    label: str = ""
    role: Role = "reference"


@dataclass(frozen=True)
class Rule(Described):
    """A reference line across the panel: `axis="y"` is horizontal at y = `at`, "x" vertical."""

    at: Place
    axis: Side = "y"
    label: str = ""
    role: Role = "reference"


@dataclass(frozen=True)
class Note(Described):
    """A short text at a point of the panel."""

    x: Place
    y: Place
    text: str
    role: Role = "reference"


Row: TypeAlias = dict[str, Any]
Json: TypeAlias = dict[str, Any]


class Label(NamedTuple):
    """An entry of the legend; `look` is a line style (perhaps with a marker), "markers" or "block"."""

    label: str
    role: str
    shade: float
    look: str


class Panel(Described, ABC):
    """What every kind of panel can say of itself; one that is about as high as wide has `equal`."""

    title: str

    @abstractmethod
    def table(self) -> Iterator[Row]:
        """Its numbers, for the CSV file: rows with some of the columns of `figure.COLUMNS`."""

    def labels(self) -> Iterator[Label]:
        """Its entries in the legend: none."""
        yield from ()


class Drawable(Protocol):
    """What a renderer asks of a figure; so `Figure` may use the renderers to show itself."""

    @property
    def name(self) -> str:
        """Its file's."""

    @property
    def panels(self) -> tuple[Panel, ...]:
        """Left to right, top to bottom."""

    def csv(self) -> str:
        """Its numbers."""


# Draws a panel on matplotlib's axes and returns the legend's entries by label.
OnPaper: TypeAlias = Callable[[Any, Any], dict[str, Any]]
# The panel as plotly's `{data, layout, aspect}`.
OnScreen: TypeAlias = Callable[[Any], Json]

MATPLOTLIB: dict[type[Any], OnPaper] = {}
PLOTLY: dict[type[Any], OnScreen] = {}


def add_panel(kind: type[Any], on_paper: OnPaper, on_screen: OnScreen) -> None:
    """Let figures have panels of this kind: drawn by both, and read back from JSON."""
    PARTS[kind.__name__], MATPLOTLIB[kind], PLOTLY[kind] = kind, on_paper, on_screen
