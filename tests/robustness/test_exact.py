"""Exact radii: against brute force, against closed forms, and on every degenerate network."""

import numpy as np
import pytest
from tests.robustness.soundness import check

from featavg.data.clusters import MultiCluster
from featavg.errors import InputError
from featavg.nets.readouts._readout import score
from featavg.nets.two_layer import TwoLayer, binary, feature_averaging, feature_decoupling, grouped
from featavg.robustness.exact import two_layer
from featavg.robustness.exact.budget import Budget
from featavg.robustness.exact.result import Radii, RadiusStatus
from featavg.robustness.radii import radii

PLUS = np.array([1])
MASK = np.array([True, True, False, False])


def one(net, x, y=1, **options):
    found = radii(net, np.atleast_2d(np.asarray(x, dtype=float)), y=np.array([y]), **options)
    return float(found.certified[0]), float(found.attack[0]), found.outcomes[0]


@pytest.mark.parametrize("seed", range(4))
def test_brute_force_agrees(seed):
    """500 cases a seed here; `python -m tests.robustness.soundness 10000` for all."""
    found = check(seed, 500)
    assert found["worst"] <= 1e-6
    assert found["outcomes"]["exact"] > 300
    assert found["outcomes"].get("budget spent", 0) == 0


@pytest.mark.parametrize("seed", range(3))
def test_tree_agrees_with_brute_force(seed, monkeypatch):
    """The same with branch and bound instead of the list of pieces; `--tree` of the command."""
    monkeypatch.setattr(two_layer, "LISTED", 0)
    found = check(100 + seed, 60)
    assert found["worst"] <= 1e-6
    assert found["outcomes"]["exact"] > 30


def test_no_attack_is_below_a_certificate():
    """Ours and foolbox's; `--attacks --foolbox` of the same command for all."""
    pytest.importorskip("foolbox")
    found = check(50, 25, [None, ["foolbox:L2DeepFoolAttack"]])
    assert found["attacked"] > 10


@pytest.mark.parametrize("k", [4, 10])
def test_ideal_networks_at_their_features(k):
    """At x = mu_1 without noise: sqrt(2d/k) for f_FA, sqrt(d / (1 + k/2)) for f_FD under `sum`."""
    task = MultiCluster(k=k, d=1000)
    x = task.features[:1]
    averaged, _, _ = one(feature_averaging(task), x)
    assert averaged == pytest.approx(np.sqrt(1000 / k), rel=1e-9)
    decoupled, _, outcome = one(feature_decoupling(task), x)
    assert decoupled == pytest.approx(np.sqrt(1000 / (1 + k / 2)), rel=1e-9)
    assert outcome is RadiusStatus.EXACT


def test_max_read_out_at_a_feature():
    """At x = mu_1 the nearest flipped point is half-way to another class's feature: sqrt(d/2)."""
    task = MultiCluster(k=4, d=1000)
    net = grouped(task.features, 4)
    certified, attack, _ = one(net, task.features[:1], readout="max", positive=MASK)
    assert certified == pytest.approx(np.sqrt(500), rel=1e-9)
    assert attack == pytest.approx(certified, rel=1e-8)


@pytest.mark.parametrize("scale", [1e-8, 1e-3, 1e8])
@pytest.mark.parametrize("readout", ["sum", "max"])
def test_scale_of_the_weights_does_not_matter(scale, readout):
    rng = np.random.default_rng(0)
    weights, x = rng.normal(size=(8, 5)), rng.normal(size=(20, 5))
    y = np.where(score(grouped(weights, 4)(x), MASK, readout) > 0, 1, -1)
    plain = radii(grouped(weights, 4), x, y=y, readout=readout, positive=MASK)
    scaled = radii(grouped(weights * scale, 4), x, y=y, readout=readout, positive=MASK)
    np.testing.assert_allclose(scaled.certified, plain.certified, rtol=1e-9)
    np.testing.assert_allclose(scaled.attack, plain.attack, rtol=1e-7)


DEGENERATE = {
    "zero weights": (TwoLayer(np.zeros((2, 3)), np.zeros(2), np.array([[1.0, -1.0]])), 0.0),
    "constant": (TwoLayer(np.zeros((1, 3)), np.ones(1), np.ones((1, 1))), np.inf),
    "never, no rivals": (TwoLayer(np.vstack([np.eye(3), np.zeros((1, 3))]), np.ones(4), np.ones((1, 4))), np.inf),
    "never, parallel": (
        TwoLayer(
            np.array([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0], [0.0, 0.0, 0.0]]),
            np.array([0.1, 0.1, 1.0]),
            np.array([[2.0, -1.0, 1.0]]),
        ),
        np.inf,
    ),
    "half-space": (TwoLayer(np.eye(3)[:1], np.zeros(1), np.ones((1, 1))), 1.0),
    "duplicated": (
        TwoLayer(np.repeat(np.eye(3)[:2], 3, axis=0), np.zeros(6), np.repeat([[1.0, -1]], 3, 1)),
        1.0 / np.sqrt(2.0),
    ),
    "opposite": (TwoLayer(np.array([[1.0, 0, 0], [-1.0, 0, 0]]), np.zeros(2), np.array([[1.0, -1.0]])), 1.0),
}


