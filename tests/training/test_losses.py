"""Losses in the log domain against their plain formulas, and far beyond where those underflow."""

import numpy as np
import pytest
from scipy.special import expit, log_softmax

from featavg.errors import InputError
from featavg.registry import LOSSES
from featavg.training.losses import CrossEntropy, Exponential, Logistic, PartialCrossEntropy, PooledLogistic

RNG = np.random.default_rng(1)


def plain(name: str, outputs, targets):
    """Mean loss and its derivative by the outputs, in the plain way."""
    n = len(targets)
    if name == "cross-entropy":
        p = np.exp(log_softmax(outputs, axis=1))
        slope = p.copy()
        slope[np.arange(n), targets] -= 1
        return -log_softmax(outputs, axis=1)[np.arange(n), targets].mean(), slope / n
    q = targets * outputs[:, 0]
    if name == "logistic":
        return np.log1p(np.exp(-q)).mean(), (-targets * expit(-q) / n)[:, None]
    return np.exp(-q).mean(), (-targets * np.exp(-q) / n)[:, None]


@pytest.mark.parametrize("name", ["logistic", "exponential", "cross-entropy"])
def test_value_and_slope_are_the_plain_ones(name: str) -> None:
    width = 4 if name == "cross-entropy" else 1
    outputs = RNG.normal(scale=3, size=(50, width))
    targets = RNG.integers(0, 4, 50) if width > 1 else RNG.choice([-1, 1], 50)
    loss, slope = plain(name, outputs, targets)
    value = LOSSES.build(name)(outputs, targets)
    np.testing.assert_allclose(np.exp(value.log_mean), loss, rtol=1e-12)
    np.testing.assert_allclose(value.slopes * np.exp(value.log_mean), slope, rtol=1e-10, atol=1e-15)


@pytest.mark.parametrize("loss", [Logistic(), Exponential(), CrossEntropy()], ids=lambda x: x.name)
def test_a_loss_of_ten_to_the_minus_881_is_a_number_like_any_other(loss) -> None:
    margin = 881.51 * np.log(10)
    outputs = np.array([[margin, 0.0]]) if loss.name == "cross-entropy" else np.array([[margin]])
    target = np.array([0 if loss.name == "cross-entropy" else 1])
    value = loss(outputs, target)
    np.testing.assert_allclose(value.log_mean / np.log(10), -881.51, rtol=1e-12)
    np.testing.assert_allclose(np.abs(value.slopes), 1.0, rtol=1e-12)


@pytest.mark.parametrize("q", [36.0, 39.9, 40.1, 700.0, 746.0])
def test_the_logistic_loss_has_no_seam(q: float) -> None:
    value = Logistic()(np.array([[q]]), np.array([1]))
    # log(log(1 + e)) = log e - e/2 + ... with e = exp(-q).
    np.testing.assert_allclose(value.log_mean, -q - np.exp(-q) / 2, rtol=1e-15)


def test_seeds_are_independent() -> None:
    outputs, targets = RNG.normal(size=(3, 20, 4)), RNG.integers(0, 4, (3, 20))
    together = CrossEntropy()(outputs, targets)
    for i in range(3):
        alone = CrossEntropy()(outputs[i], targets[i])
        np.testing.assert_array_equal(together.slopes[i], alone.slopes)


@pytest.mark.parametrize(
    ("loss", "targets", "outputs"),
    [
        (Logistic(), [0, 1], 1),
        (Logistic(), [-1, 2], 1),
        (CrossEntropy(), [0, 3], 3),
        (CrossEntropy(), [-1, 0], 3),
        (PartialCrossEntropy("++--"), [0, 6], 4),
        (PartialCrossEntropy("++--"), [-1, 0], 4),
        (PooledLogistic(), [0, 1], 4),
    ],
)
def test_labels_out_of_range_are_refused(loss, targets, outputs) -> None:
    with pytest.raises(InputError, match="targets hold a label"):
        loss.check_targets(np.array(targets), outputs)


def test_an_unknown_loss_is_refused() -> None:
    with pytest.raises(InputError, match="loss is 'hinge'"):
        LOSSES.build("hinge")
