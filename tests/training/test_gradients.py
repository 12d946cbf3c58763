"""Closed-form gradients against torch autograd: every net, every loss, every layer."""

import numpy as np
import pytest

from featavg.nets.two_layer import binary, grouped
from featavg.registry import LOSSES
from featavg.training.objectives import TwoLayerObjective

torch = pytest.importorskip("torch")
RNG = np.random.default_rng(2)
X = RNG.normal(size=(40, 7))
Y = RNG.choice([-1, 1], 40)
CLUSTERS = RNG.integers(0, 3, 40)

NETS = {
    "binary": (binary(RNG.normal(size=(6, 7)), RNG.normal(size=6)), Y),
    "grouped": (grouped(RNG.normal(size=(6, 7)), 3), CLUSTERS),
}
CASES = [("binary", "logistic"), ("binary", "exponential"), ("grouped", "cross-entropy")]


def torch_loss(name: str, outputs, targets):
    if name == "cross-entropy":
        return torch.nn.functional.cross_entropy(outputs, targets)
    q = targets * outputs[:, 0]
    return (torch.nn.functional.softplus(-q) if name == "logistic" else torch.exp(-q)).mean()


@pytest.mark.parametrize(("kind", "loss"), CASES)
def test_the_gradient_is_that_of_autograd(kind: str, loss: str) -> None:
    net, targets = NETS[kind]
    names = ("weights", "biases", "head")
    objective = TwoLayerObjective(X, targets, net, LOSSES.build(loss), names)
    evaluation = objective.evaluate(objective.params_of(net))
    leaves = [torch.tensor(getattr(net, name), requires_grad=True) for name in names]
    w, b, a = leaves
    outputs = torch.relu(torch.tensor(X) @ w.T + b) @ a.T
    value = torch_loss(loss, outputs, torch.tensor(targets))
    value.backward()
    np.testing.assert_allclose(np.exp(evaluation.log_loss), value.item(), rtol=1e-12)
    for name, mine, leaf in zip(names, evaluation.gradient, leaves, strict=True):
        scaled = mine * np.exp(evaluation.log_loss)
        np.testing.assert_allclose(scaled, leaf.grad.numpy(), rtol=1e-9, atol=1e-13, err_msg=name)


def test_the_indicator_is_one_at_zero() -> None:
    net = binary(np.array([[1.0, 0.0], [-1.0, 0.0]]))
    x = np.array([[0.0, 1.0]])
    objective = TwoLayerObjective(x, np.array([1]), net, LOSSES.build("logistic"))
    slopes = objective.evaluate(objective.params_of(net)).neuron_slopes
    assert (slopes != 0).all()
