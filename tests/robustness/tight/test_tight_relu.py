"""Bounds of ReLU families and their search at cases where they are tight.

Random soundness runs rarely meet such cases. Each test here states the number that the bound must
have, or compares it with a fine grid of what it bounds.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
from tests.robustness.tight.cases import DOWN, FAMILY, UP, WIDE, points

from featavg.nets.two_layer import TwoLayer
from featavg.robustness.exact.branch_and_bound import TreeSearch
from featavg.robustness.exact.budget import Candidate, Clock
from featavg.robustness.exact.flipped_set import Family, ReluRelaxation, flipped
from featavg.robustness.exact.relaxation import Box, Price, Problem, cutting_planes, price_of
from featavg.robustness.geometry.subspace import reduce

FREE = Clock(10_000, math.inf)
RNG = np.random.default_rng


# ReLU families.


def test_relu_sides_and_cuts():
    relaxation = ReluRelaxation(FAMILY)
    outer = relaxation.outer(WIDE)
    for z in points(WIDE):
        right = DOWN @ np.maximum(z, 0.0)
        left = UP @ np.maximum(z, 0.0) + 0.25
        assert outer.at(z)[0] >= right[0] - 1e-12
        assert relaxation.excess(z) == pytest.approx(float((left - right)[0]))
        for place in (np.array([0.5, -0.5, 1.0]), np.array([-1.0, 2.0, -0.5])):
            side = relaxation.touching(None, place)
            assert side.at(z)[0] <= right[0] + 1e-12
            assert side.at(place)[0] == pytest.approx(float((DOWN @ np.maximum(place, 0.0))[0]))
            cut = relaxation.cuts(outer, place)
            assert cut.at(z)[0] <= (left - outer.at(z))[0] + 1e-12
            assert np.all(cut.magnitudes >= np.abs(cut.constants))
    ends = np.array([2.0, 2.0, 2.0])
    assert outer.at(ends)[0] == pytest.approx(4.0)


def test_relu_terms_are_the_least_over_the_box():
    relaxation = ReluRelaxation(FAMILY)
    for seed in range(30):
        rng = RNG(seed)
        price = Price(rng.normal(size=3), rng.exponential(size=1))
        z, stiffness = rng.normal(size=3), np.array([0.0, 0.0, 0.7])
        terms = relaxation.terms(WIDE, price, z, stiffness)
        grid = np.linspace(-1.0, 2.0, 3001)
        a = price.weights[0] * (UP - DOWN)[0]
        for r in range(3):
            s = grid - z[r]
            values = (stiffness[r] * s - 2 * price.kappa[r]) * s + 2 * a[r] * np.maximum(grid, 0.0)
            assert terms.least[r] <= values.min() + 1e-9
            assert terms.least[r] >= values.min() - 1e-4
        assert terms.constant == pytest.approx(2 * price.weights[0] * 0.25)


def _tree(weights, biases, head, gap=1e-9):
    net = TwoLayer(np.asarray(weights, float), np.asarray(biases, float), np.asarray(head, float))
    space = reduce(net)
    families = flipped(space, [np.array([[1.0]])])
    return net, space, TreeSearch(space, [ReluRelaxation(f) for f in families], gap)


def test_stiffness_is_as_large_as_it_may_be():
    for seed in range(10):
        rng = RNG(seed)
        _, space, tree = _tree(rng.normal(size=(6, 3)), np.zeros(6), rng.normal(size=(1, 6)))
        concave = tree.relaxations[0].concave
        quadratic = space.rows.T @ (tree.stiffness[0][:, None] * space.rows)
        if concave.any():
            assert 1.0 - 1e-9 <= np.linalg.eigvalsh(quadratic)[-1] <= 1.0
        assert np.all(tree.stiffness[0][~concave] == 0.0)


def test_the_separable_bound_at_a_local_solution():
    """At the price of the solution of one piece the bound is that piece's distance, not more."""
    weights, head = [[1.0, 0.0], [0.0, 1.0]], [[1.0, -1.0]]
    _, space, tree = _tree(weights, [0.0, 0.0], head)
    z = np.array([3.0, 1.0])
    tree.begin(z, 3.2)
    # The solution is (2, 2): kappa = (1, -1) and weight 1 give u* = (-1, 1).
    bound, terms, place = tree._separable(
        tree.relaxations[0],
        Box(np.array([0.0, 0.0]), np.array([4.0, 4.0]), *np.array([[-np.inf] * 2, [np.inf] * 2]), None),
        Price(np.array([1.0, -1.0]), np.ones(1)),
        2.0,
    )
    np.testing.assert_allclose(place, [2.0, 2.0])
    assert math.sqrt(2.0) * (1 - 1e-12) <= bound <= math.sqrt(2.0)
    rough = TreeSearch(replace(space, error=1e-3), tree.relaxations, 1e-9)
    rough.begin(z, 3.2)
    less, *_ = rough._separable(tree.relaxations[0], WIDE2, Price(np.array([1.0, -1.0]), np.ones(1)), 2.0)
    size = 2.0 + terms.size + 2.0 * 2.0 * (3.2 + 2.0)
    assert less**2 <= 2.0 - 3.9e-3 * (size - terms.size)


