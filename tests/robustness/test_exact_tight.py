"""Every bound of the exact searches at a case where it is tight: a broken one shows there.

Random soundness runs rarely meet such cases. Each test here states the number that the bound must
have, or compares it with a fine grid of what it bounds.
"""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import logsumexp

from featavg.nets.grouped import grouped
from featavg.nets.readouts.max import Max
from featavg.nets.two_layer import TwoLayer, binary
from featavg.robustness.exact import qp
from featavg.robustness.exact.bound_tightening import Problem, cap, shrink
from featavg.robustness.exact.branch_and_bound import TreeSearch
from featavg.robustness.exact.budget import Budget, Candidate, Clock
from featavg.robustness.exact.cutting_planes import cutting_planes, price_of
from featavg.robustness.exact.domination import _holds
from featavg.robustness.exact.farkas import _empty, _Exact, _null_vector, never_flips
from featavg.robustness.exact.flipped_set import Family, flipped, kinks
from featavg.robustness.exact.linf_tree import OFF, ON, UNDECIDED, Program, linf_search
from featavg.robustness.exact.piece_search import PieceSearch, count_pieces, list_leaves
from featavg.robustness.exact.probability_relaxation import ProbabilityRelaxation
from featavg.robustness.exact.probability_terms import RivalTerm
from featavg.robustness.exact.relaxation import Affine, Box, Price, chord
from featavg.robustness.exact.relu_relaxation import ReluRelaxation
from featavg.robustness.exact.result import Radii, RadiusStatus
from featavg.robustness.exact.subspace import reduce
from featavg.robustness.exact.witness import checked_witness, decision_margins

FREE = Clock(10_000, math.inf)
RNG = np.random.default_rng


# The quadratic program and its certificate.


def test_the_half_space_is_charged_for_every_rounding_error():
    rows, limits = np.array([[-1.0, 0.0]]), np.array([-2.0])
    bound = qp.half_space(rows, limits, np.array([0.5]), np.array([0.25]), np.ones(1))
    assert bound == (2.0 - 0.25) / (1.0 + 0.5)
    two = np.array([[1.0], [-1.0]])
    assert qp.half_space(two, -np.ones(2), np.zeros(2), np.zeros(2), np.ones(2)) == np.inf
    assert qp.half_space(two, np.zeros(2), np.zeros(2), np.zeros(2), np.ones(2)) == 0.0
    assert qp.half_space(rows, limits, np.zeros(1), np.array([3.0]), np.ones(1)) == 0.0


def test_the_nearest_point_and_its_bound_meet():
    for seed in range(40):
        rng = RNG(seed)
        rows, limits = rng.normal(size=(4, 5)), rng.normal(size=4) - 1.0
        zero = np.zeros(4)
        for scale in (1.0, 1e-8, 1e8):
            answer = qp.nearest(rows * scale, limits * scale, zero, zero)
            length = np.linalg.norm(answer.u)
            assert np.all(rows @ answer.u <= limits + 1e-9 * (1 + length))
            assert (1 - 1e-9) * length <= answer.bound <= length * (1 + 1e-9)
            assert np.all(answer.multipliers >= 0)


def test_rows_without_direction():
    zero = np.zeros(1)
    nowhere = qp.nearest(np.zeros((1, 2)), np.array([-1.0]), zero, zero)
    assert nowhere.u is None
    assert nowhere.bound == np.inf
    # Within its rounding error the row may hold after all.
    assert qp.nearest(np.zeros((1, 2)), np.array([-1.0]), zero, np.array([2.0])).bound == 0.0
    everywhere = qp.nearest(np.zeros((1, 2)), np.zeros(1), zero, zero)
    assert everywhere.u is not None
    mixed = qp.nearest(
        np.array([[0.0, 0.0], [-1.0, 0.0]]), np.array([0.0, -2.0]), *np.zeros((2, 2))
    )
    assert mixed.bound == pytest.approx(2.0)
    assert mixed.multipliers[0] == 0.0
    assert mixed.multipliers[1] > 0.0


