"""Worst-case losses: the inner attack against exact radii, the gradient against differences."""

import numpy as np
import pytest

from featavg.data.clusters import MultiCluster
from featavg.data.compress import draw
from featavg.errors import InputError
from featavg.nets.two_layer import binary, grouped
from featavg.paper.questions.adversarial import AdversarialObjective, worst_case
from featavg.robustness.radii import radii
from featavg.training.losses import Logistic
from featavg.training.objectives import TwoLayerObjective
from featavg.training.recipe import Recipe
from featavg.training.train import objective_of, train


def problem(seed=0, m=3, n=30):
    task = MultiCluster(k=6, d=200)
    data = draw(task, n, 2 * m, seed)
    recipe = Recipe(m=m, lr=5e-3, steps=40)
    return data, recipe, train(data, recipe).net


def test_no_radius_is_the_plain_objective():
    data, recipe, net = problem()
    plain = objective_of(data, recipe)
    params = plain.params_of(net)
    adversary = AdversarialObjective(plain, 0.0).evaluate(params)
    assert np.allclose(adversary.log_loss, plain.evaluate(params).log_loss)
    for a, b in zip(adversary.gradient, plain.evaluate(params).gradient, strict=True):
        assert np.allclose(a, b, atol=1e-12)


def test_what_is_found_is_inside_the_ball_and_is_what_it_says():
    data, _, net = problem()
    y = data.y.astype(float)
    found = worst_case(net, net.preactivations(data.x), y, 3.0)
    moved = data.x + found.steps @ net.weights
    assert np.linalg.norm(moved - data.x, axis=1).max() <= 3.0 * (1 + 1e-9)
    assert np.allclose(net.preactivations(moved), found.preactivations)
    assert np.allclose(y * net(moved)[:, 0], found.margins)
    assert (found.margins <= y * net(data.x)[:, 0] + 1e-12).all()


@pytest.mark.parametrize("seed", [0, 1])
def test_what_can_be_flipped_is_flipped(seed):
    data, _, net = problem(seed)
    exact = radii(net, data.x, y=data.y, jobs=1).attack
    for factor in (0.99, 1.05):
        length = factor * float(np.median(exact))
        found = worst_case(net, net.preactivations(data.x), data.y.astype(float), length)
        flipped = found.margins <= 0
        assert not (flipped & (exact > length * (1 + 1e-6))).any()
        assert flipped[exact <= length * (1 - 1e-6)].all()


@pytest.mark.parametrize("seed", range(3))
def test_the_inner_problem_is_solved(seed):
    """Nothing random is below the bound, and the bound is met wherever the margin can be negative."""
    rng = np.random.default_rng(seed)
    net = binary(rng.standard_normal((6, 8)), 0.3 * rng.standard_normal(6))
    x = 2 * rng.standard_normal((40, 8))
    y = np.where(net(x)[:, 0] > 0, 1.0, -1.0)
    found = worst_case(net, net.preactivations(x), y, 1.0)
    assert (found.margins - found.bounds)[found.bounds < 0].max() < 1e-2
    for _ in range(300):
        step = rng.standard_normal(x.shape)
        step *= rng.random((40, 1)) ** 0.2 / np.linalg.norm(step, axis=1, keepdims=True)
        assert (y * net(x + step)[:, 0] >= found.bounds - 1e-9).all()


def test_many_neurons_are_attacked_and_say_so():
    data, _, net = problem(m=8)
    found = worst_case(net, net.preactivations(data.x), data.y.astype(float), 3.0)
    assert (found.bounds == -np.inf).all()
    assert (found.margins <= data.y * net(data.x)[:, 0] + 1e-12).all()


def test_where_no_neuron_can_switch_it_is_exact():
    net = binary(np.array([[1.0, 0.2], [0.1, 1.0]]))
    x = np.array([[6.0, 4.0]])
    found = worst_case(net, net.preactivations(x), np.array([1.0]), 0.5)
    slope = net.weights[0] - net.weights[1]
    assert found.bounds == pytest.approx(found.margins)
    assert found.margins[0] == pytest.approx(float(slope @ x[0]) - 0.5 * np.linalg.norm(slope))


def test_the_gradient_is_that_of_the_worst_case():
    data, recipe, net = problem()
    objective = AdversarialObjective(objective_of(data, recipe), 2.0)
    params = (net.weights, net.biases)
    evaluation = objective.evaluate(params)
    rng, step = np.random.default_rng(0), 1e-7
    for index, part in enumerate(params):
        direction = rng.standard_normal(part.shape)
        ends = []
        for sign in (1, -1):
            moved = list(params)
            moved[index] = part + sign * step * direction
            ends.append(float(np.exp(objective.evaluate(tuple(moved)).log_loss)))
        measured = (ends[0] - ends[1]) / (2 * step) / float(np.exp(evaluation.log_loss))
        assert (evaluation.gradient[index] * direction).sum() == pytest.approx(measured, rel=1e-3)


def test_seeds_of_a_batch_are_independent():
    nets = [problem(seed)[2] for seed in (0, 1)]
    batch = binary(np.stack([net.weights for net in nets]), np.stack([net.biases for net in nets]))
    data = [problem(seed)[0] for seed in (0, 1)]
    z = np.stack([net.preactivations(d.x) for net, d in zip(nets, data, strict=True)])
    y = np.stack([d.y.astype(float) for d in data])
    together = worst_case(batch, z, y, 2.0)
    for i in range(2):
        assert np.allclose(together.margins[i], worst_case(nets[i], z[i], y[i], 2.0).margins)


def test_what_it_cannot_do_is_refused():
    data, recipe, _ = problem()
    plain = objective_of(data, recipe)
    with pytest.raises(InputError, match="radius"):
        AdversarialObjective(plain, -1.0)
    fine = grouped(np.zeros((6, data.dimension)), 6)
    from featavg.training.losses import CrossEntropy

    with pytest.raises(InputError, match="class labels"):
        AdversarialObjective(TwoLayerObjective(data.x, data.clusters, fine, CrossEntropy(), ("weights",)), 1.0)
    with pytest.raises(InputError, match="head"):
        AdversarialObjective(TwoLayerObjective(data.x, data.y, plain.net, Logistic(), ("weights", "head")), 1.0)
