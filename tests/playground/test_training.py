"""The page's training is the package's: the same data in, the same numbers out."""

import numpy as np
import pytest

import featavg as fa
from featavg.nets.deep import Deep
from featavg.paper.theorems.recorders import Coefficients
from featavg.training.controllers import Constant
from featavg.training.driver import SaveAt, Stop, run
from featavg.training.losses import CrossEntropy, Logistic
from featavg.training.objectives import DeepObjective
from featavg.training.steppers import Adam, GradientDescent, Momentum, SignDescent
from featavg.training.train import initial_net

AGREES = 1e-9
STEPS = 100

TRAIN = """(given) => {
  const task = L.makeTask(given.setting);
  const numbers = (list) => Float64Array.from(list);
  const x = numbers(given.x);
  const { n, width } = given;
  const data = {
    task, n, width, x, clusters: Int32Array.from(given.clusters), features: numbers(given.features),
    lengths: L.rowLengths(x, n, width),
  };
  const net = {
    labels: given.labels, depth: given.depth, neurons: given.neurons, width,
    outputs: given.outputs, groupSize: given.group, pooling: given.pooling,
    weights: numbers(given.weights), biases: numbers(given.biases), head: numbers(given.head),
    middle: given.middle && numbers(given.middle),
  };
  const told = given.targets ? Int32Array.from(given.targets) : undefined;
  const run = new L.Training(net, data, given.stepper, given.lr, told);
  const losses = [run.logLoss];
  for (let step = 0; step < given.steps; step++) {
    run.step();
    losses.push(run.logLoss);
  }
  const found = L.measure(run);
  const list = (array) => array && Array.from(array);
  return {
    losses, cosines: list(found.cosines), coefficients: list(found.coefficients),
    lambda: list(found.lambda), share: list(found.shares), products: list(found.products),
    weights: list(net.weights), biases: list(net.biases), accuracy: found.accuracy,
    index: found.index, indices: list(found.indices), nullIndex: found.nullIndex,
  };
}"""


def handed_over(data, net, labels, stepper, lr, steps=STEPS, depth=2, middle=None, **more):
    """A training set and an initial network as plain lists."""
    task = data.task
    neurons = net.weights.shape[-2]
    return {
        "setting": {
            "k": task.k,
            "d": task.d,
            "alpha": task.alpha,
            "sigma": task.sigma,
            "positive": task.positive_count,
            "cosine": task.cosine,
        },
        "x": data.x.ravel().tolist(),
        "n": len(data.x),
        "width": data.dimension,
        "clusters": data.clusters.tolist(),
        "features": data.features.ravel().tolist(),
        "labels": labels,
        "depth": depth,
        "neurons": neurons,
        "group": neurons // 2 if labels == "coarse" else neurons // task.k,
        "weights": net.weights.ravel().tolist(),
        "biases": net.biases.ravel().tolist(),
        "head": net.head.ravel().tolist(),
        "middle": None if middle is None else middle.ravel().tolist(),
        "stepper": stepper,
        "lr": lr,
        "steps": steps,
        "outputs": net.outputs,
        "pooling": "mean",
    } | more


def basis_coefficients(weights, features):
    """w = sum_j c_j mu_j / |mu_j|^2 + rest, by least squares in all coordinates."""
    solution = np.linalg.lstsq(features.T, weights.T, rcond=None)[0].T
    return solution * (features**2).sum(axis=1)


@pytest.mark.parametrize("labels", ["coarse", "fine"])
@pytest.mark.parametrize(
    ("stepper", "task", "n", "lr"),
    [
        (GradientDescent(), fa.MultiCluster(k=10, d=3072), 200, 1e-3),
        (GradientDescent(), fa.MultiCluster(k=4, d=10**12), 100, 1e-11),
        (GradientDescent(), fa.MultiCluster(k=6, d=500, cosine=0.3, positive=2), 80, 3e-3),
        (GradientDescent(), fa.MultiCluster(k=3, d=20, sigma=0.5), 60, 0.05),
        (Momentum(), fa.MultiCluster(k=10, d=3072), 100, 2e-4),
        (Adam(), fa.MultiCluster(k=4, d=300), 60, 1e-3),
        (SignDescent(), fa.MultiCluster(k=4, d=100), 40, 1e-3),
    ],
    ids=["paper", "d-1e12", "cosine", "ambient", "momentum", "adam", "sign"],
)
def test_two_layers_train_as_in_the_package(laboratory, labels, stepper, task, n, lr):
    recipe = fa.Recipe(labels=labels, m=3, h=2, stepper=stepper, lr=lr, steps=STEPS)
    data = fa.draw(task, n, recipe.neurons(task.k), seed=0, coordinates=recipe.coordinates())
    follows = [Coefficients(data)] if stepper.name == "gd" else []
    truth = fa.train(data, recipe, recorders=follows, save_at=SaveAt(every=1))
    page = laboratory(TRAIN, handed_over(data, initial_net(data, recipe), labels, stepper.name, lr))

    np.testing.assert_allclose(page["losses"], truth.log_loss, rtol=AGREES, atol=AGREES)
    cosines = fa.cosines(truth.net, task)
    np.testing.assert_allclose(page["cosines"], cosines.ravel(), atol=AGREES)
    weights = truth.net.weights
    scale = np.abs(weights).max()
    np.testing.assert_allclose(page["weights"], weights.ravel(), rtol=AGREES, atol=AGREES * scale)
    np.testing.assert_allclose(
        page["biases"], truth.net.biases, rtol=AGREES, atol=AGREES * np.abs(truth.net.biases).max()
    )
    slow = basis_coefficients(weights, data.features)
    np.testing.assert_allclose(page["coefficients"], slow.ravel(), rtol=AGREES, atol=AGREES * np.abs(slow).max())
    index = fa.averaging_index(truth.net, task)
    np.testing.assert_allclose(page["share"], index.neuron_share, rtol=AGREES, atol=AGREES)
    # A class of one feature has no average: NaN here, and null in JSON.
    indices = np.array(page["indices"], dtype=float)
    np.testing.assert_allclose(indices, index.neurons, rtol=AGREES, atol=AGREES)
    assert page["index"] == pytest.approx(index.value, abs=AGREES)
    assert page["nullIndex"] == pytest.approx(index.null, abs=0.02)  # another fixed sample
    if follows:
        feature = follows[0].feature
        np.testing.assert_allclose(page["lambda"], feature.ravel(), rtol=AGREES, atol=AGREES * np.abs(feature).max())


