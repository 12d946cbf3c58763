"""Robust-accuracy curves: intervals, worst case, and PGD as published beside them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

from featavg.errors import InputError
from featavg.measures.accuracy import wilson_interval
from featavg.nets.two_layer import binary
from featavg.robustness.attacks.suite import attack_suite
from featavg.robustness.curve import curve, curve_of, pgd_curve
from featavg.robustness.models.model import network_model

DRAW = np.random.default_rng(0)
NET = binary(DRAW.normal(size=(6, 5)))
X = DRAW.normal(size=(60, 5)) * 2
Y = np.where(NET(X)[:, 0] > 0, 1, -1)
Y[:5] *= -1
MODEL = network_model(NET)


@pytest.mark.parametrize("n", [1, 7, 1000])
@pytest.mark.parametrize("confidence", [0.9, 0.99])
def test_wilson_is_scipys(n: int, confidence: float) -> None:
    counts = np.unique([0, n // 3, n])
    low, high = wilson_interval(counts, n, confidence)
    for i, count in enumerate(counts):
        twin = binomtest(int(count), n).proportion_ci(confidence, method="wilson")
        np.testing.assert_allclose((low[i], high[i]), (twin.low, twin.high), atol=1e-12)


def test_the_curve_counts_points() -> None:
    found = attack_suite(MODEL, X, Y)
    drawn = curve(found)
    assert drawn.accuracy[0] == found.accuracy == 55 / 60
    assert np.all(np.diff(drawn.accuracy) <= 0)
    assert drawn.accuracy[-1] == 0
    assert np.all((drawn.low <= drawn.accuracy) & (drawn.accuracy <= drawn.high))
    assert (drawn.unit, drawn.n, drawn.unresolved) == ("l2, raw", 60, 0)
    twin = [np.mean(found.radii > r) for r in drawn.radii]
    np.testing.assert_array_equal(drawn.accuracy, twin)


def test_the_worst_case_is_below_each_attack() -> None:
    found = [attack_suite(MODEL, X, Y, attacks=[name]) for name in ("deepfool", "directions")]
    at = np.linspace(0, 3, 30)
    worst = curve(found, at)
    for one in found:
        assert np.all(worst.accuracy <= curve(one, at).accuracy)
    assert worst.label == "deepfool + directions"


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_pgd_as_published_is_never_below_minimal_norm(norm: str) -> None:
    at = np.linspace(0.05, 2.5, 8)
    published = pgd_curve(MODEL, X, Y, at, norm=norm)
    ours = curve(attack_suite(MODEL, X, Y, norm), at)
    assert np.all(ours.accuracy <= published.accuracy)
    assert published.accuracy[0] > 0.5
    assert published.label == "PGD-40, own loss"


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: curve([]), "results are empty"),
        (lambda: curve_of(np.array([-1.0]), "l2, raw"), "negative"),
        (lambda: pgd_curve(MODEL, X, Y, [0.5, -1.0]), "radii are not lengths"),
        (lambda: pgd_curve(MODEL, X, Y, [0.5, np.inf]), "radii (are not lengths|is inf)"),
        (lambda: pgd_curve(MODEL, X, Y, [0.5, np.nan]), "radii (are not|holds a number)"),
        (lambda: wilson_interval(np.array([1]), 2, 1.5), "confidence"),
        (lambda: curve([attack_suite(MODEL, X, Y, n, ["ddn"]) for n in ("l2", "linf")]), "differ in points or unit"),
    ],
)
def test_bad_input(call, match: str) -> None:
    with pytest.raises(InputError, match=match):
        call()
