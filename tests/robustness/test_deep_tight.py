"""Every bound of the deep search at a case where it is tight: a broken one shows there.

As in tests/robustness/tight: each test states the number that a bound must have, or compares it with
what it bounds, at points where the two are equal.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logsumexp
from tests.robustness.deep_twin import as_deep

from featavg.nets.deep import Deep
from featavg.nets.readouts._readout import Max, readout_of
from featavg.nets.two_layer import TwoLayer
from featavg.robustness.certify import Certificate, Certificates, certify
from featavg.robustness.exact.budget import Budget, Candidate, Clock, Search
from featavg.robustness.exact.decision import Decision
from featavg.robustness.exact.deep import cuts as cuts_module
from featavg.robustness.exact.deep.ball_search import BallSearch
from featavg.robustness.exact.deep.cuts import Cuts, Errors, Part, Split, half_spaces
from featavg.robustness.exact.deep.linear_bounds import ball_bounds, extent, lines_of, tightened, trace
from featavg.robustness.exact.deep.local_search import LocalSearch
from featavg.robustness.exact.deep.search import DeepSearch
from featavg.robustness.exact.deep.solver import DeepSolver
from featavg.robustness.exact.flip_conditions import LinearCondition, conditions_of
from featavg.robustness.exact.layered_network import layered
from featavg.robustness.exact.probability import ProbabilityCondition
from featavg.robustness.geometry.qp import Nearest
from featavg.robustness.radii import radii

FREE = Clock(10_000, math.inf)
POSITIVE = LinearCondition(np.array([[1.0]]), np.zeros(1))  # flipped where the one output is <= 0


def _network(seed, leak=0.0, skip=False, hidden=2, outputs=1):
    rng = np.random.default_rng(seed)
    widths = [3] * hidden + [outputs]
    below = [3, *widths[:-1]]
    weights = [rng.standard_normal((a, b)) for a, b in zip(widths, below, strict=True)]
    biases = [0.3 * rng.standard_normal(a) for a in widths]
    return layered(weights, biases, [False, *([skip] * (hidden - 1))], leak), rng


def _steps(rng, r, radius, count=60):
    draws = rng.standard_normal((count, r))
    lengths = radius * rng.random(count) ** (1 / r)
    return draws * (lengths / np.linalg.norm(draws, axis=1))[:, None]


# Conditions.

DIAGONAL_3 = Deep((np.eye(3), np.eye(3), np.eye(3)))


def test_a_linear_condition_is_reached_where_every_row_is():
    condition = LinearCondition(np.array([[1.0, -1.0], [0.0, 1.0]]), np.array([0.5, -2.0]))
    assert condition.excess(np.array([3.0, 1.0])) == 2.5
    assert condition.excess(np.array([0.0, 1.0])) == -0.5


def test_conditions_name_every_rival():
    def rows(name, label, positive=(True, False, False)):
        mask = None if positive is None else np.array(positive)
        decision = Decision(DIAGONAL_3, readout_of(name), mask)
        return [one.rows.tolist() for one in conditions_of(decision, label)]

    assert rows("max", 1, None) == [[[-1.0, 1.0, 0.0]], [[0.0, 1.0, -1.0]]]
    assert rows("max", 1) == [[[1.0, -1.0, 0.0]], [[1.0, 0.0, -1.0]]]
    assert rows("max", -1) == [[[-1.0, 1.0, 0.0], [-1.0, 0.0, 1.0]]]
    assert rows("sum", -1) == [[[-1.0, 1.0, 1.0]]]
    curved = Decision(DIAGONAL_3, readout_of("probability"), np.array([True, False, False]))
    assert conditions_of(curved, -1)[0].own.tolist() == [False, True, True]


def test_the_probability_inequality_is_below_the_excess_and_touches_it():
    own = np.array([True, True, False, False])
    condition, lo, hi = (ProbabilityCondition(own), np.array([-1.0, 0, -2, 0]), np.array([1.0, 2, 1, 1.5]))
    corner = np.array([0.3, 1.2, 1.0, 0.0])  # rivals at ends of their chords
    for at in (corner, np.array([0.5, 0.5, -0.5, 0.7])):
        [row], [constant] = condition.functionals(lo, hi, at)
        axes = [np.linspace(a, b, 7) for a, b in zip(lo, hi, strict=True)]
        f = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 4)
        excess = logsumexp(f[:, own], axis=1) - logsumexp(f[:, ~own], axis=1)
        np.testing.assert_allclose(condition.excess(f), excess, rtol=1e-9, atol=1e-12)
        assert np.all(f @ row + constant <= excess + 1e-12)
        assert (row @ corner + constant == pytest.approx(condition.excess(corner))) == (at is corner)


# The network and what rounding may do to it.


def test_sizes_of_sums_by_hand():
    """|z_1| <= 2, and h_1, h_2 count their own size and that of the sums below, h_2 with its skip."""
    eye = np.eye(1)
    net = layered([3.0 * eye, -2.0 * eye, 5.0 * eye], [None, eye[0], eye[0]], [False, True])
    magnitudes, slopes = net.absolute([np.array([2.0]), np.array([7.0]), np.array([9.0])])
    # h_1 = 2 + 2; z_2 sums 2 * 4 + 1; h_2 = 9 + 7 + 4; z_3 sums 5 * 20 + 1.
    assert [float(m[0]) for m in magnitudes] == [2.0, 9.0, 101.0]
    assert [float(s[0]) for s in slopes] == [3.0, 6.0, 5.0 * (6.0 + 3.0)]
    assert net.error >= 2 * (2 + 2 + 2) * 2.0**-53


@pytest.mark.parametrize("skip", [False, True])
def test_the_gradient_is_that_of_the_network(skip):
    net, rng = _network(0, leak=0.25, skip=skip, hidden=3)
    z = net.start(rng.standard_normal((1, 3)))[0]
    functional = np.array([1.5])
    slope = net.gradient(net.forward(z), functional)
    for axis in np.eye(len(slope)):
        ends = [net.forward(z + net.rows @ (h * axis))[-1] @ functional for h in (-1e-6, 1e-6)]
        assert slope @ axis == pytest.approx((ends[1] - ends[0]) / 2e-6, rel=1e-6)


@pytest.mark.parametrize("skip", [False, True])
def test_the_layers_are_those_of_the_plain_network(skip):
    net, rng = _network(1, leak=0.25, skip=skip, hidden=2)
    x = rng.standard_normal((1, 3))
    first = x @ net.first.T + net.offset
    h = np.where(first > 0, first, 0.25 * first)
    second = h @ net.weights[0].T + net.biases[0]
    h = np.where(second > 0, second, 0.25 * second) + (h if skip else 0.0)
    np.testing.assert_allclose(net.forward(net.start(x))[-1], h @ net.weights[1].T + net.biases[1], rtol=1e-12)


# Lines, and what is traced through them.


@pytest.mark.parametrize("leak", [0.0, 0.25])
@pytest.mark.parametrize(("lo", "hi"), [(-1.0, 3.0), (0.0, 2.0), (-2.0, 0.0), (1.0, 2.0)])
def test_lines_hold_the_activation_and_the_chord_meets_both_ends(leak, lo, hi):
    net, _ = _network(0, leak)
    lines = lines_of(net, [np.array([lo])], [np.array([hi])])
    upper, offset, lower = (float(part[0][0]) for part in (lines.upper, lines.offset, lines.lower))
    z = np.linspace(lo, hi, 101)
    phi = np.maximum(z, leak * z)
    assert np.all(upper * z + offset >= phi - 1e-12)
    assert np.all(lower * z <= phi + 1e-12)
    assert upper * lo + offset == pytest.approx(max(lo, leak * lo))
    assert upper * hi + offset == pytest.approx(max(hi, leak * hi))


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_traced_functions_are_below_and_meet_where_signs_are_decided(skip, seed):
    net, rng = _network(seed, leak=0.25, skip=skip, hidden=2)
    z = net.start(rng.standard_normal((1, 3)))[0]
    functionals = rng.standard_normal((3, 1))
    functionals[2] = 0.0
    joined = rng.standard_normal((1, 3))
    joins = {1: (np.array([2]), joined)}
    for radius in (2.0, 1e-9):
        lo, hi, *_ = ball_bounds(net, z, radius, 1.0)
        traced = trace(net, z, lines_of(net, lo[:2], hi[:2]), 2, functionals, joins)
        for u in _steps(rng, 3, radius):
            layers = net.forward(z + net.rows @ u)
            truth = np.append(functionals[:2] @ layers[2], joined @ layers[1])
            below = traced.rows @ u + traced.constants
            assert np.all(below <= truth + 1e-12)
            if radius < 1e-6:
                np.testing.assert_allclose(below, truth, rtol=1e-9, atol=1e-12)


def test_a_chord_is_charged_where_its_end_is_reached():
    """f = relu(u_1) - relu(u_2) + 1/2: at (1/2, 1) both lines touch, so the bound is f itself."""
    net = layered([np.eye(2), np.array([[1.0, -1.0]])], [None, np.array([0.5])])
    lo, hi = [-np.ones(2)], [np.ones(2)]
    traced = trace(net, np.zeros(2), lines_of(net, lo, hi), 1, np.ones((1, 1)))
    u = net.basis.T @ np.array([0.5, 1.0])
    assert float((traced.rows @ u + traced.constants)[0]) == pytest.approx(0.0)


@pytest.mark.parametrize("depth", [0.0, 0.7, 1.9])
def test_the_extent_is_that_of_the_cap(depth):
    rows, normal = np.array([[1.0, 0.0], [-0.6, 0.8], [0.0, -2.0]]), np.array([-1.0, 0.0])
    angle = np.linspace(0, 2 * np.pi, 20001)
    rim = 2.0 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    height = math.sqrt(4.0 - depth**2)
    edge = np.stack([np.full(2, -depth), [height, -height]], axis=1)
    inside = np.concatenate([rim[rim @ normal >= depth], edge])
    found = extent(rows, 2.0, normal if depth else None, depth)
    whole = np.concatenate([rim, edge]) if depth == 0.0 else inside
    np.testing.assert_allclose(found, (-whole @ rows.T).max(axis=0), atol=1e-6)
    assert np.all(found >= (-whole @ rows.T).max(axis=0) - 1e-12)


def test_bounds_of_a_ball_by_hand():
    """z in [-1, 3], h in [0, 3]; with weights (2, -1) on two copies z_2 is in [-3 + 1, 6 + 1]."""
    net = layered([np.ones((2, 1)), np.array([[2.0, -1.0]])], [None, np.ones(1)])
    lo, hi, *_ = ball_bounds(net, np.ones(2), 2.0, 1.0)
    np.testing.assert_allclose([lo[0][0], hi[0][0]], [-1.0, 3.0], rtol=1e-9)
    np.testing.assert_allclose([lo[1][0], hi[1][0]], [-2.0, 7.0], rtol=1e-9)
    rough = replace(net, error=0.01)
    lo, hi, *_ = ball_bounds(rough, np.ones(2), 2.0, 5.0)
    np.testing.assert_allclose([lo[0][0], hi[0][0]], [-1.05, 3.05], rtol=1e-9)


def test_tightened_bounds_are_charged_for_rounding():
    """One path z -> 2 relu(z) + 1 from z = 4 in the ball of 2: decided, so bounds are ends."""
    net = layered([np.eye(1), 2.0 * np.eye(1), np.eye(1)], [None, np.ones(1), None])
    z, far = np.array([4.0]), np.full(1, 100.0)
    for error in (0.0, 0.01):
        rough = replace(net, error=error)
        sizes = ([np.zeros(1), np.array([11.0]), np.zeros(1)], [np.ones(1), 2 * np.ones(1)] * 2)
        sizes = (sizes[0], sizes[1], 5.0)
        lo, hi = tightened(rough, z, ([-far] * 3, [far] * 3), (2.0, None, 0.0), sizes, False)
        first = error * (5.0 + 2.0)
        np.testing.assert_allclose([lo[0][0], hi[0][0]], [2.0 - first, 6.0 + first])
        later = error * (11.0 + 2.0 * 2.0)
        np.testing.assert_allclose([lo[1][0], hi[1][0]], [5.0 - later, 13.0 + later])
    assert tightened(net, z, ([far] * 3, [far] * 3), (2.0, None, 0.0), sizes, False) is None


# Half-spaces.


def _part(net, splits=()):
    return Part(0.0, 0, 0, [], [], tuple(splits), Cuts.none(net.rows.shape[1]))


def test_half_spaces_charge_rounding_errors():
    """f = 2 relu(z) + 3 with condition f - 1 <= 0: the numbers that the quadratic program is told."""
    net = replace(layered([np.eye(1), 2.0 * np.eye(1)], [None, np.array([3.0])]), error=0.01)
    condition = LinearCondition(np.array([[1.0]]), np.array([-1.0]))
    bounds = ([np.array([1.0]), np.zeros(1)], [np.array([9.0]), np.zeros(1)])
    errors = Errors([np.array([7.0]), np.array([40.0])], [np.array([1.0]), np.array([2.0])])
    sign = float(net.rows[0, 0])
    splits = (Split(0, 0, 1.0, 6.0), Split(0, 0, -1.0, 2.0), Split(1, 0, -1.0, 4.0))
    z = np.array([5.0])
    cuts = half_spaces(net, condition, _part(net, splits), bounds, net.forward(z), z, errors, 4.0).cuts
    # 2 z + 3 - 1 <= 0, z - 6 <= 0, 2 - z <= 0 and 4 - f <= 0, from z = 5.
    np.testing.assert_allclose(cuts.rows[:, 0] * sign, [2.0, 1.0, -1.0, -2.0])
    np.testing.assert_allclose(cuts.limits, [-12.0, 1.0, 3.0, 9.0])
    slopes = np.array([2.0, 1.0, 1.0, 2.0])
    sizes = np.array([41.0, 13.0, 9.0, 44.0])
    np.testing.assert_allclose(cuts.row_errors, 0.01 * slopes)
    np.testing.assert_allclose(cuts.limit_errors, 0.01 * (sizes + 4.0 * slopes))


def test_a_rotation_is_charged_like_the_rows(monkeypatch):
    told = []

    def spy(rows, limits, row_errors, limit_errors):
        told.append(row_errors)
        return nearest(rows, limits, row_errors, limit_errors)

    nearest = cuts_module.nearest
    monkeypatch.setattr(cuts_module, "nearest", spy)
    row = np.array([[3.0, 4.0, 0.0]])
    answer = Cuts(row, np.array([-10.0]), np.array([0.5]), np.zeros(1)).solve()
    np.testing.assert_allclose(answer.u, [-1.2, -1.6, 0.0])
    assert answer.bound == pytest.approx(10.0 / 5.5)
    assert told[0][0] >= 0.5 + 4 * 2.0**-52 * 5.0


# Local search.


def _local(net, z):
    kept = Search()
    return LocalSearch(net, z, 1.0, kept, FREE), kept


def test_a_local_search_keeps_flips_only():
    """f = relu(z) - 1 from z = 3, flipped for steps of 2 and more."""
    net = layered([np.eye(1), np.eye(1)], [None, -np.ones(1)])
    local, kept = _local(net, np.array([3.0]))
    for length in (2.0, 1.9, 2.3):
        local._line(POSITIVE, np.array([-length]) * net.rows[0], length)
    for candidate in kept.candidates:
        assert local.excess(POSITIVE, candidate.u[None])[0] <= 0.0
        assert candidate.length == pytest.approx(np.linalg.norm(candidate.u))
    assert 2.0 <= kept.attack <= 2.0 * (1 + 1e-3)


def test_a_projection_is_onto_the_linearised_boundary():
    """f = u_1 + u_2 + 10 with everything on: from any start one projection finds (-5, -5)."""
    net = layered([np.eye(2), np.ones((1, 2))], [np.full(2, 100.0), np.array([-190.0])])
    local, kept = _local(net, np.full(2, 100.0))
    local.reach = 10.0
    local.project(POSITIVE, np.array([3.0, -1.0]))
    assert kept.attack == pytest.approx(math.sqrt(50.0), rel=1e-6)


# The search.


def _corner():
    """f = relu(z_1) - relu(z_2), from (3, 1): the nearest flip is (2, 2), at sqrt 2."""
    net = layered([np.eye(2), np.array([[1.0, -1.0]])])
    return net, np.array([3.0, 1.0])


def test_nothing_beyond_the_condition_is_certified(monkeypatch):
    net, z = _corner()
    search = DeepSearch(net, [POSITIVE], gap=0.1)
    monkeypatch.setattr(search, "_search", lambda limit, clock: (5.0, True))
    result = search.at(z, 3.2, FREE)
    assert result.certified == pytest.approx(0.9 * result.attack)


def test_without_a_candidate_the_search_goes_on_outwards(monkeypatch):
    """The flip is at 30 times |x|, and the local search is blind."""
    net = layered([np.eye(2), np.array([[1.0, -1.0]])], [np.array([0.0, -50.0]), None])
    for name in ("start", "project"):
        monkeypatch.setattr(LocalSearch, name, lambda self, *arguments: None)
    result = DeepSearch(net, [POSITIVE]).at(np.array([30.0, -50.0]), 1.0, FREE)
    assert result.attack == pytest.approx(30.0, rel=1e-6)
    assert 30.0 * (1 - 1e-6) <= result.certified <= result.attack


def test_a_spent_budget_certifies_no_more_than_the_open_parts():
    net, rng = _network(3, hidden=3)
    z = net.start(rng.standard_normal((1, 3)))[0]
    conditions = [LinearCondition(np.sign(net.forward(z)[-1])[None], np.zeros(1))]
    whole = DeepSearch(net, conditions).at(z, 3.0, FREE)
    parts = [DeepSearch(net, conditions).at(z, 3.0, Clock(n, math.inf)) for n in (0, 1, 3)]
    assert whole.finished
    assert parts[0].certified == 0.0
    for part in parts[:2]:
        assert not part.finished
        assert part.certified < whole.certified * (1 - 1e-6)


def test_what_a_solver_calls_empty_is_not_believed(monkeypatch):
    """No point and multipliers that prove 0.5: the part ends with 0.5."""
    net, z = _corner()
    nothing = Nearest(None, 0.5, np.ones(1))
    monkeypatch.setattr(cuts_module, "nearest", lambda *problem: nothing)
    result = DeepSearch(net, [POSITIVE]).at(z, 3.2, FREE)
    assert result.certified == 0.5


def test_solutions_of_the_relaxation_are_not_flips(monkeypatch):
    net, z = _corner()
    search = DeepSearch(net, [POSITIVE])
    search.at(z, 3.2, FREE)
    search.result.candidates.clear()
    monkeypatch.setattr(LocalSearch, "project", lambda self, *arguments: None)
    short = net.basis.T @ np.array([-0.5, 0.5])
    right = net.basis.T @ np.array([-1.0, 1.0])
    cuts = Cuts.none(2)
    for u in (short, right):
        search._try(POSITIVE, Nearest(u, 0.0, np.zeros(0)), cuts)
    assert search.result.attack == pytest.approx(math.sqrt(2.0))


def test_the_halves_of_a_split():
    net, z = _corner()
    search = DeepSearch(net, [POSITIVE])
    search.at(z, 3.2, FREE)
    bounds = ([np.full(2, -1.0), np.zeros(1)], [np.full(2, 5.0), np.zeros(1)])
    row = np.array([[-3.0, 0.0]])
    cuts = Cuts(row, np.array([-3.0]), np.zeros(1), np.zeros(1))
    for bound, proven in ((1.0, True), (1.5, False)):
        answer = Nearest(np.array([1.0, 0.0]), 1.0, np.array([0.5]))
        below, above = search._children(_part(net), bounds, (0, 1, 0.25), bound, answer, cuts, [z, z])
        assert (below.lo[0][1], below.hi[0][1], above.lo[0][1], above.hi[0][1]) == (-1.0, 0.25, 0.25, 5.0)
        assert (below.splits[0].side, above.splits[0].side) == (1.0, -1.0)
        # Multipliers that prove 1.0 prove no half-space at 1.5.
        assert (below.normal is not None) == proven
        if proven:
            np.testing.assert_allclose(below.normal, [1.0, 0.0])


# Results.

DIAGONAL = Deep((np.eye(2), np.eye(2), np.eye(2)))


def _answers(monkeypatch, certified, attack, finished=True):
    found = Search(certified, [], 1, finished)
    for search in (BallSearch, DeepSearch):
        monkeypatch.setattr(search, "at", lambda self, *arguments: found)
    shown = lambda self, x, *arguments: (attack, np.full_like(x, 9.0))  # noqa: E731
    monkeypatch.setattr(DeepSolver, "_witness", shown)


def test_nothing_is_certified_beyond_the_witness(monkeypatch):
    x, y = np.array([[3.0, 1.0]]), np.array([0])
    _answers(monkeypatch, certified=2.0, attack=1.5)
    assert radii(DIAGONAL, x, y).certified[0] == 1.5


def test_a_candidate_that_does_not_flip_is_no_witness():
    solver = DeepSolver(Decision(DIAGONAL, Max(), None), (0,), gap=0.01)
    x = np.array([3.0, 1.0])
    basis = solver.layered.basis
    steps = [basis.T @ np.array(u) for u in ([-0.5, 0.5], [-1.0, 1.0])]
    kept = [Candidate(float(np.linalg.norm(u)), u, u[None]) for u in steps]
    attack, witness = solver._witness(x, 0, Search(candidates=kept))
    assert math.sqrt(2.0) <= attack <= math.sqrt(2.0) * (1 + 1e-6)
    assert DIAGONAL(witness[None])[0, 0] <= DIAGONAL(witness[None])[0, 1]
    assert solver._witness(x, 0, Search(candidates=kept[:1]))[0] == math.inf


@pytest.mark.parametrize(
    ("certified", "attack", "finished", "status"),
    [
        (1.0, math.inf, True, Certificate.CERTIFIED),
        (0.9, math.inf, True, Certificate.OPEN),
        (1.0, math.inf, False, Certificate.OPEN),
        (0.5, 1.0, True, Certificate.FLIPPED),
        (0.5, 1.5, True, Certificate.OPEN),
    ],
)
def test_a_certificate_says_what_is_proven(monkeypatch, certified, attack, finished, status):
    _answers(monkeypatch, certified, attack, finished)
    x = np.array([[3.0, 1.0], [1.0, 3.0]])
    found = certify(DIAGONAL, x, np.array([0, 0]), radius=1.0)
    assert found.status == (status, Certificate.MISCLASSIFIED)


def test_misclassified_points_are_errors():
    status = (Certificate.FLIPPED, Certificate.MISCLASSIFIED, Certificate.OPEN)
    nothing = np.zeros((3, 1))
    found = Certificates(1.0, status, nothing, np.zeros(3))
    assert found.robust_error == (pytest.approx(2 / 3), 1.0)


def test_two_layers_with_a_bias_are_read_right():
    net = TwoLayer(np.array([[2.0]]), np.array([-1.0]), np.array([[3.0]]))
    found = radii(as_deep(net), np.array([[2.0]]), np.array([1]), budget=Budget(nodes=50))
    assert found.attack[0] == pytest.approx(1.5, rel=1e-6)
