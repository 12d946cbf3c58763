"""Brackets for the probability read-out: never above what any ray finds, and tight."""

import numpy as np
import pytest

from featavg.data.clusters import MultiCluster
from featavg.errors import InputError
from featavg.nets.readouts._readout import score
from featavg.nets.two_layer import TwoLayer, grouped
from featavg.robustness.exact.budget import Budget
from featavg.robustness.exact.probability import ProbabilityRelaxation
from featavg.robustness.exact.probability_terms import RivalTerm
from featavg.robustness.exact.result import RadiusStatus
from featavg.robustness.radii import radii

# k, h, dimension, scale of the weights, J+.
NETWORKS = [
    (2, 1, 2, 1.0, 1),
    (3, 1, 2, 2.0, 1),
    (4, 1, 2, 1.0, 2),
    (4, 1, 2, 5.0, 1),
    (4, 1, 2, 30.0, 2),
    (4, 1, 2, 1e-4, 2),
    (6, 1, 2, 3.0, 3),
    (2, 2, 2, 2.0, 1),
    (3, 2, 2, 1.0, 1),
]


def ray_radius(net, x, y, positive, farthest, angles=240, steps=600):
    """The first flip along many rays in the plane: an upper bound of the radius, and nearly it."""
    turn = np.linspace(0, 2 * np.pi, angles, endpoint=False)
    ways = np.stack([np.cos(turn), np.sin(turn)], axis=1)
    lengths = np.linspace(0, farthest, steps + 1)[1:]
    best = np.inf
    for way in ways:
        points = x + lengths[:, None] * way
        flips = y * score(net(points), positive, "probability") <= 0
        if flips.any():
            best = min(best, lengths[flips.argmax()])
    return best


@pytest.mark.parametrize("case", NETWORKS, ids=str)
def test_rays_in_the_plane(case):
    k, h, dimension, scale, split = case
    rng = np.random.default_rng(k * 10 + h)
    positive = np.arange(k) < split
    for _ in range(2):
        weights = rng.normal(size=(k * h, dimension)) * scale
        net = TwoLayer(weights, scale * rng.normal(size=k * h), grouped(weights, k).head)
        x = rng.normal(size=(2, dimension)) * 2
        y = np.where(score(net(x), positive, "probability") > 0, 1, -1)
        found = radii(net, x, y=y, positive=positive, budget=Budget(nodes=600))
        for i in range(2):
            attack, certified = found.attack[i], found.certified[i]
            if found.outcomes[i] is RadiusStatus.MISCLASSIFIED:
                continue
            rays = ray_radius(net, x[i], y[i], positive, 2 * min(attack, 50.0))
            assert certified <= rays
            if found.outcomes[i] is not RadiusStatus.BUDGET and np.isfinite(attack):
                assert found.gaps[i] <= 0.01
                # Rays 1.5 degrees and steps of 1/600 apart lose less than this to the exact radius.
                assert attack <= rays * 1.015
                assert y[i] * score(net(found.witness[i][None]), positive, "probability") <= 0


def test_paper_preset():
    from featavg.training.train import train

    task = MultiCluster(k=10, d=3072)
    net = train(task, labels="fine", n=1000, steps=100, seed=0).net
    test = task.sample(4, seed=1)
    found = radii(net, test)
    assert np.all(found.gaps <= 0.01)
    assert 36.5 < np.median(found.certified) <= np.median(found.attack) < 39.5
    # Between the read-outs with which it shares its extremes.
    slack = radii(net, test, readout="max")
    np.testing.assert_allclose(found.attack, slack.attack, rtol=0.1)


def test_large_outputs_are_the_max_read_out():
    rng = np.random.default_rng(3)
    net, x = grouped(rng.normal(size=(6, 8)) * 1e8, 6), rng.normal(size=(5, 8))
    positive = np.arange(6) < 3
    y = np.where(score(net(x), positive, "probability") > 0, 1, -1)
    found = radii(net, x, y=y, positive=positive)
    limit = radii(net, x, y=y, positive=positive, readout="max")
    np.testing.assert_allclose(found.certified, limit.certified, rtol=1e-5)
    np.testing.assert_allclose(found.attack, limit.attack, rtol=1e-5)


def test_small_outputs_are_the_sum_read_out():
    rng = np.random.default_rng(4)
    net, x = grouped(rng.normal(size=(6, 8)) * 1e-7, 6), rng.normal(size=(5, 8))
    positive = np.arange(6) < 3
    y = np.where(score(net(x), positive, "sum") > 0, 1, -1)
    found = radii(net, x, y=y, positive=positive)
    limit = radii(net, x, y=y, positive=positive, readout="sum")
    assert np.all(found.certified <= limit.attack * (1 + 1e-5))
    assert np.all(found.attack >= limit.certified * (1 - 1e-5))


def test_term_bound_is_below_a_fine_grid():
    rng = np.random.default_rng(5)
    for _ in range(200):
        term = RivalTerm(
            rng.normal(size=1) * 3,
            rng.normal(size=1) * 3,
            float(rng.exponential()),
            rng.uniform(0.05, 1.0, size=1),
            rng.uniform(0.1, 2.0, size=1),
            rng.normal(size=1),
        )
        lo = rng.normal(size=1) * 3
        hi = lo + rng.exponential(size=1) * 4
        least, where = term.least(lo, hi)
        smallest = float(term.at(np.linspace(lo, hi, 4001)).min())
        size = 1 + abs(smallest)
        assert least[0] <= smallest + 1e-9 * size
        assert least[0] >= smallest - 1e-3 * size
        assert lo[0] <= where[0] <= hi[0]


@pytest.mark.parametrize("head", [np.array([[1.0, -1.0], [0.0, 1.0]]), np.ones((2, 2))], ids=["negative", "shared"])
def test_heads_it_cannot_do_are_refused(head):
    with pytest.raises(InputError):
        ProbabilityRelaxation(head, np.zeros(2), np.array([True, False]))
