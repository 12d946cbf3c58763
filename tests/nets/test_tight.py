"""Networks and read-outs where a factor, a sign or an axis that is lost shows."""

from __future__ import annotations

import math

import numpy as np
import pytest

from featavg.data.clusters import MultiCluster
from featavg.errors import InputError
from featavg.nets.network import unchecked
from featavg.nets.readouts._readout import Max
from featavg.nets.readouts.soft import Probability
from featavg.nets.two_layer import TwoLayer, biased_robust, binary, feature_averaging

RNG = np.random.default_rng


def made(weights: tuple[int, ...], biases: tuple[int, ...], head: tuple[int, ...]) -> TwoLayer:
    """A network of these shapes, checked by itself: the shape checker of the tests looks away."""
    shapes = {"weights": weights, "biases": biases, "head": head}
    net = unchecked(TwoLayer, {name: np.ones(shape) for name, shape in shapes.items()})
    net.__post_init__()
    return net


@pytest.mark.parametrize("head", [(1, 3), (1, 1, 3), (3, 1, 3)], ids=str)
def test_the_head_of_a_batch_has_its_axes(head: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="head has shape"):
        made((2, 3, 4), (2, 3), head)
    assert made((2, 3, 4), (2, 3), (2, 1, 3)).batch == (2,)


def test_biases_are_one_per_neuron_and_are_added() -> None:
    with pytest.raises(InputError, match="biases have shape"):
        made((3, 4), (1,), (1, 3))
    net = binary(np.eye(2), np.array([5.0, 7.0]))
    assert net(np.array([[1.0, 2.0]]))[0, 0] == (1.0 + 5.0) - (2.0 + 7.0)


def test_biases_of_the_robust_network_follow_alpha_and_the_squared_lengths() -> None:
    task = MultiCluster(k=2, d=9, alpha=3.0, norms=(2.0, 5.0))
    np.testing.assert_allclose(biased_robust(task, 0.25).biases, [-0.25 * 3 * 4, -0.25 * 3 * 25])


def test_ideal_networks_decide_for_the_class() -> None:
    task = MultiCluster(k=4, d=9)
    for cluster, label in enumerate(task.cluster_labels):
        centre = task.features[cluster][None]
        assert np.sign(feature_averaging(task)(centre)[0, 0]) == label


def test_read_outs_touch_what_they_bound() -> None:
    rule, alike = Probability(), np.full(3, 1.7)
    hard, slack = rule.hard(3)
    assert rule.class_score(alike) == pytest.approx(hard.class_score(alike) + slack)
    below = rule.minorants(3)[-1]
    assert below.weights @ alike + below.constant == pytest.approx(1.7 + math.log(3.0))
    place = np.array([0.3, -1.0, 2.0])
    for readout in (rule, Max()):
        touching = readout.minorant(place)
        assert touching.weights.sum() == pytest.approx(1.0)
        assert touching.weights @ place + touching.constant == pytest.approx(
            float(readout.class_score(place))
        )
        for other in RNG(0).normal(size=(20, 3)):
            value = touching.weights @ other + touching.constant
            assert value <= float(readout.class_score(other)) + 1e-12
