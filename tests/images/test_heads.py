"""Heads on frozen features: no class is lost, averages are found, radii are exact."""

import numpy as np
import pytest

from featavg.errors import InputError
from featavg.paper.images.features import FeatureSet
from featavg.paper.images.heads import head_radii, trained_heads
from featavg.paper.images.superclasses import figure, superclass_heads
from featavg.training.heads import HeadRecipe, class_features, initial_head, lost_classes, train_head


@pytest.fixture(scope="module")
def features():
    """Non-negative activations of ten classes, like those behind a last ReLU."""
    rng = np.random.default_rng(0)
    mu = 1.0 + 0.5 * np.abs(rng.standard_normal((10, 40))) + 2.0 * np.repeat(np.eye(10), 4, axis=1)

    def draw(n):
        classes = np.arange(n) % 10
        return np.maximum(mu[classes] + 0.3 * rng.standard_normal((n, 40)), 0.0), classes

    groups = (np.arange(10) < 5).astype(int)
    return FeatureSet(*draw(600), *draw(200), groups, "made up")


def test_class_features_are_means(features):
    mu = class_features(features.train, features.train_classes, 10)
    assert np.allclose(mu[3], features.train[features.train_classes == 3].mean(axis=0))


def test_awake_neurons_all_see_the_data_and_gaussian_ones_do_not(features):
    alive = {}
    for start in ("awake", "gaussian"):
        net = initial_head(
            features.train, features.train_classes, features.groups, "fine", HeadRecipe(start=start), seed=0
        )
        mu = class_features(features.train, features.train_classes, 10)
        own = np.repeat(np.arange(10), 3)
        alive[start] = (net.preactivations(mu)[own, np.arange(30)] > 0).mean()
    assert alive["awake"] == 1.0
    assert alive["gaussian"] < 0.8


@pytest.mark.parametrize("seed", range(3))
def test_no_class_is_lost(features, seed):
    net = train_head(features.train, features.train_classes, features.groups, "fine", HeadRecipe(), seed)
    assert lost_classes(net, features.train, features.train_classes) == []


def test_class_labels_average_and_fine_labels_do_not(features):
    nets, coarse = trained_heads(features, "coarse", (0, 1))
    fine_nets, fine = trained_heads(features, "fine", (0, 1))
    assert coarse["index"].mean() > fine["index"].mean()
    assert coarse["accuracy"].min() > 0.95
    assert fine["fine_accuracy"].min() > 0.95
    assert coarse["cosine"].shape == (2, 10, 10)
    averaged, decoupled = (head_radii(net[0], features, "max", points=30) for net in (nets, fine_nets))
    assert decoupled.median[0] > averaged.median[1]
    assert decoupled.gaps.max() < 1e-6


def test_the_scale_of_activations_does_not_matter(features):
    nets = [
        train_head(scale * features.train, features.train_classes, features.groups, "coarse", HeadRecipe(steps=50), 0)
        for scale in (1.0, 1000.0)
    ]
    one, other = nets[0](features.test), nets[1](1000 * features.test)
    assert np.mean(np.sign(one) == np.sign(other)) > 0.97


@pytest.mark.parametrize("change", [{"h": 0}, {"rate": 0.0}, {"start": "asleep"}])
def test_bad_recipes_are_refused(change):
    with pytest.raises(InputError):
        HeadRecipe(**change)


def test_superclasses(features):
    groups = np.repeat(np.arange(5), 2)
    five = FeatureSet(**(vars(features) | {"groups": groups}))
    table = superclass_heads(five, (0,), points=40, budget=30)
    assert table["accuracy"].sel(of="coarse") > 0.9
    assert table["index"].sel(labels="coarse") > table["index"].sel(labels="fine")
    assert table["lost"].values.tolist() == [[0, 0]]
    assert len(figure(table, "made up").panels[0].series) == 4
