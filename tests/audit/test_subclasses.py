"""Sub-classes that do not exist are not called averaged: true, random, half-random and merged ones."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests.audit.nets import converged, network  # noqa: E402

import featavg as fa  # noqa: E402
from featavg.audit.gradients import LayerGradient, Sharing  # noqa: E402
from featavg.audit.subclasses import SubclassProbe, subclass_probes  # noqa: E402
from featavg.audit.verdict import judge  # noqa: E402
from featavg.data.image_sets.loading import load_images  # noqa: E402
from featavg.measures.accuracy import Accuracy, wilson  # noqa: E402
from featavg.measures.collapse import linear_probe  # noqa: E402
from featavg.measures.shared_gradient import ClassGradient, SharedGradient  # noqa: E402

torch.set_num_threads(1)
PARITY = np.arange(10) % 2
QUICK = {"radii": 4, "gradients": 5}


@pytest.fixture(scope="module")
def nets():
    """MLPs on digits with an output per class, and one per digit."""
    train = load_images("digits").train
    fine = train.fine.astype(int)
    return {
        labels: converged(network(outputs, width=48, seed=5), train.unit, y)
        for labels, outputs, y in (("coarse", 2, PARITY[fine]), ("fine", 10, fine))
    }


def permuted(fine, share):
    """A share of the labels permuted inside each class."""
    rng, labels = np.random.default_rng(0), fine.copy()
    for c in (0, 1):
        members = np.flatnonzero(PARITY[fine] == c)
        some = members[rng.random(len(members)) < share]
        labels[some] = rng.permutation(labels[some])
    return labels


def merged(fine):
    """0 and 2 are one sub-class, and so are 1 and 3."""
    return np.unique(np.where(fine == 2, 0, np.where(fine == 3, 1, fine)), return_inverse=True)[1]


KINDS = {
    "true": lambda fine: fine,
    "half-random": lambda fine: permuted(fine, 0.5),
    "three quarters random": lambda fine: permuted(fine, 0.75),
    "random": lambda fine: permuted(fine, 1.0),
    "merged": merged,
}
# What may be said. Of an averaging network everything else would be false, and of a decoupled one.
TABLE = {
    ("coarse", "true"): {"averages"},
    ("coarse", "half-random"): {"averages"},
    ("coarse", "three quarters random"): {"averages", "cannot tell"},
    ("coarse", "random"): {"cannot tell"},
    ("coarse", "merged"): {"averages"},
    ("fine", "true"): {"decoupled"},
    ("fine", "half-random"): {"decoupled", "cannot tell"},
    ("fine", "three quarters random"): {"cannot tell"},
    ("fine", "random"): {"cannot tell"},
    ("fine", "merged"): {"decoupled"},
}


@pytest.mark.usefixtures("without_gains")
@pytest.mark.parametrize(("labels", "kind"), TABLE)
def test_what_is_said_about_subclasses(labels, kind, nets, digits):
    x, coarse, digit = digits
    fine = KINDS[kind](digit)
    # Ten outputs are no longer the sub-classes once some are merged.
    groups = PARITY if kind == "merged" else None
    found = fa.audit(nets[labels], x, coarse, fine, groups=groups, **QUICK)
    assert found.verdict.value in TABLE[labels, kind], found.judgement.reason
    if kind == "random":
        assert "tell the given sub-classes apart" in found.judgement.reason
        assert "by chance" in dict(found.rows())["sub-class probe"]
        assert not found.to_json()["probes"]["0"]["accuracy"]["low"] > 0.25


@pytest.mark.usefixtures("without_gains")
def test_outputs_that_no_labels_name_need_groups(nets, digits):
    x, coarse, _ = digits
    found = fa.audit(nets["fine"], x, coarse, clusters=3, groups=PARITY, **QUICK)
    assert found.discovery is not None
    assert found.accuracy.value > 0.9
    with pytest.raises(fa.InputError, match="has 10 outputs: the labels have 2 classes; give `groups`"):
        fa.audit(nets["fine"], x, coarse, clusters=3, **QUICK)
    for wrong in (PARITY[:9], PARITY * 0, PARITY + 1):
        with pytest.raises(fa.InputError, match="give the class of each output"):
            fa.audit(nets["fine"], x, coarse, clusters=3, groups=wrong, **QUICK)


@pytest.mark.usefixtures("without_gains")
def test_a_network_with_fine_labels_is_not_offered_fine_labels(nets, digits):
    x, coarse, fine = digits
    offered = {labels: " ".join(fa.audit(net, x, coarse, fine, **QUICK).remedies) for labels, net in nets.items()}
    assert "Retraining with finer labels" in offered["coarse"]
    assert "Controlling the gradient" in offered["coarse"]
    assert "fa.rehead" in offered["coarse"]
    assert offered["fine"].startswith("Its outputs are finer than the classes already")
    assert "fa.retrain" not in offered["fine"]
    assert "fa.rehead" not in offered["fine"]


def probe(accuracy, chance=0.2, k=5):
    return SubclassProbe(0, k, Accuracy(accuracy, accuracy, accuracy, 100), chance, "input")


@pytest.mark.parametrize("k", [2, 5, 9])
def test_what_a_decoupled_network_shows_with_wrong_labels(k):
    """Orthogonal directions, a share of the labels drawn at random; A by its definition."""
    assert probe(1.0, k=k).decoupled == pytest.approx(0.0)
    assert probe(0.2, k=k).decoupled == pytest.approx(1.0)
    rng = np.random.default_rng(0)
    fine = np.arange(6000) % k
    given = np.where(rng.random(6000) < 0.6, fine, rng.integers(0, k, 6000))
    found = fa.shared_gradient(np.eye(k)[fine], given, np.zeros(k, dtype=int), 2, 2)
    assert probe(0.2 + 0.6 * 0.8, k=k).decoupled == pytest.approx(found.value, abs=0.04)


def test_no_value_is_large_enough_at_chance_level():
    """A varies a little around 1 there, and may lie above it."""
    matrix, counts = np.eye(4), np.full(4, 30)
    each = tuple(ClassGradient(c, 1.05, 1.02, 1.08, 1.0) for c in (0, 1))
    shared = SharedGradient(1.05, 1.02, 1.08, 1.0, 1.0, 1.0, matrix, counts, 0.0, each)
    right = wilson(95, 100), 0.5
    for low, verdict in ((0.2, "cannot tell"), (0.9, "averages")):
        probes = {c: probe(low) for c in (0, 1)}
        found = judge(Sharing((LayerGradient("input", shared),)), *right, probes)
        assert found.verdict.value == verdict
        assert {side.value for side in found.by_class.values()} == {verdict}


def test_the_gain_of_a_network_that_has_fine_labels_is_its_own(nets, digits):
    rows = dict(fa.audit(nets["fine"], *digits, **QUICK).rows())
    for name in ("predicted gain", "measured gain"):
        assert rows[name].startswith("its finer labels enlarge the radius by")


def test_the_better_space_speaks_for_each_class():
    rng = np.random.default_rng(0)
    fine, groups = np.arange(400) % 4, np.array([0, 0, 1, 1])
    noise = rng.standard_normal((2, 400, 5))
    one = noise[0] + 9.0 * (fine == 0)[:, None]
    other = noise[1] + 9.0 * (fine == 2)[:, None]
    found = subclass_probes({"one": one, "other": other}, fine, groups)
    assert {c: p.where for c, p in found.items()} == {0: "one", 1: "other"}
    assert all(p.above_chance and p.accuracy.value > 0.95 for p in found.values())
    alone = subclass_probes({"one": one}, fine, groups)
    assert not alone[1].above_chance


def test_long_rows_give_the_probe_of_short_ones():
    """The dual form against the primal one: a rotation into more coordinates changes nothing."""
    rng = np.random.default_rng(0)
    fine, groups = np.arange(120) % 4, np.array([0, 0, 1, 1])
    x = rng.standard_normal((120, 6)) + 1.5 * np.eye(4, 6)[fine]
    turned = x @ np.linalg.qr(rng.standard_normal((90, 6)))[0].T
    scale = turned.std() / x.std()  # the probe divides by the deviation over all coordinates
    short = linear_probe(x, fine, groups, ridge=1e-2)
    assert linear_probe(turned, fine, groups, ridge=1e-2 / scale**2) == pytest.approx(short)
