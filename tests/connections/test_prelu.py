"""Power and leaky ReLUs: closed-form gradients against autograd, bounds against brute force."""

import numpy as np
import pytest

from featavg.data.clusters import MultiCluster
from featavg.data.compress import draw
from featavg.errors import InputError
from featavg.nets.activations._activation import LeakyReLU
from featavg.paper.connections.limits import (
    attacked_radii,
    certified_near_average,
    certified_near_decoupled,
    sphere_distance,
)
from featavg.paper.connections.min_vidal_descent import _gradient, _start
from featavg.paper.connections.power_relu import (
    PowerReLU,
    Shallow,
    ShallowObjective,
    averaged_limit,
    balanced_start,
    decoupled_limit,
    train_shallow,
)

ACTIVATIONS = [PowerReLU(1.0), PowerReLU(1.5), PowerReLU(2.0), PowerReLU(3.0), LeakyReLU(0.3)]
LABELS = np.array([1.0, 1.0, 1.0, -1.0, -1.0])


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=repr)
def test_gradient_is_autograds(activation):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 20, 6)), rng.choice([-1, 1], size=(2, 20))
    weights, head = rng.normal(size=(2, 5, 6)), rng.normal(size=(2, 5))
    found = ShallowObjective(x, y, activation).evaluate((weights, head))
    w, v = (torch.tensor(a, requires_grad=True) for a in (weights, head))
    z, r = torch.tensor(x) @ w.transpose(1, 2), w.norm(dim=-1)[:, None, :]
    if isinstance(activation, PowerReLU):
        phi = z.clamp(min=0) ** activation.p / r ** (activation.p - 1)
    else:
        phi = torch.maximum(z, activation.leak * z)
    loss = torch.exp(-torch.tensor(y) * (phi * v[:, None, :]).sum(-1)).mean(dim=1)
    torch.log(loss).sum().backward()
    np.testing.assert_allclose(found.log_loss, torch.log(loss).detach().numpy(), rtol=1e-12)
    np.testing.assert_allclose(found.gradient[0], w.grad.numpy(), rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(found.gradient[1], v.grad.numpy(), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=repr)
def test_input_gradient_is_a_difference_quotient(activation):
    rng = np.random.default_rng(1)
    net = Shallow(rng.normal(size=(7, 4)), rng.normal(size=7), activation)
    x, step = rng.normal(size=(30, 4)), 1e-6
    quotient = np.stack([(net(x + step * e) - net(x - step * e)) / (2 * step) for e in np.eye(4)], axis=1)
    np.testing.assert_allclose(net.gradient(x), quotient, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0])
def test_flow_keeps_the_layers_balanced(p):
    data = draw(MultiCluster(k=4, d=200, sigma=0.001, norms=1.0), 40, 40, 0)
    run = train_shallow(ShallowObjective(data.x, data.y, PowerReLU(p)), data.unit_weights, scale=1e-3, time=300.0)
    net = run.net
    assert run.outcome.name == "TIME_REACHED"
    assert np.all(data.y * net(data.x) > 0)
    strong = net.strongest()
    np.testing.assert_allclose(np.abs(net.head)[strong], net.norms[0][strong], rtol=0.02, atol=1e-3)


@pytest.mark.parametrize("p", [1.0, 1.5, 3.0])
@pytest.mark.parametrize("seed", range(3))
def test_distance_is_above_a_million_random_points_and_below_its_certificate(p, seed):
    rng = np.random.default_rng(seed)
    limit = decoupled_limit(np.eye(5), LABELS, p)
    moved = limit.weights[[0, 1, 2, 3, 4, 4]] + 0.05 * rng.normal(size=(6, 5))
    net = Shallow(moved, np.array([1, 1.1, 0.9, -1, -0.5, -0.6]), limit.activation)
    found = sphere_distance(net, limit, seed)
    x = rng.normal(size=(200_000, 5))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    brute = np.abs(found.scale * net(x) - limit(x)).max()
    assert brute <= found.ascent * 1.001
    assert found.lower <= found.ascent * (1 + 1e-9)
    assert found.ascent <= found.upper * (1 + 1e-9)


def test_distance_of_the_two_limits_is_known_for_two_clusters():
    # One cluster a class: the averaged and the decoupled limit are the same function.
    labels = np.array([1.0, -1.0])
    found = sphere_distance(averaged_limit(np.eye(2), labels), decoupled_limit(np.eye(2), labels, 1.0))
    assert found.upper < 1e-9


def test_radii_of_the_limits_are_the_closed_forms():
    labels = LABELS.astype(int)
    x, y = np.eye(5), labels
    average = averaged_limit(np.eye(5), LABELS)
    radii = attacked_radii(average, x, y, np.eye(5), labels)
    np.testing.assert_allclose(radii, 5**-0.5, rtol=1e-4)
    np.testing.assert_allclose(certified_near_average(x, y, np.eye(5), labels, 0.0), 5**-0.5, rtol=1e-12)
    cubes = decoupled_limit(np.eye(5), LABELS, 3.0)
    radii = attacked_radii(cubes, x, y, np.eye(5), labels)
    certified = certified_near_decoupled(x, y, np.eye(5), labels, 3.0, 0.0)
    np.testing.assert_allclose(radii, 0.5**0.5, rtol=1e-3)
    assert np.all(certified <= radii)
    np.testing.assert_allclose(certified, 0.5**0.5, rtol=0.01)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: PowerReLU(0.5), "p"),
        (lambda: LeakyReLU(1.0), "leak"),
        (lambda: balanced_start(np.ones((1, 3)), 1.0), "width"),
        (lambda: balanced_start(np.eye(2), 0.0), "scale"),
    ],
)
def test_bad_input_is_named(make, name):
    with pytest.raises(InputError, match=name):
        make()


def test_descent_gradient_against_autograd():
    torch = pytest.importorskip("torch")
    draw = np.random.default_rng(0)
    x, y = draw.standard_normal((7, 5)), np.where(np.arange(7) % 2, 1.0, -1.0)
    weights, head = draw.standard_normal((4, 5)), draw.standard_normal(4)
    by_weights, by_head, loss = _gradient(x, y, weights, head, 3.0)
    w, v = (torch.tensor(array, requires_grad=True) for array in (weights, head))
    hidden = torch.relu(torch.tensor(x) @ w.T) ** 3 / w.norm(dim=1) ** 2
    slow = ((hidden @ v - torch.tensor(y)) ** 2).mean()
    slow.backward()
    assert loss == pytest.approx(slow.item())
    assert np.allclose(by_weights, w.grad.numpy())
    assert np.allclose(by_head, v.grad.numpy())


def test_a_nudge_points_to_features_of_the_own_class():
    features = np.eye(4, 200)
    weights, head = _start("nudged", features, 40, 1e-3, seed=0)
    plain, _ = _start("random", features, 40, 1e-3, seed=0)
    gain = (weights - plain) @ features.T / 1e-3
    assert np.all(np.where(head > 0, gain[:, :2].max(axis=1), gain[:, 2:].max(axis=1)) > 0.03)
    assert np.all(np.abs(np.linalg.norm(weights, axis=1) / 1e-3 - 1) < 1e-5)
