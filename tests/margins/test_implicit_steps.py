"""Implicit steps of the margin network: gradients against autograd, shares against a plain minimiser."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

torch = pytest.importorskip("torch")

from featavg.data.image_sets.loading import load  # noqa: E402
from featavg.paper.margins.network import implicit, passes, support  # noqa: E402
from featavg.paper.margins.network.epoch import ImageTensors, Measured, measure  # noqa: E402
from featavg.paper.margins.network.implicit import inner_products, joined, moved_along, sample_gradients, shares_after  # noqa: E402
from featavg.paper.margins.network.passes import outputs  # noqa: E402
from featavg.paper.margins.network.run import MarginCNN, SupportRule, images_of, tensors  # noqa: E402
from featavg.paper.margins.network.support import SupportSteps, share_outside  # noqa: E402
from featavg.training.controllers._rules import LossBased  # noqa: E402

TINY = MarginCNN(size=8, channels=(3, 4), hidden=12)


def digits(count: int = 30) -> ImageTensors:
    return images_of(load("digits").train[slice(0, count)])


def by_autograd(params: dict, data: ImageTensors) -> np.ndarray:
    """d log l_i / d theta, a row a sample, one backward pass each."""
    free = {name: p.clone().requires_grad_() for name, p in params.items()}
    losses = torch.nn.functional.cross_entropy(
        outputs(free, data.x.permute(0, 3, 1, 2)).double(), data.y, reduction="none"
    )
    rows = []
    for loss in losses:
        parts = torch.autograd.grad(loss.log(), list(free.values()), retain_graph=True)
        rows.append(torch.cat([part.flatten() for part in parts]).double().numpy())
    return np.array(rows)


def flat(params: dict) -> np.ndarray:
    return torch.cat([p.flatten() for p in params.values()]).double().numpy()


@pytest.mark.parametrize("biases", ["first", "all"])
def test_sample_gradients_against_autograd(biases: str) -> None:
    network = MarginCNN(size=8, channels=(3, 4), hidden=12, biases=biases)
    params, data = tensors(network.initial(1)), digits()
    slow = by_autograd(params, data)
    fast = sample_gradients(params, data, torch.arange(30))
    assert np.allclose(inner_products(fast, fast), slow @ slow.T, rtol=1e-4, atol=1e-5)
    halves = [sample_gradients(params, data, rows) for rows in torch.arange(30).split(15)]
    assert np.allclose(inner_products(*halves), (slow @ slow.T)[:15, 15:], rtol=1e-4, atol=1e-5)
    assert torch.allclose(joined(*halves).log_losses, fast.log_losses, atol=1e-5)
    lengths = np.random.default_rng(0).random(30)
    step = flat(moved_along(params, fast, lengths)) - flat(params)
    assert np.allclose(step, -lengths @ slow, atol=1e-5)


@pytest.mark.parametrize("biases", ["first", "all"])
def test_a_look_is_the_forward_pass(biases: str) -> None:
    params = tensors(MarginCNN(size=8, channels=(3, 4), hidden=12, biases=biases).initial(0))
    x, _ = digits(120).rows(slice(None))
    kept = passes.forward(params, x)
    assert torch.allclose(passes.outputs_of(params, x), kept.outputs, rtol=1e-5, atol=1e-6)


def test_newtons_direction_solves_its_equation_with_shares_that_are_zero() -> None:
    draw = np.random.default_rng(0)
    gradients, rest = draw.normal(size=(6, 4)), draw.normal(size=6)
    products, rate, p = gradients @ gradients.T, 3.0, np.array([0.5, 0.0, 0.2, 0.0, 0.3, 0.0])
    direction = implicit._newton(products, p, rest, rate)
    matrix = np.eye(6) + rate * (np.diag(p) - np.outer(p, p)) @ products
    assert np.allclose(matrix @ direction, -rest, rtol=0, atol=1e-12)


def linear_problem(seed: int, n: int = 12, d: int = 30) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    return draw.normal(0.0, 3.0, n), draw.standard_normal((n, d)) + 0.5


def log_loss(log_losses: np.ndarray, gradients: np.ndarray, step: np.ndarray) -> float:
    return float(np.logaddexp.reduce(log_losses + gradients @ step))


@pytest.mark.parametrize("rate", [1e-3, 0.1, 10.0, 1e4])
@pytest.mark.parametrize("seed", range(3))
def test_the_step_against_a_plain_minimiser(rate: float, seed: int) -> None:
    log_losses, gradients = linear_problem(seed)
    shares = shares_after(log_losses, gradients @ gradients.T, rate, tolerance=1e-10)
    step = -rate * shares @ gradients
    assert shares.sum() == pytest.approx(1.0)

    def objective(v: np.ndarray) -> float:
        return log_loss(log_losses, gradients, v) + float(v @ v) / (2 * rate)

    slow = minimize(objective, np.zeros(gradients.shape[1]), method="BFGS", options={"gtol": 1e-8})
    assert objective(step) <= slow.fun + 1e-7 * max(1.0, abs(slow.fun))
    after = log_losses + gradients @ step
    assert np.allclose(shares, np.exp(after - np.logaddexp.reduce(after)), atol=1e-6)
    assert log_loss(log_losses, gradients, step) <= log_loss(log_losses, gradients, 0 * step)


def test_without_a_rate_the_shares_are_those_before() -> None:
    log_losses, gradients = linear_problem(0)
    shares = shares_after(log_losses, gradients @ gradients.T, 0.0)
    assert np.allclose(shares, np.exp(log_losses - np.logaddexp.reduce(log_losses)))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("rate", [1e-4, 0.01, 1.0])
def test_what_is_left_out_moves_a_step_by_no_more_than_its_share(seed: int, rate: float) -> None:
    """|step(support) - step(all)| <= 2 rate s max|g|, s the share of the others after the step."""
    log_losses, gradients = linear_problem(seed)
    members = np.flatnonzero(log_losses > np.median(log_losses))
    steps = []
    for rows in (members, np.arange(len(log_losses))):
        g = gradients[rows]
        steps.append(-rate * shares_after(log_losses[rows], g @ g.T, rate, 1e-12) @ g)
    outside = share_outside(log_losses + gradients @ steps[0], members)
    longest = np.linalg.norm(gradients, axis=1).max()
    gap = np.linalg.norm(steps[0] - steps[1])
    assert 0 < gap <= 2 * rate * outside * longest * (1 + 1e-9)


def test_the_bound_is_attained_by_opposite_samples() -> None:
    """Two samples that pull against each other, in the limit of a small rate."""
    losses, gradients, rate = np.log([0.9, 0.1]), np.array([[1.0], [-1.0]]), 1e-6
    products = gradients @ gradients.T
    alone = -rate * shares_after(losses[:1], products[:1, :1], rate) @ gradients[:1]
    both = -rate * shares_after(losses, products, rate) @ gradients
    assert abs(alone - both)[0] == pytest.approx(2 * rate * 0.1, rel=1e-5)


def steps_over(data: ImageTensors, params: dict, **rule: int) -> SupportSteps:
    given = {"heaviest": 10, "corrections": 0, **rule}
    return SupportSteps(data, params, 0.01, SupportRule(**given), batch=10)


def test_an_implicit_step_over_a_network_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """With every sample known and no correction, the step is the one of the gradients by autograd."""
    data, params = digits(20), tensors(TINY.initial(0))
    steps = steps_over(data, params, heaviest=20)
    before = steps.measured()
    slow = by_autograd(params, data)
    lengths = 0.01 * shares_after(before.log_losses, slow @ slow.T, 0.01)
    steps.implicit(LossBased(0.01))
    assert np.allclose(flat(steps.params) - flat(params), -lengths @ slow, atol=1e-6)
    assert steps.before.log_loss < before.log_loss
    assert steps.rate == pytest.approx(0.01 * 2**0.2)


@pytest.mark.parametrize("corrections", [0, 1, 3])
def test_corrections_never_make_a_step_worse(corrections: int) -> None:
    data, params = digits(20), tensors(TINY.initial(0))
    ends = []
    for count in (0, corrections):
        steps = steps_over(data, params, heaviest=20, corrections=count)
        steps.rate = 0.5
        trial = steps._best_of_corrections(steps._linearised(np.arange(20)))
        ends.append(measure(trial, data).log_loss)
    assert ends[1] <= ends[0]


def failing(steps: SupportSteps, after: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step whose losses are `after`, above all that was before."""
    steps.measured()
    monkeypatch.setattr(steps, "_best_of_corrections", lambda linear: steps.params)
    monkeypatch.setattr(support, "measure", lambda *arguments: Measured(after, after))
    steps.implicit(LossBased(0.01))


