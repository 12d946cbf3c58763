"""Measures by hand, on numbers that tell every factor, sign and index apart."""

from __future__ import annotations

import math

import numpy as np
import pytest

from featavg.data.clusters import MultiCluster
from featavg.data.compress import draw
from featavg.errors import InputError
from featavg.measures import svm
from featavg.measures.alignment import block_cosines, cosine_matrix, equivalent_weights, neuron_signs, require_size
from featavg.measures.averaging import averaging_index
from featavg.measures.collapse import collapse
from featavg.measures.margin import kkt, margins, sample_margins
from featavg.measures.shared_gradient import _matrix, _one_hot
from featavg.nets.activations._activation import LeakyReLU
from featavg.nets.deep import Deep
from featavg.nets.two_layer import binary, grouped
from featavg.paper.connections.hinted_margin import best_margin, normalized_margin
from featavg.paper.theorems.recorders import Coefficients, UngatedUpdates, projected_coefficients
from featavg.training.losses._binary import Logistic
from featavg.training.objectives import TwoLayerObjective
from featavg.training.recipe import Recipe
from featavg.training.train import train

# Alignment.


def test_cosines_have_signs_and_no_lengths() -> None:
    rows, columns = np.array([[2.0, 0.0], [0.0, 0.0]]), np.array([[-3.0, 4.0]])
    np.testing.assert_allclose(cosine_matrix(rows, columns), [[-0.6], [0.0]])


def test_blocks_with_and_without_their_diagonal() -> None:
    matrix = np.array([[1.0, 0.2, 7.0], [0.4, 1.0, 8.0], [9.0, 10.0, 1.0]])
    labels = np.array([1, 1, -1])
    whole, rest = (block_cosines(matrix, labels, diagonal) for diagonal in (True, False))
    assert whole.same_class == pytest.approx(3.6 / 5)
    assert rest.same_class == pytest.approx(0.3)
    assert whole.other_class == rest.other_class == pytest.approx(8.5)


def test_a_group_is_the_mean_of_its_neurons() -> None:
    net = grouped(np.array([[1.0, 0.0], [3.0, 2.0], [0.0, 5.0], [0.0, 7.0]]), 2)
    np.testing.assert_allclose(equivalent_weights(net, np.array([1, -1])), [[2.0, 1.0], [0.0, 6.0]])
    assert neuron_signs(binary(np.eye(4))).tolist() == [1, 1, -1, -1]
    with pytest.raises(InputError, match="task has 3 clusters"):
        require_size(net, MultiCluster(k=3, d=9))


def test_groups_are_measured_on_the_features_of_their_class() -> None:
    """Each output's neuron is the sum of its own class: an average, and none of the other class."""
    task = MultiCluster(k=4, d=9)
    sums = np.array([task.features[task.cluster_labels == y].sum(axis=0) for y in (1, 1, -1, -1)])
    found = averaging_index(grouped(sums, 4), task)
    np.testing.assert_allclose(found.neurons, 1.0)


# The decomposition of weights.


