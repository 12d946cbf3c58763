"""The decision in a ball that a box cuts: against attacks, the ball alone, and bad input."""

from itertools import pairwise

import numpy as np
import pytest

from featavg.errors import InputError
from featavg.nets.deep import Deep
from featavg.robustness.certify import Certificate, certify
from featavg.robustness.exact.step_box import StepBox


def _network(rng, sizes=(5, 8, 8, 3)):
    weights = tuple(rng.normal(size=(b, a)) / np.sqrt(a) for a, b in pairwise(sizes))
    return Deep(weights, tuple(0.3 * rng.normal(size=b) for b in sizes[1:]))


@pytest.mark.parametrize("sizes", [(5, 8, 3), (5, 8, 8, 3)])
def test_no_point_of_the_box_flips_below_a_certificate(sizes):
    seen = set()
    for seed in range(12):
        rng = np.random.default_rng(seed)
        net, x = _network(rng, sizes), rng.choice([0.0, 0.3, 1.0], size=(4, 5))
        y = net(x).argmax(axis=1)
        found = certify(net, x, y, radius=0.6, bounds=(0, 1))
        seen |= set(found.status)
        steps = rng.standard_normal((4000, 5))
        steps *= (0.6 * rng.random(4000) ** 0.2 / np.linalg.norm(steps, axis=1))[:, None]
        for i in np.flatnonzero(found.mask(Certificate.CERTIFIED)):
            assert np.all(net(np.clip(x[i] + steps, 0.0, 1.0)).argmax(axis=1) == y[i])
        for i in np.flatnonzero(found.mask(Certificate.FLIPPED)):
            point = found.witness[i]
            assert np.all((point >= 0) & (point <= 1))
            assert np.linalg.norm(point - x[i]) <= 0.6
            assert net(point[None]).argmax() != y[i]
    assert {Certificate.CERTIFIED, Certificate.FLIPPED} <= seen


def test_a_box_takes_a_flip_away_and_one_that_cuts_nothing_changes_nothing():
    net = Deep((np.eye(2), np.eye(2)))
    x, y = np.array([[0.5, 0.0]]), np.array([0])
    assert certify(net, x, y, radius=0.4).status == (Certificate.FLIPPED,)
    cut = certify(net, x, y, radius=0.4, bounds=(0, [1.0, 0.05]))
    assert cut.status == (Certificate.CERTIFIED,)
    wide = certify(net, x, y, radius=0.4, bounds=(-1, 1))
    np.testing.assert_array_equal(wide.witness, certify(net, x, y, radius=0.4).witness)


def test_least_values_are_below_every_point_and_reached():
    rng = np.random.default_rng(0)
    box = StepBox(-rng.random(6) * (rng.random(6) < 0.5), rng.random(6), 0.8)
    g = rng.standard_normal((20, 6))
    value, step = box.lowest(g)
    points = box.projected(rng.standard_normal((5000, 6)))
    assert np.all((points @ g.T).min(axis=0) >= value - 1e-12)
    np.testing.assert_allclose(np.einsum("pn,pn->p", g, step), value, atol=1e-9)


@pytest.mark.parametrize("power", [1e100, 1e150, 1e-100])
def test_a_scale_changes_no_certificate(power):
    net = Deep((np.eye(2), np.eye(2)))
    x, y = np.array([[3.0, 1.0], [2.0, 1.0]]), np.array([0, 0])
    found = certify(net, power * x, y, radius=power)
    assert [one.value for one in found.status] == ["certified", "flipped"]


@pytest.mark.parametrize(
    ("bounds", "x", "says"),
    [
        ((0, 1), 1.5, "exclude"),
        ((0, 1), 255.0, "divide the images by 255"),
        ((1, 0), 0.5, "empty"),
        ((np.zeros(3), np.ones(3)), 0.5, "shape"),
        ((np.nan, 1), 0.5, "NaN"),
    ],
)
def test_bounds_that_mean_nothing_are_refused(bounds, x, says):
    with pytest.raises(InputError, match=says):
        certify(Deep((np.eye(2), np.eye(2))), np.full((1, 2), x), np.zeros(1, int), radius=1.0, bounds=bounds)
