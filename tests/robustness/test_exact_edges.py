"""Radii at the edges: overflow, nothing that flips, obtuse corners, and an attack end everywhere."""

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
import pytest
from scipy.special import logsumexp

import featavg as fa
from featavg.nets.readouts._readout import ReadOut, readout_of
from featavg.nets.two_layer import TwoLayer, grouped
from featavg.robustness.exact.farkas import dominated, solve
from featavg.robustness.exact.relaxation import Box
from featavg.robustness.exact.result import Answer, Radii, RadiusStatus
from featavg.robustness.geometry.subspace import reduce

NEVER = {
    "the issue's overflow": (
        grouped(np.array([[-300.0], [800.0], [-700.0], [-1100.0], [950.0]]), 5),
        [-0.18],
        -1,
        [1, 2],
    ),
    "overflow at a small scale": (
        TwoLayer(np.array([[0.21], [-0.33], [0.47]]), np.zeros(3), np.eye(3)),
        [0.98],
        -1,
        [0],
    ),
    "half of an own output": (grouped(np.array([[1.0], [1.0], [0.5]]), 3), [1.0], 1, [0, 1]),
    "a mixture of two": (grouped(np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.25]]), 3), [1.0, 1.0], 1, [0, 1]),
    "two neurons each": (grouped(np.array([[1.0], [-1.0], [2.0], [-2.0], [0.5], [-0.5]]), 3), [1.0], 1, [0, 1]),
}


@pytest.mark.parametrize("name", NEVER)
def test_never_is_proven_for_probability(name):
    net, x, y, positive = NEVER[name]
    result = fa.radii(net, np.array([x]), y=np.array([y]), positive=positive)
    assert result.outcomes == [RadiusStatus.NEVER]
    assert result.certified[0] == result.attack[0] == np.inf
    rng = np.random.default_rng(0)
    far = rng.normal(size=(2000, net.dimension)) * 10.0 ** rng.uniform(-3, 5, size=(2000, 1))
    assert np.all(y * fa.score(net(far), positive, "probability") > 0)


FLIPS = {
    "as many rivals": (grouped(np.array([[1.0], [0.5]]), 2), [0]),
    "a rival a hair steeper": (grouped(np.array([[1.0], [1.0], [1.0 + 1e-9]]), 3), [0, 1]),
    "a direction of its own": (grouped(np.array([[1.0, 0], [0, 1.0], [0.1, -0.1]]), 3), [0, 1]),
    "a bias": (TwoLayer(np.ones((3, 1)), np.array([0.0, 0.0, 2.0]), np.eye(3)), [0, 1]),
}


@pytest.mark.parametrize("name", FLIPS)
def test_what_flips_somewhere_is_not_called_never(name):
    net, positive = FLIPS[name]
    own = np.isin(np.arange(net.outputs), positive)
    assert not dominated(net, reduce(net), own)


def test_equal_shares_are_no_proof_but_a_full_row_is():
    """The row of P that is full: sum_v P_ov = 1 is allowed, a little more is not."""
    for excess, holds in ((0.0, True), (2.0**-40, False)):
        weights = np.array([[1.0], [-1.0], [-1.0], [0.5], [0.5 + excess]])
        net = grouped(weights, 5)
        own = np.array([True, True, True, False, False])
        assert dominated(net, reduce(net), own) is holds


def test_solving_in_fractions():
    one, third = Fraction(1), Fraction(1, 3)
    assert solve([[one], [one]], [one], [Fraction(0), third]) == [2 * third, third]
    assert solve([[one, one]], [one, 2 * one], [one]) is None


def test_obtuse_corner():
    """Two neurons at an obtuse angle: the nudge must switch both off (issue: `open` at 1.3416)."""
    weights, corner = np.array([[1.0, 0.0], [-0.8, 0.6]]), np.ones(2)
    net = TwoLayer(weights, -weights @ corner, np.ones((1, 2)))
    x = corner + weights[0] + 2 * weights[1]
    result = fa.radii(net, x[None], y=np.array([1]))
    assert result.outcomes == [RadiusStatus.EXACT]
    np.testing.assert_allclose(result.attack, np.linalg.norm(x - corner), rtol=1e-6)
    assert net(result.witness)[0, 0] <= 0


