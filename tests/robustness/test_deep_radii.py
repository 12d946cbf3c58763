"""Exact radii of deep networks: against every region, against two layers, against attacks."""

import math
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
import pytest
from tests.robustness.deep_soundness import check_attacks, check_classes, check_regions, check_two_layers, random_deep
from tests.robustness.deep_twin import as_deep, brute_force
from tests.toys.readout import Toy as Mean

from featavg.errors import InputError
from featavg.nets.deep import Deep
from featavg.nets.two_layer import TwoLayer, binary
from featavg.robustness.certify import Certificate, certify
from featavg.robustness.exact import everywhere
from featavg.robustness.exact.budget import Budget
from featavg.robustness.exact.deep import cuts as cuts_module
from featavg.robustness.exact.deep.search import DeepSearch
from featavg.robustness.exact.everywhere import anywhere
from featavg.robustness.exact.flip_conditions import LinearCondition
from featavg.robustness.exact.layered_network import layered
from featavg.robustness.exact.result import RadiusStatus
from featavg.robustness.radii import radii

SAME = 1e-6


def random_network(rng, hidden, leak=0.0, skip=False, biases=True, outputs=1, dimension=None):
    """Widths of 2 to 4: small enough to list all regions."""
    widths = [int(rng.integers(2, 5))] * hidden if skip else list(rng.integers(2, 5, hidden))
    below = dimension or int(rng.integers(1, 6))
    weights, offsets = [], []
    for width in [*widths, outputs]:
        weights.append(rng.standard_normal((width, below)))
        offsets.append(0.5 * rng.standard_normal(width) if biases else np.zeros(width))
        below = int(width)
    skips = [False, *([skip] * (hidden - 1))]
    return layered(weights, offsets, skips, leak)


def conditions_at(outputs):
    if len(outputs) == 1:
        return [LinearCondition(np.array([[1.0 if outputs[0] > 0 else -1.0]]), np.zeros(1))]
    each, label = np.eye(len(outputs)), int(outputs.argmax())
    rows = [each[label] - each[j] for j in range(len(outputs)) if j != label]
    return [LinearCondition(row[None], np.zeros(1)) for row in rows]


KINDS = {
    "one-hidden": {"hidden": 1},
    "two-hidden": {"hidden": 2},
    "three-hidden": {"hidden": 3},
    "leaky": {"hidden": 2, "leak": 0.2},
    "residual": {"hidden": 3, "skip": True},
    "residual-leaky-classes": {"hidden": 2, "skip": True, "leak": 0.1, "outputs": 3},
    "homogeneous": {"hidden": 2, "biases": False},
    "three-classes": {"hidden": 2, "outputs": 3},
}


@pytest.mark.parametrize("kind", KINDS)
def test_radii_are_those_of_every_region_listed(kind):
    rng = np.random.default_rng(list(KINDS).index(kind))
    compared = 0
    for _ in range(5):
        net = random_network(rng, **KINDS[kind])
        x = rng.standard_normal((1, net.first.shape[1]))
        z = net.start(x)[0]
        conditions = conditions_at(net.forward(z)[-1])
        if min(float(condition.excess(net.forward(z)[-1])) for condition in conditions) <= 0:
            continue
        truth = brute_force(net, z, conditions)
        reach = float(np.linalg.norm(x)) + 1.0
        ends = DeepSearch(net, conditions).at(z, reach, Budget(nodes=3000).start())
        if math.isinf(truth):
            assert ends.attack == math.inf
            continue
        compared += 1
        assert ends.certified == pytest.approx(truth, rel=SAME)
        assert ends.attack == pytest.approx(truth, rel=SAME)
    assert compared >= 2


@pytest.mark.parametrize("readout", ["sum", "max", "probability"])
def test_two_layers_agree_with_their_own_path(readout):
    rng = np.random.default_rng(7)
    positive = np.array([True, True, False, False])
    for _ in range(4):
        net = TwoLayer(rng.standard_normal((4, 6)), 0.3 * rng.standard_normal(4), np.diag(rng.random(4) + 0.5))
        x = 2.0 * rng.standard_normal((4, 6))
        y = np.array([1, -1, 1, -1])
        fast = radii(net, x, y, readout=readout, positive=positive)
        deep = radii(as_deep(net), x, y, readout=readout, positive=positive, budget=Budget(nodes=4000))
        known = [o in (RadiusStatus.EXACT, RadiusStatus.BRACKET, RadiusStatus.MISCLASSIFIED) for o in fast.outcomes]
        within = 0.011 if readout == "probability" else SAME
        for i in np.flatnonzero(known):
            # Two brackets of one number overlap.
            assert deep.certified[i] <= fast.attack[i] * (1 + SAME)
            assert fast.certified[i] <= deep.attack[i] * (1 + SAME)
            if deep.outcomes[i] in (RadiusStatus.EXACT, RadiusStatus.BRACKET):
                assert deep.attack[i] == pytest.approx(fast.attack[i], rel=within)


