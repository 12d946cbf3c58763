"""Bounds of the probability read-out at cases where they are tight.

Random soundness runs rarely meet such cases. Each test here states the number that the bound must
have, or compares it with a fine grid of what it bounds.
"""

import math

import numpy as np
import pytest
from scipy.special import logsumexp
from tests.robustness.tight.cases import WIDE, points

from featavg.robustness.exact.probability import ProbabilityRelaxation
from featavg.robustness.exact.probability_terms import RivalTerm
from featavg.robustness.exact.relaxation import Box, Price

RNG = np.random.default_rng


# The probability read-out.


def _probability(h=1):
    head = np.array([[1.0, 0, 0], [0, 0.5, 0], [0, 0, 2.0]])
    own = np.array([True, False, False])
    if h == 2:
        head, own = np.array([[1.0, 0, 0], [0, 0.5, 2.0]]), np.array([True, False])
    return ProbabilityRelaxation(head, np.zeros(len(head)), own), head, own


@pytest.mark.parametrize("h", [1, 2])
@pytest.mark.parametrize("lo", [-1.0, 0.0, 0.5])
def test_probability_sides_and_cuts(h, lo):
    relaxation, head, own = _probability(h)
    box = Box(np.full(3, lo), np.full(3, 2.0), np.full(3, -np.inf), np.full(3, np.inf), None)
    outer = relaxation.outer(box)
    place = np.array([0.7, 0.9, 1.1])
    touching, starts = relaxation.touching(None, place), relaxation.starts(place)
    cut, log_cut = relaxation.cuts(starts[-1], place), relaxation.cuts(outer, place)

    def sides(z):
        f = head @ np.maximum(z, 0.0)
        return float(logsumexp(f[own])), float(logsumexp(f[~own]))

    for z in points(box):
        left, right = sides(z)
        above = outer.log_scale + math.log(outer.at(z)[0])
        assert above >= right - 1e-9
        if h == 1 and np.all((z[1:] == lo) | (z[1:] == 2.0)):
            assert above == pytest.approx(right, abs=1e-9)
        assert touching.log_scale + math.log(max(touching.at(z)[0], 1e-300)) <= right + 1e-9
        for side in starts:
            assert side.at(z)[0] <= right + 1e-9
        assert cut.at(z)[0] <= left - starts[-1].at(z)[0] + 1e-9
        assert log_cut.at(z)[0] <= left - above + 1e-9
        assert relaxation.excess(z) == pytest.approx(left - right)
    left, right = sides(place)
    assert touching.log_scale + math.log(touching.at(place)[0]) == pytest.approx(right)
    above = outer.log_scale + math.log(outer.at(place)[0])
    assert log_cut.at(place)[0] == pytest.approx(left - above)
    assert np.all(log_cut.magnitudes >= np.abs(log_cut.constants))
    assert np.all(outer.magnitudes >= np.abs(outer.constants))


def test_a_probability_cut_where_the_own_neuron_is_off():
    """There exp(relu) is flat: its tangent has no slope in that neuron, and touches."""
    relaxation, head, own = _probability()
    place = np.array([-0.5, 0.9, 1.1])
    [side] = relaxation.starts(place)[:1]
    cut = relaxation.cuts(side, place)
    for z in points(WIDE):
        left = float(logsumexp((head @ np.maximum(z, 0.0))[own]))
        assert cut.at(z)[0] <= left - side.at(z)[0] + 1e-12
    assert cut.at(place)[0] == pytest.approx(0.0 - side.at(place)[0])


def test_all_rivals_alike_touch_where_they_are_alike():
    relaxation, *_ = _probability()
    place = np.array([0.0, 2.0, 0.5])  # both rival outputs are one
    assert relaxation.starts(place)[-1].at(place)[0] == pytest.approx(1.0 + math.log(2.0))


