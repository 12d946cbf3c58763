"""The legend that the panels of a figure share: one entry a label, drawn as HTML by the page."""

from __future__ import annotations

from dataclasses import dataclass

from featavg.figures.figure import Figure
from featavg.figures.palette import strength


@dataclass(frozen=True)
class Entry:
    """A label and how its swatch looks: `look` is a line style, "block" or "dot"."""

    label: str
    role: str
    percent: int
    look: str


def legend(figure: Figure) -> list[Entry]:
    """The entries in order of appearance; the first panel that has a label decides its look."""
    entries: dict[str, Entry] = {}
    for panel in figure.panels:
        for text, role, shade, look in panel.labels():
            percent = round(100 * strength(shade))
            entries.setdefault(text, Entry(text, role, percent, look.replace("+", "-")))
    return list(entries.values())
