"""Vertical needles."""

from dataclasses import dataclass
from typing import ClassVar

from featavg.figures.marks import Label, add_panel


@dataclass(frozen=True)
class Toy:
    """Needles of given heights."""

    heights: tuple[float, ...]
    title: str = ""
    equal: ClassVar[bool] = True

    def table(self):
        """A row per needle."""
        for i, height in enumerate(self.heights):
            yield {"name": "needle", "x": float(i), "y": height}

    def labels(self):
        """One for all."""
        yield Label("needle", "averaged", 1.0, "block")


def on_paper(panel, ax):
    """Lines from zero up."""
    return {"needle": ax.vlines(range(len(panel.heights)), 0, panel.heights)}


def on_screen(panel):
    """Bars."""
    return {"data": [{"type": "bar", "y": list(panel.heights)}], "layout": {}, "aspect": 1.0}


add_panel(Toy, on_paper, on_screen)
