"""A new kind of panel is one file (here: this one) and is drawn, read back, listed like the others."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import pytest

from featavg.figures import kinds
from featavg.figures.figure import Figure
from featavg.figures.kinds import Label, Row, add_panel
from featavg.figures.matplotlib_figure import draw, render
from featavg.figures.plotly_figure import legend, plotly_panels


@dataclass(frozen=True)
class Needles:
    """A toy: vertical needles of given heights."""

    heights: tuple[float, ...]
    title: str = ""
    square: ClassVar[bool] = True

    def table(self) -> Iterator[Row]:
        for i, height in enumerate(self.heights):
            yield {"name": "needle", "x": float(i), "y": height}

    def labels(self) -> Iterator[Label]:
        yield Label("needle", "averaged", 1.0, "block")


def on_paper(panel, ax):
    return {"needle": ax.vlines(range(len(panel.heights)), 0, panel.heights)}


def on_screen(panel):
    return {"data": [{"type": "bar", "y": list(panel.heights)}], "layout": {}, "aspect": 1.0}


@pytest.fixture
def figure(monkeypatch):
    for table in ("PARTS", "MATPLOTLIB", "PLOTLY"):
        monkeypatch.setattr(kinds, table, dict(getattr(kinds, table)))
    for module in ("figure", "matplotlib_panels", "plotly_figure"):
        name = {"figure": "PARTS", "matplotlib_panels": "MATPLOTLIB", "plotly_figure": "PLOTLY"}
        monkeypatch.setattr(
            f"featavg.figures.{module}.{name[module]}", getattr(kinds, name[module])
        )
    add_panel(Needles, on_paper, on_screen)
    return Figure("needles", "Needles", "Three.", (Needles((1.0, 2.0, 3.0), "Panel"),))


def test_a_new_kind_of_panel_needs_no_other_file(figure):
    assert Figure.from_json(figure.to_json()) == figure
    assert figure.csv().splitlines()[-1] == "1,needle,2,3"
    assert [entry.label for entry in legend(figure)] == ["needle"]
    assert plotly_panels(figure)[0]["data"][0]["y"] == [1.0, 2.0, 3.0]
    drawing = draw(figure)
    assert len(drawing.axes[0].collections[0].get_segments()) == 3
    assert drawing.axes[0].get_title(loc="left") == "Panel"
    assert set(render(figure)) == {"png", "pdf", "svg", "csv"}


def test_the_words_for_a_figure_say_each_thing_once(figure):
    assert figure.alt == "Needles. Three. Panels: Panel."


def test_the_page_says_panels_once(outcomes, report):
    text = report.read_text()
    alts = [f.alt for o in outcomes if o.evidence for f in o.evidence.figures]
    assert any("Panels:" in alt for alt in alts)
    for alt in alts:
        assert alt.count("Panels:") <= 1
    assert "Panels: Two classes; Ten classes. Panels" not in text
