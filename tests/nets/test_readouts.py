"""Read-outs are objects: the ones there are against their formulas, and one more really added."""

import numpy as np
import pytest
from scipy.special import logsumexp, softmax
from tests.toys.readout import Toy as Mean

import featavg as fa
from featavg.data.clusters import positive_mask
from featavg.errors import InputError
from featavg.measures.accuracy import decisions
from featavg.nets.readouts._readout import readout_of, score
from featavg.registry import READOUTS

MASK = np.array([True, True, False, False])


@pytest.mark.parametrize("name", READOUTS)
def test_derivatives_and_minorants(name):
    """The derivative is that of finite differences, and what touches from below is below."""
    rule, rng = readout_of(name), np.random.default_rng(0)
    for _ in range(20):
        f, other = rng.normal(size=(2, 5)) * 3
        slope = [(rule.class_score(f + h) - rule.class_score(f - h)) / 2e-6 for h in 1e-6 * np.eye(5)]
        np.testing.assert_allclose(rule.derivative(f), slope, atol=1e-6)
        value, derivative = rule.touch(f)
        np.testing.assert_allclose(value, rule.class_score(f), rtol=1e-13)
        np.testing.assert_allclose(derivative, rule.derivative(f), rtol=1e-13)
        touching = rule.minorant(f)
        assert touching.weights @ f + touching.constant == pytest.approx(value)
        for below in [touching, *rule.minorants(5)]:
            assert below.weights @ other + below.constant <= rule.class_score(other) + 1e-12


@pytest.mark.parametrize("name", READOUTS)
def test_pieces_are_the_flipped_outputs(name):
    rule, rng = readout_of(name), np.random.default_rng(1)
    for _ in range(200):
        f = rng.normal(size=4)
        flipped = rule.class_score(f[MASK]) <= rule.class_score(f[~MASK])
        if (pieces := rule.pieces(MASK)) is not None:
            assert flipped == any(np.all(rows @ f <= 0) for rows in pieces)
        else:
            hard, slack = rule.hard(2)
            assert hard.class_score(f[:2]) <= rule.class_score(f[:2])
            assert rule.class_score(f[:2]) <= hard.class_score(f[:2]) + slack
    assert rule.pieces(MASK) is not None or rule.hard(2) is not None


def test_a_read_out_of_ones_own_needs_no_registration():
    rng = np.random.default_rng(2)
    net, x = fa.grouped(rng.normal(size=(4, 6)), 4), rng.normal(size=(6, 6))
    y = decisions(net, x, MASK, "sum")
    np.testing.assert_array_equal(decisions(net, x, MASK, Mean()), y)
    np.testing.assert_allclose(2 * score(net(x), MASK, Mean()), score(net(x), MASK, "sum"))
    for norm in ("l2", "linf"):
        mine = fa.radii(net, x, y=y, norm=norm, readout=Mean(), positive=MASK)
        theirs = fa.radii(net, x, y=y, norm=norm, readout="sum", positive=MASK)
        np.testing.assert_allclose(mine.certified, theirs.certified, rtol=1e-9)
        assert mine.outcomes == theirs.outcomes
    attacked = fa.attack_suite(fa.network_model(net, MASK, Mean()), x, y)
    exact = fa.radii(net, x, y=y, readout=Mean(), positive=MASK)
    assert np.all(attacked.radii >= exact.certified * (1 - 1e-9))
    np.testing.assert_allclose(attacked.radii, exact.attack, rtol=0.05)
    with pytest.raises(InputError, match="choose one of probability, max, sum"):
        fa.Setting(readout="mean")
    with pytest.raises(InputError, match="choose one of probability, max, sum, mean"):
        score(net(x), MASK, "median")


READ = {
    "truth values": ([True, False, True, False], [0, 2]),
    "zeros and ones": ([1, 0, 1, 0], [0, 2]),
    "an array of zeros and ones": (np.array([0, 1, 0, 1]), [1, 3]),
    "indices": ([0, 2], [0, 2]),
    "one index": ([1], [1]),
    "small indices": ([0, 1], [0, 1]),
}


@pytest.mark.parametrize("name", READ)
def test_masks_and_indices_are_told_apart(name):
    given, expected = READ[name]
    mask = np.isin(np.arange(4), expected)
    np.testing.assert_array_equal(positive_mask(given, 4), mask)
    np.testing.assert_array_equal(fa.MultiCluster(k=4, d=50, positive=given).positive_clusters, mask)
    outputs = np.array([[1.0, 2.0, 3.0, 5.0]])
    right = outputs[0, mask].sum() - outputs[0, ~mask].sum()
    assert score(outputs, given, "sum")[0] == right
    model = fa.network_model(fa.grouped(np.eye(4), 4), given, "sum")
    assert model.margins(outputs, np.array([1]))[0] == right


@pytest.mark.parametrize(
    "given",
    [[], [True, False], [0, 0], [0, 4], [-1], [0, 1, 2, 3], [2, 0, 1, 0], [1, 1, 1, 1], [[0, 1]],
     [0.0, 1.0], [0, 1, 0, 1, 0], "0011"],
    ids=str,
)  # fmt: skip
def test_what_is_neither_a_mask_nor_indices_is_refused(given):
    for call in (
        lambda: positive_mask(np.asarray(given), 4),
        lambda: score(np.ones((1, 4)), np.asarray(given), "sum"),
        lambda: fa.MultiCluster(k=4, d=50, positive=np.asarray(given)),
    ):
        with pytest.raises(InputError, match=r"^positive "):
            call()


def test_two_clusters():
    """The smallest k, where a mask and a list of indices are nearest to each other."""
    assert positive_mask([0, 1], 2).tolist() == [False, True]
    assert positive_mask([1, 0], 2).tolist() == [True, False]
    assert positive_mask([1], 2).tolist() == [False, True]


@pytest.mark.parametrize("scale", [1.0, 1e3, 1e-3])
def test_probability_is_scipy_s_logsumexp_and_softmax(scale):
    outputs = scale * np.random.default_rng(0).standard_normal((3, 4, 5))
    rule = readout_of("probability")
    np.testing.assert_allclose(rule.class_score(outputs), logsumexp(outputs, axis=-1), rtol=1e-13)
    np.testing.assert_allclose(rule.derivative(outputs), softmax(outputs, axis=-1), rtol=1e-12)
    value, slopes = rule.touch(outputs[0, 0])
    assert value == pytest.approx(logsumexp(outputs[0, 0]), rel=1e-13)
    np.testing.assert_allclose(slopes, softmax(outputs[0, 0]), rtol=1e-12)
    alike = np.full(3, 1.7)
    hard, slack = rule.hard(3)
    assert rule.class_score(alike) == pytest.approx(hard.class_score(alike) + slack)
    below = rule.minorants(3)[-1]
    assert below.weights @ alike + below.constant == pytest.approx(1.7 + np.log(3.0))