def test_random_corners_are_not_left_open():
    for seed in range(150):
        rng = np.random.default_rng(seed)
        net = TwoLayer(rng.normal(size=(2, 2)), rng.normal(size=2), np.abs(rng.normal(size=(1, 2))))
        x = rng.normal(size=(3, 2)) * 2
        result = fa.radii(net, x, y=np.where(net(x)[:, 0] > 0, 1, -1), jobs=1)
        assert RadiusStatus.OPEN not in result.outcomes, seed


def random_probability_case(seed):
    rng = np.random.default_rng(seed)
    k, h, d = int(rng.integers(3, 7)), 1 + seed % 2, int(rng.integers(1, 6))
    scale, bias = 10.0 ** rng.integers(-1, 2), float(rng.integers(0, 2))
    weights = rng.normal(size=(k * h, d)) * scale
    net = TwoLayer(weights, bias * scale * rng.normal(size=k * h), grouped(weights, k).head)
    positive = np.arange(k) < rng.integers(1, k)
    x = rng.normal(size=(2, d)) * 2
    return net, x, np.where(fa.score(net(x), positive, "probability") > 0, 1, -1), positive


def test_random_untrained_networks():
    """At most a tenth may spend a budget of 2000, and none has an infinite end where rays flip."""
    spent, total = 0, 0
    for seed in range(20):
        net, x, y, positive = random_probability_case(seed)
        budget = fa.Budget(nodes=2000)
        result = fa.radii(net, x, y=y, positive=positive, budget=budget, jobs=1)
        rng = np.random.default_rng(seed)
        ways = rng.normal(size=(300, x.shape[1]))
        ways /= np.linalg.norm(ways, axis=1)[:, None]
        for i, status in enumerate(result.outcomes):
            total += 1
            spent += status is RadiusStatus.BUDGET
            rays = np.inf
            for length in np.geomspace(1e-3, 50 * np.linalg.norm(x[i]), 60):
                if np.any(y[i] * fa.score(net(x[i] + length * ways), positive, "probability") <= 0):
                    rays = length
                    break
            assert result.certified[i] <= rays
            assert not (np.isinf(result.attack[i]) and rays < np.inf)
            if status is RadiusStatus.NEVER:
                assert rays == np.inf
    assert spent <= 0.1 * total


@dataclass(frozen=True)
class Warm(ReadOut):
    """log sum exp at another temperature: curved, and near `max`."""

    name: ClassVar[str] = "warm"

    def class_score(self, outputs):
        return logsumexp(3.0 * outputs, axis=-1) / 3.0

    def derivative(self, outputs):
        powers = np.exp(3.0 * (outputs - outputs.max(axis=-1, keepdims=True)))
        return powers / powers.sum(axis=-1, keepdims=True)

    def hard(self, count):
        return readout_of("max"), np.log(count) / 3.0


def test_a_curved_read_out_of_ones_own_has_a_bracket():
    rng = np.random.default_rng(7)
    net, x = grouped(rng.normal(size=(4, 5)) * 3, 4), rng.normal(size=(6, 5)) * 2
    mask = [True, True, False, False]
    y = np.where(fa.score(net(x), mask, Warm()) > 0, 1, -1)
    result = fa.radii(net, x, y=y, positive=mask, readout=Warm())
    assert np.median(result.certified) > 0
    assert np.all(result.certified <= result.attack)
    assert np.all(np.isfinite(result.attack))
    assert np.all(y * fa.score(net(result.witness), mask, Warm()) <= 0)


def test_unbounded_boxes_have_no_chords():
    from featavg.robustness.exact.probability import ProbabilityRelaxation

    relaxation = ProbabilityRelaxation(np.eye(2), np.zeros(2), np.array([True, False]))
    assert relaxation.outer(Box.everywhere(2)) is None


def test_joined_pads_what_no_weight_meets():
    def blank(points, norm="l2"):
        return Radii.of([Answer.wrong(row) for row in points], points, 0.01, norm)

    short, long = blank(np.ones((1, 2))), blank(np.full((2, 3), 5.0))
    both = Radii.joined([short, long])
    np.testing.assert_array_equal(both.witness, [[1, 1, 0], [5, 5, 5], [5, 5, 5]])
    assert len(both) == 3
    with pytest.raises(fa.InputError, match="norms"):
        Radii.joined([short, blank(np.ones((1, 2)), "linf")])
