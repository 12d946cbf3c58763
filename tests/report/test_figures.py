"""Matplotlib's drawings: every panel in every format, the same bytes each time."""

import io

import matplotlib as mpl
import numpy as np
import pytest
from PIL import Image
from tests.claims.test_figure import PANELS

from featavg.errors import InputError
from featavg.figures import matplotlib_figure as figures
from featavg.figures.figure import Axis, Bar, Bars, Figure, Heatmap, Lines, Rule, Series, animate
from featavg.figures.html import _small
from featavg.figures.palette import LIGHT
from featavg.figures.plotly_figure import legend, plotly_panels

EMPTY = {
    "no series": Lines(Axis("x"), Axis("y"), ()),
    "one point": Lines(Axis("x"), Axis("y"), (Series("s", [1], [1]),)),
    "log bars": Bars(("a", "b"), (Bar("b", [1e-9, 1e9]),), Axis("y", log=True), rules=(Rule(1),)),
    "short log axis": Lines(Axis("x", log=True), Axis("y"), (Series("s", [2, 5], [1, 2]),)),
    "ticks": Lines(Axis("x", ticks=(1, 2), tick_labels=("a<sub>j</sub>", "b")), Axis("y"), (Series("s", [1], [1]),)),
}
START = {"pdf": b"%PDF", "svg": b"<?xml", "png": b"\x89PNG", "csv": b"panel"}


@pytest.mark.parametrize("panel", [*PANELS.values(), *EMPTY.values()], ids=[*PANELS, *EMPTY])
def test_every_panel_in_every_format(panel):
    before = dict(mpl.rcParams)
    made = figures.render(Figure("f", "Title", "Caption.", (panel,)))
    assert made.keys() == START.keys()
    for extension, start in START.items():
        assert extension == "csv" or made[extension].startswith(start)
    assert dict(mpl.rcParams) == before


def test_a_figure_is_the_same_bytes_each_time():
    figure = Figure("all", "Title", "Caption.", (*PANELS.values(), *EMPTY.values()))
    assert figures.render(figure) == figures.render(figure)


def test_a_figure_saves_itself_as_its_ending_says(tmp_path):
    figure = Figure("one", "Title", "Caption.", (PANELS["bars"],))
    for ending, content in figures.render(figure).items():
        assert figure.save(tmp_path / f"new/one.{ending}").read_bytes() == content, ending


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7])
def test_any_number_of_panels(count):
    drawing = figures.draw(Figure("f", "Title", "Caption.", (PANELS["bars"],) * count))
    assert sum(ax.axison for ax in drawing.axes) == count


@pytest.mark.parametrize("panel", [PANELS["cosines"], PANELS["wide"]], ids=["cosines", "wide"])
def test_the_small_twin_keeps_the_colours(panel):
    png = figures.render(Figure("f", "Title", "Caption.", (panel,)))["png"]
    whole, few = (np.asarray(Image.open(io.BytesIO(data)).convert("RGB")).astype(int) for data in (png, _small(png)))
    assert np.abs(whole - few).max() <= 12
    assert tuple(few[0, 0]) == (255, 255, 255)


def test_a_label_has_one_entry_in_the_legend():
    figure = Figure("f", "T", "C", (PANELS["curves"], PANELS["bars"]))
    labels = [entry.label for entry in legend(figure)]
    assert labels == ["averaged", "decoupled", "published", "bound of the lemma"]


def test_a_figure_of_no_known_ending_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"end it with \.pdf, \.svg, \.png or \.csv"):
        Figure("one", "One", "A panel.", (next(iter(PANELS.values())),)).save(tmp_path / "one.gif")


def test_long_names_below_a_heat_map_stand_upright():
    long = tuple(f"sub-class {j} of class {j % 2}" for j in range(10))
    for names, angle in ((long, 90), (tuple("0123456789"), 0)):
        heat = Heatmap([[0.5] * 10] * 10, names, names, label="cosine", limit=1.0)
        (axes,) = figures.draw(Figure("heat", "Heat", "A map.", (heat,))).axes
        assert {label.get_rotation() for label in axes.get_xticklabels()} == {angle}


def short_axis(*values):
    series = tuple(Series(f"s{i}", values, values, "published", "markers") for i in range(3))
    panel = Lines(Axis("x", log=True), Axis("y", log=True), series)
    return Figure("short", "Short", "Less than two decades.", (panel,))


@pytest.mark.parametrize(
    ("values", "shown", "form"),
    [((200, 500, 1000), ["200", "500", "1000"], "~g"), ((2e-6, 1e-5), ["2×10⁻⁶", "10⁻⁵"], "~e")],
)
def test_ticks_of_a_short_log_axis_are_read_in_full(values, shown, form):
    """ "2" and "5" stood where 200 and 500 are."""
    drawing = figures.draw(short_axis(*values))
    drawing.draw_without_rendering()
    (axes,) = drawing.axes
    ticks = [*axes.xaxis.get_ticklabels(), *axes.xaxis.get_ticklabels(minor=True)]
    assert set(shown) <= {tick.get_text() for tick in ticks}
    long = plotly_panels(short_axis(min(values), 10 * min(values)))[0]["layout"]["xaxis"]
    assert (long["dtick"], long["tickformat"]) == ("D2", form)


def test_rows_of_marks_of_one_colour_have_their_own_markers():
    figure = short_axis(1, 2)
    (panel,) = plotly_panels(figure)
    assert [trace["marker"]["symbol"] for trace in panel["data"]] == ["circle", "square", "diamond"]
    assert [e.look for e in legend(figure)] == [f"markers {m}" for m in figure.panels[0].markers]
    drawn = [line.get_marker() for line in figures.draw(figure).axes[0].lines]
    assert drawn == ["o", "s", "D"]


def test_names_below_a_heat_map_leave_each_other_room():
    names = tuple(map(str, range(30)))
    heat = Heatmap([[0.5] * 30] * 30, names, names)
    layout = plotly_panels(Figure("heat", "Heat", "A map.", (heat,)))[0]["layout"]
    assert len(layout["yaxis"]["ticktext"]) == 15
    assert len(" ".join(layout["xaxis"]["ticktext"])) <= 42


def test_a_film_keeps_the_colours_of_its_last_frame(tmp_path):
    """The palette is not that of the first frame, which has none of them."""
    names = ("a", "b")
    pictures = [
        Figure("heat", "Heat", "A map.", (Heatmap(values, names, names, limit=1.0),))
        for values in ([[0.0, 0.0]] * 2, [[1.0, -1.0]] * 2)
    ]
    with Image.open(animate(pictures, str(tmp_path / "film.gif"))) as film:
        film.seek(film.n_frames - 1)
        seen = np.asarray(film.convert("RGB")).reshape(-1, 3).astype(int)
    for name in ("high", "low"):
        colour = [int(LIGHT[name][i : i + 2], 16) for i in (1, 3, 5)]
        assert np.abs(seen - colour).sum(axis=1).min() <= 12, name