def test_a_row_of_rounding_errors_hides_no_violation():
    rows = np.array([[-1.0, 0.0], [2e-16, 5e-17]])
    limits = np.array([-2.0, 0.4])
    answer = qp.nearest(rows, limits, np.zeros(2), np.zeros(2))
    assert np.allclose(answer.u, [2.0, 0.0], rtol=1e-9)
    assert answer.bound == pytest.approx(2.0, rel=1e-9)


def test_the_second_opinion_alone():
    a, b = np.array([[-1.0, 0.0], [0.0, -1.0]]), np.array([-1.0, -0.5])
    nothing = qp.Nearest(None, 0.0, np.zeros(2))
    zero, one = np.zeros(2), np.ones(2)
    answer = qp._second_opinion(a, b, one, 2.0, a, 2.0 * b, zero, zero, nothing)
    np.testing.assert_allclose(answer.u, [2.0, 1.0], rtol=1e-9)
    assert answer.bound == pytest.approx(math.sqrt(5.0))
    against = np.array([[1.0, 0.0], [-1.0, 0.0]])
    answer = qp._second_opinion(against, -one, one, 1.0, against, -one, zero, zero, nothing)
    assert answer.u is None
    assert answer.bound > 1e6


def test_shortest_steps_in_a_box_and_out_of_reach():
    """From (1/2, 1/10) in [0, 1]^2, falling by 0.4: the second coordinate stops at its face."""
    row, x, box = np.array([[2.0, 2.0]]), np.array([0.5, 0.1]), (0.0, 1.0)
    step = qp.shortest_step(row, np.array([-0.8]), "l2", x, box)
    np.testing.assert_allclose(step, [-0.3, -0.1], atol=1e-6)
    np.testing.assert_allclose(qp.shortest_step(row, np.array([-0.8])), [-0.2, -0.2])
    assert qp.shortest_step(row, np.array([-1.4]), "l2", x, box) is None  # the box ends at -0.6
    apart = np.array([[1.0], [-1.0]])
    for norm in ("l2", "linf"):
        assert qp.shortest_step(apart, np.array([-1.0, -1.0]), norm) is None
        assert qp.shortest_step(np.zeros((1, 1)), np.array([-1.0]), norm) is None


def test_a_second_opinion_outside_the_polyhedron_is_none(monkeypatch):
    """Weights of zero stand for u = 0, which x <= -1 does not allow."""
    monkeypatch.setattr(qp, "nnls", lambda a, b: (np.zeros(1), 1.0))
    one, zero = np.ones(1), np.zeros(1)
    nothing = qp.Nearest(None, 0.25, zero)
    a, b = np.ones((1, 1)), -np.ones(1)
    answer = qp._second_opinion(a, b, one, 1.0, a, b, zero, zero, nothing)
    assert answer.u is None
    assert answer.bound == 0.25


# Boxes.


def test_chords_are_above_relu_and_meet_it_at_both_ends():
    for lo, hi in ((-1.0, 3.0), (0.0, 2.0), (1.0, 2.0), (-3.0, -1.0), (-2.0, 0.0)):
        slope, offset = (float(part[0]) for part in chord(np.array([lo]), np.array([hi])))
        z = np.linspace(lo, hi, 201)
        assert np.all(slope * z + offset >= np.maximum(z, 0.0) - 1e-12)
        assert slope * lo + offset == pytest.approx(max(lo, 0.0))
        assert slope * hi + offset == pytest.approx(max(hi, 0.0))


def test_a_split_covers_the_box():
    box = Box(
        np.array([-1.0, -1.0]), np.array([2.0, 2.0]), *np.array([[-np.inf] * 2, [np.inf] * 2]), None
    )
    below, above = box.split(1, 0.5)
    assert (below.hi[1], below.high[1], below.lo[1], below.low[1]) == (0.5, 0.5, -1.0, -np.inf)
    assert (above.lo[1], above.low[1], above.hi[1], above.high[1]) == (0.5, 0.5, 2.0, np.inf)
    assert below.last == above.last == 1


