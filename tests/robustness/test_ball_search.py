"""The decision at a radius: against all regions, by hand, and out of time."""

import math
from dataclasses import replace

import numpy as np
import pytest
from tests.robustness.deep_soundness import check_decisions
from tests.robustness.test_deep_radii import conditions_at, random_network

from featavg.nets.deep import Deep
from featavg.nets.readouts._readout import Max
from featavg.robustness.certify import Certificate, certify
from featavg.robustness.exact import budget
from featavg.robustness.exact.budget import Budget, Clock
from featavg.robustness.exact.decision import Decision
from featavg.robustness.exact.deep import ball_search
from featavg.robustness.exact.deep import search as deep_search
from featavg.robustness.exact.deep.ball_search import BallSearch
from featavg.robustness.exact.deep.cuts import Cuts
from featavg.robustness.exact.deep.local_search import LocalSearch
from featavg.robustness.exact.deep.sdp_bound import SdpBound
from featavg.robustness.exact.deep.search import DeepSearch
from featavg.robustness.exact.flip_conditions import LinearCondition
from featavg.robustness.exact.layered_network import layered, layered_of
from featavg.robustness.exact.probability import ProbabilityCondition
from featavg.robustness.radii import radii


def _decision(net):
    return Decision(net, Max(), None)


def test_kinks_by_hand():
    """z = (u_0, u_1, 1 + u_0): two neurons at zero, of which one raises the functional."""
    net = layered([np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]), np.array([[1.0, -2.0, 3.0]])])
    z = np.array([0.0, 0.0, 1.0])
    rows = net.kinks(net.forward(z), net.forward(z), np.ones((1, 1))) @ net.basis.T
    # Off is the first, on the second: then the functional has the slope 3 in u_0 and -2 in u_1.
    np.testing.assert_allclose(rows, [[1.0, 0.0], [0.0, -1.0], [3.0, -2.0]], atol=1e-12)


# The decision.


@pytest.mark.parametrize("few", [-1, ball_search.FEW])
def test_decisions_are_those_of_all_regions(few, monkeypatch):
    monkeypatch.setattr(ball_search, "FEW", few)
    counts = check_decisions(2 if few < 0 else 8, 5, nodes=10 if few < 0 else 1000)
    assert counts["certified"] >= counts["networks"]
    assert counts["flipped"] >= counts["networks"] / 2


def test_a_flip_that_chords_alone_cannot_exclude():
    """64 neurons that share one ball: each by itself could fall, all together cannot."""
    weights = np.eye(64)
    net = Deep((weights, -np.ones((1, 64))), (np.zeros(64), np.array([9.0])))
    # F = 9 - sum relu(u) >= 9 - 8 |u| within |u| <= 1: the nearest flip is at 9/8.
    x, y = np.zeros((1, 64)), np.array([1])
    assert certify(net, x, y, radius=1.1, budget=Budget(nodes=1)).status == (Certificate.CERTIFIED,)
    assert certify(net, x, y, radius=1.13).status == (Certificate.FLIPPED,)


def _unattacked(monkeypatch):
    """The ball alone: no local search, however few signs are open, and a net that flips far away."""
    monkeypatch.setattr(LocalSearch, "project", lambda *_: None)
    monkeypatch.setattr(LocalSearch, "descend", lambda *_: None)
    monkeypatch.setattr(ball_search, "FEW", -1)
    rng = np.random.default_rng(1)
    net = random_network(rng, 1, outputs=1, dimension=3)
    z = net.start(rng.standard_normal((1, 3)))[0]
    return BallSearch(net, conditions_at(net.forward(z)[-1])), z


def test_a_spent_budget_leaves_a_point_open(monkeypatch):
    search, z = _unattacked(monkeypatch)
    found = search.at(z, 5.0, 20.0, Clock(0, math.inf))
    assert not found.finished
    assert found.certified == 0.0
    assert found.nodes == 0


class _Ticks:
    """A clock of which every call of one method takes a second."""

    def __init__(self, monkeypatch, owner, name):
        self.seconds, plain = 0, getattr(owner, name)

        def slow(*arguments, **options):
            self.seconds += 1
            return plain(*arguments, **options)

        monkeypatch.setattr(owner, name, slow)
        monkeypatch.setattr(budget, "thread_time", lambda: self.seconds)


def test_a_long_ascent_ends_with_its_time(monkeypatch):
    """Nine rivals with 150 steps each would take hundreds of seconds of this clock."""
    rng = np.random.default_rng(0)
    net = Deep((rng.normal(size=(80, 12)), rng.normal(size=(10, 80))))
    x = rng.normal(size=(1, 12))
    clock = _Ticks(monkeypatch, SdpBound, "value")
    monkeypatch.setattr(LocalSearch, "project", lambda *_: None)
    monkeypatch.setattr(LocalSearch, "descend", lambda *_: None)
    found = certify(net, x, net(x).argmax(axis=1), radius=1.0, budget=Budget(seconds=20))
    assert found.status == (Certificate.OPEN,)
    # The step during which the time ends, and one to prove what it has.
    assert 20 <= clock.seconds <= 22


