"""Single constants, signs and charges of bounds: each by a case in which it decides."""

import math
from dataclasses import replace

import numpy as np
import pytest
from tests.robustness.ball_cases import FREE, relaxed

from featavg.errors import InputError
from featavg.nets.deep import Deep
from featavg.nets.readouts._readout import Max
from featavg.nets.two_layer import TwoLayer
from featavg.robustness.exact.branch_and_bound import TreeSearch
from featavg.robustness.exact.budget import Candidate, Search
from featavg.robustness.exact.decision import Decision
from featavg.robustness.exact.deep import sdp_form
from featavg.robustness.exact.deep.cuts import Cuts
from featavg.robustness.exact.deep.linear_bounds import ball_bounds, extent, fallen
from featavg.robustness.exact.deep.sdp_bound import SdpBound
from featavg.robustness.exact.deep.sdp_form import BoxTerms
from featavg.robustness.exact.deep.search import DeepSearch
from featavg.robustness.exact.deep.solver import BoxedSolver, DeepSolver
from featavg.robustness.exact.everywhere import anywhere
from featavg.robustness.exact.farkas import _holds, dominated
from featavg.robustness.exact.flip_conditions import LinearCondition
from featavg.robustness.exact.flipped_set import ReluRelaxation, flipped
from featavg.robustness.exact.layered_network import layered
from featavg.robustness.exact.probability import ProbabilityRelaxation
from featavg.robustness.exact.relaxation import Box, Price
from featavg.robustness.exact.step_box import StepBox
from featavg.robustness.geometry.subspace import reduce

POSITIVE = LinearCondition(np.eye(1), np.zeros(1))


def test_activations_that_are_not_the_least_prove_less(monkeypatch):
    bound, theta, _ = relaxed("two-hidden", 2)
    before, plain, r = bound.proven(theta), sdp_form.dpotrs, bound.form.chain.step
    assert len(bound.form.inner)

    def moved(*arguments, **options):
        v, info = plain(*arguments, **options)
        v[r:] += 0.01
        return v, info

    monkeypatch.setattr(sdp_form, "dpotrs", moved)
    assert bound.proven(theta) < before


def test_the_short_form_of_a_box_is_the_least_over_all_steps():
    rng = np.random.default_rng(1)
    box, basis = (StepBox(-rng.random(5), rng.random(5), 1.0), np.linalg.qr(rng.normal(size=(5, 2)))[0])
    terms = BoxTerms.of(box, basis, 0.7, rng.random(5))
    for u in rng.normal(size=(4, 2)):
        s = terms.step(u)
        np.testing.assert_allclose(basis.T @ s, u, atol=1e-12)
        mu = terms.weights - 0.7
        plain = 0.7 * (s @ s - 1.0) + mu @ ((s - box.low) * (s - box.high))
        assert u @ terms.matrix @ u + terms.linear @ u + terms.constant == pytest.approx(plain)


def test_the_rounding_of_a_box_is_charged():
    bound, _, _ = relaxed("two-hidden", 2, splits=False)
    ball = bound.ball
    step = np.full(ball.net.first.shape[1], ball.radius)
    box = StepBox(-0.5 * step, 0.5 * step, ball.radius)
    boxed = replace(ball, net=ball.net.unturned(), box=box)
    whole = SdpBound(boxed, bound.rows, bound.shifts)
    theta, reach = whole.start(), sdp_form._largest(whole.form)
    terms = whole.form.terms(theta)
    theta[-len(step) :] = 0.0
    less = whole.form.terms(theta)
    charged = sdp_form._rounding(whole.form, terms, reach)
    charged -= sdp_form._rounding(whole.form, less, reach)
    mu = terms.box.weights - terms.multiplier
    wanted = sdp_form.CHARGED * ball.net.error * float(mu.sum()) * (2 * ball.radius) ** 2
    assert charged == pytest.approx(wanted, rel=1e-6)


def test_a_flip_in_a_box_is_a_step_from_the_point_within_the_radius():
    """x_0 > x_1 flips along (-1, 1) only."""
    decision = Decision(Deep((np.eye(2), np.eye(2))), Max(), None)
    asked = decision, [0], 1e-9
    solver = BoxedSolver(DeepSolver(*asked), *asked, (np.zeros(2), np.ones(2)))
    x, s = np.array([0.6, 0.5]), np.array([-0.1, 0.1])
    np.testing.assert_allclose(solver._point(x, s), [0.5, 0.6])
    assert solver._shown(x, 0, 0.2, s) == pytest.approx(math.sqrt(0.02))
    assert solver._shown(x, 0, 0.1, s) is None
    assert solver._shown(x, 0, 0.2, -s) is None


def test_what_flips_where_neurons_are_off_or_skipped_is_no_never():
    """1 + phi(x) with a leak of a tenth at -10; 1 - (relu(-h - 1) + h) at h = 1."""
    leaky = layered([np.ones((1, 1)), np.ones((1, 1))], [None, np.ones(1)], leak=0.1)
    assert not anywhere(leaky, [POSITIVE], FREE).never
    weights = [np.ones((1, 1)), -np.ones((1, 1)), -np.ones((1, 1))]
    skipped = layered(weights, [None, -np.ones(1), np.ones(1)], [False, True])
    found = anywhere(skipped, [POSITIVE], FREE)
    assert not found.never
    assert skipped.forward(found.flip)[-1][0] <= 0


