"""The quadratic program, its boxes and proofs that nothing flips: every bound where it is tight.

Random soundness runs rarely meet such cases. Each test here states the number that the bound must
have, or compares it with a fine grid of what it bounds.
"""

import math
from fractions import Fraction

import numpy as np
import pytest

from featavg.nets.two_layer import TwoLayer
from featavg.robustness.exact.budget import Clock
from featavg.robustness.exact.everywhere import anywhere
from featavg.robustness.exact.farkas import _holds, _null_vector, empty
from featavg.robustness.exact.flip_conditions import LinearCondition
from featavg.robustness.exact.layered_network import layered_of
from featavg.robustness.exact.relaxation import Box, Problem, cap, chord, shrink
from featavg.robustness.geometry import qp

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
    mixed = qp.nearest(np.array([[0.0, 0.0], [-1.0, 0.0]]), np.array([0.0, -2.0]), *np.zeros((2, 2)))
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
    box = Box(np.array([-1.0, -1.0]), np.array([2.0, 2.0]), *np.array([[-np.inf] * 2, [np.inf] * 2]), None)
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


# Proofs that nothing flips.


def test_farkas_needs_a_strict_sign():
    one = Fraction(1)
    assert empty([([one], one), ([-one], one)])
    assert not empty([([one], one), ([-one], -one)])  # they touch: x = -1 satisfies both
    assert not empty([([one], one), ([-one], -2 * one)])
    assert not empty([([one], one), ([one], one)])  # the null vector has both signs
    assert not empty([([one], 3 * one), ([one], one)])  # x <= -3 and x <= -1
    assert empty([([-one], -3 * one), ([2 * one], 8 * one)])  # x <= -4 and x >= -3
    assert _null_vector([[one], [one], [one]]) is None  # two null vectors
    assert _null_vector([[one]]) is None
    assert _null_vector([[Fraction(0)]]) == [one]


def _proven(weights, biases, head):
    net = TwoLayer(np.asarray(weights, float), np.asarray(biases, float), np.asarray(head, float))
    reached = LinearCondition(np.eye(1), np.zeros(1))
    return anywhere(layered_of(net), [reached], FREE).never


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