def test_lines_that_take_too_long_leave_a_local_search(monkeypatch):
    """On a machine of ten operations a second nothing is proven, and what is easily found is still found."""
    monkeypatch.setattr(budget, "speed", lambda: 10.0)
    monkeypatch.setattr(ball_search, "tightened", lambda *_: pytest.fail("there is no time for lines"))
    monkeypatch.setattr(deep_search, "tightened", lambda *_: pytest.fail("there is no time for lines"))
    net = Deep((np.eye(2), np.eye(2), np.eye(2)))
    x, y = np.array([[3.0, 1.0]]), np.array([0])
    for bounds in (None, (0.0, 3.5)):
        asked = {"budget": Budget(seconds=2), "bounds": bounds}
        assert certify(net, x, y, radius=2.0, **asked).status == (Certificate.FLIPPED,)
        assert certify(net, x, y, radius=1.4, **asked).status == (Certificate.OPEN,)
    found = radii(net, x, y, budget=Budget(seconds=2), bounds=(0.0, 3.5))
    assert found.certified[0] == 0.0
    assert found.attack[0] == pytest.approx(np.sqrt(2.0))


@pytest.mark.parametrize("seed", [1, 2, 4, 7])
def test_the_rounds_of_a_part_end_with_their_time(monkeypatch, seed):
    """Of these networks the first part would have a third round; which do is a matter of last digits."""
    net = random_network(np.random.default_rng(seed), 3, outputs=1, dimension=5)
    z = net.start(np.ones((1, 5)))[0]
    clock = _Ticks(monkeypatch, Cuts, "solve")
    monkeypatch.setattr(LocalSearch, "start", lambda *_: None)
    found = DeepSearch(net, conditions_at(net.forward(z)[-1])).at(z, 5.0, Budget(seconds=1.5).start())
    assert not found.finished
    assert clock.seconds == 2


def test_parts_that_end_without_a_proof_are_not_certified(monkeypatch):
    search, z = _unattacked(monkeypatch)
    monkeypatch.setattr(SdpBound, "proven", lambda *_: 0.0)
    found = search.at(z, 5.0, 20.0, Clock(20, math.inf))
    assert not found.finished
    assert found.certified == 0.0


@pytest.mark.parametrize("bound", [None, -1e-9, 1.0])
def test_a_part_that_loses_nothing_is_given_up(monkeypatch, bound):
    """With all signs decided nothing is left to split: without a proof the ball is not certified.

    The ascent may end with any number for its bound: only what is proven afterwards counts.
    """
    climb = SdpBound.climbed

    def ended(*arguments):
        theta, value = climb(*arguments)
        return theta, value if bound is None else replace(value, bound=bound)

    monkeypatch.setattr(SdpBound, "climbed", ended)
    monkeypatch.setattr(ball_search, "FEW", -1)
    monkeypatch.setattr(LocalSearch, "project", lambda *_: None)
    monkeypatch.setattr(LocalSearch, "descend", lambda *_: None)
    net = layered([np.eye(2), np.array([[1.0, -1.0]])], [np.full(2, 9.0), None])
    search = BallSearch(net, [LinearCondition(np.ones((1, 1)), np.zeros(1))])
    found = search.at(np.array([10.0, 9.0]), 1.0, 2.0, Clock(100, math.inf))
    assert not found.finished
    assert found.certified == 0.0


def test_lines_are_charged_for_rounding():
    net = layered([np.eye(2), np.array([[1.0, -1.0]])], [np.full(2, 9.0), None])
    search = BallSearch(net, [LinearCondition(np.ones((1, 1)), np.zeros(1))])
    search.radius = 1.0
    z = np.array([10.0, 10.0 - np.sqrt(2.0) * (1 + 1e-15)])
    ball, outputs = search._ball(z, 10.0), net.forward(z)
    assert not search._by_lines(ball, outputs, search.conditions[0])
    free = replace(ball, errors=[np.zeros(2), np.full(1, -1e-12)])
    assert search._by_lines(free, outputs, search.conditions[0])


def test_curved_conditions_are_for_the_other_search():
    net = random_network(np.random.default_rng(0), 1, outputs=3)
    with pytest.raises(ValueError, match="linear"):
        BallSearch(net, [ProbabilityCondition(np.array([True, False, False]))])


def test_all_inequalities_of_a_condition_have_to_be_reached(monkeypatch):
    """f_0 <= 0 within 1, f_1 <= 0 within 1, but both only at sqrt(2)."""
    monkeypatch.setattr(ball_search, "FEW", -1)
    net = Deep((np.eye(2), np.eye(2)), (np.full(2, 5.0), np.full(2, -4.0)))
    plain = layered_of(net)
    search = BallSearch(plain, [LinearCondition(np.eye(2), np.zeros(2))])
    z = plain.start(np.zeros((1, 2)))[0]
    assert search.at(z, 1.0, 1.4, Clock(100, math.inf)).certified == 1.4
    assert search.at(z, 1.0, 1.42, Clock(100, math.inf)).attack <= 1.42