def test_one_output_agrees_with_the_binary_path_in_many_dimensions():
    rng = np.random.default_rng(3)
    net = binary(rng.standard_normal((8, 50)))
    x = rng.standard_normal((12, 50))
    y = np.where(net(x)[:, 0] > 0, 1, -1)
    assert radii(as_deep(net), x, y).certified == pytest.approx(radii(net, x, y).certified, rel=SAME)


def test_classes_are_the_least_over_pairs():
    rng = np.random.default_rng(5)
    net = Deep((rng.standard_normal((5, 4)), rng.standard_normal((4, 5)), rng.standard_normal((3, 4))))
    x = rng.standard_normal((6, 4))
    y = net(x).argmax(axis=1)
    whole = radii(net, x, y)
    for i in range(len(x)):
        pairs = []
        for rival in set(range(3)) - {int(y[i])}:
            last = net.weights[-1][int(y[i])] - net.weights[-1][rival]
            pair = Deep((*net.weights[:-1], last[None]))
            pairs.append(float(radii(pair, x[i : i + 1], np.array([1])).certified[0]))
        assert whole.certified[i] == pytest.approx(min(pairs), rel=SAME)


def test_witnesses_flip_and_nothing_random_is_nearer():
    rng = np.random.default_rng(11)
    for _ in range(6):
        net = Deep((rng.standard_normal((6, 5)), rng.standard_normal((6, 6)), rng.standard_normal((2, 6))))
        x = rng.standard_normal((3, 5))
        y = net(x).argmax(axis=1)
        ends = radii(net, x, y, budget=Budget(nodes=2000))
        for i in np.flatnonzero(np.isfinite(ends.attack)):
            outputs = net(ends.witness[i][None])[0]
            assert outputs[y[i]] <= np.delete(outputs, y[i]).max()
            away = rng.standard_normal((4000, 5))
            away *= (0.999 * ends.certified[i] / np.linalg.norm(away, axis=1))[:, None]
            assert np.all(net(x[i] + away).argmax(axis=1) == y[i])


def test_a_chord_that_lies_would_be_noticed(monkeypatch):
    """Chords 10% too low certify too much: the comparison with the twin must see it."""
    honest = cuts_module.lines_of

    def lying(net, lo, hi, at=None):
        lines = honest(net, lo, hi, at)
        return type(lines)(lines.lower, lines.upper, [0.5 * offset for offset in lines.offset])

    monkeypatch.setattr(cuts_module, "lines_of", lying)
    rng = np.random.default_rng(1)
    wrong = 0
    for _ in range(12):
        net = random_network(rng, hidden=2)
        x = rng.standard_normal((1, net.first.shape[1]))
        z = net.start(x)[0]
        conditions = conditions_at(net.forward(z)[-1])
        truth = brute_force(net, z, conditions)
        ends = DeepSearch(net, conditions).at(z, float(np.linalg.norm(x)) + 1.0, Budget(500).start())
        wrong += math.isfinite(truth) and ends.certified > truth * (1 + SAME)
    assert wrong > 0


def test_certificates_say_what_radii_say():
    rng = np.random.default_rng(2)
    net = Deep((rng.standard_normal((6, 5)), rng.standard_normal((5, 6)), rng.standard_normal((3, 5))))
    x = rng.standard_normal((12, 5))
    y = net(x).argmax(axis=1)
    decided = np.flatnonzero(np.ptp(net(x), axis=1) > 0)  # dead points tie, and count as flipped
    x, y = x[decided], y[decided]
    exact = radii(net, x, y)
    assert all(outcome is RadiusStatus.EXACT for outcome in exact.outcomes)
    radius = float(np.median(exact.attack)) * 1.01
    answers = certify(net, x, y, radius=radius)
    expected = [Certificate.FLIPPED if attack <= radius else Certificate.CERTIFIED for attack in exact.attack]
    assert list(answers.status) == expected
    for i in np.flatnonzero(answers.mask(Certificate.FLIPPED)):
        assert np.linalg.norm(answers.witness[i] - x[i]) <= radius
        outputs = net(answers.witness[i][None])[0]
        assert outputs[y[i]] <= np.delete(outputs, y[i]).max()
    spent = certify(net, x, y, radius=radius, budget=Budget(nodes=1))
    low, high = spent.robust_error
    assert low <= np.mean(exact.attack <= radius) <= high


