"""The label budget: its prediction against training, on tasks and on features, and its refusals."""

import json
from dataclasses import replace

import numpy as np
import pytest

import featavg as fa
from featavg.audit.label_budget import _reaches
from featavg.errors import InputError
from featavg.simulate.label_means import mean_network, two_coefficients

SHARES = (0.0, 0.05, 0.2, 1.0)
QUICK = {"shares": SHARES, "seeds": (0, 1), "points": 10}


def test_the_prediction_meets_what_training_gives() -> None:
    found = fa.label_budget(fa.MultiCluster(k=10, d=3072), **QUICK)
    measured, predicted = found.radius.mean(axis=1), found.predicted_radius.mean(axis=1)
    np.testing.assert_allclose(predicted, measured, rtol=0.1)
    np.testing.assert_allclose(found.predicted_index.mean(1), found.index.mean(1), atol=0.1)
    assert found.share is not None
    assert 0.5 < found.predicted_share / found.share < 2
    assert json.loads(json.dumps(found.to_json()))["goal"] == 0.9
    alone = [100 * _reaches(SHARES, found.radius[:, [seed]], 0.9) for seed in (0, 1)]
    assert f"({min(alone):.2g}% to {max(alone):.2g}% by seed)" in repr(found)
    assert found.figure().panels


def test_features_have_a_budget_too_and_unknown_rows_are_left_out() -> None:
    rng = np.random.default_rng(0)
    classes = np.arange(400) % 4
    x = np.maximum(4 * np.abs(rng.standard_normal((4, 20)))[classes] + rng.normal(size=(400, 20)), 0)
    groups = np.array([0, 0, 1, 1])
    found = fa.label_budget(x, classes, groups, **QUICK)
    more = np.concatenate([x, np.full((50, 20), 9.0)])
    again = fa.label_budget(more, np.concatenate([classes, np.full(50, -1)]), groups, **QUICK)
    np.testing.assert_array_equal(found.radius, again.radius)
    np.testing.assert_allclose(found.predicted_radius.mean(1), found.radius.mean(1), rtol=0.35)
    order = np.argsort(classes, kind="stable")
    ordered = fa.label_budget(x[order], classes[order], groups, **QUICK)
    np.testing.assert_allclose(ordered.predicted_radius.mean(1), ordered.radius.mean(1), rtol=0.35)


def test_it_is_refused_where_classes_overlap_or_nothing_is_gained() -> None:
    noisy = fa.label_budget(fa.MultiCluster(k=4, d=50, sigma=10.0), **QUICK)
    assert noisy.share is None
    assert "overlap" in repr(noisy)
    alone = fa.label_budget(fa.MultiCluster(k=2, d=500), **QUICK)
    assert "less than 5%" in alone.refused


def test_without_noise_and_by_equal_numbers_the_means_follow_two_coefficients() -> None:
    task = fa.MultiCluster(k=10, d=3072, sigma=1e-6)
    recipe = fa.Recipe(labels=fa.Labels(share=0.1))
    radii = []
    for seed in range(3):
        means = mean_network(task, recipe, n=10**6, seed=seed)
        exact = fa.radii(
            means.net, means.points, task.cluster_labels, readout="max", positive=task.positive_clusters, jobs=1
        )
        radii.append(exact.median[1])
    np.testing.assert_allclose(radii, two_coefficients(10, 3072, 0.1)[2], rtol=0.01)


@pytest.mark.parametrize(
    "given",
    [
        {"shares": (0.1, 1.0)},
        {"shares": (0.0, 2.0)},
        {"goal": 1.0},
        {"labels": "coarse"},
        {"task": np.ones((4, 2))},
        {"task": np.ones((4, 2)), "classes": [0, 1, 0, 1], "groups": [0, 1], "steps": 3},
        {"labels": fa.Labels(per_cluster=2)},
        {"pooling": "maximum"},
    ],
)
def test_bad_budgets_are_refused(given) -> None:
    with pytest.raises(InputError):
        fa.label_budget(**({"task": fa.MultiCluster(k=4, d=50)} | given))


def test_a_prediction_without_gain_gives_no_share() -> None:
    curve = np.array([[3.0], [2.0], [2.5], [2.0]])
    assert _reaches(SHARES, curve, 0.9) is None
    assert _reaches(SHARES, np.array([[1.0], [2.0], [2.0], [2.0]]), 0.9) == pytest.approx(0.045)
    found = fa.label_budget(fa.MultiCluster(k=4, d=500), n=100, **QUICK)
    assert "(predicted no gain)" in replace(found, predicted_share=None).summary()
