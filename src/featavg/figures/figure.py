"""What a figure shows, said once and drawn twice: by matplotlib for print, by plotly for the page.

Everything a claim needs is imported from here. A complete figure of every kind of panel:

>>> curve = Lines(
...     Axis("dimension d", log=True), Axis("cosine"),
...     (Series("averaged", [1e3, 1e6], [0.44, 0.45], "averaged", lo=[0.43, 0.44], hi=[0.45, 0.46]),
...      Series("published", [3072], [0.44], "published", "markers")),
...     rules=(Rule(5**-0.5, label="1/√5"),), notes=(Note(1e4, 0.4, "paper's d"),))
>>> cosines = Heatmap([[0.9, -0.1], [0.0, 0.8]], ("w<sub>1</sub>", "w<sub>2</sub>"), ("μ₁", "μ₂"),
...     label="cosine", limit=1.0, row_breaks=(1,), column_breaks=(1,))
>>> bars = Bars(("k=2", "k=4"), (Bar("radius", [3.0, 2.0], "averaged", [2.9, 1.8], [3.1, 2.2]),),
...     Axis("radius", "l2"))
>>> shares = Lines.histogram(Axis("radius", "l2"), {"averaged": ([1.0, 2.0, 2.5], "averaged")}, bins=3)
>>> plane = Plane(Axis("along μ₁"), Axis("along μ₂"),
...     points=(Points("class +", [1.0, 2.0], [0.0, 1.0], "averaged"),),
...     contours=(Contour("f = 0", [0, 1, 2], [0, 1], [[-1, 0, 1], [-1, 0, 1]], fill=True),),
...     arrows=(Arrow((1, 0), (0, 0), "δ"),), circles=(Circle((1, 0), 1.0, "ball"),))
>>> figure = Figure("every-kind", "Every kind", "One panel a kind.",
...     (curve, cosines, bars, shares, plane))
>>> Figure.from_json(figure.to_json()) == figure
True
>>> print(Figure("cosines", "Cosines", "Two neurons.", (cosines,)).csv().splitlines()[1])
1,w1,μ₁,0.9
"""

from __future__ import annotations

import csv
import io
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from html import escape
from pathlib import Path
from typing import Any

from featavg.errors import InputError
from featavg.figures.marks import PARTS, Arrow, Axis, Bar, Circle, Contour, Note, Panel, Points, Role, Rule, Series
from featavg.figures.panels import Bars, Heatmap, Lines, Plane
from featavg.figures.typeset import html, without_tags
from featavg.storage.files import usable_file, write

__all__ = [
    "Arrow",
    "Axis",
    "Bar",
    "Bars",
    "Circle",
    "Contour",
    "Figure",
    "Heatmap",
    "Lines",
    "Note",
    "Panel",
    "Plane",
    "Points",
    "Role",
    "Rule",
    "Series",
    "animate",
]

FORMATS = ("pdf", "svg", "png", "csv")
COLUMNS = ("panel", "layer", "name", "x", "y", "lo", "hi", "value", "x_end", "y_end")


@dataclass(frozen=True, repr=False)
class Figure:
    """A named figure: title, caption (a sentence or two that also serve as alt text) and panels.

    `name` becomes the file name (small letters, digits, hyphens), unique within its claim.
    `headline` asks for a place in the report's overview; the first two that ask get one.
    """

    name: str
    title: str
    caption: str
    panels: tuple[Panel, ...]
    headline: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "panels", tuple(self.panels))
        if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", self.name):
            remedy = "use small letters, digits and single hyphens"
            raise InputError("name", f"is {self.name!r}", remedy)
        if not self.panels:
            raise InputError("panels", "is empty", "give a figure at least one panel")

    def __repr__(self) -> str:
        kinds = ", ".join(type(panel).__name__ for panel in self.panels)
        return f"Figure({self.name!r}, {self.title!r}, {kinds})"

    def _repr_html_(self) -> str:
        from featavg.figures.matplotlib_figure import render

        svg = render(self)["svg"].decode()
        # A page takes the element itself, not the XML declaration before it.
        drawing = svg[svg.index("<svg") :]
        return f"<figure>{drawing}<figcaption>{html(self.caption)}</figcaption></figure>"

    @property
    def alt(self) -> str:
        """The figure in words, for who does not see it: title, caption, and its panels' titles."""
        titles = "; ".join(panel.title for panel in self.panels if panel.title)
        panels = f" Panels: {titles}." if titles else ""
        return without_tags(f"{self.title}. {self.caption}{panels}")

    def to_json(self) -> dict[str, Any]:
        """A JSON-able dictionary; a NaN gap becomes null."""
        described = _encode(self)
        assert isinstance(described, dict)
        return described

    @classmethod
    def from_json(cls, described: dict[str, Any]) -> Figure:
        """The inverse of `to_json`; every part is checked again as it is rebuilt."""
        given: dict[str, Any] = {n: _decode(v) for n, v in described.items() if n != "kind"}
        try:
            return cls(**given)
        except TypeError as error:
            remedy = "write it again with this version of featavg"
            raise InputError("figure", f"cannot be read ({error})", remedy) from error

    def save(self, path: str | Path) -> Path:
        """Write the figure to `path`, as its ending says: `.pdf`, `.svg`, `.png`, or `.csv` (its numbers)."""
        from featavg.figures.matplotlib_figure import render

        target = Path(path)
        kind = target.suffix.removeprefix(".")
        if kind not in FORMATS:
            remedy = f"end it with .{', .'.join(FORMATS[:-1])} or .{FORMATS[-1]}"
            raise InputError("path", f"is {str(path)!r}", remedy)
        return write(usable_file(target, "path"), render(self, (kind,))[kind], "path")

    def csv(self) -> str:
        """All numbers of the figure as one tidy table; unused columns are left out."""
        rows = [{"panel": number} | row for number, panel in enumerate(self.panels, start=1) for row in panel.table()]
        columns = [name for name in COLUMNS if any(row.get(name, "") != "" for row in rows)]
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([_cell(row.get(name, "")) for name in columns] for row in rows)
        return text.getvalue()


