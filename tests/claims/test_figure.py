"""Figures as data: what is refused, that JSON loses nothing, that CSV has every number."""

import csv
import io
import json
import math
from dataclasses import replace

import numpy as np
import pytest
from tests.claims.synthetic import bars, cosines, curves, everything, family, plane, radii, scatter, wide

import featavg as fa
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
    one = Series("s", np.arange(3), np.array([1, 2, 3], dtype=np.float32), lo=[0, 1, 2], hi=[2, 3, 4])
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
        (radii(), ["panel", "layer", "name", "x", "y"], 3 * 2 * 41 + 2),
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
    for one in radii().series:
        assert sum(one.y) == pytest.approx(2)  # each bin has two ends


def results():
    """Every public result that has something to show, small."""
    task = fa.MultiCluster(k=4, d=60)
    how = {"n": 40, "steps": 10, "lr": 0.02, "sigma_w": 1e-3}
    run, test = fa.train(task, seed=0, **how), task.sample(12, seed=1)
    x, rng = test.coordinates(run.net.dimension), np.random.default_rng(0)
    attacked = fa.attack_suite(fa.network_model(run.net), x, test.y, attacks="deepfool")
    yield from (run, fa.train(task, seed=range(3), **how), attacked, fa.curve(attacked))
    yield from (fa.radii(run, test, jobs=1), fa.averaging_index(run.net, task))
    yield fa.certify(run.net, x, test.y, radius=1.0, jobs=1)
    gradients = rng.normal(size=(24, 6))
    yield fa.shared_gradient(gradients, np.repeat(np.arange(4), 6), np.array([0, 0, 1, 1]))


def test_results_have_figures():
    for result in results():
        figure = result.figure()
        assert figure.csv().count("\n") > 3, figure
        assert Figure.from_json(json.loads(json.dumps(figure.to_json()))).name == figure.name


def test_the_share_that_survives_falls_at_each_value():
    steps = Series.survival("s", [2.0, math.inf, 1.0, 0.0])
    assert steps.x == (0.0, 0.0, 0.0, 1.0, 1.0, 2.0, 2.0)
    assert steps.y == (1.0, 1.0, 0.75, 0.75, 0.5, 0.5, 0.25)


def test_a_run_that_diverged_is_drawn_as_far_as_it_went():
    run = fa.train(fa.MultiCluster(k=4, d=60), n=40, steps=10, seed=0)
    lost = replace(run, log_loss=np.append(run.log_loss, np.inf))
    assert math.isnan(lost.figure().panels[0].series[0].y[-1])