def _disc(radius, normal=None, depth=0.0):
    angle, r = np.linspace(0, 2 * np.pi, 1441), np.linspace(0, radius, 201)
    u = np.stack([np.outer(r, np.cos(angle)), np.outer(r, np.sin(angle))], axis=-1).reshape(-1, 2)
    return u if normal is None else u[u @ normal >= depth]


@pytest.mark.parametrize("depth", [0.0, 0.7, 1.9, 2.0])
def test_the_cap_is_the_cap(depth):
    rows = np.array([[1.0, 0.0], [0.6, 0.8], [-0.8, 0.6], [0.0, -1.0]])
    problem, normal = Problem(rows, np.zeros(4), 1.0, 0.0), np.array([1.0, 0.0])
    high, minus_low = cap(problem, normal, depth, 2.0)
    if depth < 2.0:
        values = _disc(2.0, normal, depth) @ rows.T
        assert np.all(high >= values.max(axis=0) - 1e-12)
        assert np.all(minus_low >= -values.min(axis=0) - 1e-12)
        np.testing.assert_allclose(high, values.max(axis=0), atol=0.02)
        np.testing.assert_allclose(minus_low, -values.min(axis=0), atol=0.02)
    else:
        np.testing.assert_allclose([high, -minus_low], [2.0 * rows[:, 0]] * 2, atol=1e-12)


def test_a_shrunk_box_holds_the_ball_the_cap_and_the_split():
    rows = np.array([[1.0, 0.0], [0.6, 0.8], [-0.8, 0.6]])
    z = np.array([0.5, -0.25, 0.0])
    problem = Problem(rows, z, 3.0, 0.01)
    box = Box.everywhere(3)
    ball = shrink(problem, box, None, 0.0, 2.0)
    np.testing.assert_allclose(ball.hi, z + 2.0 + 0.01 * (3.0 + 2.0), rtol=1e-12)
    np.testing.assert_allclose(ball.lo, z - 2.0 - 0.01 * (3.0 + 2.0), rtol=1e-12)
    exact = Problem(rows, z, 3.0, 0.0)
    for part, sign in zip(box.split(0, 1.5), (-1.0, 1.0), strict=True):
        cut = shrink(exact, part, None, 0.0, 2.0)
        u = _disc(2.0, np.array([sign, 0.0]), sign * (1.5 - z[0]))
        values = z + u @ rows.T
        assert np.all(cut.hi >= values.max(axis=0) - 1e-12)
        assert np.all(cut.lo <= values.min(axis=0) + 1e-12)
        np.testing.assert_allclose(cut.hi, values.max(axis=0), atol=0.02)
        np.testing.assert_allclose(cut.lo, values.min(axis=0), atol=0.02)
    _, above = box.split(0, 2.5)
    assert shrink(exact, above, None, 0.0, 2.0) is not None  # reached exactly at |u| = limit
    _, above = box.split(0, 2.5 + 1e-9)
    assert shrink(exact, above, None, 0.0, 2.0) is None


# ReLU families.

UP, DOWN = np.array([[1.0, 0.5, 0.0]]), np.array([[0.0, 0.0, 2.0]])
FAMILY = Family(UP, DOWN, np.array([0.25]))
WIDE = Box(-np.ones(3), 2.0 * np.ones(3), -np.full(3, np.inf), np.full(3, np.inf), None)


def _points(box, steps=9):
    axes = [np.linspace(lo, hi, steps) for lo, hi in zip(box.lo, box.hi, strict=True)]
    return np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, len(box.lo))


