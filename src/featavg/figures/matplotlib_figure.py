"""Figures for paper: drawn by matplotlib, saved as PDF, SVG and PNG, with the data as CSV, or as a film.

The same description gives the same bytes: no dates, a fixed salt for SVG's ids. Nothing of
matplotlib's global state is used or changed.
"""

from __future__ import annotations

import io
import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from featavg.errors import InputError
from featavg.figures.marks import MATPLOTLIB, Axis, Drawable, Note, Number, Numbers, Rule, Series
from featavg.figures.palette import DIVERGING, LIGHT, mix, strength
from featavg.figures.panels import Bars, Heatmap, Lines, Plane
from featavg.figures.plotly_figure import short
from featavg.figures.typeset import SUPERSCRIPT, mathtext, number, without_tags
from featavg.storage.files import write

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

# How many characters fit below a heat map, and how many points wide one is.
MOST_SIGNS, SIGN = 90, 4.5
MARKERS = {"circle": "o", "square": "s", "diamond": "D", "cross": "X"}
DASHES = {"solid": "-", "dashed": (0, (5, 2.2)), "dotted": (0, (1, 1.6)), "line+markers": "-"}
_METADATA: dict[str, dict[str, Any]] = {
    "pdf": {"CreationDate": None, "ModDate": None, "Creator": "featavg", "Producer": "matplotlib"},
    "svg": {"Date": None, "Creator": "featavg"},
    "png": {"Software": "featavg"},
}
_STYLE: Any = {  # matplotlib types the keys one by one
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # ships with matplotlib: the same bytes on every machine
    "font.size": 8.5,
    "mathtext.fontset": "dejavusans",
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.labelsize": 8.5,
    "axes.labelcolor": LIGHT["soft"],
    "axes.edgecolor": LIGHT["faint"],
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": LIGHT["grid"],
    "grid.linewidth": 0.7,
    "text.color": LIGHT["ink"],
    "xtick.color": LIGHT["soft"],
    "ytick.color": LIGHT["soft"],
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "xtick.minor.size": 0,
    "ytick.minor.size": 0,
    "lines.linewidth": 1.75,
    "lines.solid_capstyle": "round",
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "svg.hashsalt": "featavg",
    "svg.fonttype": "path",
    "pdf.fonttype": 42,
}


@contextmanager
def _styled() -> Iterator[None]:
    """Our style, temporarily; an error in a sentence if matplotlib itself cannot be imported."""
    try:
        import matplotlib as mpl
    except ValueError as error:  # the window system that $MPLBACKEND names, which we do not even use
        raise InputError("MPLBACKEND", f"is {os.environ.get('MPLBACKEND')!r}", "unset it, or set it to agg") from error
    with mpl.rc_context(_STYLE):
        yield


def draw(figure: Drawable) -> Drawing:
    """The figure as a matplotlib figure, not attached to any window."""
    with _styled():
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure as Drawing
        from matplotlib.layout_engine import ConstrainedLayoutEngine

        columns, rows = _grid(len(figure.panels))
        width, height = _size(figure, columns, rows)
        drawing = Drawing(figsize=(width, height), layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.08))
        FigureCanvasAgg(drawing)
        axes = drawing.subplots(rows, columns, squeeze=False).ravel()
        entries: dict[str, Any] = {}
        for panel, ax in zip(figure.panels, axes, strict=False):
            ax.set_title(mathtext(panel.title))
            for label, entry in MATPLOTLIB[type(panel)](panel, ax).items():
                entries.setdefault(label, entry)
        for ax in axes[len(figure.panels) :]:
            ax.set_axis_off()
        if len(entries) > 1 or (entries and len(figure.panels) > 1):
            drawing.legend(
                [*entries.values()],
                [*entries],
                loc="outside lower center",
                ncols=min(len(entries), max(2, 2 * columns)),
                handlelength=1.8,
                columnspacing=1.6,
            )
    return drawing


