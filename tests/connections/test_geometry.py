"""Lattice, manifold, usefulness, best margin and planes: fast formulas against slow ones."""

import itertools

import numpy as np
import pytest

from featavg.data.clusters import MultiCluster
from featavg.errors import InputError
from featavg.nets.activations._activation import LeakyReLU
from featavg.nets.two_layer import TwoLayer, feature_averaging, feature_decoupling
from featavg.paper.connections.dimpled_manifold import OnSubspace, split
from featavg.paper.connections.expressivity import Lattice
from featavg.paper.connections.hinted_margin import best_margin, normalized_margin
from featavg.paper.connections.picture import Shown, through
from featavg.paper.connections.power_relu import Shallow
from featavg.paper.connections.robust_features import UsefulFeature, measured_usefulness, robust_usefulness


@pytest.mark.parametrize(("m", "seed"), [(1, 0), (3, 1), (5, 2), (6, 0)])
def test_nearest_vertex_radius_is_the_search_over_all_pairs(m, seed):
    task = Lattice(m, seed=seed)
    slow = [
        min(np.sqrt(np.abs(v - w).sum()) / 2 for w, other in zip(task.vertices, task.y, strict=True) if other != label)
        for v, label in zip(task.vertices, task.y, strict=True)
    ]
    np.testing.assert_allclose(task.nearest_vertex_radii(), slow)


def test_no_random_step_shorter_than_the_radius_leaves_the_cell():
    task = Lattice(4)
    rng = np.random.default_rng(0)
    for v, label, radius in zip(task.vertices, task.y, task.nearest_vertex_radii(), strict=True):
        steps = rng.normal(size=(300, 4))
        steps *= 0.999 * radius / np.linalg.norm(steps, axis=1, keepdims=True)
        nearest = np.argmin(((v + steps)[:, None, :] - task.vertices) ** 2 @ np.ones(4), axis=1)
        assert np.all(task.y[nearest] == label)


def test_outside_parts_have_the_law_of_the_full_space():
    task = OnSubspace(k=4, d=300, r=50)
    grams = []
    for seed in range(200):
        outside = task.draw(2, 3, seed).unit_weights[:, 50:]
        grams.append(outside @ outside.T)
    mean = np.mean(grams, axis=0)
    np.testing.assert_allclose(mean, 250 * np.eye(3), atol=8.0)


def test_split_is_a_search_over_directions():
    rng = np.random.default_rng(0)
    net = TwoLayer(rng.normal(size=(4, 3)), rng.normal(size=4), np.array([[1.0, 1, -1, -1]]))
    x = rng.normal(size=(6, 3))
    y = np.where(net(x)[:, 0] > 0, 1, -1)
    found = split(net, x, y, np.eye(3)[:, :2])
    steps = np.linspace(0.0, 8.0, 4001)
    for i, (point, label) in enumerate(zip(x, y, strict=True)):
        off = []
        for sign in (1.0, -1.0):
            line = point + sign * steps[:, None] * np.eye(3)[2]
            flips = label * net(line)[:, 0] <= 0
            off.append(steps[np.argmax(flips)] if flips.any() else np.inf)
        slow = min(off)
        assert found.off[i] == pytest.approx(slow, abs=0.003) or found.off[i] > 8
        assert found.exact.attack[i] <= min(found.on.attack[i], found.off[i]) * (1 + 1e-6)
    known = ~np.isnan(found.off_share)
    assert np.all((found.off_share[known] >= 0) & (found.off_share[known] <= 1))


@pytest.mark.parametrize("threshold", [None, 0.0, 300.0])
@pytest.mark.parametrize("eps", [0.0, 3.0, 9.0])
def test_usefulness_is_what_a_sample_shows(threshold, eps):
    task = MultiCluster(k=4, d=900, sigma=3.0, positive=1, probabilities=(0.4, 0.2, 0.2, 0.2))
    feature = UsefulFeature(task, np.array([1.0, 0.0, -0.5, 0.0]), threshold)
    value, error = measured_usefulness(feature, np.array([eps]), 40_000, 0)
    assert abs(value[0] - robust_usefulness(feature, eps)) < 5 * error[0] + 1e-4


def test_the_worst_perturbation_is_the_one_used():
    task = MultiCluster(k=4, d=100)
    feature = UsefulFeature(task, np.array([1.0, 0.0, -1.0, 0.0]), 20.0)
    points = task.sample(300, 0)
    x, weights = points.coordinates(4), feature.coefficients @ task.features
    unit = weights / np.linalg.norm(weights)
    rng = np.random.default_rng(0)
    ours = points.y * feature.values((x - 5.0 * points.y[:, None] * unit) @ weights)
    for _ in range(50):
        other = rng.normal(size=x.shape)
        other *= 5.0 / np.linalg.norm(other, axis=1, keepdims=True)
        assert np.all(ours <= points.y * feature.values((x + other) @ weights))


@pytest.mark.parametrize("leak", [0.0, 0.3])
@pytest.mark.parametrize("seed", range(3))
def test_best_margin_beats_all_random_networks_and_meets_its_bound(leak, seed):
    rng = np.random.default_rng(seed)
    x, activation = rng.normal(size=(5, 2)), LeakyReLU(leak)
    y = np.where(x[:, 0] > 0, 1, -1)
    found = best_margin(x, y, activation)
    assert found.upper == pytest.approx(found.lower, rel=1e-6)
    assert normalized_margin(found.net, x, y) == pytest.approx(found.lower, rel=1e-6)
    for _ in range(200):
        net = Shallow(rng.normal(size=(6, 2)), rng.normal(size=6), activation)
        assert normalized_margin(net, x, y) <= found.upper + 1e-12


def test_a_plane_holds_its_three_points():
    rng = np.random.default_rng(0)
    a, b, c = rng.normal(size=(3, 5))
    view = through(a, b, c)
    for point, other in itertools.combinations((a, b, c), 2):
        inside = view.place(np.stack([point, other]))
        assert np.linalg.norm(inside[0] - inside[1]) == pytest.approx(np.linalg.norm(point - other))
    back = view.points(np.array([1.0]), np.array([2.0]), 7)
    np.testing.assert_allclose(view.place(back), [[1.0, 2.0]], atol=1e-12)


@pytest.mark.parametrize(("make", "radius"), [(feature_averaging, 10**-0.5), (feature_decoupling, 6**-0.5)])
def test_minimal_perturbations_of_the_ideal_networks(make, radius):
    task = MultiCluster(k=10, d=400)
    moved = Shown("net", make(task), "averaged").nearest(task.features[0], 1)
    assert np.linalg.norm(moved) / 20 == pytest.approx(radius, rel=1e-6)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: Lattice(0), "m"),
        (lambda: Lattice(4, gap=0.7), "gap"),
        (lambda: OnSubspace(k=4, d=100, r=200), "r"),
        (lambda: OnSubspace(k=4, d=20, r=10).draw(5, 11, 0), "neurons"),
        (lambda: UsefulFeature(MultiCluster(k=4, d=9), np.zeros(4)), "coefficients"),
        (lambda: UsefulFeature(MultiCluster(k=4, d=9), np.ones(3)), "coefficients"),
        (lambda: best_margin(np.ones((2, 3)), np.array([1, -1]), LeakyReLU(0.1)), "x"),
        (lambda: through(np.zeros(2), np.ones(2), 2 * np.ones(2)), "points"),
    ],
)
def test_bad_input_is_named(make, name):
    with pytest.raises(InputError, match=name):
        make()