def test_a_probability_chord_says_how_large_its_sums_were():
    """exp(2 z - 4) from z = 1/2 to 2: bottom exp(-3), top 1, constant bottom - rise / 2."""
    head = np.array([[1.0, 0.0], [0.0, 2.0]])
    relaxation = ProbabilityRelaxation(head, np.zeros(2), np.array([True, False]))
    none = np.full(2, np.inf)
    outer = relaxation.outer(Box(np.full(2, 0.5), np.full(2, 2.0), -none, none, None))
    rise = (1.0 - math.exp(-3.0)) / 1.5
    constant = math.exp(-3.0) - 0.5 * rise
    assert outer.constants[0] == pytest.approx(constant)
    assert outer.magnitudes[0] == pytest.approx(abs(constant) + 1.0 + 0.5 * rise)


@pytest.mark.parametrize("h", [1, 2, "mute"])
def test_probability_terms_are_below_the_whole(h):
    """Over the box, and nearly reached where every group is one neuron."""
    head = np.array([[1.0, 0, 0, 0], [0, 0.5, 0, 0], [0, 0, 0.8, 0], [0, 0, 0, 0.6]])
    own, constant = np.array([True, True, False, False]), np.zeros(4)
    if h == 2:
        head, own = np.array([[1.0, 0.5, 0, 0], [0, 0, 0.8, 0.6]]), np.array([True, False])
        constant = np.zeros(2)
    elif h == "mute":  # a rival whose neurons have no weights: a number
        head = np.concatenate([head, np.zeros((1, 4))])
        own, constant = np.append(own, False), np.array([0.0, 0.0, 0.0, 0.0, 0.7])
    relaxation = ProbabilityRelaxation(head, constant, own)
    box = Box(np.full(4, -1.0), np.full(4, 2.0), np.full(4, -np.inf), np.full(4, np.inf), None)
    z = points(box, 13)
    f = np.maximum(z, 0.0) @ head.T + constant
    for seed in range(8):
        rng = RNG(seed)
        place = rng.uniform(-0.5, 1.5, size=4)
        relaxation.starts(place)
        price = Price(rng.normal(size=4), rng.exponential(size=1))
        stiffness = np.array([0.0, 0.0, 0.6, 0.9])
        terms = relaxation.terms(box, price, place, stiffness)
        powers = np.exp(f - relaxation.level)
        s = z - place
        whole = ((stiffness * s - 2 * price.kappa) * s).sum(axis=1) + 2 * price.weights[0] * (
            powers[:, own].sum(axis=1) - powers[:, ~own].sum(axis=1)
        )
        total = terms.constant + terms.least.sum()
        assert total <= whole.min() + 1e-9
        if h != 2:
            assert total >= whole.min() - 0.25
        here = terms.constant + terms.here.sum()
        on = np.exp(head @ np.maximum(place, 0.0) + constant - relaxation.level)
        assert here == pytest.approx(2 * price.weights[0] * (on[own].sum() - on[~own].sum()))


def test_a_rival_term_is_below_its_least_value_where_newton_stops_early():
    """h' / 2 = x - kappa - exp(x - 3) has its root next to its flat top at 3: steps only halve."""
    kappa = 2.0 - 1e-3
    one = np.ones(1)
    term = RivalTerm(np.zeros(1), kappa * one, 1.0, one, one, -3.0 * one)
    least, where = term.least(np.zeros(1), 3.0 * one)
    grid = np.linspace(0.0, 3.0, 300_001)[:, None]
    assert 0.0 < where[0] < 3.0
    assert least[0] <= term.at(grid).min()
    assert least[0] >= term.at(grid).min() - 1e-3


def test_exponentials_that_overflow_prove_nothing():
    relaxation, *_ = _probability()
    relaxation.level = -800.0
    terms = relaxation.terms(WIDE, Price(np.ones(3), np.ones(1)), np.ones(3), np.full(3, 0.5))
    assert terms.constant + terms.least.sum() == -np.inf