def render(figure: Drawable, formats: Sequence[str] = ("png", "pdf", "svg", "csv")) -> dict[str, bytes]:
    """The figure in every format, or in those that are asked for, by extension."""
    drawing = draw(figure)
    rendered = {}
    with _styled():
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.backends.backend_pdf import FigureCanvasPdf
        from matplotlib.backends.backend_svg import FigureCanvasSVG

        drawing.dpi = 200
        engine = drawing.get_layout_engine()
        assert engine is not None  # `draw` gave it one
        engine.execute(drawing)
        drawing.set_layout_engine("none")  # the layout is found once, not once a format
        # `savefig` would draw everything twice a format, once to find the layout again.
        printers: dict[str, Any] = {
            "png": FigureCanvasAgg(drawing).print_png,
            "pdf": FigureCanvasPdf(drawing).print_pdf,
            "svg": FigureCanvasSVG(drawing).print_svg,
        }
        for extension in formats:
            if extension not in printers:
                continue
            buffer = io.BytesIO()
            printers[extension](buffer, metadata=_METADATA[extension])
            rendered[extension] = buffer.getvalue()
    if "csv" in formats:
        rendered["csv"] = figure.csv().encode()
    return rendered


def save(figure: Drawable, folder: Path) -> dict[str, bytes]:
    """Write the figure under its name into `folder` in every format; return their contents."""
    drawn = render(figure)
    for extension, content in drawn.items():
        write(folder / f"{figure.name}.{extension}", content)
    return drawn