def _shifted(constant):
    """relu(z_0) - relu(z_1) + constant <= 0, the constant from a neuron without weights."""
    weights = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    head = np.array([[1.0, -1.0, constant]])
    space = reduce(TwoLayer(weights, np.array([0.0, 0.0, 1.0]), head))
    families = [ReluRelaxation(one) for one in flipped(space, [np.array([[1.0]])])]
    return TreeSearch(space, families, 1e-9)


@pytest.mark.parametrize("constant", [0.5, -0.5])
def test_the_separable_bound_holds_the_constant_of_the_family(constant):
    tree, step = _shifted(constant), (2.0 + constant) / 2.0
    tree.begin(np.array([3.0, 1.0]), 4.0)
    none = np.full(2, np.inf)
    box = Box(np.zeros(2), np.full(2, 5.0), -none, none, None)
    price = Price(np.array([step, -step]), np.array([step]))
    bound = tree._separable(tree.relaxations[0], box, price, 3.0)[0]
    assert bound == pytest.approx(math.sqrt(2.0) * step, rel=1e-9)


def test_what_a_search_before_certified_is_the_floor_and_not_what_it_reached():
    tree = _shifted(0.0)
    far = Candidate(9.0, np.array([9.0, 0.0]), np.ones((1, 2)))
    found = tree.begin(np.array([3.0, 1.0]), 4.0, Search(certified=0.1, candidates=[far]))
    assert found.certified == tree.floor == 0.1


def test_a_net_that_never_flips_is_certified_far_out():
    net = layered([np.ones((1, 1)), np.ones((1, 1))], [None, np.ones(1)])
    found = DeepSearch(net, [POSITIVE]).at(np.ones(1), 1.0, FREE)
    assert not found.candidates
    assert found.certified >= 1e5


def test_a_half_space_is_violated_by_a_share_of_the_length():
    cuts = Cuts(np.array([[2.0, 0.0]]), np.array([1.0]), np.zeros(1), np.array([1e-3]))
    assert cuts.violated(np.array([0.6, 0.0]), 0.0).tolist() == [True]
    assert cuts.violated(np.array([0.6, 0.0]), 0.1).tolist() == [True]
    assert cuts.violated(np.array([0.6, 0.0]), 0.2).tolist() == [False]
    assert cuts.violated(np.array([0.5004, 0.0]), 0.0).tolist() == [False]


def test_interval_bounds_and_falls_in_a_box_are_charged_for_rounding():
    net = layered([np.ones((1, 1)), np.full((1, 1), 3.0)], [None, np.ones(1)])
    lo, hi, *_ = ball_bounds(net, np.array([5.0]), 1.0, 0.0)
    assert lo[1][0] <= 3.0 * lo[0][0] + 1.0 - 0.9e-12 * 13.0
    assert hi[1][0] >= 3.0 * hi[0][0] + 1.0 + 0.9e-12 * 19.0
    rows, cap = np.array([[3.0, 4.0]]), (1.0, None, 0.0)
    box = StepBox(-np.ones(2), np.ones(2), 1.0)
    charged = fallen(rows, cap, box, 1e-3) - fallen(rows, cap, box, 0.0)
    np.testing.assert_allclose(charged, 4e-3 * extent(rows, *cap))


def test_chords_of_a_rival_group_with_a_constant_are_above_it():
    head = np.array([[1.0, 0.0, 0.0], [0.0, 0.5, 0.8]])
    for shift in (0.6, -0.6):
        relaxation = ProbabilityRelaxation(head, np.array([0.0, shift]), np.array([True, False]))
        none, lo, hi = np.full(3, np.inf), np.full(3, -0.5), np.full(3, 1.5)
        outer = relaxation.outer(Box(lo, hi, -none, none, None))
        for z in np.random.default_rng(0).uniform(lo, hi, size=(200, 3)):
            f = head[1] @ np.maximum(z, 0.0) + shift
            assert outer.at(z)[0] >= math.exp(f - outer.log_scale) - 1e-12
        for end in (lo, hi):
            f = head[1] @ np.maximum(end, 0.0) + shift
            assert outer.at(end)[0] == pytest.approx(math.exp(f - outer.log_scale))


def test_a_mixture_may_use_all_of_a_neuron_and_not_twice_of_it():
    weights, own = np.array([[1.0], [-1.0], [1.0]]), np.array([True, True, False])
    same = TwoLayer(weights, np.zeros(3), np.eye(3))
    assert dominated(same, reduce(same), own)
    double = TwoLayer(weights, np.zeros(3), np.diag([1.0, 1.0, 2.0]))
    mixture = np.zeros((3, 3))
    mixture[2, 0] = 1.0
    assert _holds(same, own, mixture)
    assert not _holds(double, own, mixture)


def test_how_many_skips_a_network_takes_is_said():
    with pytest.raises(InputError, match="give 1, one per hidden layer"):
        layered([np.eye(2), np.eye(2)], None, [False, False])