def _cell(value: object) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.9g}"
    return without_tags(str(value))


def _encode(value: object) -> object:
    """Dataclasses become dictionaries with their kind, tuples lists, and NaN null."""
    if is_dataclass(value):
        parts = {f.name: _encode(getattr(value, f.name)) for f in fields(value)}
        return {"kind": type(value).__name__} | parts
    if isinstance(value, tuple):
        return [_encode(item) for item in value]
    return None if isinstance(value, float) and math.isnan(value) else value


def _decode(value: object, in_list: bool = False) -> object:
    """Inside a list null was NaN; as a field of its own it was None."""
    if isinstance(value, dict):
        kind = value.get("kind")
        if kind not in PARTS:
            remedy = "write it again with this version of featavg"
            raise InputError("figure", f"has an unknown part {kind!r}", remedy)
        return PARTS[kind](**{n: _decode(v) for n, v in value.items() if n != "kind"})
    if isinstance(value, list):
        return tuple(_decode(item, in_list=True) for item in value)
    return math.nan if value is None and in_list else value


class Result(ABC):
    """A finished experiment; subclasses are frozen dataclasses with `repr=False`.

    A notebook shows the figure above the text; a terminal shows the text.
    """

    @abstractmethod
    def figure(self) -> Figure:
        """The figure that shows the result."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Plain values that `json.dumps` takes."""

    @abstractmethod
    def summary(self) -> str:
        """The result in a few lines of text."""

    def __repr__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        # Summaries have long lines, and a notebook has no room beside it.
        text = f'<pre style="white-space: pre-wrap">{escape(self.summary())}</pre>'
        return self.figure()._repr_html_() + text


def animate(frames: Sequence[Figure], path: str | Path, *, milliseconds: int = 160) -> Path:
    """Draw every frame by matplotlib and write them as one looping GIF.

    Args:
        frames: figures of one shape, in order.
        path: where to; its name ends in .gif.
        milliseconds: how long a frame stays; the last one stays twelve times as long.
    """
    if not frames:
        raise InputError("frames", "are empty", "give at least one figure")
    if Path(path).suffix != ".gif":
        raise InputError("path", f"is {str(path)!r}", "give a name that ends in .gif")
    from PIL import Image

    from featavg.figures.matplotlib_figure import draw

    stills: list[Image.Image] = []
    for frame in frames:
        drawing, picture = draw(frame), io.BytesIO()
        drawing.draw_without_rendering()  # finds the layout, which then stays
        drawing.set_layout_engine("none")
        drawing.savefig(picture, format="png", dpi=80)  # a two-panel film of 25 frames has about 200 KB
        stills.append(Image.open(picture).convert("RGB"))
    # One palette for all, or a GIF flickers: of some frames side by side, the last among them.
    some = stills[:: -(-len(stills) // 8)] + stills[-1:]
    sheet = Image.new("RGB", (sum(one.width for one in some), max(one.height for one in some)))
    for number, one in enumerate(some):
        sheet.paste(one, (sum(before.width for before in some[:number]), 0))
    shared = sheet.quantize(96, Image.Quantize.MAXCOVERAGE)
    images = [one.quantize(palette=shared, dither=Image.Dither.NONE) for one in stills]
    shown = [milliseconds] * (len(images) - 1) + [12 * milliseconds]
    film = io.BytesIO()
    images[0].save(film, format="GIF", save_all=True, append_images=images[1:], duration=shown, loop=0, optimize=True)
    return write(Path(path), film.getvalue(), "out")