def test_relu_sides_and_cuts():
    relaxation = ReluRelaxation(FAMILY)
    outer = relaxation.outer(WIDE)
    for z in _points(WIDE):
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
        Box(
            np.array([0.0, 0.0]),
            np.array([4.0, 4.0]),
            *np.array([[-np.inf] * 2, [np.inf] * 2]),
            None,
        ),
        Price(np.array([1.0, -1.0]), np.ones(1)),
        2.0,
    )
    np.testing.assert_allclose(place, [2.0, 2.0])
    assert math.sqrt(2.0) * (1 - 1e-12) <= bound <= math.sqrt(2.0)
    rough = TreeSearch(replace(space, error=1e-3), tree.relaxations, 1e-9)
    rough.begin(z, 3.2)
    less, *_ = rough._separable(
        tree.relaxations[0], WIDE2, Price(np.array([1.0, -1.0]), np.ones(1)), 2.0
    )
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

    for z in _points(box):
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
    for z in _points(WIDE):
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
    z = _points(box, 13)
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


# Pieces.


def test_listed_pieces_charge_rounding_errors():
    """One neuron, z = 3, flipped where z <= 1: the bound is (2 - e (reach + 1)) / (1 + e)."""
    net = TwoLayer(np.array([[1.0], [0.0]]), np.array([0.0, 1.0]), np.array([[1.0, -1.0]]))
    for error in (0.0, 0.01):
        space = replace(reduce(net), error=error)
        pieces = list_leaves(space, flipped(space, [np.array([[1.0]])]))
        result = PieceSearch(space, pieces).at(np.array([3.0]), 5.0, FREE)
        assert result.certified == pytest.approx((2.0 - error * (5.0 + 1.0)) / (1.0 + error))
        assert result.attack == pytest.approx(2.0)


def test_the_nearest_of_several_pieces():
    """Two rivals at 1.5 and 4: the second is listed first and must not end the search."""
    net = binary(np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.5], [-1.0, 0.0]]))
    space = reduce(net)
    families = flipped(space, [np.array([[1.0]])])
    assert count_pieces(families) == 4
    pieces = list_leaves(space, families)
    assert sorted(pieces.down[:, 0].sum(axis=1)) == sorted(
        [0.0, *families[0].down[0][families[0].down[0] > 0], families[0].down[0].sum()]
    )
    z = space.preactivations(np.array([[2.0, 3.0]]))[0]
    result = PieceSearch(space, pieces).at(z, 4.0, FREE)
    tree = TreeSearch(space, [ReluRelaxation(family) for family in families], 1e-9)
    assert result.certified == pytest.approx(tree.at(z, 4.0, FREE).certified, rel=1e-7)
    spent = PieceSearch(space, pieces).at(z, 4.0, Clock(0, math.inf))
    assert not spent.finished
    assert spent.certified <= result.certified


def test_a_piece_that_looked_nearest_does_not_end_the_search():
    """Two inequalities of one piece at 0.707 each meet at 0.816; another's at 0.759 meet at 0.779."""
    weights = np.diag([1.0, 1.0, 1.0, 3.0])
    net = TwoLayer(weights, np.array([10.0, 10.0, 9.0, 7.6]), np.eye(4))
    space, own = reduce(net), np.array([True, True, False, False])
    pieces = list_leaves(space, flipped(space, Max().pieces(own)))
    z = space.preactivations(np.zeros((1, 4)))[0]
    result = PieceSearch(space, pieces).at(z, 10.0, FREE)
    # min 2 (g - 3 t)^2 + t^2 at t = 6 g / 19 is g^2 38 / 361, for g = 2.4.
    assert result.certified == pytest.approx(2.4 * math.sqrt(38.0) / 19.0)
    assert result.attack == pytest.approx(result.certified)


def test_pieces_are_as_many_as_subsets():
    space = reduce(binary(np.eye(6)))
    families = flipped(space, [np.array([[1.0]])])
    assert count_pieces(families) == len(list_leaves(space, families).down) == 8


def test_families():
    space = reduce(TwoLayer(np.array([[2.0], [0.0]]), np.zeros(2), np.array([[1.0, 1.0]])))
    [family] = flipped(space, [np.array([[1.0]])], slack=3.0)
    assert (family.up[0, 0], family.shift[0]) == (1.0, -1.5)  # divided by the largest coefficient
    constant = reduce(TwoLayer(np.zeros((1, 1)), np.ones(1), np.ones((1, 1))))
    assert flipped(constant, [np.array([[1.0]])]) == []
    assert len(flipped(constant, [np.array([[-1.0]])])) == 1
    assert len(flipped(constant, [np.array([[0.0]])])) == 1
    rows = kinks(np.eye(3), UP, DOWN, np.array([0.0, 1.0, 0.0]), 1.0)
    np.testing.assert_allclose(rows, [[1, 0, 0], [0, 0.5, -2.0]])