@pytest.mark.parametrize(
    ("weights", "biases", "skips", "leak", "argument"),
    [
        ([np.eye(2)], None, None, 0.0, "weights"),
        ([np.eye(2), np.ones((1, 3))], None, None, 0.0, "layer 2"),
        ([np.eye(2), np.ones((1, 2))], [np.zeros(3), None], None, 0.0, "bias 1"),
        ([np.eye(2), np.full((1, 2), np.nan)], None, None, 0.0, "layer 2"),
        ([np.eye(2), np.ones((1, 2))], None, None, 1.5, "leak"),
        ([np.eye(2), np.ones((1, 2))], None, [True], 0.0, "skips"),
        ([np.eye(2), np.ones((3, 2)), np.ones((1, 3))], None, [False, True], 0.0, "layer 2"),
    ],
)
def test_what_is_no_network_is_refused(weights, biases, skips, leak, argument):
    with pytest.raises(InputError) as refused:
        layered(weights, biases, skips, leak)
    assert refused.value.argument == argument


def test_a_witness_behind_the_kinks_of_several_neurons_is_found():
    """F = relu(u . a) + relu(u . b) is zero only where both are off: a corner that rounding misses."""
    rows = np.array([[1.0, 0.3], [-0.9, 0.5]])
    net = TwoLayer(rows, np.array([0.1, 0.2]), np.array([[1.1, 1.0]]))
    x, y = np.array([[2.0, 3.0], [0.5, 1.7]]), np.array([1, 1])
    fast, deep = radii(net, x, y=y, readout="sum", jobs=1), radii(as_deep(net), x, y)
    np.testing.assert_allclose(deep.attack, fast.attack, rtol=1e-6)
    assert check_two_layers(4, seed=2)["compared"] == 8


def test_a_hopeless_width_is_announced_and_bracketed(caplog):
    rng = np.random.default_rng(0)
    wide = Deep(tuple(rng.standard_normal(s) / s[1] ** 0.5 for s in ((80, 6), (80, 80), (3, 80))))
    x = rng.standard_normal((3, 6))
    ends = radii(wide, x, wide(x).argmax(axis=1), budget=Budget(nodes=3))
    assert len(caplog.records) == 1
    assert "160 hidden neurons" in caplog.records[0].getMessage()
    for low, high, outcome in zip(ends.certified, ends.attack, ends.outcomes, strict=True):
        assert low <= high
        assert outcome is not RadiusStatus.EXACT or high - low <= SAME * high
    near = radii(wide, x, wide(x).argmax(axis=1), budget=Budget(nodes=30))
    assert np.all(ends.certified <= near.attack * (1 + SAME))
    assert np.all(near.certified <= ends.attack * (1 + SAME))
    caplog.clear()
    small = Deep((np.eye(2), np.eye(2)))
    radii(small, np.array([[3.0, 1.0]]), np.array([0]))
    assert not caplog.records


def test_labels_that_are_wrong_have_radius_zero():
    net = Deep((np.eye(2), np.eye(2)))
    ends = radii(net, np.array([[3.0, 1.0]]), np.array([1]))
    assert ends.attack[0] == 0.0
    assert ends.outcomes[0] is RadiusStatus.MISCLASSIFIED


@dataclass(frozen=True)
class Curved(Mean):
    """A mean that does not say that it is piecewise linear."""

    name: ClassVar[str] = "curved"

    def pieces(self, own):
        return None


IDENTITY = Deep((np.eye(3), np.eye(3), np.eye(3)))
POINT, OWN = np.array([[3.0, 1.0, 0.5]]), np.array([True, True, False])


def test_a_read_out_of_ones_own_has_its_own_radius() -> None:
    # (f_1 + f_2)/2 - f_3 = 1.5 with a gradient of length sqrt(3/2), and no kink on the way.
    exact = radii(IDENTITY, POINT, np.array([1]), readout=Mean(), positive=OWN)
    np.testing.assert_allclose(exact.certified, 1.5 / math.sqrt(1.5), rtol=1e-7)
    np.testing.assert_allclose(exact.attack, exact.certified, rtol=1e-6)


@pytest.mark.parametrize(("readout", "words"), [("nobody", "choose one of"), (Curved(), "curved")])
def test_a_read_out_without_an_exact_radius_is_refused(readout, words) -> None:
    with pytest.raises(InputError, match=words):
        radii(IDENTITY, POINT, np.array([1]), readout=readout, positive=OWN)


FLAT = Deep((np.array([[1.0]]), np.array([[1.0]]), np.array([[-1e-8]])), (None, None, np.ones(1)))


def test_a_flip_farther_than_balls_are_searched_is_found():
    found = radii(FLAT, np.array([[1.0], [3.0]]), np.array([1, 1]))
    assert set(found.outcomes) == {RadiusStatus.EXACT}
    np.testing.assert_allclose(found.attack, [1e8 - 1, 1e8 - 3], rtol=1e-7)


