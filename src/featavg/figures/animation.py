"""A small animated GIF from a row of figures that differ in their data only."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

from featavg.errors import InputError
from featavg.figures.figure import Figure
from featavg.progress import Progress
from featavg.storage.files import write


def animate(
    frames: Sequence[Figure],
    path: Path,
    *,
    milliseconds: int = 160,
    hold: int = 12,
    dpi: int = 80,
    progress: Progress | None = None,
) -> Path:
    """Draw every frame by matplotlib and write them as one GIF that plays for ever.

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
    if path.suffix != ".gif":
        raise InputError("path", f"is {path.name}", "give a name that ends in .gif")
    from PIL import Image

    from featavg.figures.matplotlib_figure import draw

    images: list[Image.Image] = []
    for number, frame in enumerate(frames):
        drawing, picture = draw(frame), io.BytesIO()
        drawing.draw_without_rendering()  # finds the layout, which then stays
        drawing.set_layout_engine("none")
        drawing.savefig(picture, format="png", dpi=dpi)
        # 64 colours of the first frame for all: without a common palette a GIF flickers.
        still = Image.open(picture).convert("RGB")
        shared = images[0] if images else still.quantize(64)
        images.append(still.quantize(palette=shared, dither=Image.Dither.NONE))
        if progress is not None:
            progress((number + 1) / len(frames), f"frame {number + 1} of {len(frames)}")
    shown = [milliseconds] * (len(images) - 1) + [hold * milliseconds]
    film = io.BytesIO()
    images[0].save(
        film,
        format="GIF",
        save_all=True,
        append_images=images[1:],
        duration=shown,
        loop=0,
        optimize=True,
    )
    return write(path, film.getvalue(), "out")
