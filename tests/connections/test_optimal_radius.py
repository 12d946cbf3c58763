"""The limit of Min and Vidal (2025): where it comes from, where it is tight, and the Bayes rule."""

import math

import numpy as np
import pytest

from featavg.data.clusters import MultiCluster
from featavg.paper.connections.optimal_radius import bayes_radii, limit, shared_noise_points

TASKS = [MultiCluster(k=20, d=200, positive=12, sigma=0.1), MultiCluster(k=10, d=200, positive=2)]


@pytest.mark.parametrize("task", TASKS, ids=repr)
def test_points_of_two_clusters_share_their_midpoint_at_the_limit(task):
    x, y = shared_noise_points(task, 3, task.d, seed=0)
    draws = x.reshape(3, task.k, task.d)
    up, down = task.class_clusters(1), task.class_clusters(-1)
    half = np.linalg.norm(draws[:, up[0]] - draws[:, down[0]], axis=1) / 2
    np.testing.assert_allclose(half, math.sqrt(task.d / 2))
    assert (y.reshape(3, task.k) == task.cluster_labels).all()


@pytest.mark.parametrize("task", TASKS, ids=repr)
def test_the_limit_is_what_a_constant_classifier_attains(task):
    """It is right about the larger class at every radius, and never about the other one."""
    _, y = shared_noise_points(task, 3, task.d, seed=0)
    larger = 1 if len(task.class_clusters(1)) > task.k / 2 else -1
    assert np.mean(y == larger) == pytest.approx(limit(task))


def test_within_the_certified_radius_the_bayes_rule_does_not_flip():
    """Against its plain formula, towards every rival."""
    task = MultiCluster(k=5, d=200, positive=2, sigma=1.0)
    x, y = shared_noise_points(task, 2, task.d, seed=1)
    certified = bayes_radii(task, x, y)
    features = task.features_in(task.d)

    def decision(points):
        scores = points @ features.T / task.sigma**2
        best = [np.logaddexp.reduce(scores[:, task.class_clusters(label)], axis=1) for label in (1, -1)]
        return best[0] - best[1]

    assert (certified > 0.8 * math.sqrt(task.d / 2)).mean() > 0.5
    flips = np.zeros(len(x), dtype=bool)
    for own in range(task.k):
        for rival in range(task.k):
            if task.cluster_labels[own] == task.cluster_labels[rival]:
                continue
            step = (features[rival] - features[own]) / np.linalg.norm(features[rival] - features[own])
            mine = y == task.cluster_labels[own]
            inside, outside = (x + (f * certified)[:, None] * step for f in (0.999, 1.1))
            assert (y * decision(inside) > 0)[mine & (certified > 0)].all()
            flips |= mine & (y * decision(outside) < 0)
    # The certificate is nearly what is true: some rival flips most points a tenth farther.
    assert flips.mean() > 0.5
