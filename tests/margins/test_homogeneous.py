"""Deep networks, their margins and KKT residuals, and the flow that slides on kinks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from featavg.data.clusters import MultiCluster
from featavg.errors import InputError
from featavg.measures.margin import kkt, margins, parameter_norm, sample_gradients, sample_margins
from featavg.measures.svm import checked_max_margin
from featavg.nets.deep import Deep
from featavg.nets.two_layer import TwoLayer, binary_head
from featavg.paper.margins.homogeneous import homogeneous_flow, random_deep, turning, two_sided
from featavg.paper.margins.kkt import LISTED, lipschitz_bound, lipschitz_radii
from featavg.paper.margins.kkt_flow import SLIDING, SlidingFlow
from featavg.robustness.radii import radii
from featavg.training.controllers import ErrorControl
from featavg.training.driver import SaveAt, Stop, run
from featavg.training.losses import CrossEntropy, Exponential, Logistic
from featavg.training.objectives import DeepObjective

LOSSES = {"logistic": (Logistic(), 1), "exponential": (Exponential(), 1), "ce": (CrossEntropy(), 3)}


def data(outputs: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    x = draw.standard_normal((2, 7, 5))
    y = draw.integers(0, outputs, (2, 7)) if outputs > 1 else draw.choice([-1, 1], (2, 7))
    return x, y


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
@pytest.mark.parametrize("loss", LOSSES)
def test_gradient_against_autograd(depth: int, loss: str) -> None:
    torch = pytest.importorskip("torch")
    rule, outputs = LOSSES[loss]
    x, y = data(outputs)
    net = random_deep(5, (4,) * (depth - 1) + (outputs,), 1.0, (0, 1))
    found = DeepObjective(x, y, net, rule).evaluate(net.weights)
    for s in range(2):
        layers = [torch.tensor(w[s], requires_grad=True) for w in net.weights]
        h = torch.tensor(x[s])
        for number, layer in enumerate(layers):
            h = (h if number == 0 else torch.relu(h)) @ layer.T
        target = torch.tensor(y[s])
        slow = {
            "logistic": lambda h=h, t=target: torch.nn.functional.softplus(-t * h[:, 0]).mean(),
            "exponential": lambda h=h, t=target: torch.exp(-t * h[:, 0]).mean(),
            "ce": lambda h=h, t=target: torch.nn.functional.cross_entropy(h, t),
        }[loss]()
        slow.backward()
        assert found.log_loss[s] == pytest.approx(float(slow.detach().log()))
        for ours, layer in zip(found.gradient, layers, strict=True):
            assert np.allclose(ours[s] * float(slow.detach()), layer.grad.numpy(), atol=1e-12)


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_outputs_are_homogeneous_and_margins_do_not_scale(depth: int) -> None:
    x, y = data(1)
    net = random_deep(5, (4,) * (depth - 1) + (1,), 1.0, (0, 1))
    scaled = Deep(tuple(3.0 * w for w in net.weights))
    assert np.allclose(scaled(x), 3.0**depth * net(x))
    assert net.homogeneity() == depth
    found = [
        margins(n(x), y, Exponential()(n(x), y).log_losses, parameter_norm(n.weights, 1), depth) for n in (net, scaled)
    ]
    assert np.allclose(found[0].normalized, found[1].normalized)
    for one in found:
        assert np.all(one.smoothed <= one.normalized + 1e-12)
        assert np.all(one.smoothed >= one.normalized - one.slack - 1e-12)
        assert np.all(one.sandwich_gap() < 1e-12)


def test_a_later_bias_is_named() -> None:
    weights = (np.ones((3, 2)), np.ones((3, 3)), np.ones((1, 3)))
    assert Deep(weights, (np.ones(3), None, None)).homogeneity() == 3
    with pytest.raises(InputError, match="layer 2 has a bias"):
        Deep(weights, (None, np.ones(3), None)).homogeneity()


def test_multiclass_margin_is_against_the_best_other() -> None:
    outputs = np.array([[3.0, 1.0, 2.0], [0.0, 5.0, 6.0]])
    assert sample_margins(outputs, np.array([0, 1])).tolist() == [1.0, -1.0]


def test_kkt_of_a_linear_network_is_the_svm() -> None:
    draw = np.random.default_rng(0)
    x, y = draw.standard_normal((10, 20)), np.repeat([1, -1], 5)
    svm = checked_max_margin(x, y)
    found = kkt(Deep((7.0 * svm.w[None],)), x, y)
    assert found.stationarity < 1e-12
    assert found.complementarity == pytest.approx(0.0, abs=1e-10)
    assert np.allclose(found.multipliers, svm.multipliers, atol=1e-10)
    away = kkt(Deep(((svm.w + 0.02)[None],)), x, y)
    assert away.stationarity > 1e-3


def test_kkt_gradients_against_autograd() -> None:
    torch = pytest.importorskip("torch")
    x, y = data(1)
    net = random_deep(5, (4, 1), 1.0, (0,))[0]
    found = sample_gradients(net, x[0], y[0])
    for i in range(7):
        first, head = (torch.tensor(w, requires_grad=True) for w in net.weights)
        q = y[0, i] * (torch.relu(torch.tensor(x[0, i]) @ first.T) @ head.T)[0]
        q.backward()
        slow = np.concatenate([first.grad.numpy().ravel(), head.grad.numpy().ravel()])
        assert np.allclose(found[i], slow)


def test_kkt_refuses_what_it_cannot_judge() -> None:
    x, y = np.eye(2), np.array([1, -1])
    with pytest.raises(InputError, match="does not fit"):
        kkt(Deep((np.array([[1.0, 1.0]]),)), x, y)
    with pytest.raises(InputError, match="outputs"):
        kkt(Deep((np.eye(2),)), x, y)
    broken = (np.eye(2), np.array([[1.0, -1.0]]))
    with pytest.raises(InputError, match="not homogeneous"):
        kkt(Deep(broken, (None, np.ones(1))), x, y)


@pytest.mark.parametrize("layers", ["first", "both"])
def test_sliding_flow_against_tiny_steps(layers: str) -> None:
    """Euler with steps so short that its jumps over the kink do not matter."""
    task = MultiCluster(k=2, d=6)
    sample = task.sample(8, seed=3)
    x, y = sample.x / np.sqrt(6), sample.y
    weights = 0.3 * np.random.default_rng(1).standard_normal((4, 6))
    head = binary_head(2).copy()
    objective = DeepObjective(x, y, Deep((weights, head)), Logistic())
    stepper = SlidingFlow(x, tolerance=1e-7, layers=layers)
    ran = run(
        objective,
        (weights, head),
        stepper=stepper,
        controller=ErrorControl(least=1e-4),
        stop=Stop(steps=20_000, log_time=4.0),
    )
    w, a, steps = weights.copy(), head.copy(), 20_000
    rate = np.exp(float(ran.log_times[-1])) / steps
    for _ in range(steps):
        z = x @ w.T
        slopes = -y / (1.0 + np.exp(y * (np.maximum(z, 0.0) @ a[0]))) / len(y)
        turn = rate * slopes @ np.maximum(z, 0.0) if layers == "both" else 0.0
        w = w - rate * ((slopes[:, None] * a) * (z >= 0)).T @ x
        a = a - turn
    assert np.allclose(ran.parameters["weights1"][-1], w, atol=1e-3)
    assert np.allclose(ran.parameters["weights2"][-1], a, atol=1e-3)


def test_sliding_keeps_kinks_and_the_margin_grows() -> None:
    task = MultiCluster(k=4, d=200)
    sample = task.sample(24, seed=0)
    x, y = sample.x / np.sqrt(200), sample.y
    weights = 1e-3 * np.random.default_rng(0).standard_normal((8, 200))
    stepper = SlidingFlow(x, tolerance=1e-5, layers="first")
    objective = DeepObjective(x, y, Deep((weights, binary_head(4))), Exponential())
    start = (weights, binary_head(4))
    ran = run(
        objective,
        start,
        stepper=stepper,
        controller=ErrorControl(least=1e-4),
        stop=Stop(steps=3000, log_loss=-60.0),
        save_at=SaveAt(every=1),
    )
    found = ran.parameters["weights1"]
    total = ran.log_loss + np.log(24)
    smoothed = (-total / np.linalg.norm(found, axis=(1, 2)))[total < 0]
    assert np.all(np.diff(smoothed) >= -1e-12 * smoothed[-1])
    last = kkt(Deep((found[-1], binary_head(4))), x, y, layers="first")
    assert last.kinks > 0
    assert last.excess == pytest.approx(0.0, abs=1e-9)
    assert last.stationarity < 1e-2
    assert SLIDING not in stepper.init(start, objective.evaluate(start))[0]


def test_sliding_flow_wants_two_layers() -> None:
    objective = DeepObjective(np.eye(2), np.array([0, 1]), Deep((np.eye(2),)), CrossEntropy())
    with pytest.raises(InputError, match="two-layer"):
        run(objective, (np.eye(2),), stepper=SlidingFlow(np.eye(2)), controller="error", stop=Stop(1))


def test_two_sided_start_has_one_path_a_class() -> None:
    x, y = data(1)
    net = two_sided(x, y, (6, 4, 1), (0, 1))
    assert np.all(net.weights[2][..., :2] >= 0)
    assert np.all(net.weights[2][..., 2:] <= 0)
    assert np.all(net.weights[1][:, :2, 3:] == 0)


@pytest.mark.parametrize("m", [2, LISTED])
def test_lipschitz_bound_is_below_the_exact_radius(m: int) -> None:
    task = MultiCluster(k=4, d=50)
    sample = task.sample(20, seed=0)
    features = task.features_in(50)
    signs = np.repeat([1.0, -1.0], m)
    mean = task.cluster_labels @ features
    weights = signs[:, None] * mean + 2.0 * np.random.default_rng(0).standard_normal((2 * m, 50))
    net = TwoLayer(weights, np.zeros(2 * m), binary_head(m))
    bound = lipschitz_radii(net, sample.x, sample.y)
    assert np.all(bound <= radii(net, sample.x, sample.y, jobs=1).attack + 1e-9)
    draw = np.random.default_rng(1)
    a, b = draw.standard_normal((2, 500, 50))
    slopes = np.abs(net(a) - net(b))[:, 0] / np.linalg.norm(a - b, axis=1)
    assert slopes.max() <= lipschitz_bound(net) + 1e-9


def test_a_turn_without_growth_would_be_noticed() -> None:
    flow = homogeneous_flow(2, log10_loss=-20.0)
    assert turning(flow) >= 0.999
    stuck = replace(flow.margins, smoothed=np.full_like(flow.margins.smoothed, 0.1))
    assert turning(replace(flow, margins=stuck)) < 0.5
