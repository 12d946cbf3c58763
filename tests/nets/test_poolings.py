"""Poolings are read-outs with one output a neuron: derivatives, ends of their paths, exact radii."""

import numpy as np
import pytest
from scipy.special import logsumexp
from tests.robustness.deep_twin import brute_force
from tests.robustness.soundness import check, pooled_case

import featavg as fa
from featavg.errors import InputError
from featavg.nets.readouts import top
from featavg.nets.readouts._readout import readout_of, score
from featavg.nets.two_layer import TwoLayer
from featavg.registry import POOLINGS, spec
from featavg.robustness.exact.decision import Decision
from featavg.robustness.exact.deep.solver import conditions_of, layered_of
from featavg.training.losses import PooledLogistic
from featavg.training.objectives import DeepObjective

POOLED = ("max", "mean", "top:q=1", "top:q=3", "top:q=5", "soft:temperature=0.5", "soft:temperature=7")
SIDES = np.array([True, True, True, False, False, False])


def torch_pool(text, part):
    """The pooling as torch would write it."""
    torch, (name, _, option) = pytest.importorskip("torch"), text.partition(":")
    if name == "soft":
        t = float(option.removeprefix("temperature="))
        return t * (torch.logsumexp(part / t, -1) - np.log(part.shape[-1]))
    q = {"max": 1, "mean": part.shape[-1]}.get(name) or int(option.removeprefix("q="))
    return part.topk(q, dim=-1).values.mean(-1)


@pytest.mark.parametrize("text", POOLED)
def test_derivatives_have_autograd_twins(text) -> None:
    torch = pytest.importorskip("torch")
    rule, rng = readout_of(text), np.random.default_rng(0)
    outputs = rng.normal(size=(40, 5)) * 3
    f = torch.tensor(outputs, requires_grad=True)
    pooled = torch_pool(text, f)
    pooled.sum().backward()
    np.testing.assert_allclose(rule.class_score(outputs), pooled.detach(), rtol=0, atol=1e-12)
    np.testing.assert_allclose(rule.derivative(outputs), f.grad, rtol=0, atol=1e-12)


@pytest.mark.parametrize("text", POOLED)
def test_the_loss_has_an_autograd_twin(text) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(1)
    outputs, y = rng.normal(size=(30, 10)) * 2, rng.choice([-1, 1], size=30)
    value = PooledLogistic(text)(outputs, y)
    f = torch.tensor(outputs, requires_grad=True)
    margins = torch.tensor(y) * (torch_pool(text, f[:, :5]) - torch_pool(text, f[:, 5:]))
    loss = torch.nn.functional.softplus(-margins).mean()
    loss.backward()
    assert value.log_mean == pytest.approx(float(loss.detach().log()), abs=1e-12)
    slopes = value.slopes * np.exp(value.log_mean)
    np.testing.assert_allclose(slopes, f.grad, rtol=0, atol=1e-12)


def test_ends_of_the_paths() -> None:
    f = np.random.default_rng(2).normal(size=(20, 6))
    for text, same in (("top:q=1", f.max(1)), ("top:q=6", f.mean(1)), ("mean", f.mean(1))):
        np.testing.assert_allclose(readout_of(text).class_score(f), same, rtol=1e-13)
    np.testing.assert_allclose(readout_of("soft:temperature=1e-3").class_score(f), f.max(1), atol=2e-3)
    np.testing.assert_allclose(readout_of("soft:temperature=1e4").class_score(f), f.mean(1), atol=1e-3)
    soft = readout_of("soft:temperature=2").class_score(f)
    np.testing.assert_allclose(soft, 2 * (logsumexp(f / 2, axis=1) - np.log(6)), rtol=1e-12)


def test_on_a_tie_the_first_win() -> None:
    assert readout_of("top:q=2").derivative(np.array([1.0, 2.0, 2.0, 2.0])).tolist() == [0, 0.5, 0.5, 0]
    assert readout_of("max").derivative(np.array([1.0, 2.0, 2.0])).tolist() == [0, 1, 0]


def test_texts_are_read_back() -> None:
    for text in POOLINGS:
        assert POOLINGS.build(spec(POOLINGS.build(text))) == POOLINGS.build(text)


