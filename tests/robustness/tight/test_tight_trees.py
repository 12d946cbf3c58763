"""The trees alone: without local searches and without a fallback, bounds meet the true radius.

A local search finds most flips at once, and hides a tree that looks at half of its parts or a bound
that is too high. Here every search has to find by itself what listing all regions finds.
"""

import math

import numpy as np
import pytest
from tests.robustness.ball_cases import FREE
from tests.robustness.brute_force import brute_force_radius
from tests.robustness.deep_twin import brute_force
from tests.robustness.test_deep_radii import conditions_at, random_network
from tests.robustness.test_linf import brute_force as brute_force_linf

from featavg.nets.readouts._readout import Max, Sum
from featavg.nets.two_layer import TwoLayer
from featavg.robustness.exact.branch_and_bound import TreeSearch
from featavg.robustness.exact.decision import Decision
from featavg.robustness.exact.deep import ball_search
from featavg.robustness.exact.deep.ball_search import BallSearch
from featavg.robustness.exact.deep.local_search import BoxAttack, LocalSearch
from featavg.robustness.exact.deep.search import DeepSearch
from featavg.robustness.exact.flipped_set import ReluRelaxation, flipped
from featavg.robustness.exact.layered_network import layered
from featavg.robustness.exact.linf import Program, linf_search
from featavg.robustness.exact.step_box import StepBox
from featavg.robustness.geometry.subspace import reduce

KINDS = {
    "one": {"hidden": 1},
    "one-leaky": {"hidden": 1, "leak": 0.2},
    "one-classes": {"hidden": 1, "outputs": 3},
    "two": {"hidden": 2},
    "two-classes": {"hidden": 2, "outputs": 3},
    "residual": {"hidden": 2, "skip": True, "leak": 0.1},
}
BELOW, ABOVE = 0.7, 1.002  # times the true radius: mostly certified, and never certified


@pytest.fixture(autouse=True)
def _alone(monkeypatch):
    """No local search, however few signs are open."""
    for name in ("start", "project", "descend"):
        monkeypatch.setattr(LocalSearch, name, lambda *_: None)
    for name in ("start", "descend"):
        monkeypatch.setattr(BoxAttack, name, lambda *_: None)
    monkeypatch.setattr(ball_search, "FEW", -1)


def _cases(kind, many=12, deep=3):
    """Random networks and points that flip somewhere, with the true radius."""
    for seed in range(many if KINDS[kind]["hidden"] == 1 else deep):
        rng = np.random.default_rng(seed)
        net = random_network(rng, **KINDS[kind], dimension=3)
        x = rng.standard_normal(3)
        z = net.start(x[None])[0]
        conditions = conditions_at(net.forward(z)[-1])
        truth = brute_force(net, z, conditions)
        if 1e-3 < truth < 20.0:
            yield net, x, z, conditions, truth


@pytest.mark.parametrize("kind", KINDS)
def test_a_ball_is_certified_up_to_the_radius_and_not_beyond(kind):
    certified = []
    for net, _, z, conditions, truth in _cases(kind):
        search = BallSearch(net, conditions)
        near = search.at(z, 10.0, BELOW * truth, FREE)
        certified.append(near.certified == BELOW * truth)
        beyond = search.at(z, 10.0, ABOVE * truth, FREE)
        assert beyond.certified == 0.0
        assert not beyond.finished
    assert any(certified)


@pytest.mark.parametrize("kind", KINDS)
def test_a_ball_in_a_box_is_certified_up_to_the_radius_and_not_beyond(kind):
    certified = []
    for net, x, z, conditions, truth in _cases(kind, 8, 3):
        rng = np.random.default_rng(7)
        # Narrow sides, so that the nearest flip of the ball is outside, and the box decides.
        sides = truth * (0.3 + 1.2 * rng.random((2, 3)))
        bounds = (x - sides[0], x + sides[1])
        full, rows = net.unturned(), np.vstack([np.eye(3), -np.eye(3)])
        limits = np.concatenate([sides[1], sides[0]])
        cut = brute_force(full, z, conditions, rows, limits)
        search = BallSearch(net, conditions)
        radius = BELOW * min(cut, 3.0 * truth)
        near = search.at(z, 10.0, radius, FREE, StepBox.around(x, bounds, radius), lambda _: None)
        certified.append(near.certified == radius)
        if cut < math.inf:
            box = StepBox.around(x, bounds, ABOVE * cut)
            beyond = search.at(z, 10.0, ABOVE * cut, FREE, box, lambda _: None)
            assert beyond.certified == 0.0
            assert not beyond.finished
    assert any(certified)


