"""The networks of the theory and their read-outs."""

import subprocess
import sys

import numpy as np
import pytest
from scipy.special import softmax

from featavg.data.clusters import MultiCluster
from featavg.errors import InputError
from featavg.nets.deep import Deep
from featavg.nets.network import unchecked
from featavg.nets.readouts._readout import score
from featavg.nets.two_layer import TwoLayer, biased_robust, binary, feature_averaging, feature_decoupling, grouped
from featavg.registry import READOUTS

RNG = np.random.default_rng(0)
TASK = MultiCluster(k=6, d=50, positive=2, alpha=2.0, norms=(3.0, 4.0, 5.0, 6.0, 7.0, 8.0))


def relu(z):
    return np.maximum(z, 0)


def test_the_binary_network_is_definition_2_2() -> None:
    w, b, x = RNG.normal(size=(6, 9)), RNG.normal(size=6), RNG.normal(size=(20, 9))
    by_hand = [
        sum(relu(w[r] @ p + b[r]) for r in range(3)) / 3 - sum(relu(w[r] @ p + b[r]) for r in range(3, 6)) / 3
        for p in x
    ]
    np.testing.assert_allclose(binary(w, b)(x)[:, 0], by_hand)


def test_the_grouped_network_averages_inside_groups() -> None:
    w, x = RNG.normal(size=(6, 9)), RNG.normal(size=(20, 9))
    by_hand = [[(relu(w[2 * j] @ p) + relu(w[2 * j + 1] @ p)) / 2 for j in range(3)] for p in x]
    np.testing.assert_allclose(grouped(w, 3)(x), by_hand)


def test_a_batch_of_networks_is_each_of_them() -> None:
    nets, x = binary(RNG.normal(size=(4, 6, 9))), RNG.normal(size=(20, 9))
    for i in range(4):
        np.testing.assert_allclose(nets(x)[i], nets[i](x))


def test_the_probability_readout_has_the_sign_of_its_definition() -> None:
    outputs, mask = RNG.normal(scale=3, size=(500, 5)), np.array([True, False, True, False, False])
    p = softmax(outputs, axis=1)
    defined = p[:, mask].sum(axis=1) - p[:, ~mask].sum(axis=1)
    np.testing.assert_array_equal(np.sign(score(outputs, mask, "probability")), np.sign(defined))


@pytest.mark.parametrize("readout", READOUTS)
def test_swapping_the_classes_swaps_the_sign(readout: str) -> None:
    outputs, mask = RNG.normal(size=(50, 4)), np.array([True, False, True, False])
    np.testing.assert_allclose(score(outputs, mask, readout), -score(outputs, ~mask, readout))


def test_ideal_networks_are_their_formulas() -> None:
    x = RNG.normal(scale=5, size=(40, TASK.k))
    mu, y = TASK.features, TASK.cluster_labels
    up, down = mu[y > 0].mean(axis=0), mu[y < 0].mean(axis=0)
    averaged = 2 * relu(x @ up) - 4 * relu(x @ down)
    np.testing.assert_allclose(feature_averaging(TASK)(x)[:, 0], averaged)
    np.testing.assert_allclose(feature_decoupling(TASK)(x)[:, 0], relu(x @ mu.T) @ y)
    squares = (mu**2).sum(axis=1)
    np.testing.assert_allclose(biased_robust(TASK, 0.25)(x)[:, 0], relu(x @ mu.T - 0.25 * 2.0 * squares) @ y)


def test_ideal_networks_follow_a_random_orientation() -> None:
    task = MultiCluster(k=4, d=30, orientation="random")
    features = task.features_in(30)
    values = feature_decoupling(task)(features)[:, 0]
    np.testing.assert_allclose(values, 30.0 * task.cluster_labels)


REFUSED = {
    "NaN weights": (lambda: binary(np.full((2, 2), np.nan)), "weights holds a number that is not finite"),
    "infinite biases": (lambda: binary(np.ones((2, 2)), np.full(2, np.inf)), "biases holds a number that is not"),
    "NaN in a deep layer": (lambda: Deep((np.eye(2), np.full((1, 2), np.nan))), "weights2 hold NaN"),
    "odd binary": (lambda: binary(np.ones((3, 2))), "weights hold 3 neurons"),
    "uneven groups": (lambda: grouped(np.ones((5, 2)), 2), "weights hold 5 neurons"),
    "threshold": (lambda: biased_robust(TASK, 1.5), "threshold is 1.5"),
    "readout": (lambda: score(np.ones((1, 2)), np.array([True, False]), "median"), "readout is"),
    "one class": (lambda: score(np.ones((1, 2)), np.ones(2, bool), "max"), "positive leaves"),
    "no mask": (lambda: score(np.ones((1, 2)), None, "max"), "positive is missing"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_networks_are_refused(name: str) -> None:
    build, words = REFUSED[name]
    with pytest.raises(InputError) as caught:
        build()
    assert str(caught.value).startswith(words)


@pytest.mark.parametrize(
    ("biases", "head", "words"),
    [
        ((2, 3), (1, 3), "head has shape"),
        ((2, 3), (1, 1, 3), "head has shape"),
        ((2, 3), (3, 1, 3), "head has shape"),
        ((2, 1), (2, 1, 3), "biases have shape"),
        ((3,), (2, 1, 3), "biases have shape"),
    ],
)
def test_shapes_that_only_broadcast_are_refused(biases, head, words) -> None:
    shapes = {"weights": (2, 3, 4), "biases": biases, "head": head}
    net = unchecked(TwoLayer, {name: np.ones(shape) for name, shape in shapes.items()})
    with pytest.raises(InputError, match=words):
        net.__post_init__()


# The shape checker of the tests would speak before the package does, so these run without it.
SHAPES = {
    "biases has shape (3,)": "binary(np.ones((2, 2)), np.ones(3))",
    "head has shape (1, 3)": "TwoLayer(np.ones((2, 2)), np.ones(2), np.ones((1, 3)))",
    "positive has 1 truth values for 2 outputs": "score(np.ones((1, 2)), np.array([True]), 'max')",
}


def test_wrong_shapes_are_refused_without_a_shape_checker_too() -> None:
    for words, call in SHAPES.items():
        code = (
            "import numpy as np\nfrom featavg import TwoLayer, binary, score, InputError\n"
            f"try:\n    {call}\nexcept InputError as error:\n    print(error)"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.startswith(words)