@pytest.mark.parametrize("text", ["mean", "top:q=1", "top:q=2", "top:q=3"])
@pytest.mark.parametrize("listed", [True, False])
def test_pieces_hold_the_flipped_outputs(text, listed, monkeypatch) -> None:
    """Exactly them where they are listed; them and others where they are too many."""
    rule, rng, more = readout_of(text), np.random.default_rng(3), 0
    if not listed and text != "mean":
        monkeypatch.setattr(top, "LISTED", 0)
        assert rule.pieces(SIDES) is None
        rule_pieces = rule.hard(3)[0].pieces(SIDES)
    else:
        rule_pieces = rule.pieces(SIDES)
    for _ in range(500):
        f = rng.normal(size=6)
        flipped = rule.class_score(f[SIDES]) <= rule.class_score(f[~SIDES])
        held = any(np.all(rows @ f <= 0) for rows in rule_pieces)
        assert held or not flipped
        more += held and not flipped
    assert more == 0 or not listed


def test_exact_radii_match_all_regions() -> None:
    """`python -m tests.robustness.soundness 10000 --pooled` runs 2,000 networks."""
    found = check(0, 150, draw=pooled_case)
    assert found["worst"] < 1e-6
    assert found["outcomes"]["exact"] > 60


def test_no_attack_is_below_a_certificate() -> None:
    """`python -m tests.robustness.soundness 5000 --pooled --attacks` runs 5,000 cases."""
    assert check(1, 40, [None], draw=pooled_case)["attacked"] > 10


