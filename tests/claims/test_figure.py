"""Figures as data: what is refused, that JSON loses nothing, that CSV has every number."""

import csv
import io
import json
import math

import numpy as np
import pytest
from tests.claims.synthetic import (
    bars,
    cosines,
    curves,
    everything,
    family,
    plane,
    radii,
    scatter,
    wide,
)

from featavg.errors import InputError
from featavg.figures.figure import (
    Arrow,
    Axis,
    Bar,
    Bars,
    Circle,
    Contour,
    Figure,
    Heatmap,
    Histogram,
    Lines,
    Note,
    Plane,
    Points,
    Rule,
    Series,
)

PANELS = {
    "curves": curves(),
    "family": family(),
    "cosines": cosines(True),
    "cosines with a gap": cosines(False),
    "wide": wide(),
    "bars": bars(),
    "radii": radii(),
    "plane": plane(True),
    "scatter": scatter(),
}
X, LOG = Axis("x"), Axis("y", log=True)


@pytest.mark.parametrize("panel", PANELS.values(), ids=PANELS)
def test_json_round_trip(panel):
    figure = Figure("name", "Title", "Caption.", (panel,), headline=True)
    text = json.dumps(figure.to_json(), allow_nan=False)
    again = Figure.from_json(json.loads(text))
    # NaN differs from itself, so the texts are compared.
    assert json.dumps(again.to_json(), allow_nan=False) == text
    assert type(again.panels[0]) is type(panel)


def test_gaps_survive_the_round_trip():
    again = Figure.from_json(json.loads(json.dumps(everything().to_json())))
    assert math.isnan(again.panels[0].series[1].y[6])
    assert again.panels[0].series[3].lo is None


REFUSED = {
    "lengths": lambda: Series("s", [1, 2], [1]),
    "infinite y": lambda: Series("s", [1], [math.inf]),
    "NaN in x": lambda: Series("s", [math.nan], [1]),
    "half a band": lambda: Series("s", [1], [1], lo=[0]),
    "role": lambda: Series("s", [1], [1], "red"),
    "style": lambda: Series("s", [1], [1], style="wavy"),
    "shade": lambda: Series("s", [1], [1], shade=2),
    "range": lambda: Axis("x", range=(1, 0)),
    "log range": lambda: Axis("x", log=True, range=(0, 1)),
    "ticks": lambda: Axis("x", ticks=(1, 2), tick_labels=("a",)),
    "zero on a log axis": lambda: Lines(X, LOG, (Series("s", [1], [0]),)),
    "rule on a log axis": lambda: Lines(X, LOG, (), rules=(Rule(-1),)),
    "note on a log axis": lambda: Lines(X, LOG, (), notes=(Note(1, 0, "n"),)),
    "ragged matrix": lambda: Heatmap([[1, 2], [1]], ("a", "b"), ("c", "d")),
    "row names": lambda: Heatmap([[1, 2]], ("a", "b"), ("c", "d")),
    "column names": lambda: Heatmap([[1, 2]], ("a",), ("c",)),
    "limit": lambda: Heatmap([[1]], ("a",), ("c",), limit=0),
    "groups": lambda: Bars(("a",), (Bar("b", [1, 2]),), X),
    "edges": lambda: Histogram(X, X, [1, 1], (Bar("b", [1]),)),
    "bins": lambda: Histogram(X, X, [0, 1, 2], (Bar("b", [1]),)),
    "grid": lambda: Contour("f", [0, 1], [0, 1], [[1, 2, 3], [1, 2, 3]]),
    "marker": lambda: Points("p", [1], [1], marker="?"),
    "arrow": lambda: Arrow((0, math.nan), (1, 1)),
    "circle": lambda: Circle((0, 0), math.inf),
    "mixed scales": lambda: Plane(X, LOG),
    "name": lambda: Figure("A name", "T", "C", (bars(),)),
    "no panels": lambda: Figure("name", "T", "C", ()),
    "unknown part": lambda: Figure.from_json({"name": "a", "panels": [{"kind": "Pie"}]}),
    "missing field": lambda: Figure.from_json({"kind": "Figure", "name": "a"}),
}


@pytest.mark.parametrize("make", REFUSED.values(), ids=REFUSED)
def test_refused_with_a_sentence(make):
    # The runtime checker of shapes may speak first where a literal is wrong.
    with pytest.raises(Exception) as caught:  # noqa: PT011
        make()
    assert isinstance(caught.value, InputError) or "Type-check" in str(caught.value)


def test_numpy_arrays_and_integers_become_floats():
    one = Series(
        "s", np.arange(3), np.array([1, 2, 3], dtype=np.float32), lo=[0, 1, 2], hi=[2, 3, 4]
    )
    assert one.x == (0.0, 1.0, 2.0)
    assert all(type(v) is float for v in (*one.x, *one.y, *one.lo))


def test_over_seeds_is_the_median_with_the_range():
    one = Series.over_seeds("s", [1, 2], np.array([[1, 5], [2, 6], [9, 7]]))
    assert (one.y, one.lo, one.hi) == ((2, 6), (1, 5), (9, 7))


@pytest.mark.parametrize(
    ("panel", "columns", "rows"),
    [
        (curves(), ["panel", "layer", "name", "x", "y", "lo", "hi"], 13 * 3 + 1 + 2),
        (cosines(True), ["panel", "name", "x", "value"], 100),
        (bars(), ["panel", "layer", "name", "x", "y", "lo", "hi"], 8 + 1),
        (radii(), ["panel", "layer", "name", "x", "y", "x_end"], 120 + 2),
        (scatter(), ["panel", "layer", "name", "x", "y"], 80),
    ],
    ids=["lines", "heatmap", "bars", "histogram", "scatter"],
)
def test_csv_has_every_number(panel, columns, rows):
    table = list(csv.reader(io.StringIO(Figure("f", "t", "c", (panel,)).csv())))
    assert table[0] == columns
    assert len(table) == rows + 1
    assert all(len(row) == len(columns) for row in table)


def test_csv_values_are_the_values():
    rows = csv.DictReader(io.StringIO(Figure("f", "t", "c", (cosines(False),)).csv()))
    read = [float(row["value"] or "nan") for row in rows]
    np.testing.assert_allclose(read, np.ravel(cosines(False).values), rtol=1e-8)


def test_histogram_shares_sum_to_one():
    for bar in radii().bars:
        assert sum(bar.values) == pytest.approx(1)
