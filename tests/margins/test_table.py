"""Checks of the margin table, from rows that are made up."""

import numpy as np
import pytest

from featavg.paper.engine.claim import Context
from featavg.paper.margins import table as module
from featavg.paper.margins.table import PUBLISHED_MARGINS, MarginRow, MarginTable, evidence, figures, growth

HISTORY = tuple(
    {"epoch": i, "log10_loss": -float(i), "smallest_margin": 1.0, "normalized_margin": 1e-6 * i,
     "product_margin": 1e-4 * i} for i in range(1, 4)
)  # fmt: skip


def table(margins=(1e-6, 2e-6, 3e-6), radii=((1.0, 2.0, 0.0),) * 3):
    rows = [
        MarginRow(row.model, 10 * row.model, row.log10_loss, margin, row.normalized_margin, tuple(r))
        for row, margin, r in zip(PUBLISHED_MARGINS, margins, radii, strict=False)
    ]
    return MarginTable("mnist", tuple(rows), HISTORY, {})


def test_all_five_rows_can_be_drawn():
    full = table(np.linspace(1e-5, 1e-4, 5), ((1.0, 2.0),) * 5)
    assert len(full.rows) == 5
    for figure in figures(full):
        assert figure._repr_html_()


def test_radii_of_the_same_picture_are_compared():
    old = np.linspace(0.5, 1.5, 40)
    assert growth(old, 1.2 * old) == pytest.approx((1.2, 1.2, 1.2))
    for factor, passed in ((1.2, True), (0.9, False)):
        found = evidence(table(radii=(tuple(old), tuple(old), tuple(factor * old))))
        assert next(check for check in found.checks if "radii" in check.name).passed is passed


def test_several_runs_are_judged_by_their_spread(monkeypatch):
    runs = iter([table(margins=margins) for margins in ((1e-6, 2e-6, 3e-6), (1e-6, 3e-6, 4e-6), (1e-6, 2.5e-6, 3e-6))])
    monkeypatch.setattr(module, "_trained", lambda *_: next(runs))
    first, second, radii = module.margin_digits.run(Context(seeds=(0, 1, 2))).checks
    assert first.values == pytest.approx((2.0, 3.0, 2.5))
    assert second.values == pytest.approx((1.5, 4 / 3, 1.2))
    assert radii.values == (1.0, 1.0, 1.0)


def test_a_margin_that_falls_fails_the_table():
    assert evidence(table(margins=(3e-6, 2e-6, 1e-6))).verdict.value == "fails"