def test_the_subspace_keeps_the_network():
    rng = RNG(0)
    weights = rng.normal(size=(4, 6)) * np.array([[1e-9], [1.0], [1e9], [0.0]])
    net = TwoLayer(weights, np.array([1e-9, -0.5, 1e9, 2.0]), rng.normal(size=(2, 4)))
    space, x, u = reduce(net), rng.normal(size=(1, 6)), rng.normal(size=3)
    z = space.preactivations(x)[0] + space.rows @ u
    outputs = space.head @ np.maximum(z, 0.0) + space.constant
    np.testing.assert_allclose(outputs, net(x + u @ space.basis.T)[0], rtol=1e-9)
    np.testing.assert_allclose(np.linalg.norm(space.rows, axis=1), 1.0)
    assert space.error >= (6 + 4) * 2.0**-53


# Proofs that nothing flips.


def test_farkas_needs_a_strict_sign():
    one = Fraction(1)
    assert _empty([([one], one), ([-one], one)])
    assert not _empty([([one], one), ([-one], -one)])  # they touch: x = -1 satisfies both
    assert not _empty([([one], one), ([-one], -2 * one)])
    assert not _empty([([one], one), ([one], one)])  # the null vector has both signs
    assert not _empty([([one], 3 * one), ([one], one)])  # x <= -3 and x <= -1
    assert _empty([([-one], -3 * one), ([2 * one], 8 * one)])  # x <= -4 and x >= -3
    assert _null_vector([[one], [one], [one]]) is None  # two null vectors
    assert _null_vector([[one]]) is None
    assert _null_vector([[Fraction(0)]]) == [one]


def test_inequalities_in_fractions_by_hand():
    """relu(x + 3) - relu(2 x + 5) - relu(-7), and + relu(7), with every ReLU chosen."""
    weights, biases = np.array([[1.0], [2.0], [0.0]]), np.array([3.0, 5.0, -7.0])
    pieces = [np.array([[1.0]])]
    both, none = np.array([True, True]), np.array([False, False])
    exact = _Exact(TwoLayer(weights, biases, np.array([[1.0, -1.0, -1.0]])), pieces)
    assert exact.row(0, 0, both, both) == ([-1], -2)
    assert exact.row(0, 0, both, none) == ([1], 3)
    assert exact.row(0, 0, none, none) == ([0], 0)
    exact = _Exact(TwoLayer(weights, np.abs(biases), np.array([[1.0, -1.0, 1.0]])), pieces)
    assert exact.row(0, 0, none, both) == ([-2], 7 - 5)


def _proven(weights, biases, head):
    net = TwoLayer(np.asarray(weights, float), np.asarray(biases, float), np.asarray(head, float))
    space, rows = reduce(net), [np.array([[1.0]])]
    finder = PieceSearch(space, list_leaves(space, flipped(space, rows)))
    finder.at(space.preactivations(np.ones((1, net.dimension)))[0], 2.0, FREE)
    return never_flips(net, rows, finder)


def test_never_in_fractions():
    assert _proven([[1.0], [1.0], [0.0]], [0.0, 0.0, 1.0], [[2.0, -1.0, 1.0]])
    # The neuron without a weight counts with its bias only where that is positive.
    assert not _proven([[1.0], [1.0], [0.0]], [0.0, 0.0, -1.0], [[2.0, -1.0, 1.0]])
    assert not _proven([[1.0], [1.0], [0.0]], [0.0, 0.0, 1.0], [[1.0, -2.0, 1.0]])
    assert not _proven([[1.0], [1.0], [0.0]], [0.0, 2.0, 1.0], [[1.0, -1.0, 1.0]])


