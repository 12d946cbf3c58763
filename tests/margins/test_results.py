"""Results of the margin experiments: figure, JSON, text, and what they say about broken runs."""

import dataclasses
import json

import numpy as np
import pytest

import featavg as fa
from featavg.paper.margins.claim_table import evidence
from featavg.paper.margins.mnist_margins import PUBLISHED_MARGINS, MarginRow, MarginTable

HISTORY = tuple(
    {"epoch": i, "log10_loss": -float(i), "smallest_margin": 1.0, "normalized_margin": 1e-6 * i,
     "product_margin": 1e-4 * i} for i in range(1, 4)
)  # fmt: skip


def table(margins=(1e-6, 2e-6, 3e-6), radii=((1.0, 2.0, 0.0),) * 3):
    rows = [
        MarginRow(
            row.model, 10 * row.model, row.log10_loss, margin, row.normalized_margin, tuple(r)
        )
        for row, margin, r in zip(PUBLISHED_MARGINS, margins, radii, strict=False)
    ]
    return MarginTable("mnist", tuple(rows), HISTORY, {})


SMALL = {
    "homogeneous_flow": lambda: fa.homogeneous_flow(2, target=-50.0),
    "kkt_run": lambda: fa.kkt_run(4),
    "kkt_radius": lambda: fa.kkt_radius(clusters=(4,)),
    "linear_limits": lambda: fa.linear_limits("path"),
    "margin_table": table,
}


@pytest.mark.parametrize("name", SMALL)
def test_a_result_can_be_shown_everywhere(name):
    result = SMALL[name]()
    assert json.loads(json.dumps(result.to_json())) != {}
    assert 20 < len(repr(result)) < 2000
    assert result._repr_html_().startswith("<figure><svg")
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.anything = 1


def test_all_five_rows_can_be_drawn():
    full = table(np.linspace(1e-5, 1e-4, 5), ((1.0, 2.0),) * 5)
    assert len(full.rows) == 5
    for figure in (full.figure(), full.robustness_figure()):
        assert figure._repr_html_()


def test_radii_of_the_same_picture_are_compared():
    old = np.linspace(0.5, 1.5, 40)
    grown = table(radii=(tuple(old), tuple(1.1 * old), tuple(1.2 * old)))
    median, low, high = grown.growth(1, 3)
    assert median == pytest.approx(1.2)
    assert low == pytest.approx(1.2)
    assert high == pytest.approx(1.2)
    names = [check for check in evidence(grown).checks if "radii" in check.name]
    assert names[0].passed
    shrunk = table(radii=(tuple(old), tuple(old), tuple(0.9 * old)))
    assert not next(c for c in evidence(shrunk).checks if "radii" in c.name).passed


def test_a_margin_that_falls_fails_the_table():
    assert evidence(table(margins=(3e-6, 2e-6, 1e-6))).verdict.value == "fails"


def test_a_turn_without_growth_would_be_noticed():
    flow = fa.homogeneous_flow(2, target=-50.0)
    assert flow.turning() >= 0.999
    stuck = dataclasses.replace(flow.margins, smoothed=np.full_like(flow.margins.smoothed, 0.1))
    assert dataclasses.replace(flow, margins=stuck).turning() < 0.5
