"""Slides of a report's figures: one PDF, a figure a page with its verdict and finding."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Sequence
from pathlib import Path

from featavg.figures.figure import Figure
from featavg.figures.matplotlib_figure import render
from featavg.figures.typeset import without_tags
from featavg.paper.engine.result import ClaimResult
from featavg.storage.files import write

NAME = "slides.pdf"
WIDTH, HEIGHT = 13.33, 7.5  # inches: the 16:9 page of PowerPoint and Keynote


def write_slides(results: Sequence[ClaimResult], folder: Path) -> Path:
    """Writes `folder/slides.pdf`: the figures of `results`, in their order; the file's path."""
    from matplotlib.backends.backend_pdf import PdfPages
    from matplotlib.figure import Figure as Page
    from matplotlib.image import imread

    buffer = io.BytesIO()
    with PdfPages(buffer, metadata={"Title": "featavg", "CreationDate": None}) as pages:
        for result, figure in _drawn(results):
            page = Page(figsize=(WIDTH, HEIGHT))
            page.text(0.04, 0.92, without_tags(figure.title), fontsize=24, weight="bold")
            verdict = f"{result.verdict.value} · {result.id}"
            page.text(0.04, 0.87, verdict, fontsize=13, color="0.35")
            caption = textwrap.fill(without_tags(figure.caption), 130)
            page.text(0.04, 0.04, caption, fontsize=12, color="0.25", va="bottom")
            picture = page.add_axes((0.04, 0.16, 0.92, 0.68))
            picture.imshow(imread(io.BytesIO(render(figure, ("png",))["png"])))
            picture.set_axis_off()
            page.set_dpi(200)
            pages.savefig(page)
    return write(folder / NAME, buffer.getvalue())


def _drawn(results: Sequence[ClaimResult]) -> list[tuple[ClaimResult, Figure]]:
    return [(result, figure) for result in results if result.evidence is not None for figure in result.evidence.figures]