def test_what_never_flips_is_proven_in_both_norms():
    # |x| + 1 in two layers and in four; the third is zero at the origin alone.
    both = np.array([[1.0], [-1.0]])
    deep = Deep((both, np.eye(2), np.eye(2), np.ones((1, 2))), (None, None, None, np.ones(1)))
    x, y = np.array([[1.0], [-2.0]]), np.array([1, 1])
    for net, norm in ((deep, "l2"), (TwoLayer(both, np.ones(2), np.ones((1, 2))), "linf")):
        found = radii(net, x, y, norm=norm)
        assert set(found.outcomes) == {RadiusStatus.NEVER}
        assert np.all(np.isinf(found.certified) & np.isnan(found.witness[:, 0]))
    tie = Deep((both, np.eye(2), np.eye(2), np.ones((1, 2))))
    np.testing.assert_allclose(radii(tie, x, y).attack, [1.0, 2.0], rtol=1e-7)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_flip_that_only_one_half_holds_is_found(sign):
    """f = 1 - relu(s x - 1e7) + relu(-s x): flips on one side, farther out than balls are searched."""
    rows = np.array([[sign], [-sign]])
    net = layered([rows, np.array([[-1.0, 1.0]])], [np.array([-1e7, 0.0]), np.ones(1)])
    found = anywhere(net, [LinearCondition(np.eye(1), np.zeros(1))], Budget(100).start())
    assert not found.never
    assert net.forward(found.flip)[-1][0] <= 0


def test_nothing_is_called_never_that_fractions_do_not_prove(monkeypatch):
    """A condition that touches zero, and one that float64 takes for empty."""
    free = Budget(100).start()
    one = layered([np.array([[1.0]]), np.array([[1.0]])])
    touching = LinearCondition(np.array([[1.0]]), np.zeros(1))
    assert not anywhere(one, [touching], free).never
    nearly = layered([np.array([[1.0]]), np.array([[-1e-12]])], [None, np.ones(1)])
    assert not anywhere(nearly, [touching], free).never
    positive = layered([np.array([[1.0]]), np.array([[1.0]])], [None, np.ones(1)])
    assert anywhere(positive, [touching], free).never
    monkeypatch.setattr(everywhere, "empty", lambda inequalities: False)
    assert not anywhere(positive, [touching], free).never


def test_a_seeded_part_of_the_long_comparisons():
    told = check_regions(10, seed=3)
    assert told["networks"] == 10
    assert told["left open"] <= 1
    assert told["proven"] == told["infinite"] > 0
    assert check_two_layers(15, seed=3)["left open"] == 0
    assert check_classes(5, seed=3)["left open"] <= 1
    attacked = check_attacks(20, seed=3)
    assert attacked["attacked"] >= 5
    assert attacked["nearest to a certificate"] < 1.5


def test_a_flip_beyond_the_first_ball_is_no_reason_to_stop_there():
    """The nearest flip is at 112 times the scale of the network; a projection first finds 151."""
    rng = np.random.default_rng(1)
    for _ in range(8):
        net = random_deep(rng)
        x = rng.normal(size=(1, net.dimension))
    ends = radii(net, x, np.where(net(x)[:, 0] > 0, 1, -1))
    assert ends.outcomes[0] is RadiusStatus.EXACT
    assert ends.attack[0] == pytest.approx(112.6625125, rel=SAME)


def test_a_weight_of_zero_does_not_set_the_scale():
    weights = np.array([[1.0, 0.0], [0.0, 0.0]])
    net = Deep((weights, np.eye(2), np.array([[1.0, 1.0]])), (np.array([0.0, 3.0]), None, None))
    net = Deep(net.weights, (net.biases[0], None, np.array([-5.0])))
    ends = radii(net, np.array([[1.0, 0.0]]), np.array([-1]))
    assert ends.outcomes[0] is RadiusStatus.EXACT
    assert ends.attack[0] == pytest.approx(1.0, rel=SAME)


BAD = {
    "labels out of range": ({"y": np.array([5])}, "y"),
    "a label below zero": ({"y": np.array([-1])}, "y"),
    "points of another dimension": ({"points": np.ones((1, 3))}, "points"),
    "points that are no numbers": ({"points": np.array([[np.nan, 1.0]])}, "points"),
    "an unknown read-out": ({"readout": "median"}, "readout"),
    "a coarse decision without its classes": ({"readout": "sum", "y": np.array([1])}, "positive"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_would_give_a_false_radius_is_refused(case):
    change, argument = BAD[case]
    given = {"points": np.array([[3.0, 1.0]]), "y": np.array([0]), "readout": "argmax"} | change
    net = Deep((np.eye(2), np.eye(2), np.eye(2)))
    for call in (radii, partial(certify, radius=1.0)):
        with pytest.raises(InputError) as refused:
            call(net, **given)
        assert refused.value.argument == argument
