"""Witnesses of deep networks: points that can be shown, however thin the flipped set is there."""

import numpy as np
import pytest
from tests.robustness.deep_twin import brute_force

from featavg.nets.deep import Deep
from featavg.nets.readouts._readout import Max
from featavg.robustness.certify import Certificate, certify
from featavg.robustness.exact.budget import Budget
from featavg.robustness.exact.decision import Decision
from featavg.robustness.exact.deep.solver import CLEARLY
from featavg.robustness.exact.flip_conditions import LinearCondition, conditions_of
from featavg.robustness.exact.layered_network import layered_of
from featavg.robustness.exact.probability import ProbabilityCondition
from featavg.robustness.exact.result import RadiusStatus
from featavg.robustness.radii import radii

# Network 18 of `python -m tests.robustness.deep_soundness 20 119`: without biases, and what it decides
# otherwise than at THIN_X is a cone from the origin that one direction in six thousand is in.
THIN = Deep(
    (
        np.array([[-1, 1, 0], [1, 1, 1], [1, 0, -2], [1, 0, 0], [-1, -1, -1]], float),
        np.array(
            [[0, -1, -1, -1, 1], [-2, 0, 1, -1, 2], [-1, 2, -1, 1, -1], [-1, 3, 0, -1, -2], [1, 1, 1, 1, 1]], float
        ),
        np.array([[0, 0, -3, 0, 0], [1, 1, -1, 0, 2]], float),
    ),
    activation="leaky-relu:leak=0.1",
    residual=True,
)
THIN_X, THIN_Y = np.array([[1.23212053, 1.53464395, -0.6298339]]), np.array([1])
# The same cone from a tip that no float hits: what flips there can be shown only a little further on.
TIP = np.array([0.1, -np.pi, np.e])
MOVED = Deep(
    THIN.weights, (-THIN.weights[0] @ TIP, np.zeros(5), np.zeros(2)), activation=THIN.activation, residual=True
)


@pytest.mark.parametrize(("net", "tip"), [(THIN, np.zeros(3)), (MOVED, TIP)], ids=["zero", "moved"])
def test_the_tip_of_a_thin_cone_has_a_witness(net, tip):
    x = THIN_X + tip
    found = radii(net, x, THIN_Y)
    conditions = conditions_of(Decision(net, Max(), None), 1)
    plain = layered_of(net)
    truth = brute_force(plain, plain.start(x)[0], conditions)
    assert truth == pytest.approx(np.linalg.norm(THIN_X), rel=1e-9)
    assert found.outcomes[0] is RadiusStatus.EXACT
    assert found.attack[0] == pytest.approx(truth, rel=1e-7)
    assert net(found.witness)[0].argmax() == 0
    decided = certify(net, x, THIN_Y, radius=1.0001 * truth)
    assert decided.status[0] is Certificate.FLIPPED
    assert np.linalg.norm(decided.witness - x) <= decided.radius


def test_a_tie_at_the_origin_alone_is_shown():
    # f = |h1| + |h2| in three layers: nothing is below zero, and only the origin is zero itself.
    turned = np.array([[0.6, 0.8], [-0.8, 0.6]])
    both = np.vstack([turned, -turned])
    net = Deep((both, np.eye(4), np.ones((1, 4))))
    x = np.random.default_rng(0).normal(size=(20, 2))
    found = radii(net, x, np.ones(20, int))
    assert set(found.outcomes) == {RadiusStatus.EXACT}
    assert found.certified == pytest.approx(np.linalg.norm(x, axis=1), rel=1e-8)
    assert np.all(net(found.witness) == 0.0)


@pytest.mark.parametrize("nodes", [1, 5, 10])
def test_what_a_spent_budget_leaves_of_a_cone_is_said(nodes):
    found = radii(MOVED, THIN_X + TIP, THIN_Y, budget=Budget(nodes))
    assert found.outcomes[0] is RadiusStatus.BUDGET
    assert found.certified[0] <= np.linalg.norm(THIN_X) <= found.attack[0]


def test_a_condition_that_is_clearly_reached_is_reached_by_the_margin():
    outputs = np.array([0.3, 0.1, 0.4])
    linear = LinearCondition(np.array([[1.0, -1.0, 0.0], [0.0, 1.0, -1.0]]), np.array([0.0, 0.2]))
    curved = ProbabilityCondition(np.array([True, False, True]))
    for condition in (linear, curved):
        assert condition.clear(0.5).excess(outputs) == pytest.approx(condition.excess(outputs) + 0.5)
        lo, hi = outputs - 0.1, outputs + 0.1
        rows, shifts = condition.functionals(lo, hi, outputs)
        clear_rows, clear_shifts = condition.clear(0.5).functionals(lo, hi, outputs)
        np.testing.assert_array_equal(clear_rows, rows)
        np.testing.assert_allclose(clear_shifts, shifts + 0.5)
    assert CLEARLY > 1e-10  # search.SATISFIED: what the search takes for reached is then reached