def _held(weights, biases, mixture, outputs=3):
    """Whether the last output is found below this mixture of the others."""
    net = TwoLayer(np.asarray(weights, float), np.asarray(biases, float), np.eye(outputs))
    table = np.zeros((outputs, outputs))
    table[-1, :-1] = mixture
    return _holds(net, np.arange(outputs) < outputs - 1, table)


def test_a_mixture_is_checked_in_fractions():
    line = [[1.0], [1.0], [1.0]]
    assert _held(line, [0.0, 0.0, 0.0], [1.0, 0.0])
    assert not _held(line, [0.0, 0.0, 0.5], [1.0, 0.0])  # the bias lifts the rival above
    assert not _held(line, [0.0, 0.0, 0.0], [0.0, 0.0])  # nothing adds up to the rival
    plane = [[1.0, 0.0], [1.0, 1.0]]
    assert _held([*plane, [1.0, 0.5]], np.zeros(3), [0.5, 0.5])
    assert not _held([*plane, [0.5, -0.25]], np.zeros(3), [0.75, 0.25])  # -1/4 of the second
    assert not _held([*plane, [2.0, 1.0]], np.zeros(3), [1.0, 1.0])  # two of one


# l_inf.


def _program(up=1.0, down=0.0, shift=-1.0, at_x=3.0):
    return Program(
        Family(np.array([[up]]), np.array([[down]]), np.array([shift])),
        np.ones((1, 1)),
        np.array([at_x]),
    )


def test_the_linf_bound_clips_multipliers_that_prove_nothing():
    """relu(z) <= 1 from z = 3: distance 2, whatever multipliers are handed in."""
    program, free = _program(), np.array([UNDECIDED])
    expected = (2.0 - 1e-13 * 4.0) / (1.0 + 1e-13)
    assert abs(program.bound(np.array([1.0, 1.0]), free, 9.0) - expected) < 1e-15
    assert abs(program.bound(np.array([1.0, 5.0]), free, 9.0) - expected) < 1e-15
    assert program.bound(np.array([1.0, -5.0]), free, 9.0) == 0.0
    assert program.bound(np.array([-1.0, 1.0]), free, 9.0) == 0.0
    assert program.bound(None, free, 9.0) == 0.0
    # From z = -3 the inequality holds at once: nothing may prove a distance.
    assert _program(at_x=-3.0).bound(np.array([-1.0, 0.0]), free, 9.0) == 0.0


def test_linf_lines_are_above_relu():
    program = _program(at_x=1.0)
    for radius in (0.5, 1.0, 3.0):
        z = 1.0 + np.linspace(-radius, radius, 101)
        slope, height = program.lines(np.array([UNDECIDED]), radius)
        assert np.all(slope[0] * z + height[0] >= np.maximum(z, 0.0) - 1e-12)
        for end in (z[0], z[-1]):
            assert slope[0] * end + height[0] == pytest.approx(max(end, 0.0))
    assert [part[0] for part in program.lines(np.array([ON]), 3.0)] == [1.0, 0.0]
    assert [part[0] for part in program.lines(np.array([OFF]), 3.0)] == [0.0, 0.0]


def test_the_linf_search_ends_with_what_is_proven():
    program = _program(up=0.0, down=1.0, shift=2.0, at_x=-1.0)  # flipped where relu(z) >= 2
    lengths = []

    def probe(step):
        length = float(np.abs(step).max())
        lengths.append(length)
        return length if -1.0 + step[0] >= 2.0 - 1e-9 else math.inf

    result = linf_search([program], 10.0, probe, FREE)
    assert result.attack == pytest.approx(3.0)
    assert result.certified == pytest.approx(3.0)
    assert result.certified <= 3.0
    spent = linf_search([program], 10.0, lambda step: math.inf, Clock(0, math.inf))
    assert not spent.finished
    assert spent.certified == 0.0
    # No probe ever succeeds: the whole ball of the guess is certified, and not more.
    nothing = linf_search([_program(shift=1.0)], 10.0, lambda step: math.inf, FREE)
    assert nothing.certified <= 10.0


