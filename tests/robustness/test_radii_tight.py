"""From a search to an answer: what is claimed for a point, whatever a search says."""

import math

import numpy as np
import pytest

from featavg.nets.readouts._readout import Sum
from featavg.nets.readouts.soft import Probability
from featavg.nets.two_layer import TwoLayer, binary
from featavg.robustness.exact import linf, two_layer
from featavg.robustness.exact.budget import Budget, Candidate, Search
from featavg.robustness.exact.decision import Decision
from featavg.robustness.exact.everywhere import Everywhere, Somewhere
from featavg.robustness.exact.linf import LinfSolver, TreeResult
from featavg.robustness.exact.result import Answer, RadiusStatus
from featavg.robustness.exact.two_layer import PieceSearch, TwoLayerSolver
from featavg.robustness.geometry.subspace import reduce
from featavg.robustness.radii import radii

NET, X, Y = binary(np.eye(2)), np.array([[3.0, 1.0]]), np.array([1])
ROOT = math.sqrt(2.0)  # the nearest flip of X is (2, 2)


def test_nothing_is_certified_beyond_the_witness(monkeypatch):
    step = reduce(NET).basis.T @ np.array([-1.0, 1.0])
    found = Search(5.0, [Candidate(ROOT, step, step[None])])
    monkeypatch.setattr(PieceSearch, "at", lambda self, *arguments: found)
    answer = radii(NET, X, Y, jobs=1)
    assert answer.attack[0] == pytest.approx(ROOT, rel=1e-6)
    assert answer.certified[0] == answer.attack[0]


def test_the_floor_of_probability_has_the_slack_of_its_rivals():
    """log sum exp of two rivals is up to log 2 above their maximum."""
    net = TwoLayer(np.eye(3), np.zeros(3), np.eye(3))
    decision = Decision(net, Probability(), np.array([True, False, False]))
    searches = TwoLayerSolver(decision, (-1, 1), 0.01).searches
    np.testing.assert_allclose(searches[1].floor.shift, [[-math.log(2.0)]] * 2)
    np.testing.assert_allclose(searches[-1].floor.shift, [[0.0, 0.0]])


def test_a_score_of_zero_is_flipped():
    found = radii(NET, np.array([[1.0, 1.0]]), Y, jobs=1)
    assert found.outcomes == [RadiusStatus.MISCLASSIFIED]
    assert (found.certified[0], found.attack[0]) == (0.0, 0.0)


def _without_witness(monkeypatch):
    nowhere = lambda x, *rest: (math.inf, np.full_like(x, np.nan))  # noqa: E731
    monkeypatch.setattr(two_layer, "checked_witness", nowhere)


def test_where_no_candidate_flips_an_attack_is_asked(monkeypatch):
    _without_witness(monkeypatch)
    found = radii(NET, X, Y, jobs=1)
    assert found.attack[0] == pytest.approx(ROOT, rel=1e-6)
    assert NET(found.witness)[0, 0] <= 0.0


def test_nothing_found_is_not_never(monkeypatch):
    _without_witness(monkeypatch)
    nothing = lambda *_: (np.full(1, np.inf), np.full_like(X, np.nan))  # noqa: E731
    monkeypatch.setattr(two_layer, "attacked", nothing)
    found = radii(NET, X, Y, jobs=1)
    assert found.outcomes == [RadiusStatus.OPEN]
    assert found.certified[0] == pytest.approx(ROOT)


@pytest.mark.parametrize(
    ("certified", "finished", "status"),
    [
        (1.0 - 1e-8, False, RadiusStatus.EXACT),
        (0.991, False, RadiusStatus.BRACKET),
        (0.989, False, RadiusStatus.BUDGET),
        (0.989, True, RadiusStatus.OPEN),
    ],
)
def test_how_a_search_ended(certified, finished, status):
    assert Answer(certified, 1.0, X[0], 1, finished).status(gap=0.01) is status
    far = RadiusStatus.OPEN if finished else RadiusStatus.BUDGET
    assert Answer(certified, math.inf, X[0], 1, finished).status(gap=0.01) is far
    on_the_boundary = Answer(0.0, 1e-12, X[0], 1, finished, rounding=1e-12)
    assert on_the_boundary.status(gap=0.01) is RadiusStatus.EXACT


# l_inf.


def _linf(monkeypatch, result, start=None, probed=()):
    """One point with a search that says `result`, after probing some steps."""
    lengths = []

    def search(programs, guess, probe, clock):
        lengths.extend(probe(np.array(step)) for step in probed)
        return result(guess)

    monkeypatch.setattr(linf, "linf_search", search)
    monkeypatch.setattr(Everywhere, "at", lambda self, *arguments: Somewhere(False, None))
    start = None if start is None else np.array(start)
    solver = LinfSolver(Decision(NET, Sum(), np.ones(1, bool)))
    return solver.at(X[0], 1, Budget().start(), start), lengths


def test_linf_claims_no_more_than_its_witness_and_its_ball(monkeypatch):
    far = lambda guess: TreeResult(1e30, guess, 1, finished=True)  # noqa: E731
    found, _ = _linf(monkeypatch, far, start=[1.0, 3.0])
    assert (found.certified, found.attack) == (2.0, 2.0)
    assert found.status(0.01) is RadiusStatus.EXACT
    found, _ = _linf(monkeypatch, far, probed=([-1.5, 1.5],))
    assert found.certified == found.attack == pytest.approx(1.5)
    found, _ = _linf(monkeypatch, far)
    assert found.attack == math.inf
    assert np.isnan(found.witness).all()
    # Ten times what moves every neuron through zero, three times a thousand further out.
    assert found.certified == pytest.approx(10 * 3.0 * 1e9)
    assert found.status(0.01) is RadiusStatus.OPEN


def test_linf_probes_steps_that_flip_only(monkeypatch):
    near = lambda guess: TreeResult(0.5, guess, 1, finished=False)  # noqa: E731
    steps = ([-0.5, 0.5], [-1.5, 1.5])
    found, lengths = _linf(monkeypatch, near, probed=steps)
    assert lengths[0] == math.inf
    assert lengths[1] == found.attack == pytest.approx(1.5)
    assert NET(found.witness[None])[0, 0] <= 0.0
    assert (found.certified, found.status(0.01)) == (0.5, RadiusStatus.BUDGET)