@pytest.mark.parametrize("coordinates", ["compressed", "ambient"])
def test_coefficients_with_every_factor_another_number(coordinates: str) -> None:
    task = MultiCluster(k=2, d=60, alpha=3.0, sigma=0.5, norms=(2.0, 5.0))
    data = draw(task, 6, 4, seed=0, coordinates=coordinates)
    seen = Coefficients(data)
    run = train(data, Recipe(m=2, lr=0.01, sigma_w=0.1, steps=3), recorders=(seen,))
    assert seen.errors.max() < 1e-12
    lambdas, sigmas = projected_coefficients(run.net.weights, run.initial.weights, data)
    np.testing.assert_allclose(seen.feature, lambdas, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(seen.sigma, sigmas, rtol=1e-8, atol=1e-10)
    # Without noise in the way: a step adds rate * alpha |mu|^2 / (m n) of each pull.
    assert (np.abs(seen.history[1:] - seen.history[:-1]) > 0).any()
    again = Coefficients(data)
    again.restore(seen.arrays())
    np.testing.assert_array_equal(again.history, seen.history)
    np.testing.assert_array_equal(again.sigma, seen.sigma)


def test_ungated_updates_are_the_worst_over_clusters_and_neurons() -> None:
    """Random neurons, each off on other points: the largest error, not some mean of them."""
    data = draw(MultiCluster(k=4, d=60), 30, 6, seed=1, coordinates="ambient")
    net = binary(data.unit_weights)
    objective = TwoLayerObjective(data.x, data.y, net, Logistic())
    evaluation = objective.evaluate(objective.params_of(net))
    found = UngatedUpdates(data).take(evaluation)
    errors: dict[bool, list[float]] = {True: [], False: []}
    for r, sign in enumerate(neuron_signs(net)):
        for j in range(4):
            inside = data.clusters == j
            pulls = (evaluation.loss.slopes @ net.head)[inside, r]
            gated = (pulls * (evaluation.preactivations[inside, r] >= 0)).sum()
            own = bool(data.task.cluster_labels[j] == sign)
            errors[own].append(abs(gated - pulls.sum()) / abs(pulls.sum()))
    assert found["own"] == pytest.approx(max(errors[True]))
    assert found["other"] == pytest.approx(max(errors[False]))
    assert found["own"] > 1.2 * np.mean(errors[True])


# Margins.


def test_margins_by_hand() -> None:
    outputs, targets = np.array([[3.0, 1.0, 2.5], [0.0, 4.0, 1.0]]), np.array([0, 1])
    assert sample_margins(outputs, targets).tolist() == [0.5, 3.0]
    logs = np.log(np.array([0.25, 0.5]))
    found = margins(outputs, targets, logs, np.float64(2.0), 3)
    assert found.normalized == pytest.approx(0.5 / 8)
    assert found.smoothed == pytest.approx(-math.log(0.75) / 8)
    assert found.slack == pytest.approx(math.log(2.0) / 8)
    np.testing.assert_allclose(sample_margins(np.array([[2.0]]), np.array([-1])), [-2.0])


def test_a_kkt_point_of_two_layers_by_hand() -> None:
    """One neuron a class on two points: theta = (w, v) with |w_r| = |v_r| is a KKT point.

    q = (4, 4) for weights (2, 0), (0, 2) and head (2, -2), so theta / 2 has margins of one and is
    the sum of its gradients: d q_1 / d w_1 = v_1 x_1 and d q_1 / d v_1 = w_1 x_1.
    """
    net = Deep((2.0 * np.eye(2), np.array([[2.0, -2.0]])))
    found = kkt(net, np.eye(2), np.array([1, -1]), kink=1e-9)
    assert found.stationarity == pytest.approx(0.0, abs=1e-9)
    assert found.complementarity == pytest.approx(0.0, abs=1e-9)
    np.testing.assert_allclose(found.multipliers, [1.0, 1.0], rtol=1e-6)
    assert found.support == 2
    # A third point far beyond the margin has no multiplier, and stretching changes nothing.
    x = np.array([[1.0, 0.0], [0.0, 1.0], [9.0, -1.0]])
    more = kkt(Deep((6.0 * np.eye(2), np.array([[6.0, -6.0]]))), x, np.array([1, -1, 1]))
    assert more.support == 2
    assert more.complementarity == pytest.approx(0.0, abs=1e-6)


def test_kkt_numbers_do_not_depend_on_the_size_of_the_weights() -> None:
    """Three balanced layers with a margin of one have |theta|^2 = 3 = 3 times their multiplier."""
    for a in (1.0, 2.0):
        deep = Deep((np.array([[a]]), np.array([[a]]), np.array([[a]])))
        found = kkt(deep, np.ones((1, 1)), np.array([1]))
        assert found.multipliers.tolist() == [pytest.approx(1.0)]
    # theta = (2, 1) and its gradient (1, 2) have the cosine 4/5: what is left is 3/5 of theta.
    plain = Deep((np.array([[2.0]]), np.array([[1.0]])))
    found = kkt(plain, np.ones((1, 1)), np.array([1]))
    assert found.stationarity == pytest.approx(0.6)


def test_a_kink_pulls_a_negative_point_the_right_way() -> None:
    """x_2 = (0, 1) lies on the kink of the first neuron, (2, 0), which then may owe it a part.

    Turned towards the negative point the first neuron would lower its margin: with w_1 = (2, -e) the
    missing -e is what the kink of the negative point adds.
    """
    e = 1e-3
    net = Deep((np.array([[2.0, -e], [0.0, 2.0]]), np.array([[2.0, -2.0]])))
    found = kkt(net, np.eye(2), np.array([1, -1]), kink=1e-2)
    assert found.kinks == 2
    assert found.stationarity < 0.1 * e


# The SVM and its proof.

POINTS, LABELS = np.array([[2.0, 0.0], [0.0, 2.0], [-3.0, 0.0]]), np.array([1, 1, -1])


def test_multipliers_build_the_direction() -> None:
    found = svm.max_margin(POINTS, LABELS)
    np.testing.assert_allclose((found.multipliers * LABELS) @ POINTS, found.w, atol=1e-12)
    assert np.linalg.norm(found.direction) == pytest.approx(1.0)
    assert abs(found.gap) < 1e-12


@pytest.mark.parametrize(
    ("shrink", "share", "gap"),
    [
        (1.0, 1.0, 0.0),
        (0.5, 1.0, 0.0),  # scaled up until every point has its margin, it is the solution
        (1.0, 0.5, 0.25),  # half the multipliers: 2 (a - a^2 / 2) of the dual at a = 1/2
    ],
)
def test_the_gap_is_what_is_missing(monkeypatch, shrink: float, share: float, gap: float) -> None:
    right = svm._solve

    def wrong(rows):
        w, alpha = right(rows)
        return shrink * w, share * alpha

    monkeypatch.setattr(svm, "_solve", wrong)
    assert svm.max_margin(POINTS, LABELS).gap == pytest.approx(gap, abs=1e-12)
    if gap:
        with pytest.raises(ArithmeticError, match="duality gap"):
            svm.checked_max_margin(POINTS, LABELS)
    else:
        svm.checked_max_margin(POINTS, LABELS)


def test_the_best_margin_is_attained_and_certified() -> None:
    x, y = np.array([[1.0, 0.2], [-1.0, 0.4], [0.3, -1.0]]), np.array([1, -1, -1])
    found = best_margin(x, y, LeakyReLU(0.5))
    assert normalized_margin(found.net, x, y) == pytest.approx(found.lower)
    assert found.lower <= found.upper + 1e-12
    assert found.upper == pytest.approx(found.lower, rel=1e-6)


# Collapse and shared gradients.


def test_collapse_by_hand() -> None:
    """Means at +-2 on a line, points 1 away from them: S_W = 1 and S_B = 4, so NC1 is 1/8."""
    x = np.array([[3.0, 0.0], [1.0, 0.0], [-3.0, 0.0], [-1.0, 0.0]])
    found = collapse(x, np.array([0, 0, 1, 1]))
    assert found.nc1 == pytest.approx(1 / 8)
    assert found.nc2 == pytest.approx(0.0)
    # Three orthogonal means: cosines of the centred ones are -1/2, a simplex.
    assert collapse(np.eye(3), np.arange(3)).nc2 == pytest.approx(0.0, abs=1e-12)
    # Means at the corners of a square: cosines 0, 0 and -1, where a simplex has -1/3.
    square = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])
    assert collapse(square, np.arange(4)).nc2 == pytest.approx((1 / 3 + 1 / 3 + 2 / 3) / 3)


def test_shared_gradients_do_not_count_noise_as_signal() -> None:
    """g = (1, +-1): the mean is (1, 0), and U = (2 * 1 - 2) / 1 = 0; with three samples by hand."""
    gradients = np.array([[1.0, 1.0], [1.0, -1.0], [1.0, 0.0], [2.0, 0.0], [4.0, 0.0]])
    fine = np.array([0, 0, 0, 1, 1])
    found = _matrix(gradients @ gradients.T, _one_hot(fine, 2))
    # U_0 = (9 - 5) / 6, U_1 = (36 - 20) / 2, and <g_0, g_1> = 3.
    assert found[0, 1] == pytest.approx(3.0 / math.sqrt(4 / 6 * 8.0))
    assert np.isnan(_matrix(gradients[:2] @ gradients[:2].T, np.ones((1, 2)))).all()
