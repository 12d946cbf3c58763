"""The legend that the panels of a figure share: one entry a label, drawn as HTML by the page."""

from __future__ import annotations

from dataclasses import dataclass

from featavg.figures.figure import Figure
from featavg.figures.palette import strength
from featavg.figures.panels import Bars, Heatmap, Histogram, Lines, Panel


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
        for entry in _entries(panel):
            entries.setdefault(entry.label, entry)
    return list(entries.values())


def _entries(panel: Panel) -> list[Entry]:
    if isinstance(panel, Heatmap):
        return []
    if isinstance(panel, Lines):
        return [_entry(s.label, s.role, float(s.shade), s.style) for s in panel.series]
    if isinstance(panel, (Bars, Histogram)):
        return [_entry(b.label, b.role, float(b.shade), "block") for b in panel.bars]
    lines = [_entry(c.label, c.role, float(c.shade), "solid") for c in panel.contours]
    return lines + [_entry(p.label, p.role, float(p.shade), "markers") for p in panel.points]


def _entry(label: str, role: str, shade: float, look: str) -> Entry:
    return Entry(label, role, round(100 * strength(shade)), look.replace("+", "-"))