def _grid(count: int) -> tuple[int, int]:
    columns = count if count <= 3 else (2 if count == 4 else 3)
    return columns, -(-count // columns)


def _size(figure: Drawable, columns: int, rows: int) -> tuple[float, float]:
    tall = any(getattr(panel, "equal", False) for panel in figure.panels)
    width = {1: 4.8, 2: 7.6, 3: 10.6}[columns]
    return width, rows * (0.92 if tall else 0.72) * (width / columns) + 0.45


def _lines(panel: Lines, ax: Axes) -> dict[str, Any]:
    pairs = zip(panel.series, panel.markers, strict=True)
    entries = {mathtext(one.label): _curve(one, MARKERS[marker], ax) for one, marker in pairs}
    _axes(ax, panel.x, panel.y)
    _overlays(ax, panel.rules, panel.notes)
    return entries


def _curve(one: Series, marker: str, ax: Axes) -> Any:
    colour = _colour(one.role, one.shade)
    x, y = np.asarray(one.x, float), np.asarray(one.y, float)
    look: dict[str, Any] = {"color": colour, "zorder": 3}
    if "markers" in one.style:
        look |= {"marker": marker, "markersize": 4.5, "markeredgecolor": "white"}
        look |= {"markeredgewidth": 0.6}
    look["linestyle"] = "none" if one.style == "markers" else DASHES[one.style]
    if one.lo is not None and one.hi is not None:
        low, high = np.asarray(one.lo, float), np.asarray(one.hi, float)
        if one.style == "markers":
            ax.vlines(x, low, high, color=colour, linewidth=1.1, zorder=2)
        else:
            ax.fill_between(x, low, high, color=colour, alpha=0.18, linewidth=0, zorder=2)
    return ax.plot(x, y, **look)[0]


def _heatmap(panel: Heatmap, ax: Axes) -> dict[str, Any]:
    from matplotlib.colors import LinearSegmentedColormap

    colours = LinearSegmentedColormap.from_list("featavg", [LIGHT[name] for name in DIVERGING])
    values = np.asarray(panel.values, float)
    rows, columns = values.shape
    limits: Any = {"vmin": -panel.scale, "vmax": panel.scale}
    mesh = ax.pcolormesh(
        np.arange(columns + 1) - 0.5,
        np.arange(rows + 1) - 0.5,
        np.ma.masked_invalid(values),
        cmap=colours,
        edgecolors="white",
        linewidth=0.6 if columns <= 24 else 0,
        **limits,
    )
    ax.set(xlim=(-0.5, columns - 0.5), ylim=(rows - 0.5, -0.5), aspect="equal")
    for place, names in ((ax.set_xticks, panel.columns), (ax.set_yticks, panel.rows)):
        shown = range(0, len(names), -(-len(names) // 16))
        place(shown, [mathtext(names[i]) for i in shown])
    longest = [max(map(len, map(without_tags, names))) for names in (panel.columns, panel.rows)]
    if longest[0] * columns > MOST_SIGNS:
        ax.tick_params(axis="x", labelrotation=90)
    ax.set(xlabel=mathtext(panel.column_label), ylabel=mathtext(panel.row_label))
    ax.grid(False)
    ax.spines[:].set_visible(False)
    if panel.shows_values:
        points = ax.get_window_extent().width * 72 / ax.figure.dpi
        # Long names of rows take their room from the cells, but only once all is laid out.
        points -= SIGN * max(longest[1] - 4, 0)
        size = min(7.5, points / columns / 3.5)
        for (i, j), value in np.ndenumerate(values):
            if not np.isnan(value):
                ink = "white" if abs(value) > 0.7 * panel.scale else LIGHT["ink"]
                ax.text(j, i, short(value), ha="center", va="center", fontsize=size, color=ink)
    else:
        bar = ax.figure.colorbar(mesh, ax=ax, shrink=0.85, aspect=28, pad=0.03)
        bar.outline.set_visible(False)
        bar.set_label(mathtext(panel.label))
    for at in panel.column_breaks:
        ax.axvline(at - 0.5, color=LIGHT["ink"], linewidth=1.2)
    for at in panel.row_breaks:
        ax.axhline(at - 0.5, color=LIGHT["ink"], linewidth=1.2)
    return {}


def _bars(panel: Bars, ax: Axes) -> dict[str, Any]:
    entries = {}
    width = 0.72 / max(len(panel.bars), 1)
    positions = np.arange(len(panel.groups))
    for i, bar in enumerate(panel.bars):
        x = positions + (i - (len(panel.bars) - 1) / 2) * width
        values = np.asarray(bar.values, float)
        colour = _colour(bar.role, bar.shade)
        drawn = ax.bar(x, values, width * 0.94, color=colour, zorder=2)
        entries[mathtext(bar.label)] = drawn
        if bar.lo is not None and bar.hi is not None:
            low, high = np.asarray(bar.lo, float), np.asarray(bar.hi, float)
            ax.vlines(x, low, high, color=LIGHT["ink"], linewidth=1.0, zorder=3)
    _axes(ax, Axis(panel.x_label), panel.y)
    ax.set_xticks(positions, [mathtext(name) for name in panel.groups])
    ax.grid(False, axis="x")
    _overlays(ax, panel.rules, ())
    return entries


def _plane(panel: Plane, ax: Axes) -> dict[str, Any]:
    entries: dict[str, Any] = {}
    for field in panel.contours:
        grid = [np.asarray(part, float) for part in (field.x, field.y, field.z)]
        colour = _colour(field.role, field.shade)
        if field.fill:
            size = float(np.nanmax(np.abs(grid[2]))) or 1.0
            tints = [LIGHT["low"], LIGHT["high"]]
            ax.contourf(*grid, levels=[-2 * size, 0, 2 * size], colors=tints, alpha=0.13)
        levels = sorted(float(level) for level in field.levels)
        ax.contour(*grid, levels=levels, colors=[colour], linewidths=1.6, linestyles="solid")
        entries[mathtext(field.label)] = ax.plot([], [], color=colour, linewidth=1.6)[0]
    for cloud in panel.points:
        colour = _colour(cloud.role, cloud.shade)
        edge = {} if cloud.marker in "x+" else {"edgecolors": "white", "linewidths": 0.4}
        size = float(cloud.size) ** 2 * 0.6
        place = np.asarray(cloud.x, float), np.asarray(cloud.y, float)
        look: dict[str, Any] = {"s": size, "marker": cloud.marker, "color": colour, "zorder": 3}
        entries[mathtext(cloud.label)] = ax.scatter(*place, **look | edge)
    for circle in panel.circles:
        _circle(ax, circle.center, circle.radius, circle.label, circle.role)
    for arrow in panel.arrows:
        look = {"arrowstyle": "-|>", "color": LIGHT[arrow.role], "linewidth": 1.5}
        look |= {"shrinkA": 0, "shrinkB": 0, "mutation_scale": 11}
        ax.annotate("", arrow.end, arrow.start, arrowprops=look, zorder=4)
        middle = np.asarray([arrow.start, arrow.end], float).mean(axis=0)
        _text(ax, middle[0], middle[1], arrow.label, arrow.role)
    if panel.contours:  # a circle that leaves the field must not shrink it
        ax.set(xlim=_span(panel.contours[0].x), ylim=_span(panel.contours[0].y))
    _axes(ax, panel.x, panel.y)
    if panel.equal:
        ax.set_aspect("equal", adjustable="box" if panel.contours else "datalim")
    _overlays(ax, panel.rules, panel.notes)
    return entries


def _span(values: Numbers) -> tuple[float, float]:
    return min(map(float, values)), max(map(float, values))


def _circle(ax: Axes, center: tuple[Number, Number], radius: Number, label: str, role: str) -> None:
    from matplotlib.patches import Circle

    (x, y), r = (float(v) for v in center), float(radius)
    look: dict[str, Any] = {"fill": False, "color": LIGHT[role], "linewidth": 1.1}
    ax.add_patch(Circle((x, y), r, linestyle=(0, (4, 2)), **look))
    _text(ax, x, y + r, label, role)


def _overlays(ax: Axes, rules: Sequence[Rule], notes: Sequence[Note]) -> None:
    for rule in rules:
        colour, label = LIGHT[rule.role], mathtext(rule.label)
        line: Any = {"color": colour, "linewidth": 1.0, "linestyle": (0, (4, 2)), "zorder": 1.5}
        at = float(rule.at)
        text: Any = {"color": colour, "fontsize": 8, "textcoords": "offset points", "zorder": 4}
        text["bbox"] = {"facecolor": "white", "alpha": 0.7, "linewidth": 0, "pad": 0.8}
        place: Any
        if rule.axis == "y":
            ax.axhline(at, **line)
            place = {"xy": (1, at), "xycoords": ("axes fraction", "data"), "xytext": (0, 2)}
            ax.annotate(label, ha="right", va="bottom", **place, **text)
        else:
            ax.axvline(at, **line)
            place = {"xy": (at, 1), "xycoords": ("data", "axes fraction"), "xytext": (3, 0)}
            ax.annotate(label, ha="left", va="top", **place, **text)
    for note in notes:
        _text(ax, note.x, note.y, note.text, note.role)


def _text(ax: Axes, x: Number, y: Number, text: str, role: str) -> None:
    look: dict[str, Any] = {"ha": "center", "va": "bottom", "fontsize": 8, "zorder": 5}
    if text:
        ax.text(float(x), float(y), mathtext(text), color=LIGHT[role], **look)


def _axes(ax: Axes, x: Axis, y: Axis) -> None:
    for name, axis in (("x", x), ("y", y)):
        settings: dict[str, Any] = {f"{name}label": mathtext(axis.text)}
        if axis.log:
            settings[f"{name}scale"] = "log"
        if axis.range is not None:
            settings[f"{name}lim"] = axis.range
        ax.set(**settings)
        if axis.log:
            _log_ticks(ax, name)
        if axis.ticks is not None:
            labels = axis.tick_labels or [number(tick) for tick in axis.ticks]
            place = ax.set_xticks if name == "x" else ax.set_yticks
            place([float(t) for t in axis.ticks], [mathtext(label) for label in labels])
            place([], minor=True)


def _log_ticks(ax: Axes, name: str) -> None:
    """One way of writing for an axis: numbers in full, or powers of ten in Unicode (mathtext is slow to parse)."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis = ax.xaxis if name == "x" else ax.yaxis
    low, high = ax.get_xlim() if name == "x" else ax.get_ylim()
    short = high < 100 * low
    in_full = FuncFormatter(lambda value, _: number(value))
    powers = FuncFormatter(lambda value, _: "10" + str(round(math.log10(value))).translate(SUPERSCRIPT))
    axis.set_major_formatter(in_full if short or (low > 1e-3 and high < 1e4) else powers)
    axis.set_minor_locator(LogLocator(subs=(2, 5)))
    axis.set_minor_formatter(in_full if short else NullFormatter())


def _colour(role: str, shade: Number) -> str:
    return mix(LIGHT[role], LIGHT["paper"], strength(shade))


MATPLOTLIB.update({Lines: _lines, Heatmap: _heatmap, Bars: _bars, Plane: _plane})
