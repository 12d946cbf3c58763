"""Exact l_inf radii against a twin that visits every activation region."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.optimize import linprog

from featavg.data.clusters import MultiCluster
from featavg.errors import InputError
from featavg.nets.two_layer import TwoLayer, binary
from featavg.robustness.attacks.suite import attack_suite
from featavg.robustness.exact.budget import Budget
from featavg.robustness.exact.result import RadiusStatus
from featavg.robustness.models.model import network_model
from featavg.robustness.radii import radii
from featavg.training.train import train


def brute_force(net: TwoLayer, x: np.ndarray, y: int, readout: str, positive: np.ndarray | None) -> float:
    """The nearest flipped point over all 2^M activation regions, each a textbook linear program."""
    best = np.inf
    z = net.weights @ x + net.biases
    (M, N), head = net.weights.shape, net.head
    for pattern in product((0.0, 1.0), repeat=M):
        active = np.array(pattern)
        signs = 2 * active - 1
        # Inside the region the outputs are affine: F = linear @ delta + constant.
        linear, constant = (head * active) @ net.weights, (head * active) @ z
        for rows, limits in _flips(linear, constant, y, readout, positive):
            a = np.concatenate([-signs[:, None] * net.weights, rows])
            b = np.concatenate([signs * z, limits])
            # Rows of size one, so that the solver's absolute tolerance means something.
            sizes = np.abs(a).max(axis=1)
            sizes[sizes == 0] = 1.0
            a, b = a / sizes[:, None], b / sizes
            table = np.zeros((len(a) + 2 * N, N + 1))
            table[: len(a), :N] = a
            table[len(a) :, :N] = np.concatenate([np.eye(N), -np.eye(N)])
            table[len(a) :, -1] = -1.0
            limit = np.concatenate([b, np.zeros(2 * N)])
            bounds = [(None, None)] * N + [(0, None)]
            found = linprog(np.eye(N + 1)[-1], table, limit, bounds=bounds, method="highs")
            if found.status == 0:
                best = min(best, found.fun)
    return best


def _flips(
    linear: np.ndarray, constant: np.ndarray, y: int, readout: str, positive: np.ndarray | None
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Conditions rows @ delta <= limits, any of which flips."""
    if positive is None:
        return [(y * linear, -y * constant)]
    own, other = (positive, ~positive) if y > 0 else (~positive, positive)
    if readout == "sum":
        rows = linear[own].sum(0) - linear[other].sum(0)
        return [(rows[None], np.array([constant[other].sum() - constant[own].sum()]))]
    return [(linear[own] - linear[j], constant[j] - constant[own]) for j in np.flatnonzero(other)]


def random_case(seed: int) -> tuple[TwoLayer, np.ndarray, str, np.ndarray | None]:
    """A small network, every third of them degenerate in some way."""
    draw = np.random.default_rng(seed)
    M, N = int(draw.integers(2, 6)), int(draw.integers(1, 5))
    weights, biases = draw.normal(size=(M, N)), draw.normal(size=M)
    match seed % 8:
        case 1:
            weights[1] = 2 * weights[0]  # parallel
        case 2:
            weights[0] = 0.0  # a constant
        case 3:
            weights[1], biases[1] = weights[0], biases[0]  # a duplicate
        case 4:
            weights, biases = 1e-8 * weights, 1e-8 * biases
        case 5:
            weights, biases = 1e8 * weights, 1e8 * biases
        case _:
            pass
    kind = seed % 3
    if kind == 0:
        return (TwoLayer(weights, biases, draw.normal(size=(1, M))), draw.normal(size=(3, N)), "", None)
    head = draw.normal(size=(3, M))
    positive = np.array([True, False, draw.random() < 0.5])
    return (TwoLayer(weights, biases, head), draw.normal(size=(3, N)), ("sum", "max")[kind - 1], positive)


@pytest.mark.parametrize("block", range(4))
def test_agrees_with_brute_force(block: int) -> None:
    answered = 0
    for seed in range(block * 12, block * 12 + 12):
        net, x, readout, positive = random_case(seed)
        draw = np.random.default_rng(seed)
        y = draw.choice([-1, 1], len(x))
        found = radii(net, x, y, norm="linf", readout=readout or "sum", positive=positive)
        for i in range(len(x)):
            truth = brute_force(net, x[i], int(y[i]), readout, positive)
            if found.outcomes[i] is RadiusStatus.MISCLASSIFIED:
                assert truth <= 1e-7
            elif np.isinf(truth):
                assert np.isinf(found.attack[i])
            else:
                answered += 1
                np.testing.assert_allclose(found.attack[i], truth, rtol=1e-6)
                np.testing.assert_allclose(found.certified[i], truth, rtol=1e-6)
    assert answered > 5


@pytest.mark.parametrize("readout", ["sum", "max"])
def test_no_attack_is_below_the_certificate(readout: str) -> None:
    task = MultiCluster(k=4, d=60, orientation="random")
    run = train(task, labels="fine", n=100, steps=60, lr=0.05, coordinates="ambient")
    test = task.sample(15, seed=1)
    exact = radii(run, test, norm="linf", readout=readout)
    model = network_model(run.net, task.positive_clusters, readout)
    found = attack_suite(model, test.x, test.y, "linf")
    right = exact.attack > 0
    assert set(exact.outcomes) <= {RadiusStatus.EXACT, RadiusStatus.MISCLASSIFIED}
    assert np.all(found.radii[right] >= exact.certified[right] * (1 - 1e-9))
    excess = found.radii[right] / exact.attack[right] - 1
    assert np.median(excess) < 5e-3
    label = model.decision.labels(test.y)
    assert np.all(model.margins(exact.witness, label) <= 0)
    np.testing.assert_allclose(np.abs(exact.witness - test.x).max(axis=1), exact.attack, rtol=1e-12)


def test_a_spent_budget_leaves_a_bracket() -> None:
    draw = np.random.default_rng(0)
    net = binary(draw.normal(size=(20, 15)))
    x = draw.normal(size=(4, 15))
    y = np.where(net(x)[:, 0] > 0, 1, -1)
    whole = radii(net, x, y, norm="linf")
    part = radii(net, x, y, norm="linf", budget=Budget(nodes=1))
    assert RadiusStatus.BUDGET in part.outcomes
    assert np.all(part.certified <= whole.certified * (1 + 1e-9))
    assert np.all(part.attack >= whole.attack * (1 - 1e-7))
    assert np.all(part.nodes <= 1)


def test_compressed_networks_are_refused() -> None:
    task = MultiCluster(k=4, d=500)
    run = train(task, labels="coarse", n=20, m=2, steps=5)
    for net in (run, run.net):
        with pytest.raises(InputError, match='coordinates="ambient"'):
            radii(net, task.sample(3, seed=1), norm="linf")


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"y": None}, "y is missing"),
        ({"y": np.array([1, 0])}, "y has labels other than"),
        ({"y": np.array([1])}, "y has shape"),
        ({"points": np.full((2, 2), np.inf)}, "not finite"),
        ({"readout": "probability"}, "readout"),
        ({"positive": np.array([True, True])}, "class empty"),
    ],
)
def test_bad_input(change: dict[str, object], match: str) -> None:
    asked = {
        "net": TwoLayer(np.eye(2), np.zeros(2), np.eye(2)), "points": np.eye(2),
        "y": np.array([1, -1]), "readout": "max", "positive": np.array([True, False]),
    } | change  # fmt: skip
    with pytest.raises(InputError, match=match):
        radii(**asked, norm="linf")  # type: ignore[arg-type]