RECIPES = {
    "a third of the labels, some wrong": fa.Recipe(labels=fa.Labels(share=0.3, wrong=0.4), h=2),
    "classes alone": fa.Recipe(labels=fa.Labels(share=0.0)),
    "the best neuron": fa.Recipe(labels="coarse", pooling="max", m=4, sigma_w=1e-3),
    "the two best": fa.Recipe(labels="coarse", pooling="top:q=2", m=4, sigma_w=1e-3),
}


@pytest.mark.parametrize("name", RECIPES)
def test_partly_known_labels_and_competition_train_as_in_the_package(laboratory, name):
    recipe, task = RECIPES[name], fa.MultiCluster(k=6, d=500, positive=2)
    data = fa.draw(task, 80, recipe.neurons(task.k), seed=0)
    truth = fa.train(data, recipe, save_at=SaveAt(every=1))
    labels = "coarse" if recipe.competes else "fine"
    more = {"pooling": recipe.pooling, "targets": None}
    if labels == "fine":
        more["targets"] = recipe.labels.targets(task, data.clusters, 0).tolist()
    net = initial_net(data, recipe)
    page = laboratory(TRAIN, handed_over(data, net, labels, "gd", recipe.lr, **more))
    np.testing.assert_allclose(page["losses"], truth.log_loss, rtol=AGREES, atol=AGREES)
    weights = truth.net.weights
    scale = AGREES * np.abs(weights).max()
    np.testing.assert_allclose(page["weights"], weights.ravel(), rtol=AGREES, atol=scale)


def test_the_page_draws_labels_by_their_law(laboratory):
    """A fifth of the points is labelled, a quarter of these wrongly, inside of the class."""
    drawn = laboratory(
        """(n) => {
          const task = L.makeTask({ k: 6, d: 50, alpha: 1, sigma: 1, positive: 2, cosine: 0 });
          const clusters = Int32Array.from({ length: n }, (_, i) => i % 6);
          const told = (share, wrong) => L.drawFineTargets(task, clusters, { share, wrong, seed: 1 });
          return [[0.2, 0.25], [1, 0], [0, 0]].map(([s, w]) => Array.from(told(s, w)));
        }""",
        60_000,
    )
    clusters, (some, full, none) = np.arange(60_000) % 6, np.array(drawn)
    assert np.array_equal(full, clusters)
    assert np.array_equal(none, np.where(clusters < 2, 7, 6))
    known, classes = some < 6, np.arange(6) < 2
    assert known.mean() == pytest.approx(0.2, abs=0.01)
    assert np.array_equal(classes[some[known]], classes[clusters[known]])
    assert (some != clusters)[known].mean() == pytest.approx(0.25, abs=0.02)
    others = np.bincount(some[known & (clusters == 5) & (some != 5)], minlength=6)
    assert others[2:5] / others.sum() == pytest.approx(1 / 3, abs=0.08)


@pytest.mark.parametrize("labels", ["coarse", "fine"])
def test_three_layers_train_as_in_the_package(laboratory, labels):
    task = fa.MultiCluster(k=4, d=200)
    recipe = fa.Recipe(labels=labels, m=3, h=2, sigma_w=1e-2)
    neurons = recipe.neurons(task.k)
    data = fa.draw(task, 60, neurons, seed=2)
    net = initial_net(data, recipe)
    middle = np.random.default_rng(0).standard_normal((neurons, neurons)) * np.sqrt(2 / neurons)
    targets = data.y if labels == "coarse" else data.clusters
    loss = Logistic() if labels == "coarse" else CrossEntropy()
    start = Deep((net.weights, middle, net.head))
    truth = run(
        DeepObjective(data.x, targets, start, loss),
        start.weights,
        stepper=GradientDescent(),
        controller=Constant(2e-3),
        stop=Stop(STEPS),
        save_at=SaveAt(every=1),
    )
    zero = fa.TwoLayer(net.weights, np.zeros(neurons), net.head)
    given = handed_over(data, zero, labels, "gd", 2e-3, depth=3, middle=middle)
    page = laboratory(TRAIN, given)
    np.testing.assert_allclose(page["losses"], truth.log_loss, rtol=AGREES, atol=AGREES)

    # The effective weight of a cluster: the mean gradient of the decision over its points.
    deep = truth.net
    first, second = deep.pattern(data.x)
    effective = []
    for j in range(task.k):
        sign, output = (task.cluster_labels[j], 0) if labels == "coarse" else (1, j)
        inside = data.clusters == j
        upper = (second[inside] * deep.weights[2][output]) @ deep.weights[1]
        effective.append(sign * np.mean((first[inside] * upper) @ deep.weights[0], axis=0))
    features = data.features
    cosines = (features @ np.transpose(effective)) / np.outer(
        np.linalg.norm(features, axis=1), np.linalg.norm(effective, axis=1)
    )
    np.testing.assert_allclose(page["cosines"], cosines.ravel(), atol=AGREES)
