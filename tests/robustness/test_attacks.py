"""Attack strength against the truth: attack x model x norm, within 0.1% of analytic distances."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from featavg.errors import InputError
from featavg.nets.two_layer import TwoLayer, binary
from featavg.robustness.attacks.attack import AttackEnd, AttackProblem, AttackResult, FeatureDirections
from featavg.robustness.attacks.line_search import shorten
from featavg.robustness.attacks.suite import attack_suite
from featavg.robustness.models.model import Model, TwoLayerModel, network_model
from featavg.robustness.models.norms import length, to_halfspace

D = 40


@dataclass(frozen=True)
class Setting:
    """A linear problem: where the points are, and what a unit of input is."""

    name: str
    scale: float
    bounds: tuple[float, float] | None
    faces: bool

    def __repr__(self) -> str:
        return self.name


SETTINGS = [
    Setting("inside-the-box", 1.0, (0.0, 1.0), faces=False),
    Setting("on-its-faces", 1.0, (0.0, 1.0), faces=True),
    Setting("raw", 1.0, None, faces=False),
    Setting("raw-1e6", 1e6, None, faces=False),
    Setting("raw-1e-6", 1e-6, None, faces=False),
]
# Bisection on the radius with PGD inside is what it is; the others solve a linear model.
ATTACKS = {
    "multi-start-ddn": 1e-3,
    "ddn": 1e-3,
    "deepfool": 1e-3,
    "directions": 1e-3,
    "fmn": 1e-3,
    "pgd": 5e-3,
    "apgd": 5e-3,
    "random-starts": 5e-3,
    "polish": 1e-3,
}


def linear_problem(setting: Setting, seed: int = 0) -> tuple[np.ndarray, float, np.ndarray, np.ndarray]:
    """w, b, points and their labels."""
    draw = np.random.default_rng(seed)
    w = draw.normal(size=D)
    x = draw.uniform(0.3, 0.7, (12, D))
    if setting.faces:
        # Two thirds of the coordinates start at a face of the box, many on the side to go to.
        at = draw.choice([0.0, 1.0, np.nan], (12, D))
        x = np.where(np.isnan(at), x, at)
    b = -float(np.median(x @ w))
    x = x * setting.scale
    b = b * setting.scale
    y = np.where(x @ w + b > 0, 1, -1)
    return w, b, x, y


def analytic(w: np.ndarray, b: float, x: np.ndarray, y: np.ndarray, setting: Setting, norm: str) -> np.ndarray:
    """The slow twin of `to_halfspace`: bisection on the multiplier, one point at a time."""
    gaps = y * (x @ w + b)
    found = []
    for point, sign, gap in zip(x, y, gaps, strict=True):
        towards = -sign * (w if norm == "l2" else np.sign(w))
        low, high = 0.0, 1e3 * setting.scale

        def step(s: float, towards: np.ndarray = towards, point: np.ndarray = point) -> np.ndarray:
            moved = point + s * towards
            return (moved if setting.bounds is None else np.clip(moved, *setting.bounds)) - point

        for _ in range(200):
            middle = (low + high) / 2
            short = gap + sign * (w @ step(middle)) > 0
            low, high = (middle, high) if short else (low, middle)
        found.append(np.linalg.norm(step(high)) if norm == "l2" else np.abs(step(high)).max())
    return np.array(found)


def numpy_linear(w: np.ndarray, b: float, setting: Setting) -> Model:
    # relu(t) - relu(-t) = t.
    net = TwoLayer(np.array([w, -w]), np.array([b, -b]), np.array([[1.0, -1.0]]))
    return network_model(net, bounds=setting.bounds)


def torch_linear(w: np.ndarray, b: float, setting: Setting) -> Model:
    torch = pytest.importorskip("torch")
    from featavg.robustness.models.torch_model import torch_model

    layer = torch.nn.Linear(D, 2).double()
    with torch.no_grad():
        layer.weight.copy_(torch.as_tensor(np.array([0.3 * w, 1.3 * w])))
        layer.bias.copy_(torch.as_tensor(np.array([0.3 * b, 1.3 * b])))
    # Divided by std and multiplied back by the weights' scale: a radius is in the input's own unit.
    return torch_model(layer, setting.bounds, mean=0.0, std=1.0, positive=[False, True])


WRAPPERS = {"numpy": numpy_linear, "torch": torch_linear}


@pytest.mark.parametrize("norm", ["l2", "linf"])
@pytest.mark.parametrize("setting", SETTINGS, ids=repr)
@pytest.mark.parametrize("wrapper", list(WRAPPERS))
@pytest.mark.parametrize("attack", list(ATTACKS))
def test_linear_model(attack: str, wrapper: str, setting: Setting, norm: str) -> None:
    w, b, x, y = linear_problem(setting)
    model = WRAPPERS[wrapper](w, b, setting)
    if attack == "polish" and (wrapper == "torch" or (norm == "linf" and setting.bounds)):
        with pytest.raises(InputError, match="polish"):
            attack_suite(model, x, y, norm, [attack])
        return
    features = FeatureDirections(np.array([-w, w]), np.array([0, 1]))
    found = attack_suite(model, x, y, norm, [attack], features=features)
    truth = analytic(w, b, x, y, setting, norm)
    assert strength(found, truth) < ATTACKS[attack]
    assert np.all(found.radii >= truth * (1 - 1e-6)), "below the truth: the witness cannot flip"
    check_witnesses(model, found, x, y)


def strength(found: AttackResult, truth: np.ndarray) -> float:
    """The largest relative excess over the truth."""
    return float(np.max(found.radii / truth - 1))


def check_witnesses(model: Model, found: AttackResult, x: np.ndarray, y: np.ndarray) -> None:
    flat = x.reshape(len(x), -1)
    hit = np.isfinite(found.radii)
    model = model.shaped(x) if hasattr(model, "shaped") else model
    label = model.decision.labels(y)
    witness = found.witness[hit]
    assert np.all(model.decision.margins(model.outputs(model.rows(witness)), label[hit]) <= 0)
    moved = length(witness - model.rows(flat)[hit].astype(float), found.norm)
    np.testing.assert_allclose(moved, found.radii[hit], rtol=1e-6, atol=1e-12)


@dataclass(frozen=True, eq=False)
class Scrambled(TwoLayerModel):
    """A model whose gradient points the wrong way: what a broken attack looks like."""

    def _pull(self, x, covector):
        outputs, gradient = super()._pull(x, covector)
        return outputs, np.roll(gradient, 1, axis=1)


@pytest.mark.parametrize("attack", ["ddn", "deepfool", "pgd"])
def test_a_broken_attack_would_be_noticed(attack: str) -> None:
    setting = SETTINGS[0]
    w, b, x, y = linear_problem(setting)
    model = numpy_linear(w, b, setting)
    assert isinstance(model, TwoLayerModel)
    broken = Scrambled(model.decision, model.bounds, model.space, net=model.net)
    elsewhere = FeatureDirections(np.random.default_rng(9).normal(size=(2, D)), np.array([0, 1]))
    found = attack_suite(broken, x, y, "l2", [attack], features=elsewhere)
    assert strength(found, analytic(w, b, x, y, setting, "l2")) > 1e-2


def test_half_space_in_a_box_needs_no_more_than_it_says() -> None:
    draw = np.random.default_rng(1)
    x, g = draw.uniform(0, 1, (200, 7)), draw.normal(size=(200, 7))
    gap = draw.uniform(0, 3, 200)
    for norm in ("l2", "linf"):
        delta, found = to_halfspace(x, g, gap, norm, (0.0, 1.0))
        corner = np.where(g > 0, -x, 1 - x)
        possible = np.einsum("nd,nd->n", g, corner) <= -gap
        np.testing.assert_array_equal(found, possible)
        assert np.all((x + delta >= 0) & (x + delta <= 1))
        np.testing.assert_allclose(np.einsum("nd,nd->n", g, delta)[found], -gap[found], rtol=1e-6)


def test_three_classes_take_the_nearest_rival() -> None:
    torch = pytest.importorskip("torch")
    from featavg.robustness.models.torch_model import torch_model

    draw = np.random.default_rng(2)
    w = draw.normal(size=(3, 10))
    layer = torch.nn.Linear(10, 3, bias=False).double()
    with torch.no_grad():
        layer.weight.copy_(torch.as_tensor(w))
    x = draw.normal(size=(50, 10))
    y = (x @ w.T).argmax(axis=1)
    found = attack_suite(torch_model(layer, None, groups=[0, 1, 2], readout="max"), x, y)
    scores = x @ w.T
    truth = [
        min((s[c] - s[j]) / np.linalg.norm(w[c] - w[j]) for j in range(3) if j != c)
        for s, c in zip(scores, y, strict=True)
    ]
    assert strength(found, np.array(truth)) < 1e-3


@pytest.mark.parametrize("readout", ["sum", "max", "probability"])
def test_numpy_and_torch_see_the_same_network(readout: str) -> None:
    torch = pytest.importorskip("torch")
    from featavg.robustness.models.torch_model import torch_model

    draw = np.random.default_rng(3)
    net = TwoLayer(draw.normal(size=(8, 6)), draw.normal(size=8), draw.normal(size=(4, 8)))
    module = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4, bias=False)).double()
    with torch.no_grad():
        for tensor, value in zip(module.parameters(), (net.weights, net.biases, net.head), strict=True):
            tensor.copy_(torch.as_tensor(value))
    positive = np.array([True, False, True, False])
    x = draw.normal(size=(20, 6))
    ours = network_model(net, positive, readout)
    theirs = torch_model(module, None, readout=readout, positive=positive).shaped(x)
    label = np.where(ours.decision.margins(ours.outputs(x), np.ones(20, int)) > 0, 1, 0)
    for rival in (-1, 0, 3):
        aims = np.full(20, rival)
        for one, other in zip(ours.descend(x, label, aims), theirs.descend(x, label, aims), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def test_one_logit_and_two_logits_are_the_same_question() -> None:
    w, b, x, y = linear_problem(SETTINGS[2])
    one = attack_suite(numpy_linear(w, b, SETTINGS[2]), x, y)
    two = attack_suite(torch_linear(w, b, SETTINGS[2]), x, y)
    np.testing.assert_allclose(one.radii, two.radii, rtol=1e-5)
    assert one.unit == "l2, raw"
    assert attack_suite(numpy_linear(w, b, SETTINGS[0]), x, y).unit == "l2, pixels in [0,1]"


def test_shorten_returns_what_it_evaluated() -> None:
    w, b, x, y = linear_problem(SETTINGS[2])
    model = numpy_linear(w, b, SETTINGS[2])
    label = model.decision.labels(y)
    far = x - 100 * y[:, None] * w
    problem = AttackProblem(model, x, label, model.margins(x, label))
    end = shorten(problem, AttackEnd.of(far), steps=30)
    assert end.flipped.all()
    assert np.all(model.margins(end.point, label) <= 1e-12)
    truth = np.abs(x @ w + b) / np.linalg.norm(w)
    np.testing.assert_allclose(end.radii(x, "l2"), truth, rtol=1e-5)


def test_smallest_margin_samples_are_a_direction() -> None:
    features = FeatureDirections(np.eye(2), np.array([0, 1]), np.array([[0.0, -2.0], [0.0, 2.0]]))
    found = features.at(np.array([[3.0, 1.0]]), np.array([1]))
    np.testing.assert_allclose(found["smallest-margin"], [[0.0, -1.0]])


NET = binary(np.eye(4))
POINTS = np.array([[3.0, 1.0, 0.0, 0.5], [2.0, 2.0, 1.0, 0.0]])


CONSTANT = TwoLayer(np.zeros((4, 4)), np.array([1.0, 1, 0, 0]), NET.head)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"x": np.array([[np.nan, 0, 0, 0]]), "y": [1]}, "x holds a number that is not finite"),
        ({"x": np.ones((2, 3))}, "x has shape"),
        ({"y": [1, 2]}, "y holds other labels"),
        ({"y": [0, 1]}, "y holds other labels"),
        ({"y": [1]}, "1 labels for 2 points"),
        ({"norm": "l1"}, "norm is 'l1'"),
        ({"attacks": []}, "attacks are empty"),
        ({"attacks": ["fgsm"]}, "attacks is 'fgsm'"),
        ({"attacks": ["foolbox:NoSuchAttack"]}, "NoSuchAttack"),
        ({"bounds": (0.0, 1.0)}, "outside the bounds"),
        ({"bounds": (1.0, 0.0)}, "bounds are"),
        ({"net": TwoLayer(np.eye(4), np.zeros(4), np.eye(4))}, "positive is missing"),
        ({"net": CONSTANT}, "zero gradient"),
        ({"net": CONSTANT, "norm": "linf"}, "zero gradient"),
    ],
)
def test_bad_input_is_told_in_a_sentence(change: dict[str, object], match: str) -> None:
    if "NoSuchAttack" in match:
        pytest.importorskip("foolbox")
    asked = {"x": POINTS, "y": [1, 1], "norm": "l2", "attacks": None, "bounds": None, "net": NET}
    asked |= change
    with pytest.raises(InputError, match=match):
        attack_suite(
            network_model(asked["net"], bounds=asked["bounds"]),  # type: ignore[arg-type]
            asked["x"], asked["y"], asked["norm"], asked["attacks"],  # type: ignore[arg-type]
        )  # fmt: skip


def test_misclassified_points_and_ties_have_radius_zero() -> None:
    found = attack_suite(network_model(NET), np.array([[0.0, 0, 1, 0], [1, 0, 1, 0]]), [1, 1])
    np.testing.assert_array_equal(found.radii, 0.0)
    assert found.attack == ["misclassified", "misclassified"]


def test_a_point_without_gradient_is_not_called_robust() -> None:
    # The first neuron has no weight, so where the others are off nothing can be felt.
    net = TwoLayer(np.array([[0.0, 0.0], [-1.0, 0.0]]), np.array([1.0, -5.0]), np.array([[1.0, -1.0]]))
    found = attack_suite(network_model(net), np.array([[0.0, 0.0], [-5.5, 0.0]]), [1, 1], attacks=["ddn", "deepfool"])
    np.testing.assert_array_equal(found.stuck, [True, False])
    np.testing.assert_allclose(found.radii[1], 0.5, rtol=1e-6)
    assert found.attack[0] == "not found"
    assert "no flip found for 1: not answered, which is not robust" in repr(found)
    # Its own weights as directions find the way that gradients do not show.
    both = attack_suite(network_model(net), np.array([[0.0, 0.0], [-5.5, 0.0]]), [1, 1])
    np.testing.assert_allclose(both.radii, [6.0, 0.5], rtol=1e-6)