def test_a_failed_step_is_undone_and_its_rate_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    params = tensors(TINY.initial(0))
    steps = steps_over(digits(20), params, heaviest=20)
    failing(steps, np.full(20, 9.0), monkeypatch)
    assert steps.rate == pytest.approx(0.01 / 2**0.5)
    assert steps.params is params


@pytest.mark.parametrize(("outside", "blamed"), [(0.4, True), (0.6, False)])
def test_samples_that_made_a_step_fail_join(monkeypatch: pytest.MonkeyPatch, outside: float, blamed: bool) -> None:
    steps = steps_over(digits(20), tensors(TINY.initial(0)), heaviest=5)
    first = set(np.argsort(-steps.measured().log_losses)[:5].tolist())
    monkeypatch.setattr(support, "_NEWCOMERS", 1)
    steps.linear = steps._linearised(np.array(sorted(first)))
    newcomer = next(i for i in range(20) if i not in first)
    after = np.full(20, -30.0)
    after[sorted(first)] = 9.0 + np.log((1 - outside) / 5)
    after[newcomer] = 9.0 + np.log(outside)
    failing(steps, after, monkeypatch)
    assert steps.linear.rows.tolist() == [*sorted(first), newcomer]
    assert np.allclose(steps.linear.products, steps._linearised(steps.linear.rows).products)
    assert steps.rate == pytest.approx(0.01 / 2**0.5 if blamed else 0.01)
