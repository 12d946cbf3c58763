"""The page's radii are the package's: exact ones to 1e-6, brackets around the truth."""

import numpy as np
import pytest

import featavg as fa
from featavg.nets.deep import Deep

AGREES = 1e-6
POINTS = 200

RADII = """(given) => {
  const numbers = (list) => Float64Array.from(list);
  const net = { ...given.net, weights: numbers(given.net.weights), biases: numbers(given.net.biases),
    head: numbers(given.net.head), middle: given.net.middle && numbers(given.net.middle) };
  const solver = new L.RadiusSolver(net, Int8Array.from(given.classes), given.readout,
    { gap: 0.01, budget: given.budget });
  return given.points.map((x, i) => {
    const found = solver.at(numbers(x), given.y[i]);
    return { certified: found.certified, attack: String(found.attack), right: found.right,
      move: found.move && Array.from(found.move) };
  });
}"""


def network(net, middle=None, pooling="mean"):
    return {
        "depth": 2 if middle is None else 3,
        "neurons": net.neurons,
        "width": net.dimension,
        "outputs": net.outputs,
        "pooling": pooling,
        "weights": net.weights.ravel().tolist(),
        "biases": net.biases.tolist(),
        "head": net.head.ravel().tolist(),
        "middle": None if middle is None else middle.ravel().tolist(),
    }


def asked(laboratory, net, x, y, readout, classes, budget=40, middle=None, pooling="mean"):
    """certified, attack, moves as the page finds them."""
    given = {
        "net": network(net, middle, pooling),
        "points": x.tolist(),
        "y": y.tolist(),
        "readout": readout,
        "classes": np.asarray(classes).tolist(),
        "budget": budget,
    }
    found = laboratory(RADII, given)
    certified = np.array([one["certified"] for one in found])
    attack = np.array([float(one["attack"].replace("Infinity", "inf")) for one in found])
    return certified, attack, [one["move"] for one in found]


def trained(labels, task, n, **changes):
    return fa.train(task, labels=labels, n=n, **changes).net


PAPER = fa.MultiCluster(k=10, d=3072)
OBLIQUE = fa.MultiCluster(k=6, d=400, cosine=0.4, positive=2)
CASES = {
    "coarse, paper": ("coarse", "max", PAPER, {"n": 100}),
    "coarse, oblique": ("coarse", "max", OBLIQUE, {"n": 60, "lr": 5e-3, "m": 4}),
    "coarse, untrained": ("coarse", "max", OBLIQUE, {"n": 60, "steps": 0, "sigma_b": 1e-4}),
    "max, paper": ("fine", "max", PAPER, {"n": 100}),
    "max, oblique": ("fine", "max", OBLIQUE, {"n": 60, "lr": 5e-3, "h": 2}),
    "sum, paper": ("fine", "sum", PAPER, {"n": 100}),
    "sum, oblique": ("fine", "sum", OBLIQUE, {"n": 60, "lr": 5e-3, "h": 2}),
}


@pytest.mark.parametrize("name", CASES)
def test_exact_radii_agree(laboratory, name):
    labels, readout, task, changes = CASES[name]
    net = trained(labels, task, **changes)
    count = POINTS // 4 if "paper" not in name else POINTS
    sample = task.sample(count, seed=1)
    truth = fa.radii(net, sample, readout=readout, jobs=1)
    x = sample.coordinates(net.dimension)
    certified, attack, moves = asked(laboratory, net, x, sample.y, readout, task.cluster_labels)
    np.testing.assert_allclose(certified, truth.certified, rtol=AGREES, atol=1e-12)
    np.testing.assert_allclose(attack, truth.attack, rtol=AGREES, atol=1e-12)
    flipped = x + np.array(moves)
    score = fa.score(net(flipped), task.positive_clusters, readout)
    size = np.abs(net(x)).max()
    assert np.all(sample.y * score <= 1e-12 * size)
    np.testing.assert_allclose(np.linalg.norm(moves, axis=1), attack, rtol=AGREES, atol=1e-12)


@pytest.mark.parametrize("pooling", ["max", "top:q=2"])
def test_exact_radii_of_competing_neurons_agree(laboratory, pooling):
    net = trained("coarse", OBLIQUE, 60, pooling=pooling, m=5, lr=5e-3, sigma_w=1e-3)
    sample, positive = OBLIQUE.sample(30, seed=1), np.arange(10) < 5
    x = sample.coordinates(net.dimension)
    truth = fa.radii(net, x, sample.y, readout=pooling, positive=positive, jobs=1)
    signs = OBLIQUE.cluster_labels  # of clusters: the page knows whose the neurons are
    certified, attack, moves = asked(laboratory, net, x, sample.y, "sum", signs, pooling=pooling, budget=4000)
    np.testing.assert_allclose(certified, truth.certified, rtol=AGREES, atol=1e-12)
    np.testing.assert_allclose(attack, truth.attack, rtol=AGREES, atol=1e-12)
    score = fa.score(net(x + np.array(moves)), positive, pooling)
    assert np.all(sample.y * score <= 1e-12 * np.abs(net(x)).max())


