"""What is measured, against slow and obvious twins."""

import numpy as np
import pytest

from featavg.data.clusters import MultiCluster
from featavg.data.compress import draw
from featavg.measures.accuracy import accuracy, fine_accuracy, wilson
from featavg.measures.alignment import block_cosines, cosines, equivalent_weights, neuron_groups
from featavg.nets.two_layer import binary, feature_averaging, feature_decoupling, grouped
from featavg.paper.figures.clean_error import exact_clean_error
from featavg.paper.theorems.recorders import (
    Activations,
    Coefficients,
    LossBalance,
    UngatedUpdates,
    projected_coefficients,
)
from featavg.training.recipe import Recipe
from featavg.training.train import train

RNG = np.random.default_rng(3)


@pytest.mark.parametrize("labels", ["coarse", "fine"])
@pytest.mark.parametrize("coordinates", ["compressed", "ambient"])
@pytest.mark.parametrize("geometry", [{}, {"cosine": 0.4}, {"norms": (5.0, 9.0, 14.0, 20.0)}])
def test_the_recursion_agrees_with_projection(labels, coordinates, geometry) -> None:
    task = MultiCluster(k=4, d=300, sigma=0.8, alpha=1.5, **geometry)
    recipe = Recipe(labels=labels, m=3, h=2, lr=0.01, sigma_w=1e-3, steps=30)
    data = draw(task, 60, recipe.neurons(4), seed=0, coordinates=coordinates)
    recursion = Coefficients(data)
    run = train(data, recipe, recorders=(recursion,))
    lambdas, sigmas = projected_coefficients(run.net.weights, run.initial.weights, data)
    np.testing.assert_allclose(recursion.feature, lambdas, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(recursion.sigma, sigmas, rtol=1e-7, atol=1e-9)
    assert recursion.errors.max() < 1e-12


def test_the_printed_quotient_does_not_rebuild_the_weights() -> None:
    data = draw(MultiCluster(k=4, d=300), 60, 6, seed=0)
    coefficients = Coefficients(data)
    run = train(data, Recipe(m=3, lr=0.01, steps=5), recorders=(coefficients,))
    assert coefficients.errors.max() < 1e-12
    # The lecture divides by |mu|^2 where the step multiplies: d^2 = 90,000 times too small.
    coefficients._lambdas[-1] = coefficients.feature / 300.0**2
    off = np.linalg.norm(coefficients.rebuilt() - run.net.weights)
    assert off > 0.1 * np.linalg.norm(run.net.weights)


def test_equivalent_weights_divide_a_class_equally() -> None:
    labels = np.array([1, 1, -1, -1])
    net = binary(np.arange(16.0).reshape(8, 2))
    assert [g.tolist() for g in neuron_groups(net, labels)] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    np.testing.assert_array_equal(equivalent_weights(net, labels)[1], [5.0, 6.0])
    few = binary(np.arange(4.0).reshape(2, 2))
    assert [g.tolist() for g in neuron_groups(few, labels)] == [[0], [0], [1], [1]]


def test_equivalent_weights_of_groups_are_their_means() -> None:
    net = grouped(RNG.normal(size=(6, 5)), 3)
    expected = net.weights.reshape(3, 2, 5).mean(axis=1)
    np.testing.assert_allclose(equivalent_weights(net, np.array([1, 1, -1])), expected)


def test_cosines_by_hand_and_in_a_batch() -> None:
    task = MultiCluster(k=4, d=300, cosine=0.2)
    nets = binary(RNG.normal(size=(3, 8, 6)))
    together = cosines(nets, task)
    features = task.features_in(6)
    w = nets.weights[1].reshape(4, 2, 6).mean(axis=1)
    by_hand = [[m @ v / np.linalg.norm(m) / np.linalg.norm(v) for v in w] for m in features]
    np.testing.assert_allclose(together[1], by_hand)


def test_block_cosines_split_the_matrix() -> None:
    labels = np.array([1, 1, -1, -1])
    blocks = np.where(labels[:, None] == labels, 0.5, -0.1)
    assert block_cosines(blocks, labels).same_class == pytest.approx(0.5)
    assert block_cosines(blocks, labels).other_class == pytest.approx(-0.1)


def test_activity_and_balance_by_hand() -> None:
    task = MultiCluster(k=4, d=300)
    data = draw(task, 40, 6, seed=0)
    active, balance = Activations(data), LossBalance(data)
    run = train(data, Recipe(m=3, lr=0.01, steps=7), recorders=(active, balance))
    z = run.net.preactivations(data.x)
    own = data.y[:, None] == np.repeat([1, -1], 3)
    assert active["own"][-1] == pytest.approx((z >= 0)[own].mean())
    assert active["other"][-1] == pytest.approx((z >= 0)[~own].mean())
    pull = 1 / (1 + np.exp(data.y * run.net(data.x)[:, 0]))
    worst = max(pull[data.y == s].max() / pull[data.y == s].min() for s in (1, -1))
    assert balance["ratio"][-1] == pytest.approx(worst)
    assert len(active["own"]) == 8
    means = {s: pull[data.y == s].mean() for s in (1, -1)}
    shares = [pull[data.clusters == j].sum() / (40 / 4 * means[s]) for j, s in enumerate(task.cluster_labels)]
    assert balance["clusters"][-1] == pytest.approx(np.abs(np.array(shares) - 1).max())


def test_updates_without_the_indicator_by_hand() -> None:
    task = MultiCluster(k=4, d=300)
    data = draw(task, 40, 6, seed=0)
    ungated = UngatedUpdates(data)
    run = train(data, Recipe(m=3, lr=0.01, steps=3), recorders=(ungated,))
    pull = -data.y / (1 + np.exp(data.y * run.net(data.x)[:, 0]))
    active = run.net.preactivations(data.x) >= 0
    worst = {True: 0.0, False: 0.0}
    for j in range(4):
        inside = data.clusters == j
        for r in range(6):
            whole, gated = pull[inside].sum(), pull[inside & active[:, r]].sum()
            own = (task.cluster_labels[j] == 1) == (r < 3)
            worst[own] = max(worst[own], abs(gated - whole) / abs(whole))
    assert ungated["own"][-1] == pytest.approx(worst[True], abs=1e-12)
    assert ungated["other"][-1] == pytest.approx(worst[False])
    assert worst[False] > 0.5


def test_wilson_is_the_textbook_interval() -> None:
    share = wilson(8, 10)
    assert (share.low, share.high) == (pytest.approx(0.4901625, abs=1e-6), pytest.approx(0.9433178, abs=1e-6))


def test_accuracy_counts_points() -> None:
    task = MultiCluster(k=4, d=20)
    points = task.sample(500, seed=0)
    net = feature_decoupling(task)
    values = net(points.coordinates(4))[:, 0]
    assert accuracy(net, points).value == pytest.approx((np.sign(values) == points.y).mean())
    own = grouped(task.features.copy(), 4)
    right = own(points.coordinates(4)).argmax(axis=1) == points.clusters
    assert fine_accuracy(own, points).value == pytest.approx(right.mean())


@pytest.mark.parametrize("positive", [1, 2, 3])
def test_the_exact_clean_error_is_the_measured_one(positive: int) -> None:
    task = MultiCluster(k=4, d=12, positive=positive)
    error = 1 - accuracy(feature_averaging(task), task.sample(200_000, seed=0)).value
    exact = exact_clean_error(task)
    assert abs(error - exact) < 4 * np.sqrt(exact / 200_000)