@pytest.mark.parametrize("side", ["on", "off"])
@pytest.mark.parametrize("hidden", [1, 2])
def test_a_flip_on_either_side_of_every_neuron_keeps_a_ball_open(hidden, side):
    """1 - 4 phi(u_i), or 1 + 16 phi(u_i) with a leak: the only flips are where neuron i is on, or where it is off."""
    for i in range(2):
        row = np.full((1, 2), -0.1)
        row[0, i] = -4.0 if side == "on" else 16.0
        weights = [*[np.eye(2)] * hidden, row]
        net = layered(weights, [None] * hidden + [np.ones(1)], leak=0.0 if side == "on" else 0.25)
        search = BallSearch(net, conditions_at(np.ones(1)))
        truth = brute_force(net, np.zeros(2), search.conditions)
        assert search.at(np.zeros(2), 1.0, 0.99 * truth, FREE).certified == 0.99 * truth
        assert search.at(np.zeros(2), 1.0, 1.01 * truth, FREE).certified == 0.0


@pytest.mark.parametrize("kind", KINDS)
def test_the_search_for_a_radius_needs_no_local_search(kind):
    exact = []
    for net, _, z, conditions, truth in _cases(kind, 16, 16):
        found = DeepSearch(net, conditions).at(z, 10.0, FREE)
        assert found.certified <= truth * (1 + 1e-9)
        assert found.attack >= truth * (1 - 1e-9)
        exact.append(found.certified >= truth * (1 - 1e-6))
        decided = DeepSearch(net, conditions).at(z, 10.0, FREE, radius=ABOVE * truth)
        assert decided.certified <= truth * (1 + 1e-9)
    assert np.mean(exact) > 0.9


def _two_layer(seed):
    """A two-layer network whose flips need several neurons of the far side."""
    rng = np.random.default_rng(seed)
    outputs = 1 + 2 * (seed % 2)
    net = TwoLayer(rng.standard_normal((6, 3)), 0.5 * rng.standard_normal(6), rng.standard_normal((outputs, 6)))
    positive = None if outputs == 1 else np.array([True, False, False])
    readout = ("sum", "max")[seed // 2 % 2] if outputs > 1 else "sum"
    x = rng.standard_normal(3)
    mask = np.ones(1, bool) if positive is None else positive
    decision = Decision(net, Max() if readout == "max" else Sum(), mask)
    label = 1 if decision.margins(x[None], 1)[0] > 0 else -1
    return net, x, label, decision, readout, positive


@pytest.mark.parametrize("priced", [True, False])
def test_a_tree_needs_no_candidate_from_elsewhere(priced, monkeypatch):
    """Chords alone, and with prices of local solutions: both meet the radius of all regions."""
    monkeypatch.setattr(TreeSearch, "_start", lambda self, one, hints: self.pools.update({id(one): []}))
    if not priced:
        monkeypatch.setattr(TreeSearch, "_local", lambda *_: None)
    met = 0
    for seed in range(24):
        net, x, label, decision, readout, positive = _two_layer(seed)
        truth = brute_force_radius(net, x, label, readout, positive)
        if not 1e-3 < truth < 20.0:
            continue
        space = reduce(net)
        families = [ReluRelaxation(one) for one in flipped(space, decision.pieces(label))]
        z = space.preactivations(x[None])[0]
        found = TreeSearch(space, families, 1e-9).at(z, float(np.linalg.norm(x)) + 3.0, FREE)
        assert found.certified <= truth * (1 + 1e-8)
        met += found.certified >= truth * (1 - 1e-6)
    assert met >= 10


def test_a_tree_in_l_inf_needs_no_flip_to_be_shown():
    """No probe ever flips: what is certified is what linear programs prove."""
    met = 0
    for seed in range(12):
        net, x, label, decision, readout, positive = _two_layer(seed)
        name = "" if positive is None else readout
        truth = brute_force_linf(net, x, label, name, positive)
        if not 1e-3 < truth < 20.0:
            continue
        space = reduce(net)
        normals, at_x = space.normals, space.preactivations(x[None])[0]
        programs = [Program(one, normals, at_x) for one in flipped(space, decision.pieces(label))]
        for start in (1.3 * truth, 4.0 * truth):
            found = linf_search(programs, start, lambda _: math.inf, FREE)
            assert found.certified <= truth * (1 + 1e-7)
            met += found.certified >= truth * (1 - 1e-6)
    assert met >= 10
