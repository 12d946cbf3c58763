"""Lists of pieces, l_inf, results and witnesses at cases where they are tight.

Random soundness runs rarely meet such cases. Each test here states the number that the bound must
have, or compares it with a fine grid of what it bounds.
"""

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from tests.robustness.tight.cases import DOWN, UP

from featavg.nets.readouts._readout import Max
from featavg.nets.two_layer import TwoLayer, binary, grouped
from featavg.robustness.exact.branch_and_bound import TreeSearch
from featavg.robustness.exact.budget import Budget, Candidate, Clock, checked_witness
from featavg.robustness.exact.decision import Decision
from featavg.robustness.exact.flipped_set import Family, ReluRelaxation, flipped, kinks
from featavg.robustness.exact.linf import OFF, ON, UNDECIDED, Program, linf_search
from featavg.robustness.exact.relaxation import Affine
from featavg.robustness.exact.result import Answer, Radii, RadiusStatus
from featavg.robustness.exact.two_layer import PieceSearch, count_pieces, list_leaves, nudged_flip
from featavg.robustness.geometry.subspace import reduce

FREE = Clock(10_000, math.inf)
RNG = np.random.default_rng


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


# l_inf.


def _program(up=1.0, down=0.0, shift=-1.0, at_x=3.0):
    return Program(Family(np.array([[up]]), np.array([[down]]), np.array([shift])), np.ones((1, 1)), np.array([at_x]))


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
    lower, upper = _radii([1.0, 2.0], [1.0, 3.0]).robust_accuracy(np.array([0.5, 1.0, 2.0, 2.5, 3.0]))
    np.testing.assert_array_equal(lower, [1.0, 0.5, 0.0, 0.0, 0.0])
    np.testing.assert_array_equal(upper, [1.0, 0.5, 0.5, 0.5, 0.0])


def test_gaps():
    found = _radii([1.0, 0.0, 2.0, np.inf], [2.0, 0.0, np.inf, np.inf])
    np.testing.assert_array_equal(found.gaps, [0.5, 0.0, 1.0, 0.0])
    assert found.to_json()["median"] == [1.5, "inf"]


def test_answers_become_columns():
    right = Answer(5.0, 7.0, np.ones(2), 3, finished=False)
    points = np.arange(6.0).reshape(3, 2)
    answers = [right, Answer.wrong(points[1]), Answer.proven_never(points[2], 4)]
    found = Radii.of(answers, points, 0.01, "l2")
    np.testing.assert_array_equal(found.certified, [5.0, 0.0, np.inf])
    np.testing.assert_array_equal(found.attack, [7.0, 0.0, np.inf])
    np.testing.assert_array_equal(found.witness, [[1.0, 1.0], [2.0, 3.0], [np.nan, np.nan]])
    np.testing.assert_array_equal(found.nodes, [3, 0, 4])
    names = [outcome.name for outcome in found.outcomes]
    assert names == ["BUDGET", "MISCLASSIFIED", "NEVER"]


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
    from featavg.nets.readouts._readout import Sum
    from featavg.robustness.exact.budget import Search

    short = np.array([-0.5, 0.5]) @ space.basis
    right = np.array([-1.0, 1.0]) @ space.basis
    long = np.array([-3.0, 3.0]) @ space.basis
    steps = [Candidate(float(np.linalg.norm(u)), u, u[None]) for u in (long, 2 * long, short, right)]
    shown = partial(nudged_flip, Decision(net, Sum(), mask), space, x, 1)
    attack, witness = checked_witness(x, Search(candidates=steps), shown)
    assert math.sqrt(2.0) <= attack <= math.sqrt(2.0) * (1 + 1e-6)
    assert net(witness[None])[0, 0] <= 0
    attack, witness = checked_witness(x, Search(candidates=steps[2:3]), shown)
    assert attack == math.inf
    assert np.isnan(witness).all()


def test_grouped_head_is_what_the_tests_think():
    assert grouped(np.eye(2), 2).head.tolist() == [[1.0, 0.0], [0.0, 1.0]]
    row = Affine(np.ones((1, 1)), np.array([-2.0]), np.ones((1, 1)))
    assert row.magnitudes.tolist() == [2.0]
    # The constant of a difference is small where what it was made of is not.
    assert replace(row, magnitude=np.array([5.0])).magnitudes.tolist() == [5.0]
