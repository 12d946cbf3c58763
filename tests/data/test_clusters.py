"""The multi-cluster distribution: geometry, sampling, and what is refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from featavg.data.clusters import MultiCluster
from featavg.errors import InputError

GRAM = [[4.0, 1.0, 0.0], [1.0, 9.0, 2.0], [0.0, 2.0, 1.0]]

GEOMETRIES = {
    "orthogonal": ({"k": 4, "d": 100}, 100.0 * np.eye(4)),
    "cosine": ({"k": 2, "d": 9, "cosine": 0.5}, [[9.0, 4.5], [4.5, 9.0]]),
    "lowest cosine": ({"k": 2, "d": 9, "cosine": -1.0}, [[9.0, -9.0], [-9.0, 9.0]]),
    "norms": ({"k": 2, "d": 9, "norms": (1.0, 2.0)}, [[1.0, 0.0], [0.0, 4.0]]),
    "gram": ({"k": 3, "d": 9, "gram": GRAM}, GRAM),
    "dependent features": ({"k": 2, "d": 9, "gram": [[1.0, 1.0], [1.0, 1.0]]}, np.ones((2, 2))),
    "random": ({"k": 4, "d": 100, "orientation": "random"}, 100.0 * np.eye(4)),
}


@pytest.mark.parametrize("name", GEOMETRIES)
def test_features_have_the_stated_inner_products(name: str) -> None:
    options, gram = GEOMETRIES[name]
    task = MultiCluster(**options)
    features = task.features_in(task.d)
    np.testing.assert_allclose(features @ features.T, gram, atol=1e-9)


REFUSED = {
    "negative k": ({"k": -3, "d": 10}, "k is -3"),
    "one cluster": ({"k": 1, "d": 10}, "k is 1"),
    "d below k": ({"k": 5, "d": 4}, "d is 4, below k = 5"),
    "cosine of one": ({"k": 3, "d": 10, "cosine": 1.0}, "cosine is 1.0"),
    "cosine too low": ({"k": 3, "d": 10, "cosine": -0.6}, "cosine is -0.6"),
    "impossible gram": ({"k": 2, "d": 10, "gram": [[1.0, 2.0], [2.0, 1.0]]}, "gram has eigenvalue"),
    "asymmetric gram": ({"k": 2, "d": 10, "gram": [[1.0, 0.5], [0.0, 1.0]]}, "gram is not a symm"),
    "nan gram": ({"k": 2, "d": 10, "gram": [[1.0, np.nan], [np.nan, 1.0]]}, "gram is not a symm"),
    "gram shape": ({"k": 3, "d": 10, "gram": [[1.0]]}, "gram has shape"),
    "gram beside norms": ({"k": 2, "d": 10, "gram": np.eye(2), "norms": 1.0}, "gram is given"),
    "zero norm": ({"k": 2, "d": 10, "norms": 0.0}, "norms are not positive"),
    "empty class": ({"k": 2, "d": 10, "positive": 0}, "positive leaves a class empty"),
    "full class": ({"k": 2, "d": 10, "positive": [True, True]}, "positive leaves a class empty"),
    "all indices": ({"k": 3, "d": 10, "positive": [0, 1, 2]}, "positive has 3 numbers"),
    "cluster out of range": ({"k": 2, "d": 10, "positive": [2]}, "positive names clusters"),
    "probabilities": ({"k": 2, "d": 10, "probabilities": [0.5, 0.6]}, "probabilities are not"),
    "negative sigma": ({"k": 2, "d": 10, "sigma": -1.0}, "sigma is -1.0"),
    "nan alpha": ({"k": 2, "d": 10, "alpha": float("nan")}, "alpha is nan"),
    "orientation": ({"k": 2, "d": 10, "orientation": "up"}, "orientation is 'up'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_impossible_task_is_refused_in_one_sentence(name: str) -> None:
    options, words = REFUSED[name]
    with pytest.raises(InputError) as caught:
        MultiCluster(**options)
    assert str(caught.value).startswith(words)
    assert "\n" not in str(caught.value)


def test_the_partition_can_be_a_count_or_a_list() -> None:
    assert MultiCluster(k=5, d=9, positive=1).cluster_labels.tolist() == [1, -1, -1, -1, -1]
    assert MultiCluster(k=3, d=9, positive=[0, 2]).cluster_labels.tolist() == [1, -1, 1]
    assert MultiCluster(k=5, d=9).positive_count == 2


@given(dimension=st.integers(4, 40), seed=st.integers(0, 5))
@settings(max_examples=20)
def test_coordinates_are_a_beginning_of_more_coordinates(dimension: int, seed: int) -> None:
    points = MultiCluster(k=4, d=60).sample(7, seed)
    np.testing.assert_array_equal(points.coordinates(dimension), points.x[:, :dimension])


def test_points_scatter_around_their_feature_with_the_stated_probabilities() -> None:
    task = MultiCluster(k=2, d=5, alpha=3.0, sigma=0.5, probabilities=[0.8, 0.2])
    points = task.sample(20_000, seed=3)
    assert abs((points.clusters == 0).mean() - 0.8) < 0.015
    rest = points.x - 3.0 * task.features_in(5)[points.clusters]
    np.testing.assert_allclose(rest.std(axis=0), 0.5, rtol=0.03)
    np.testing.assert_allclose(rest.mean(axis=0), 0.0, atol=0.02)


def test_a_test_sample_is_not_the_training_sample_of_the_same_seed() -> None:
    from featavg.data.compress import draw

    task = MultiCluster(k=2, d=10)
    train = draw(task, 20, 4, seed=0, coordinates="ambient")
    assert not np.allclose(np.sort(train.x, axis=0), np.sort(task.sample(20, 0).x, axis=0))


def test_a_random_orientation_has_no_short_form() -> None:
    with pytest.raises(InputError, match="orientation is random"):
        MultiCluster(k=2, d=100, orientation="random").features_in(10)


def test_settings_rebuild_the_task() -> None:
    task = MultiCluster(k=3, d=9, gram=GRAM, positive=[2], probabilities=[0.2, 0.3, 0.5], alpha=2.0)
    again = MultiCluster(**task.settings())
    np.testing.assert_array_equal(again.features, task.features)
    np.testing.assert_array_equal(again.cluster_labels, task.cluster_labels)
