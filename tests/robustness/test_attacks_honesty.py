"""No silence is taken for robustness, nothing unchecked for a flip: tight cases, one defect each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from featavg.errors import InputError
from featavg.nets.two_layer import TwoLayer
from featavg.robustness.attacks.attack import AttackEnd, AttackProblem
from featavg.robustness.attacks.directions import RandomStarts
from featavg.robustness.attacks.line_search import confirmed
from featavg.robustness.attacks.pgd import pgd
from featavg.robustness.attacks.suite import attack_suite
from featavg.robustness.curve import curve, pgd_curve
from featavg.robustness.models.model import TwoLayerModel, network_model

# relu(t) - relu(-t) = t with t = <(3, 4), x> / 5: a plane through the origin.
PLANE = TwoLayer(np.array([[0.6, 0.8], [-0.6, -0.8]]), np.zeros(2), np.array([[1.0, -1.0]]))
X = np.array([[0.6, 0.8], [3.0, -1.0]])


@dataclass(frozen=True, eq=False)
class Misleading(TwoLayerModel):
    """A model whose gradient points exactly the wrong way."""

    def _pull(self, x, covector):
        outputs, gradient = super()._pull(x, covector)
        return outputs, -gradient


def dead_network() -> tuple[Any, np.ndarray, np.ndarray]:
    """Every ReLU is off at every point, and every class can be reached all the same."""
    weights = np.concatenate([np.eye(4), -np.eye(4)])
    head = np.array([[1.0, -1, 1, -1, 1, -1, 1, -1]])
    net = TwoLayer(
        np.concatenate([weights, np.zeros((1, 4))]), np.append(np.full(8, -3.0), 1.0), np.append(head, [[0.5]], axis=1)
    )
    x = np.random.default_rng(0).uniform(-1, 1, (8, 4))
    return net, x, np.ones(8, dtype=int)


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_dead_points_are_flipped_by_random_starts(norm: str) -> None:
    torch = pytest.importorskip("torch")
    from featavg.robustness.models.torch_model import torch_model

    net, x, y = dead_network()
    module = torch.nn.Sequential(torch.nn.Linear(4, 9), torch.nn.ReLU(), torch.nn.Linear(9, 1, bias=False)).double()
    with torch.no_grad():
        for tensor, value in zip(module.parameters(), (net.weights, net.biases, net.head), strict=True):
            tensor.copy_(torch.as_tensor(value))
    model = torch_model(module, None)
    label = model.decision.labels(y)
    assert not model.shaped(x).descend(x, label)[2].any(), "the case is: no gradient anywhere"
    result = attack_suite(model, x, y, norm)
    assert np.all(np.isfinite(result.radii))
    assert set(result.attack) == {"random-starts"}
    # A neuron of the other class has to pass its threshold at 3, and 1/2 more if it is alone.
    threshold = np.min(3.0 - np.concatenate([x, -x], axis=1)[:, 1::2], axis=1)
    assert np.all(result.radii >= threshold)
    assert np.median(result.radii / (threshold + 0.5)) < 1.3


def test_a_gradient_that_misleads_is_answered_by_the_default_and_told_otherwise() -> None:
    plain = network_model(PLANE, bounds=(-9.0, 9.0))
    model = Misleading(plain.decision, plain.bounds, plain.space, net=plain.net)
    alone = attack_suite(model, X, [1, 1], attacks=["ddn", "deepfool"])
    np.testing.assert_array_equal(alone.stuck, np.isinf(alone.radii))
    assert alone.stuck.all()
    assert alone.attack == ["not found", "not found"]
    assert curve(alone, [0.0, 1.0]).unresolved == 2
    usual = attack_suite(model, X, [1, 1])
    assert not usual.stuck.any()


def test_random_starts_alone_answer_where_nothing_was_found() -> None:
    plain = network_model(PLANE)
    model = Misleading(plain.decision, plain.bounds, plain.space, net=plain.net)
    label = np.ones(2, dtype=int)
    problem = AttackProblem(model, X, label, model.margins(X, label))
    assert RandomStarts()(problem).flipped.all()


def test_random_starts_cost_nothing_where_they_are_not_needed() -> None:
    model = network_model(PLANE, bounds=(-9.0, 9.0))
    label = np.ones(2, dtype=int)
    there = AttackEnd(-X, np.ones(2, dtype=bool))
    problem = AttackProblem(model, X, label, model.margins(X, label), ends=(there,))
    before = model.cost.gradients
    assert not RandomStarts()(problem).flipped.any()
    assert model.cost.gradients - before == 2, "one look at each gradient: is it dead?"


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"step_size": 0.0}, "step_size is 0.0"),
        ({"step_size": -0.1}, "step_size is -0.1"),
        ({"step_size": float("nan")}, "step_size is nan"),
        ({"steps": 0}, "steps is 0"),
        ({"steps": -1}, "steps is -1"),
        ({"restarts": 0}, "restarts is 0"),
    ],
)
@pytest.mark.parametrize("right", [True, False])
def test_pgd_that_attacks_nothing_is_refused(settings: dict[str, Any], match: str, right: bool) -> None:
    model = network_model(PLANE)
    with pytest.raises(InputError, match=match):
        pgd_curve(model, X, [1, 1] if right else [-1, -1], [0.5], **settings)
    with pytest.raises(InputError, match=match):
        pgd(model, X, np.ones(2, dtype=int), np.ones(2), **settings)


def test_a_flip_that_cannot_be_confirmed_is_dropped() -> None:
    model = network_model(PLANE)
    label = np.ones(2, dtype=int)
    claimed = AttackEnd(np.array([[0.3, 0.4], [-1.0, -1.0]]), np.array([True, True]))
    problem = AttackProblem(model, X, label, model.margins(X, label))
    np.testing.assert_array_equal(confirmed(problem, claimed).flipped, [False, True])
    # Just short of the boundary by less than the longest hair: moved beyond it and kept.
    near = AttackEnd(np.array([[0.6, 0.8], [3.0, -1.0]]) * 1e-7, np.array([True, True]))
    end = confirmed(problem, near)
    np.testing.assert_array_equal(end.flipped, [True, True])
    assert np.all(model.margins(end.point, label) <= 0)


def test_a_float32_flip_must_be_deeper_than_rounding() -> None:
    torch = pytest.importorskip("torch")
    from featavg.robustness.models.torch_model import torch_model

    model = torch_model(torch.nn.Identity(), None, groups=[0, 1]).shaped(np.zeros((1, 2)))
    eps = float(np.finfo(np.float32).eps)
    # Own output 1, the other one above it by so many roundings: 31 are not enough, 33 are.
    outputs = np.array([[1.0, 1.0 + 31 * eps], [1.0, 1.0 + 34 * eps]], dtype=np.float32)
    label = np.zeros(2, dtype=int)
    assert np.all(model.decision.margins(outputs.astype(float), label) < 0)
    np.testing.assert_array_equal(model.margins(outputs, label) <= 0, [False, True])
    np.testing.assert_array_equal(model.flips(outputs.astype(float), label), [False, True])


@pytest.mark.parametrize("kind", ["bfloat16", "float16"])
def test_half_precision_modules_are_attacked_in_float32(kind: str) -> None:
    torch = pytest.importorskip("torch")
    from featavg.robustness.models.torch_model import torch_model

    torch.manual_seed(0)
    net = torch.nn.Linear(5, 2)
    half = torch.nn.Linear(5, 2).to(getattr(torch, kind))
    with torch.no_grad():
        for ours, theirs in zip(half.parameters(), net.parameters(), strict=True):
            theirs.copy_(theirs.to(ours.dtype).float())
            ours.copy_(theirs)
    x = np.random.default_rng(0).uniform(0, 1, (6, 5)).astype(np.float32)
    whole = torch_model(net, positive=[False, True])
    y = np.where(whole.shaped(x).outputs(x).argmax(axis=1) == 1, 1, -1)
    wanted = attack_suite(whole, x, y)
    result = attack_suite(torch_model(half, positive=[False, True]), x, y)
    np.testing.assert_allclose(result.radii, wanted.radii, rtol=1e-4)
    assert next(half.parameters()).dtype == getattr(torch, kind), "the user's module is left alone"


def test_foolbox_leaves_the_global_random_state_alone() -> None:
    pytest.importorskip("foolbox")
    torch = pytest.importorskip("torch")
    model = network_model(PLANE, bounds=(-9.0, 9.0))
    torch.manual_seed(5)
    np.random.seed(5)  # noqa: NPY002
    before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    first = attack_suite(model, X, [1, 1], attacks=["foolbox:L2PGD"])
    assert torch.equal(before[0], torch.get_rng_state())
    np.testing.assert_array_equal(before[1], np.random.get_state()[1])  # noqa: NPY002
    torch.manual_seed(99)
    again = attack_suite(model, X, [1, 1], attacks=["foolbox:L2PGD"])
    np.testing.assert_array_equal(first.radii, again.radii)
    other = attack_suite(model, X, [1, 1], attacks=["foolbox:L2PGD"], seed=1)
    assert not np.array_equal(first.radii, other.radii)
