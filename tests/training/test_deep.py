"""Networks of any depth in the simulator: gradients, batches, checkpoints, compression, commands."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import ks_2samp

from featavg.__main__ import main
from featavg.data.clusters import MultiCluster
from featavg.data.compress import draw, draw_many
from featavg.errors import InputError
from featavg.nets.deep import Deep
from featavg.nets.two_layer import TwoLayer
from featavg.registry import LOSSES
from featavg.robustness.radii import radii
from featavg.simulate.radius import radius_report
from featavg.simulate.run import load_simulation, simulate
from featavg.storage.cache import Checkpoint
from featavg.training.driver import SaveAt
from featavg.training.objectives import DeepObjective
from featavg.training.recipe import Recipe
from featavg.training.train import initial_net, train
from featavg.training.trajectory import load_trajectory

RNG = np.random.default_rng(5)
TASK = MultiCluster(k=4, d=300)
SMALL = {"n": 30, "m": 3, "h": 2, "lr": 0.01, "steps": 12, "sigma_w": 1e-2, "sigma_b": 1e-2}
KINDS = {
    "three layers": {"depth": 3},
    "residual": {"depth": 4, "residual": True, "layers": "all"},
    "leaky, all layers": {"depth": 3, "activation": "leaky-relu:leak=0.1", "layers": "all"},
    "leaky, two layers": {"activation": "leaky-relu", "layers": "hidden"},
    "fine, grouped": {"labels": "fine", "depth": 3, "layers": "hidden"},
    "fine, plain outputs": {"labels": "fine", "depth": 3, "head": "random", "layers": "all"},
    "fine, with biases": {"labels": "fine", "depth": 3, "biases": True, "residual": True},
    "no biases, flow": {"depth": 3, "biases": False, "stepper": "flow", "time": 1.0, "layers": "all"},
    "loss-based": {"depth": 3, "controller": "loss-based", "layers": "all"},
}


def random_net(depth: int, residual: bool, biases: bool, activation: str, outputs: int) -> Deep:
    widths = (4,) * (depth - 1) + (outputs,)
    sizes = zip((5, *widths), widths, strict=False)
    weights = tuple(RNG.normal(size=(here, below)) for below, here in sizes)
    return Deep(weights, tuple(RNG.normal(size=width) for width in widths) if biases else None, activation, residual)


def torch_forward(torch, arrays, x, net: Deep):
    """The network as anybody would write it down."""
    h = torch.tensor(x)
    for number in range(1, net.depth + 1):
        z = h @ arrays[f"weights{number}"].T
        if f"biases{number}" in arrays:
            z = z + arrays[f"biases{number}"]
        if number == net.depth:
            return z
        leak = 0.0 if net.phi.name == "relu" else net.phi.leak
        active = torch.where(z >= 0, z, leak * z)
        h = h + active if net.residual and number > 1 else active
    raise AssertionError


@pytest.mark.parametrize(
    ("depth", "residual", "biases", "activation", "outputs"),
    list(product([2, 3, 5], [False, True], [False, True], ["relu", "leaky-relu:leak=0.2"], [1, 3])),
)
def test_gradients_are_those_of_autograd(depth, residual, biases, activation, outputs) -> None:
    torch = pytest.importorskip("torch")
    net = random_net(depth, residual, biases, activation, outputs)
    x = RNG.normal(size=(9, 5))
    y = RNG.choice([-1, 1], 9) if outputs == 1 else RNG.integers(0, outputs, 9)
    objective = DeepObjective(x, y, net, LOSSES.build("logistic" if outputs == 1 else "cross-entropy"))
    ours = objective.evaluate(objective.params_of(net))

    arrays = {n: torch.tensor(a, requires_grad=True) for n, a in net.arrays().items()}
    out = torch_forward(torch, arrays, x, net)
    np.testing.assert_allclose(net(x), out.detach().numpy(), rtol=1e-12, atol=1e-12)
    target = torch.tensor(y)
    loss = (
        # torch's softplus is linear beyond its threshold, which costs digits.
        torch.nn.functional.softplus(-target * out[:, 0], threshold=1000).mean()
        if outputs == 1
        else torch.nn.functional.cross_entropy(out, target)
    )
    loss.backward()
    assert float(np.exp(ours.log_loss)) == pytest.approx(loss.item(), rel=1e-12)
    for name, gradient in zip(objective.trainable, ours.gradient, strict=True):
        slow = arrays[name].grad.numpy() / loss.item()
        np.testing.assert_allclose(gradient, slow, rtol=1e-9, atol=1e-12, err_msg=name)

    slopes = RNG.normal(size=(9, outputs))
    points = torch.tensor(x, requires_grad=True)
    plain = {n: a.detach() for n, a in arrays.items()}
    fed = torch_forward(_Passing(torch, points), plain, x, net)
    (fed * torch.tensor(slopes)).sum().backward()
    np.testing.assert_allclose(net.input_gradient(x, slopes), points.grad.numpy(), atol=1e-12)


class _Passing:
    """torch, but for the points, which are to be differentiated by."""

    def __init__(self, torch, points) -> None:
        self.torch, self.points = torch, points

    def tensor(self, x):
        return self.points

    def where(self, *arguments):
        return self.torch.where(*arguments)


def test_on_a_pattern_the_network_is_affine() -> None:
    net = random_net(4, True, True, "leaky-relu:leak=0.3", 2)
    x = RNG.normal(size=(1, 5))
    near = x + 1e-7 * RNG.normal(size=(1, 5))
    for a, b in zip(net.pattern(x), net.pattern(near), strict=True):
        np.testing.assert_array_equal(a, b)
    for output in np.eye(2):
        slope = net.input_gradient(x, output[None])
        moved = (net(near) - net(x)) @ output
        np.testing.assert_allclose(moved, ((near - x) * slope).sum(), rtol=1e-6)
    assert [layer.skip for layer in net.layers] == [False, True, True, False]
    assert [layer.biases.shape for layer in net.layers] == [(4,), (4,), (4,), (2,)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_of_seeds_is_each_of_them(kind: str) -> None:
    options = SMALL | KINDS[kind]
    together = train(TASK, seed=(0, 1), **options)
    assert isinstance(together.net, Deep)
    for i in range(2):
        alone = train(TASK, seed=i, **options)
        for name, array in alone.net.arrays().items():
            np.testing.assert_array_equal(together.net[i].arrays()[name], array)
        assert alone.log_loss[-1] < alone.log_loss[0]
        fixed = set(alone.net.arrays()) - set(alone.parameters)
        expected = {"first": 1, "hidden": options.get("depth", 2) - 1}.get(
            options.get("layers", "first"), options.get("depth", 2)
        )
        assert sum(name.startswith("weights") for name in alone.parameters) == expected
        for name in fixed:
            np.testing.assert_array_equal(alone.net.arrays()[name], alone.initial.arrays()[name])


class Killed(Exception):  # noqa: N818
    """The run dies here."""


@pytest.mark.parametrize("kind", ["residual", "fine, plain outputs"])
def test_a_killed_run_resumes_and_a_saved_one_reads_back(kind: str, tmp_path: Path) -> None:
    options = SMALL | KINDS[kind] | {"seed": (0, 1), "save_at": SaveAt(every=3)}
    whole = train(TASK, **options)

    def die(share: float, note: str) -> None:
        if share > 0.5:
            raise Killed

    with pytest.raises(Killed):
        train(TASK, **options, checkpoint=Checkpoint(tmp_path / "s", 0.0), progress=die)
    resumed = train(TASK, **options, checkpoint=Checkpoint(tmp_path / "s", 0.0))
    whole.save(tmp_path / "run")
    back = load_trajectory(tmp_path / "run")
    for other in (resumed, back):
        assert other.net.structure() == whole.net.structure()
        for name, array in whole.net.arrays().items():
            np.testing.assert_array_equal(other.net.arrays()[name], array)


@pytest.mark.parametrize("kind", ["residual", "fine, plain outputs", "leaky, all layers"])
def test_a_run_in_the_span_is_the_run_in_all_of_space(kind: str) -> None:
    """The twin of compression: turn R^d so that the data fills its first coordinates, and train."""
    recipe = Recipe(**{n: v for n, v in (SMALL | KINDS[kind]).items() if n != "n"})
    ambient = draw(TASK, 30, recipe.neurons(4), seed=0, coordinates="ambient")
    rows = np.concatenate([ambient.features, ambient.unit_weights, ambient.x])
    basis = np.linalg.qr(rows.T)[0]
    assert basis.shape == (300, 4 + recipe.neurons(4) + 30)
    span = replace(ambient, x=ambient.x @ basis, unit_weights=ambient.unit_weights @ basis)
    slow, fast = train(ambient, recipe), train(span, recipe)
    np.testing.assert_allclose(fast.log_loss, slow.log_loss, rtol=1e-9)
    np.testing.assert_allclose(fast.net.weights[0] @ basis.T, slow.net.weights[0], rtol=1e-7, atol=1e-10)
    for mine, theirs in zip(fast.net.weights[1:], slow.net.weights[1:], strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-7, atol=1e-10)


def test_compressed_runs_have_the_law_of_ambient_ones() -> None:
    """Fixed before the run: no difference at the level of 1e-4 over 300 seeds each."""
    task = MultiCluster(k=2, d=40)
    recipe = Recipe(m=2, depth=3, layers="all", sigma_w=0.1, sigma_b=0.1, lr=0.01, steps=15)
    ends = {}
    for coordinates, first in (("compressed", 0), ("ambient", 1000)):
        data = draw_many(task, 6, 4, range(first, first + 300), coordinates)
        run = train(data, recipe)
        norms = np.linalg.norm(run.net.weights[0], axis=(1, 2))
        ends[coordinates] = (run.log_loss[-1], norms)
    for mine, theirs in zip(*ends.values(), strict=True):
        assert ks_2samp(mine, theirs).pvalue > 1e-4


def test_two_layers_keep_their_own_path() -> None:
    data = draw(TASK, 30, 6, seed=0)
    assert isinstance(initial_net(data, Recipe(m=3)), TwoLayer)
    plain = train(data, Recipe(m=3, lr=0.01, steps=12, sigma_b=0.0))
    deep = train(data, Recipe(m=3, lr=0.01, steps=12, activation="leaky-relu:leak=0.0", sigma_b=0.0))
    assert isinstance(deep.net, Deep)
    np.testing.assert_allclose(deep.net.weights[0], plain.net.weights, rtol=1e-9, atol=1e-14)


FLAGS = "--k 4 --d 200 --n 40 --steps 30 --lr 0.02 --m 2 --h 1 --n-test 50 --depth 3 --residual"


def test_the_command_line_from_end_to_end(tmp_path: Path, capsys) -> None:
    folder = tmp_path / "deep"
    flags = [*FLAGS.split(), "--layers", "hidden", "--sigma-w", "0.01", "--seeds", "2"]
    assert main(["simulate", *flags, "--out", str(folder)]) == 0
    assert "averaging index" in capsys.readouterr().out
    done = load_simulation(folder)
    assert done.setting.depth == 3
    assert isinstance(done.net("fine", 1), Deep)
    assert done.net("coarse").residual
    assert (folder / "figures" / "cosines.png").exists()
    assert [one.train_n for one in done.numbers] == [40] * 4
    report = radius_report(folder, points=3, readout="max")
    for labels in ("coarse", "fine"):
        net, radii = done.net(labels), report.radii[labels]
        assert (radii.certified <= radii.attack).all()
        assert net.dimension == radii.witness.shape[1]
    assert repr(report).startswith("Radii (l2) of 3 fresh points")
    assert len(repr(done).splitlines()) == 3


@pytest.mark.parametrize("activation", ["relu", "leaky-relu:leak=0.2"])
def test_radii_of_residual_and_leaky_networks_hold(activation: str) -> None:
    """Nothing within the certificate flips, and the witness does, by plain evaluation."""
    rng = np.random.default_rng(0)
    net = Deep(
        (rng.normal(size=(4, 5)), rng.normal(size=(4, 4)), rng.normal(size=(1, 4))),
        (rng.normal(size=4), rng.normal(size=4), None),
        activation,
        residual=True,
    )
    x = rng.normal(size=(6, 5))
    y = np.sign(net(x)[:, 0]).astype(int)
    exact = radii(net, x, y)
    # One by one a witness flips exactly; in a batch BLAS may add in another order.
    assert (y * net(exact.witness)[:, 0] <= 1e-12).all()
    np.testing.assert_allclose(np.linalg.norm(exact.witness - x, axis=1), exact.attack, rtol=1e-9)
    for point, label, certified in zip(x, y, exact.certified, strict=True):
        steps = rng.normal(size=(20_000, 5))
        steps *= 0.999 * min(certified, 10.0) / np.linalg.norm(steps, axis=1, keepdims=True)
        assert (label * net(point + steps)[:, 0] > 0).all()


def test_deep_runs_measure_gradients() -> None:
    done = simulate(k=4, d=400, n=60, steps=60, lr=0.02, depth=3, residual=True, sigma_w=1e-3)
    coarse, fine = done.numbers
    assert coarse.train_accuracy.value > 0.9
    assert fine.own_cosine is not None
    assert fine.own_cosine > 0.5
    assert done.cosines["coarse"].shape == (1, 4, 4)


REFUSED = {
    "depth": ({"depth": 1}, "depth is 1"),
    "residual": ({"residual": True}, "residual is set with depth 2"),
    "activation": ({"activation": "tanhh"}, "activation is 'tanhh'"),
    "head": ({"head": "none"}, "head is 'none'"),
    "layers": ({"layers": "last"}, "layers is 'last'"),
    "inner scale": ({"inner_scale": -1.0}, "inner_scale is -1.0"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_depths_are_refused(name: str) -> None:
    options, words = REFUSED[name]
    for call in (train, lambda task, **given: simulate(**given)):
        with pytest.raises(InputError) as caught:
            call(TASK, **options)
        assert str(caught.value).startswith(words)


def test_networks_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InputError, match="residual is set for hidden layers of 3, 4 neurons"):
        Deep((np.ones((3, 2)), np.ones((4, 3)), np.ones((1, 4))), residual=True)
    with pytest.raises(InputError, match=r"biases of layer 1 have shape \(2,\)"):
        Deep((np.ones((3, 2)), np.ones((1, 3))), (np.ones(2), None))
    net = random_net(3, True, False, "relu", 1)
    with pytest.raises(InputError, match="not homogeneous, it is residual"):
        net.homogeneity()
    with pytest.raises(InputError, match="slopes are missing for 3 outputs"):
        random_net(2, False, False, "relu", 3).input_gradient(np.ones((1, 5)))