def _competing(seed: int, m: int = 3) -> tuple[TwoLayer, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return (fa.grouped(rng.normal(size=(2 * m, 4)), 2 * m), rng.normal(size=(8, 4)), np.arange(2 * m) < m)


def test_too_many_pieces_give_a_bracket(monkeypatch) -> None:
    net, x, mask = _competing(4)
    y = np.where(score(net(x), mask, "top:q=2") > 0, 1, -1)
    exact = fa.radii(net, x, y=y, readout="top:q=2", positive=mask)
    monkeypatch.setattr(top, "LISTED", 0)
    bracket = fa.radii(net, x, y=y, readout="top:q=2", positive=mask)
    assert np.all(bracket.certified <= exact.certified * (1 + 1e-9))
    assert np.all(bracket.attack >= exact.certified * (1 - 1e-9))
    assert bracket.certified.max() > 0


def test_soft_is_bracketed_and_tends_to_max() -> None:
    net, x, mask = _competing(5)
    y = np.where(score(net(x), mask, "max") > 0, 1, -1)
    exact = fa.radii(net, x, y=y, readout="max", positive=mask)
    soft = fa.radii(net, x, y=y, readout="soft:temperature=0.001", positive=mask)
    np.testing.assert_allclose(soft.certified, exact.certified, rtol=0.02, atol=0.02)
    warm = fa.radii(net, x, y=y, readout="soft:temperature=0.7", positive=mask)
    right = warm.certified > 0
    assert np.all(warm.certified[right] >= 0.98 * warm.attack[right])
    flipped = score(net(warm.witness[right]), mask, "soft:temperature=0.7") * y[right]
    assert np.all(flipped <= 1e-9)
    attacked = fa.attack_suite(fa.network_model(net, mask, "soft:temperature=0.7"), x, y)
    assert np.all(attacked.radii >= warm.certified * (1 - 1e-9))


def test_soft_is_bracketed_where_the_head_is_trained_too() -> None:
    """Neurons that lower an output, or feed several, were refused."""
    net, x, mask = _competing(5)
    net = net.with_arrays({"head": net.head + np.random.default_rng(0).normal(size=net.head.shape) / 3})
    y = np.where(score(net(x), mask, "soft:temperature=0.5") > 0, 1, -1)
    found = fa.radii(net, x, y=y, readout="soft:temperature=0.5", positive=mask)
    assert np.all(found.certified >= 0.98 * found.attack)
    assert np.all(score(net(found.witness), mask, "soft:temperature=0.5") * y <= 1e-9)


def test_mean_is_the_binary_network() -> None:
    net, x, mask = _competing(6)
    plain = fa.binary(net.weights)
    y = np.where(plain(x)[:, 0] > 0, 1, -1)
    mine = fa.radii(net, x, y=y, readout="mean", positive=mask)
    np.testing.assert_allclose(mine.certified, fa.radii(plain, x, y=y).certified, rtol=1e-9)


def deep_pooled(seed: int, residual: bool, m: int = 2) -> tuple[fa.Deep, np.ndarray]:
    """Two hidden layers below one output a neuron, and the outputs of the class +1."""
    rng, neurons = np.random.default_rng(seed), 2 * m
    shapes = ((neurons, 3), (neurons, neurons), (neurons, neurons))
    biases = tuple(rng.normal(size=neurons) for _ in shapes)
    weights = tuple(rng.normal(size=shape) for shape in shapes)
    return fa.Deep(weights, biases, residual=residual), np.arange(neurons) < m


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("text", ["max", "top:q=2", "soft:temperature=0.5"])
def test_deep_networks_learn_as_autograd_says(text, residual) -> None:
    """The closed-form gradient of every array of a deep network whose last neurons are pooled."""
    torch = pytest.importorskip("torch")
    net, _ = deep_pooled(0, residual, m=3)
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(30, 3)), rng.choice([-1, 1], size=30)
    objective = DeepObjective(x, y, net, PooledLogistic(text))
    ours = objective.evaluate(objective.params_of(net))
    arrays = {name: torch.tensor(a, requires_grad=True) for name, a in net.arrays().items()}
    h = torch.tensor(x)
    for number in (1, 2, 3):
        z = h @ arrays[f"weights{number}"].T + arrays[f"biases{number}"]
        active = torch.relu(z)
        h = z if number == 3 else h + active if residual and number == 2 else active
    score = torch.tensor(y) * (torch_pool(text, h[:, :3]) - torch_pool(text, h[:, 3:]))
    loss = torch.nn.functional.softplus(-score, threshold=1000).mean()
    loss.backward()
    assert float(ours.log_loss) == pytest.approx(float(loss.detach().log()), abs=1e-12)
    for name, gradient in zip(objective.trainable, ours.gradient, strict=True):
        slow = arrays[name].grad.numpy() / loss.item()
        np.testing.assert_allclose(gradient, slow, rtol=1e-9, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("text", ["mean", "max", "top:q=1", "top:q=2"])
def test_radii_of_pooled_deep_networks_match_all_regions(text, residual) -> None:
    for seed in range(6):
        net, mask = deep_pooled(seed, residual)
        x = np.random.default_rng(100 + seed).normal(size=(2, 3))
        y = np.where(score(net(x), mask, text) > 0, 1, -1)
        found = fa.radii(net, x, y, readout=text, positive=mask, jobs=1)
        layered = layered_of(net)
        for i, label in enumerate(y.tolist()):
            decision = Decision(net, readout_of(text), mask)
            z = layered.start(x[i : i + 1])[0]
            truth = brute_force(layered, z, conditions_of(decision, label))
            assert found.certified[i] <= truth * (1 + 1e-9)
            assert found.attack[i] == pytest.approx(truth, rel=1e-6)


@pytest.mark.parametrize("depth", [2, 3])
def test_a_run_knows_its_pooling(depth) -> None:
    """Radii of a trained network need no read-out; in compressed coordinates or not."""
    task = fa.MultiCluster(k=4, d=40)
    how = {"m": 2, "pooling": "top:q=1", "depth": depth, "n": 40, "steps": 30, "lr": 0.01}
    run, test = fa.train(task, **how, sigma_w=1e-2, seed=0), task.sample(6, seed=1)
    given = fa.radii(run, test, readout="max", positive=[0, 1], jobs=1)
    np.testing.assert_array_equal(fa.radii(run, test, jobs=1).certified, given.certified)
    assert given.certified.max() > 0


BAD = {
    "q is 4 for a class of 3: give at most 3": lambda: _radii("top:q=4"),
    "q is 0: give a number of outputs": lambda: readout_of("top:q=0"),
    "temperature is 0.0: give a number above 0": lambda: readout_of("soft:temperature=0"),
    "temperature is -1.0: give a number above 0": lambda: readout_of("soft:temperature=-1"),
    "positive leaves a class empty": lambda: _radii("top:q=1", np.ones(6, dtype=bool)),
    "soft needs as many outputs in either class": lambda: _radii("soft", np.arange(6) < 2),
    "q is 9 for a class of 5: give at most 5": lambda: fa.Setting(pooling="top:q=9", m=5),
    "pooling is 'median': choose one of max, mean,": lambda: fa.Setting(pooling="median"),
    "top has q": lambda: readout_of("top:p=3"),
    "readout is 'median': choose one of probability, max, sum, mean, soft, top": (lambda: readout_of("median")),
}


def _radii(readout: str, mask: np.ndarray | None = None):
    net, x, usual = _competing(7)
    return fa.radii(net, x, y=np.ones(8, dtype=int), readout=readout, positive=usual if mask is None else mask)


@pytest.mark.parametrize("sentence", BAD)
def test_bad_input_is_one_sentence(sentence) -> None:
    with pytest.raises(InputError) as caught:
        BAD[sentence]()
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)