@pytest.mark.parametrize(
    ("readout", "h", "budget", "widest"),
    [("probability", 1, 40, 0.15), ("probability", 2, 20, 0.2), ("sum", 4, 40, 0.2)],
)
def test_brackets_hold_the_truth(laboratory, readout, h, budget, widest):
    task = fa.MultiCluster(k=6, d=1000)
    net = trained("fine", task, n=80, h=h, lr=4e-3)
    sample = task.sample(12, seed=1)
    x = sample.coordinates(net.dimension)
    truth = fa.radii(net, sample, readout=readout, jobs=1)
    certified, attack, moves = asked(laboratory, net, x, sample.y, readout, task.cluster_labels, budget)
    assert np.all(certified <= truth.attack * (1 + 1e-9))
    assert np.all(attack >= truth.certified * (1 - 1e-9))
    assert np.all(certified >= (1 - widest) * attack)
    score = fa.score(net(x + np.array(moves)), task.positive_clusters, readout)
    assert np.all(sample.y * score <= 1e-9)


@pytest.mark.parametrize("h", [1, 2])
def test_probability_brackets_of_random_networks_are_sound(laboratory, h):
    rng = np.random.default_rng(5)
    classes = np.array([1, 1, -1, -1])
    for scale in (0.3, 3.0):
        net = fa.grouped(scale * rng.normal(size=(4 * h, 3)), 4)
        x = 2 * rng.normal(size=(8, 3))
        y = np.sign(fa.score(net(x), classes > 0, "probability")).astype(int)
        certified, attack, moves = asked(laboratory, net, x, y, "probability", classes)
        assert np.all(certified <= attack)
        directions = rng.normal(size=(50_000, 3))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        for i in range(len(x)):
            reach = min(certified[i], 50.0)
            for share in (1.0, 0.8):
                moved = net(x[i] + share * reach * directions)
                assert np.all(y[i] * fa.score(moved, classes > 0, "probability") >= -1e-9)
            if moves[i] is not None:
                flipped = net(x[i : i + 1] + moves[i])
                assert y[i] * fa.score(flipped, classes > 0, "probability")[0] <= 1e-9


@pytest.mark.parametrize("readout", ["max", "sum", "probability"])
def test_three_layer_brackets_are_sound(laboratory, readout):
    rng = np.random.default_rng(3)
    classes = np.array([1, 1, -1, -1])
    net = fa.TwoLayer(rng.normal(size=(6, 5)), np.zeros(6), rng.normal(size=(4, 6)))
    middle = rng.normal(size=(6, 6))
    deep = Deep((net.weights, middle, net.head))
    x = 3 * rng.normal(size=(10, 5))

    def decided(points):
        return fa.score(deep(points), classes > 0, readout)

    y = np.sign(decided(x)).astype(int)
    certified, attack, moves = asked(laboratory, net, x, y, readout, classes, middle=middle)
    assert np.all(certified <= attack)
    assert np.median(certified / attack) > (0.05 if readout == "probability" else 0.2)
    for i, move in enumerate(moves):
        if move is not None:
            assert y[i] * decided(x[i : i + 1] + move)[0] <= 1e-9
        directions = rng.normal(size=(20_000, 5))
        directions *= certified[i] / np.linalg.norm(directions, axis=1, keepdims=True)
        assert np.all(y[i] * decided(x[i] + directions) >= -1e-9)


def test_the_quadratic_program_agrees_with_daqp(laboratory):
    from featavg.robustness.geometry.qp import nearest

    rng = np.random.default_rng(0)
    problems, truth = [], []
    for _ in range(300):
        q, r = rng.integers(1, 12), rng.integers(1, 8)
        rows, limits = rng.normal(size=(q, r)), rng.normal(size=q) - 0.5
        if rng.random() < 0.3 and q > 1:  # nearly parallel rows, as an average has
            rows[1:] = rows[0] + 1e-6 * rows[1:]
        found = nearest(rows, limits, np.zeros(q), np.zeros(q))
        problems.append({"rows": rows.tolist(), "limits": limits.tolist()})
        truth.append(np.inf if found.u is None else np.linalg.norm(found.u))
    page = laboratory(
        """(problems) => problems.map(({ rows, limits }) => {
             const found = L.nearest(rows.map((a) => Float64Array.from(a)), limits);
             return [found.u === null ? null : Math.hypot(...found.u), found.bound];
           })""",
        problems,
    )
    for (length, bound), expected in zip(page, truth, strict=True):
        if length is None:
            assert expected == np.inf or expected > 1e4  # within reach of rounding
        elif expected < np.inf:
            assert length == pytest.approx(expected, rel=1e-7, abs=1e-10)
            assert bound <= expected * (1 + 1e-9)
