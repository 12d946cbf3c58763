"""Figures for paper: drawn by matplotlib, saved as PDF, SVG and PNG, with the data as CSV, or as a film.

The same description gives the same bytes: no dates, a fixed salt for SVG's ids. Nothing of
matplotlib's global state is used or changed.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from featavg.errors import InputError
from featavg.figures.marks import Drawable
from featavg.figures.palette import LIGHT
from featavg.progress import Progress
from featavg.storage.files import write

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

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
    """Our style for a while; says so if matplotlib itself refuses to be imported."""
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

        from featavg.figures.matplotlib_panels import draw_panel

        columns, rows = _grid(len(figure.panels))
        width, height = _size(figure, columns, rows)
        drawing = Drawing(figsize=(width, height), layout=ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.08))
        FigureCanvasAgg(drawing)
        axes = drawing.subplots(rows, columns, squeeze=False).ravel()
        entries: dict[str, Any] = {}
        for panel, ax in zip(figure.panels, axes, strict=False):
            entries |= {k: v for k, v in draw_panel(panel, ax).items() if k not in entries}
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
        drawing.draw_without_rendering()
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


def save(figure: Drawable, folder: Path, stem: str) -> dict[str, Path]:
    """Write the figure as `folder/stem.{pdf,svg,png,csv}`."""
    return {extension: write(folder / f"{stem}.{extension}", content) for extension, content in render(figure).items()}


def _grid(count: int) -> tuple[int, int]:
    columns = count if count <= 3 else (2 if count == 4 else 3)
    return columns, -(-count // columns)


def _size(figure: Drawable, columns: int, rows: int) -> tuple[float, float]:
    tall = any(panel.square for panel in figure.panels)
    width = {1: 4.8, 2: 7.6, 3: 10.6}[columns]
    return width, rows * (0.92 if tall else 0.72) * (width / columns) + 0.45


def animate(
    frames: Sequence[Drawable],
    path: str | Path,
    *,
    milliseconds: int = 160,
    hold: int = 12,
    dpi: int = 80,
    progress: Progress | None = None,
) -> Path:
    """Draw every frame by matplotlib and write them as one looping GIF.

    Args:
        frames: figures of one shape, in order.
        path: where to; its name ends in .gif.
        milliseconds: how long a frame stays.
        hold: how many times longer the last one does.
        dpi: resolution; at 80 a two-panel film of 25 frames has about 200 KB.
        progress: called with the share done and a note.
    """
    if not frames:
        raise InputError("frames", "are empty", "give at least one figure")
    if Path(path).suffix != ".gif":
        raise InputError("path", f"is {str(path)!r}", "give a name that ends in .gif")
    from PIL import Image

    stills: list[Image.Image] = []
    for number, frame in enumerate(frames):
        drawing, picture = draw(frame), io.BytesIO()
        drawing.draw_without_rendering()  # finds the layout, which then stays
        drawing.set_layout_engine("none")
        drawing.savefig(picture, format="png", dpi=dpi)
        stills.append(Image.open(picture).convert("RGB"))
        if progress is not None:
            progress((number + 1) / len(frames), f"frame {number + 1} of {len(frames)}")
    # One palette for all, or a GIF flickers: of some frames side by side, the last among them.
    some = stills[:: -(-len(stills) // 8)] + stills[-1:]
    sheet = Image.new("RGB", (sum(one.width for one in some), max(one.height for one in some)))
    for number, one in enumerate(some):
        sheet.paste(one, (sum(before.width for before in some[:number]), 0))
    shared = sheet.quantize(96, Image.Quantize.MAXCOVERAGE)
    images = [one.quantize(palette=shared, dither=Image.Dither.NONE) for one in stills]
    shown = [milliseconds] * (len(images) - 1) + [hold * milliseconds]
    film = io.BytesIO()
    images[0].save(film, format="GIF", save_all=True, append_images=images[1:], duration=shown, loop=0, optimize=True)
    return write(Path(path), film.getvalue(), "out")