WIDE2 = Box(np.zeros(2), np.full(2, 4.0), np.full(2, -np.inf), np.full(2, np.inf), None)


@pytest.mark.parametrize("far", [1.5, 3.0, 10.0])
def test_a_better_candidate_lowers_what_is_certified(far):
    """The boxes were cut to the ball of interest: nothing beyond the last goal is proven."""
    _, _, tree = _tree([[1.0, 0.0], [0.0, 1.0]], [0.0, 0.0], [[1.0, -1.0]])
    tree.begin(np.array([3.0, 1.0]), 3.2)
    tree.found.candidates[:] = [Candidate(far, np.array([-far, 0.0]), np.ones((1, 2)))]
    tree.pools[id(tree.relaxations[0])].clear()
    result = tree.run(FREE)
    assert result.certified <= math.sqrt(2.0) * (1 + 1e-12)
    assert result.certified >= math.sqrt(2.0) * (1 - 1e-8)
    assert result.certified <= result.attack


def test_nothing_beyond_the_goal_is_certified(monkeypatch):
    """A node that is closed in an older, larger ball claims that ball: the last goal counts."""
    _, _, tree = _tree([[1.0, 0.0], [0.0, 1.0]], [0.0, 0.0], [[1.0, -1.0]], gap=0.1)
    tree.begin(np.array([3.0, 1.0]), 3.2)
    monkeypatch.setattr(tree, "_search", lambda limit, clock: (5.0, True))
    assert tree.run(FREE).certified == pytest.approx(0.9 * math.sqrt(2.0))


def test_without_a_candidate_the_search_goes_on_outwards():
    """The flip is far beyond |x|: it is found in a later ball, and certified up to it."""
    _, _, tree = _tree([[1.0, 0.0], [0.0, 1.0]], [0.0, -50.0], [[1.0, -1.0]])
    tree.begin(np.array([30.0, -50.0]), 1.0)
    tree.found.candidates.clear()
    tree.pools[id(tree.relaxations[0])].clear()
    result = tree.run(FREE)
    assert result.attack == pytest.approx(30.0, rel=1e-6)
    assert 30.0 * (1 - 1e-6) <= result.certified <= result.attack


def test_a_spent_budget_certifies_no_more_than_the_open_nodes():
    """80 programs find 0.6226; after 40 a node with a bound far below is still open."""
    rng = RNG(9)
    weights, head = rng.normal(size=(16, 8)), np.repeat([[1.0, -1.0]], 8, axis=1)
    x = rng.normal(size=8)
    sign = np.sign(TwoLayer(weights, np.zeros(16), head)(x[None])[0, 0])
    _, space, tree = _tree(weights, np.zeros(16), sign * head)
    z, reach = space.preactivations(x[None])[0], float(np.linalg.norm(x))
    whole = tree.at(z, reach, FREE)
    part = tree.at(z, reach, Clock(40, math.inf))
    assert whole.finished
    assert whole.certified == pytest.approx(0.6226228903, rel=1e-8)
    assert not part.finished
    assert part.certified < 0.9 * whole.certified


def test_cutting_planes_charge_rounding_errors():
    relaxation = ReluRelaxation(Family(np.array([[1.0]]), np.zeros((1, 1)), np.array([-1.0])))
    side = relaxation.touching(None, np.zeros(1))
    for error in (0.0, 0.01):
        problem = Problem(np.ones((1, 1)), np.array([3.0]), 5.0, error)
        planes = cutting_planes(problem, relaxation, side, None, [problem.z], math.inf, 5, 1e-11)
        assert planes.answer.bound == pytest.approx((2.0 - error * (5.0 + 1.0)) / (1.0 + error))
    price = price_of(planes, 1.0)
    np.testing.assert_allclose(-price.kappa @ problem.rows, planes.answer.u, rtol=1e-9)
    imposed = WIDE.split(0, 0.5)[0]
    imposed = Box(imposed.lo[:1], imposed.hi[:1], imposed.low[:1], imposed.high[:1], 0)
    planes = cutting_planes(problem, relaxation, side, imposed, [problem.z], math.inf, 5, 1e-11)
    assert planes.answer.u[0] == pytest.approx(-2.5)  # down to the imposed 0.5, not only to 1