# Results and witnesses.


def _radii(certified, attack):
    n = len(certified)
    status = np.full(n, RadiusStatus.EXACT.code)
    return Radii(np.array(certified), np.array(attack), np.zeros((n, 1)), status * 0, status)


def test_a_point_is_not_robust_at_its_own_radius():
    lower, upper = _radii([1.0, 2.0], [1.0, 3.0]).robust_accuracy(
        np.array([0.5, 1.0, 2.0, 2.5, 3.0])
    )
    np.testing.assert_array_equal(lower, [1.0, 0.5, 0.0, 0.0, 0.0])
    np.testing.assert_array_equal(upper, [1.0, 0.5, 0.5, 0.5, 0.0])


def test_gaps():
    found = _radii([1.0, 0.0, 2.0, np.inf], [2.0, 0.0, np.inf, np.inf])
    np.testing.assert_array_equal(found.gaps, [0.5, 0.0, 1.0, 0.0])
    assert found.to_json()["median"] == [1.5, "inf"]


def test_put_and_blank():
    whole = Radii.blank(np.arange(6.0).reshape(3, 2))
    np.testing.assert_array_equal(whole.witness[1], [2.0, 3.0])
    whole.put(slice(0, None, 2), replace(_radii([5.0, 6.0], [7.0, 8.0]), witness=np.ones((2, 2))))
    np.testing.assert_array_equal(whole.certified, [5.0, 0.0, 6.0])
    np.testing.assert_array_equal(whole.attack, [7.0, 0.0, 8.0])
    np.testing.assert_array_equal(whole.witness[:, 0], [1.0, 2.0, 1.0])


def test_joined_radii_keep_their_norm():
    parts = [replace(_radii([1.0], [1.0]), norm="linf") for _ in range(2)]
    assert Radii.joined(parts).norm == "linf"


def test_inwards_is_away_from_every_constraint():
    candidate = Candidate(1.0, np.zeros(2), np.array([[2.0, 0.0], [0.0, -3.0]]))
    np.testing.assert_allclose(candidate.inwards(), [-1.0, 1.0])
    assert candidate.off() is None


def test_a_budget_is_spent_at_its_last_node():
    clock = Budget(nodes=3).start()
    assert [clock.spent(n) for n in (2, 3, 4)] == [False, True, True]
    assert Clock(10, -1.0).spent(0)


def test_only_steps_that_flip_are_witnesses():
    net = binary(np.eye(2))
    space, x = reduce(net), np.array([3.0, 1.0])
    mask = np.ones(1, dtype=bool)
    from featavg.nets.readouts.sum import Sum
    from featavg.robustness.exact.budget import Search

    short = np.array([-0.5, 0.5]) @ space.basis
    right = np.array([-1.0, 1.0]) @ space.basis
    long = np.array([-3.0, 3.0]) @ space.basis
    steps = [
        Candidate(float(np.linalg.norm(u)), u, u[None]) for u in (long, 2 * long, short, right)
    ]
    attack, witness = checked_witness(net, space, x, 1, mask, Sum(), Search(candidates=steps))
    assert math.sqrt(2.0) <= attack <= math.sqrt(2.0) * (1 + 1e-6)
    assert decision_margins(net, witness[None], np.ones(1), None, "sum")[0] <= 0
    attack, witness = checked_witness(net, space, x, 1, mask, Sum(), Search(candidates=steps[2:3]))
    assert attack == math.inf
    assert np.isnan(witness).all()


def test_grouped_head_is_what_the_tests_think():
    assert grouped(np.eye(2), 2).head.tolist() == [[1.0, 0.0], [0.0, 1.0]]
    row = Affine(np.ones((1, 1)), np.array([-2.0]), np.ones((1, 1)))
    assert row.magnitudes.tolist() == [2.0]
    # The constant of a difference is small where what it was made of is not.
    assert replace(row, magnitude=np.array([5.0])).magnitudes.tolist() == [5.0]