@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate(name):
    net, expected = DEGENERATE[name]
    certified, attack, outcome = one(net, [1.0, 0.0, 0.5])
    if name == "duplicated":
        expected = 1.0 / np.sqrt(2.0)
    assert certified == pytest.approx(expected, rel=1e-9)
    assert attack == pytest.approx(expected, rel=1e-7)
    named = {0.0: RadiusStatus.MISCLASSIFIED, np.inf: RadiusStatus.NEVER}
    assert outcome is named.get(expected, RadiusStatus.EXACT)


def test_nearly_never_is_not_called_never():
    """2 relu(w x) - 1.999...9 relu(w' x) + 1 flips, very far away; float64 must not say never."""
    w = np.array([[1.0, 0.0], [1.0, 1e-12], [0.0, 0.0]])
    net = TwoLayer(w, np.array([0.0, 0.0, 1.0]), np.array([[1.0, -1.0, 1.0]]))
    certified, attack, outcome = one(net, [1.0, 0.0])
    assert outcome is not RadiusStatus.NEVER
    assert certified <= 1.1e12 <= attack * 10


def test_misclassified_and_boundary():
    net = binary(np.eye(2))
    assert one(net, [1.0, 3.0]) == (0.0, 0.0, RadiusStatus.MISCLASSIFIED)
    assert one(net, [2.0, 2.0]) == (0.0, 0.0, RadiusStatus.MISCLASSIFIED)


def test_wide_network_within_budget():
    rng = np.random.default_rng(1)
    net = binary(rng.normal(size=(80, 30)), rng.normal(size=80))
    x = rng.normal(size=(4, 30))
    y = np.where(net(x)[:, 0] > 0, 1, -1)
    found = radii(net, x, y=y, budget=Budget(nodes=60))
    assert np.all(found.certified <= found.attack)
    assert np.all(y * net(found.witness)[:, 0] <= 0)
    assert np.all(found.nodes < 60 + 40)
    assert {o.value for o in found.outcomes} <= {"exact", "bracket", "budget spent"}


BAD = {
    "batch": ({"net": TwoLayer(np.ones((2, 2, 2)), np.ones((2, 2)), np.ones((2, 1, 2)))}, "net"),
    "nan point": ({"points": np.array([[np.nan, 1.0]])}, "points"),
    "shape": ({"points": np.ones((1, 3))}, "points"),
    "labels": ({"y": np.array([0])}, "y"),
    "label count": ({"y": np.array([1, 1])}, "y"),
    "no labels": ({"y": None}, "y"),
    "readout": ({"readout": "median"}, "readout"),
    "gap": ({"gap": 0.0}, "gap"),
    "jobs": ({"jobs": 0}, "jobs"),
    "mask": ({"net": grouped(np.eye(2), 2)}, "positive"),
    "one class": ({"net": grouped(np.eye(2), 2), "positive": np.array([True, True])}, "positive"),
    "empty group": (
        {
            "net": TwoLayer(np.eye(2), np.zeros(2), np.array([[1.0, 1.0], [0.0, 0.0]])),
            "positive": np.array([True, False]),
        },
        "net",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_named(name):
    change, argument = BAD[name]
    given = {"net": binary(np.eye(2)), "points": np.array([[3.0, 1.0]]), "y": PLUS} | change
    with pytest.raises(InputError) as error:
        radii(**given)
    assert error.value.argument == argument


def test_budget_is_checked():
    with pytest.raises(InputError):
        Budget(nodes=0)
    with pytest.raises(InputError):
        Budget(seconds=0.0)


def test_processes_agree_and_results_survive_the_disk(tmp_path):
    task = MultiCluster(k=4, d=100)
    net, test = feature_decoupling(task), task.sample(30, seed=1)
    alone, together = radii(net, test, jobs=1), radii(net, test, jobs=2)
    np.testing.assert_array_equal(alone.certified, together.certified)
    np.testing.assert_array_equal(alone.witness, together.witness)
    alone.save(tmp_path / "radii")
    again = Radii.load(tmp_path / "radii")
    np.testing.assert_array_equal(again.attack, alone.attack)
    assert again.outcomes == alone.outcomes
    lower, upper = alone.robust_accuracy(np.array([0.0, 5.0, 100.0]))
    assert np.all(lower <= upper)
    assert alone.to_json()["points"] == 30
