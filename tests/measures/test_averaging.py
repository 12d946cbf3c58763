"""The averaging index: 1 for the average and 0 for one feature, whatever the geometry."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from featavg.data.clusters import MultiCluster
from featavg.errors import InputError
from featavg.measures.alignment import cosines
from featavg.measures.averaging import _interval, averaging_index, averaging_index_of, evenness, feature_coefficients
from featavg.nets.two_layer import binary, feature_averaging, feature_decoupling, grouped
from featavg.training.steppers import Adam
from featavg.training.train import train

RNG = np.random.default_rng(3)
LEAVES = [RNG.normal(size=(6, 9)) * RNG.uniform(0.2, 5.0, size=(6, 1)) for _ in range(4)]
GEOMETRIES = [
    *({"k": 10, "cosine": c} for c in (-1 / 9, -0.05, 0.0, 0.3, 0.6, 0.9, 0.95)),
    {"k": 6, "norms": (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)},
    {"k": 7, "positive": 2},
    *({"k": 6, "gram": leaf @ leaf.T} for leaf in LEAVES),
]


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
def test_one_for_the_average_and_zero_for_one_feature_in_every_geometry(geometry) -> None:
    task = MultiCluster(d=100, **geometry)
    averaged = averaging_index(feature_averaging(task), task)
    assert averaged.value == pytest.approx(1.0, abs=1e-9)
    assert averaged.interval == pytest.approx((1.0, 1.0), abs=1e-9)
    decoupled = averaging_index(feature_decoupling(task), task)
    assert decoupled.neurons == pytest.approx(0.0, abs=1e-9)
    assert decoupled.share == pytest.approx(1.0)
    assert 0.0 < averaged.null < 0.35


def test_signs_are_kept() -> None:
    task = MultiCluster(k=10, d=100)
    mu = task.features
    weights = np.stack([np.array([1, -1, 1, -1, 1]) @ mu[:5], -mu[5:].sum(axis=0)])
    assert averaging_index(binary(weights), task).neurons == pytest.approx([0.2, 0.0])
    # One large wrong feature outweighs four right ones.
    weights[0] = np.array([1, 1, 1, 1, -10]) @ mu[:5]
    assert averaging_index(binary(weights), task).neurons[0] == 0.0


def test_an_even_nothing_is_no_average() -> None:
    """Adam at the paper's setting: cosines of 0.02 with every feature, evenness 0.998."""
    task = MultiCluster(k=10, d=3072)
    net = train(task, n=100, lr=1e-3, steps=20, stepper=Adam()).net
    assert cosines(net, task)[0, 0] < 0.1
    index = averaging_index(net, task)
    assert index.evenness > 0.9
    assert index.share < 0.05
    assert index.value < 0.05
    # The same by hand: a sliver of the average, and much of a direction outside the span.
    away = np.zeros((2, 3072))
    away[:, 20] = 1e4
    sliver = binary(0.1 * feature_averaging(task, 3072).weights + away)
    assert averaging_index(sliver, task).value < 0.01


def test_the_null_is_what_random_neurons_have() -> None:
    task = MultiCluster(k=10, d=40, cosine=0.5)
    random = averaging_index(binary(RNG.normal(size=(4000, 40))), task)
    low, high = random.null_interval
    assert low < random.null < high
    assert random.value == pytest.approx(random.null, abs=0.006)
    assert random.share == pytest.approx(10 / 40, abs=0.01)
    low, high = random.interval
    assert low < random.value < high
    assert high - low < 0.02


def test_the_interval_is_over_networks() -> None:
    task = MultiCluster(k=4, d=40)
    nets = binary(np.stack([feature_averaging(task, 40).weights + RNG.normal(size=(2, 40))] * 3))
    index = averaging_index(nets, task)
    assert index.interval == pytest.approx((index.value, index.value))
    units = RNG.normal(size=(5, 2, 40))
    index = averaging_index(binary(feature_averaging(task, 40).weights + units), task)
    means = index.neurons.mean(axis=1)
    half = 2.7764451 * means.std(ddof=1) / np.sqrt(5)
    low, high = index.interval
    assert low <= means.mean() - half
    assert high >= min(means.mean() + half, 1.0)
    assert float(index) == index.value == index.mean
    assert len(repr(index)) < 160


LAWS = {
    "chi-square": np.clip(RNG.chisquare(1, 20_000) * 0.01, 0, 1),
    "near zero": RNG.beta(0.5, 2, 20_000),
    "near one": RNG.beta(5, 0.5, 20_000),
    "between": RNG.beta(2, 2, 20_000),
}


@pytest.mark.parametrize("law", LAWS)
def test_the_interval_of_ten_neurons_covers_their_mean(law) -> None:
    """Student's interval alone covers 84% to 90% of the first three."""
    ends = np.array([_interval(row) for row in RNG.choice(LAWS[law], (2000, 10))])
    mean = LAWS[law].mean()
    assert ((ends[:, 0] <= mean) & (mean <= ends[:, 1])).mean() >= 0.88


def test_dependent_features_are_refused() -> None:
    """Coefficients are not unique there: f_FA would have 0.59 and f_FD 0.15."""
    features = RNG.normal(size=(6, 4)) @ np.eye(4, 9)
    with pytest.raises(InputError, match="6 of rank 4"):
        averaging_index_of(binary(RNG.normal(size=(4, 9))), features, np.array([1, 1, 1, -1, -1, -1]))


def test_coefficients_are_the_least_squares_ones() -> None:
    mu, w = RNG.normal(size=(4, 9)), RNG.normal(size=(3, 9))
    slow = np.linalg.lstsq(mu.T, w.T, rcond=None)[0].T
    np.testing.assert_allclose(feature_coefficients(w, mu), slow)
    with pytest.raises(InputError, match="zero vector"):
        feature_coefficients(w, np.zeros((2, 9)))


@given(st.lists(st.floats(-10, 10).filter(lambda a: abs(a) > 1e-3), min_size=2, max_size=8), st.floats(1e-90, 1e90))
def test_evenness_has_no_unit(coefficients, scale) -> None:
    even = float(evenness(np.array(coefficients)))
    assert 0.0 <= even <= 1 + 1e-12
    assert evenness(scale * np.array(coefficients)) == pytest.approx(even)


def test_it_is_undefined_where_a_class_has_one_feature() -> None:
    task = MultiCluster(k=3, d=30, positive=1)
    index = averaging_index(feature_averaging(task), task)
    assert np.isnan(index.neurons[0])
    assert index.neurons[1] == pytest.approx(1.0)
    two = MultiCluster(k=2, d=9)
    assert np.isnan(averaging_index(feature_averaging(two), two).value)


def test_a_task_of_another_size_is_refused() -> None:
    ten, four = MultiCluster(k=10, d=300), MultiCluster(k=4, d=40)
    for measure in (averaging_index, cosines):
        with pytest.raises(InputError, match="outputs"):
            measure(grouped(RNG.normal(size=(10, 20)), 10), four)
        with pytest.raises(InputError, match="coordinates"):
            measure(feature_averaging(ten, 300), four)
    with pytest.raises(InputError, match="features"):
        averaging_index_of(grouped(RNG.normal(size=(4, 9)), 4), RNG.normal(size=(3, 9)), np.ones(3, int))
