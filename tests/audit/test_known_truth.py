"""Networks whose truth is known get the verdict that names it; what says nothing is not reported."""

from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests.audit.nets import Attention, converged, fitted, network  # noqa: E402
from torch import nn  # noqa: E402

import featavg as fa  # noqa: E402
from featavg.audit.dense import net_of  # noqa: E402
from featavg.audit.gradients import FEATURES, INPUT, LayerGradient, Sharing, passes, sharing  # noqa: E402
from featavg.audit.labels import audit_data  # noqa: E402
from featavg.audit.models import classifier  # noqa: E402
from featavg.audit.result import audit_page  # noqa: E402
from featavg.audit.run import audit  # noqa: E402
from featavg.audit.subclasses import subclass_probes  # noqa: E402
from featavg.audit.torch_classifier import as_module, effective_gradient, next_activations  # noqa: E402
from featavg.audit.verdict import AuditVerdict, judge  # noqa: E402
from featavg.data.image_sets.loading import load_images  # noqa: E402
from featavg.errors import InputError  # noqa: E402
from featavg.measures.accuracy import wilson  # noqa: E402
from featavg.measures.shared_gradient import ClassGradient, SharedGradient  # noqa: E402
from featavg.nets.two_layer import TwoLayer  # noqa: E402
from featavg.robustness.models.decision import Decision  # noqa: E402

torch.set_num_threads(1)
D = 600
QUICK = {"images": 300, "radii": 6, "gradients": 10}


def judged(model, x, coarse, fine, readout="probability"):
    data, _ = audit_data(x, coarse, fine, None, 600)
    subject = classifier(model, data.x, None)
    groups = np.arange(data.classes) if subject.outputs == data.classes else data.groups
    decision = Decision.of(groups=None if subject.outputs == 1 else groups, readout=readout)
    seen = passes(subject, decision, data.x, data.coarse, effective=True)
    right = np.flatnonzero(decision.margins(seen.outputs, data.coarse) > 0)
    found = sharing(seen.gradients, right, data.fine, data.groups, 0, "classes")
    spaces = {INPUT: data.x.reshape(len(data.x), -1).astype(float)}
    spaces |= {} if seen.features is None else {FEATURES: seen.features}
    probes = subclass_probes(spaces, *data.divided)
    return judge(found, wilson(95, 100), 0.5, probes, finer=subject.outputs > data.classes)


# Networks of the simulator's clusters.


def clusters(k=10, cosine=0.0, positive=None, sigma=1.0, d=D):
    return fa.MultiCluster(k=k, d=d, cosine=cosine, positive=positive, sigma=sigma)


WRITTEN_DOWN = [
    *(("averages", fa.feature_averaging, clusters(cosine=cosine)) for cosine in (0, 0.3, 0.5, 0.9)),
    *(("averages", fa.feature_averaging, clusters(k)) for k in (4, 16)),
    ("averages", fa.feature_averaging, clusters(positive=7)),
    ("averages", fa.feature_averaging, clusters(sigma=3.0)),
    *(("decoupled", fa.feature_decoupling, clusters(k)) for k in (4, 10, 16)),
    ("decoupled", fa.feature_decoupling, clusters(positive=7)),
    ("decoupled", fa.feature_decoupling, clusters(sigma=3.0)),
    # Neurons of features at this angle are on at every point: together they are their average, see below.
    *(("averages", fa.feature_decoupling, clusters(cosine=cosine)) for cosine in (0.3, 0.5, 0.7)),
    ("decoupled", fa.biased_robust, clusters()),
    # A threshold halfway between a centre's own response and that to the others.
    *(("decoupled", fa.biased_robust, clusters(cosine=c, d=6000)) for c in (0.3, 0.5, 0.7, 0.9)),
]


@pytest.mark.parametrize(("truth", "network", "task"), WRITTEN_DOWN)
def test_networks_that_are_written_down(truth, network, task):
    halfway = ((1 + task.cosine) / 2,) if network is fa.biased_robust else ()
    net = network(task, *halfway, task.d)
    points = task.sample(800, seed=1)
    found = judged(net, points.coordinates(net.dimension), points.y, points.clusters)
    assert found.verdict.value == truth, found.reason


@pytest.mark.parametrize(("cosine", "same"), [(0.0, False), (0.3, True), (0.7, True)])
def test_a_neuron_for_each_feature_is_their_average_where_all_are_on(cosine, same):
    """Exact radii decide what f_FD without biases is at an angle: the verdict above is not a mistake."""
    task = clusters(cosine=cosine)
    points = task.sample(10, seed=1)
    averaged, apart = (
        float(np.mean(fa.radii(net(task, D), points, jobs=1).median))
        for net in (fa.feature_averaging, fa.feature_decoupling)
    )
    if same:
        assert apart == pytest.approx(averaged, rel=1e-3)
    else:
        assert apart > 1.3 * averaged


# Not fine labels and `probability` at cosine 0.9: a sub-class is 0.28 of its class's score there, hardly more
# than 1/5, so that the class's probability is an average of its outputs; A = 0.4.
TRAINED = [
    *(("coarse", "probability", cosine) for cosine in (0.0, 0.5, 0.9)),
    *(("fine", "probability", cosine) for cosine in (0.0, 0.5)),
    *(("fine", "max", cosine) for cosine in (0.0, 0.5, 0.9)),
]


@pytest.mark.parametrize(("labels", "readout", "cosine"), TRAINED)
def test_trained_networks_of_the_simulator(labels, readout, cosine):
    task = clusters(cosine=cosine)
    net = fa.train(task, labels=labels, n=500, steps=100, seed=1).net
    points = task.sample(600, seed=2)
    x = points.coordinates(net.dimension)
    found = judged(net, x, points.y, points.clusters, readout)
    assert found.verdict.value == ("averages" if labels == "coarse" else "decoupled"), found.reason


SIZES = [(4, 1), (2, 1), (2, 2), (5, 5), (6, 3, 1)]


def outputs_of(sizes):
    """Orthogonal features, the class of each, and points around them."""
    k = sum(sizes)
    points = fa.MultiCluster(k=k, d=100, positive=1).sample(800, seed=0)
    groups = np.repeat(np.arange(len(sizes)), sizes)
    x = points.coordinates(100).astype(np.float32)
    return 10.0 * np.eye(k, 100), groups, x, groups[points.clusters], points.clusters


def module(*matrices, relu_last=False):
    parts: list[nn.Module] = [nn.Flatten()]
    for matrix in matrices:
        layer = nn.Linear(matrix.shape[1], matrix.shape[0], bias=False)
        layer.weight.data = torch.from_numpy(np.asarray(matrix)).float()
        parts += [layer, nn.ReLU()]
    return nn.Sequential(*(parts if relu_last else parts[:-1]))


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("kind", ["outputs", "outputs, max", "neurons", "linear", "relu"])
def test_one_feature_per_output_or_one_average_per_class(sizes, kind):
    """Few rivals are no averaging: with one, the margin's gradient made these 0.50."""
    features, groups, x, coarse, fine = outputs_of(sizes)
    heads = np.eye(len(sizes))[groups].T
    averages = heads @ features / heads.sum(axis=1, keepdims=True)
    truth, model = {
        "outputs": ("decoupled", module(features)),
        "outputs, max": ("decoupled", module(features)),
        "neurons": ("decoupled", module(features, heads)),
        "linear": ("averages", module(averages)),
        "relu": ("averages", module(averages, relu_last=True)),
    }[kind]
    found = judged(model, x, coarse, fine, "max" if "max" in kind else "probability")
    assert found.verdict.value == truth, found.reason


# Trained networks on digits: coarse labels and fine ones.


def perceptron(outputs, *, activation=nn.ReLU, depth=1):
    parts, width = [nn.Flatten()], 64
    for _ in range(depth):
        parts, width = [*parts, nn.Linear(width, 48), activation()], 48
    return nn.Sequential(*parts, nn.Linear(width, outputs))


def convolutions(outputs):
    first, second = nn.Conv2d(1, 16, 3, padding=1), nn.Conv2d(16, 32, 3, stride=2, padding=1)
    parts = (first, nn.ReLU(), second, nn.ReLU(), nn.Flatten(), nn.Linear(512, outputs))
    return nn.Sequential(*parts)


PARITY, HALVES, NATURAL = np.arange(10) % 2, np.arange(10) // 5, np.repeat([0, 1, 2], [6, 3, 1])
PAIRS = {
    "MLP": (perceptron, PARITY),
    "MLP, halves": (perceptron, HALVES),
    "MLP, classes of 6, 3 and 1": (perceptron, NATURAL),
    "deep MLP": (lambda outputs: perceptron(outputs, depth=2), PARITY),
    "MLP, tanh": (lambda outputs: perceptron(outputs, activation=nn.Tanh), PARITY),
    "nearly linear": (lambda n: perceptron(n, activation=lambda: nn.LeakyReLU(0.8)), PARITY),
    "linear": (lambda outputs: perceptron(outputs, depth=0), PARITY),
    "CNN": (convolutions, PARITY),
    "CNN, classes of 6, 3 and 1": (convolutions, NATURAL),
    "attention": (Attention, PARITY),
}


class Merged(nn.Module):
    """The log-sum-exp of the outputs of each class: the same decision, and less is known about it."""

    def __init__(self, net, groups):
        super().__init__()
        self.net, self.members = net, [torch.from_numpy(groups == c) for c in range(groups.max() + 1)]

    def forward(self, x):
        outputs = self.net(x)
        return torch.stack([outputs[:, inside].logsumexp(dim=1) for inside in self.members], dim=1)


@cache
def trained_on(make, groups):
    """The network of these classes; with a class for each digit all partitions share it."""
    train = load_images("digits").train
    torch.manual_seed(3)
    return converged(make(max(groups) + 1), train.unit, np.array(groups)[train.fine.astype(int)])


@pytest.mark.parametrize("labels", ["coarse", "fine"])
@pytest.mark.parametrize("name", PAIRS)
def test_pairs_of_trained_networks(name, labels, digits):
    make, groups = PAIRS[name]
    net = trained_on(make, tuple(groups.tolist()) if labels == "coarse" else tuple(range(10)))
    x, _, fine = digits
    found = judged(net, x, groups[fine], fine)
    if (name, labels) == ("attention", "coarse"):
        # Its input gradients are decoupled and those of its second layer are not.
        assert found.verdict is not AuditVerdict.DECOUPLED, found.reason
        return
    assert found.verdict.value == ("averages" if labels == "coarse" else "decoupled"), found.reason
    # Not three classes and a CNN: 0.54 for the class of three digits, so that classes disagree.
    if labels == "fine" and name != "CNN, classes of 6, 3 and 1":
        merged = judged(Merged(net, groups), x, groups[fine], fine)
        assert merged.verdict in (AuditVerdict.DECOUPLED, AuditVerdict.CANNOT_TELL), merged.reason
        if merged.verdict is AuditVerdict.CANNOT_TELL:
            assert "border" in merged.reason or "If these outputs were merged" in merged.reason


# Classes and layers that disagree.


def one_of_each():
    """Class 1 is averaged, class 0 has a neuron for each feature; biases keep noise out."""
    task = clusters()
    average, single = fa.feature_averaging(task, task.d), fa.biased_robust(task, dimension=task.d)
    up = average.head[0] > 0
    weights = np.vstack([average.weights[up], single.weights[5:]])
    biases = np.append(average.biases[up], single.biases[5:])
    points = task.sample(600, seed=1)
    net = TwoLayer(weights, biases, np.hstack([average.head[:, up], single.head[:, 5:]]))
    return net, points


@pytest.mark.usefixtures("without_gains")
def test_classes_that_differ_are_said_to_differ():
    net, points = one_of_each()
    x = points.coordinates(net.dimension)
    result = audit(net, x, points.y, points.clusters, bounds=None, **QUICK)
    assert result.verdict is AuditVerdict.MIXED
    assert "class 0 is decoupled, class 1 averages" in result.judgement.reason
    said = result.to_json()
    assert said["verdict"]["by_class"] == {"0": "decoupled", "1": "averages"}
    shared = {each["label"]: each["value"] for each in said["layers"][0]["by_class"]}
    assert abs(shared[0]) < 0.3
    assert shared[1] == pytest.approx(1.0, abs=0.05)
    assert "class 1: 1.00" in dict(result.rows())["class by class"]
    page = audit_page(result, [], {})
    assert "class 0 is decoupled, class 1 averages" in page
    assert "of one class and keeps those of another" in page


def test_each_class_weighs_the_same():
    """Fifteen pairs of a class of six count as much as the one pair of a class of two."""
    groups = np.array([0, 0, 0, 0, 0, 0, 1, 1])
    fine = np.arange(400) % 8
    rows = np.where(groups[fine][:, None] == 0, 5.0 * np.eye(20)[fine], 5.0 * np.eye(20)[-1])
    rows = rows + 0.1 * np.random.default_rng(0).standard_normal(rows.shape)
    pairs = fa.shared_gradient(rows, fine, groups, 5, 20)
    classes = fa.shared_gradient(rows, fine, groups, 5, 20, weigh="classes")
    assert pairs.value == pytest.approx(1 / 16, abs=0.01)
    assert classes.value == pytest.approx(1 / 2, abs=0.01)
    for found in (pairs, classes):
        assert [round(each.value, 1) for each in found.by_class] == [0.0, 1.0]
    with pytest.raises(InputError, match="weigh is 'sizes': choose one of pairs, classes"):
        fa.shared_gradient(rows, fine, groups, 5, 20, weigh="sizes")


@pytest.mark.usefixtures("without_gains")
def test_what_all_outputs_share_changes_nothing_and_classes_weigh_the_same():
    """The audit of outputs with one common summand, classes of 6, 3 and 1."""
    features, groups, x, coarse, fine = outputs_of((6, 3, 1))
    plain = module(features, np.eye(3)[groups].T)
    shifted = nn.Sequential(*plain, nn.Linear(3, 3, bias=False))
    shifted[-1].weight.data = torch.eye(3) + torch.tensor([[5.0, 0.0, 0.0]] * 3)
    one, other = (audit(m, x, coarse, fine, bounds=None, **QUICK) for m in (plain, shifted))
    assert other.shared_gradient == pytest.approx(one.shared_gradient, abs=1e-3)
    by_class = [each.value for each in one.layer.shared.by_class]
    assert len(by_class) == 2
    assert abs(by_class[0] - by_class[1]) > 0.01
    assert one.shared_gradient == pytest.approx(np.mean(by_class))


def layer(name, value, null=1.0):
    each = tuple(ClassGradient(c, value, value - 0.05, value + 0.05, null) for c in (0, 1))
    low, high = value - 0.05, value + 0.05
    matrix, counts = np.eye(4), np.full(4, 30)
    shared = SharedGradient(value, low, high, null, null, null, matrix, counts, 0.0, each)
    return LayerGradient(name, shared)


def test_layers_that_disagree_decide_nothing():
    first, second, noise = layer("input", 0.1), layer("second", 0.9), layer("third", 0.9, 0.5)
    right = wilson(95, 100), 0.5
    found = judge(Sharing((first, second, noise)), *right)
    assert found.verdict is AuditVerdict.CANNOT_TELL
    assert found.reason.startswith("Layers disagree: it averages at 'second' (A = 0.90).")
    assert found.other_layers == ("second",)
    assert judge(Sharing((first, noise)), *right).verdict is AuditVerdict.DECOUPLED
    alone = Sharing((first, second, noise), "input")  # asked for
    assert judge(alone, *right).verdict is AuditVerdict.DECOUPLED


# A layer behind which the network is linear.


@pytest.mark.usefixtures("without_gains")
@pytest.mark.parametrize("outputs", [1, 2, 10])
def test_the_last_layer_of_a_network_with_an_output_per_class_says_nothing(outputs, digits):
    x, coarse, fine = digits
    net = fitted(network(outputs, width=20), x, coarse if outputs < 10 else fine, steps=80, rate=0.01)
    result = audit(net, x, coarse, fine, **QUICK)
    names = [each.layer for each in result.layers]
    assert (FEATURES in names) == (outputs == 10)
    if outputs < 10:
        with pytest.raises(InputError) as error:
            audit(net, x, coarse, fine, layer=FEATURES, **QUICK)
        assert str(error.value) == (
            "layer is 'features before the last layer', behind which the network is linear: A is 1 "
            "there for any network: choose auto or input."
        )


# The effective gradient.


def test_units_count_as_strongly_as_they_fire():
    """By hand: sum of head_m * a_m * w_m over the neurons that are on."""
    rng = np.random.default_rng(0)
    net = TwoLayer(rng.standard_normal((5, 3)), rng.standard_normal(5), np.ones((1, 5)))
    made = as_module(net_of(net))
    x = torch.from_numpy(rng.standard_normal((7, 3))).requires_grad_()
    hidden = made[2](made[1](x))
    output = made[3](hidden)
    found = effective_gradient(output, torch.ones_like(output), x, [hidden])
    expected = (hidden.detach().numpy() * net.head) @ net.weights
    assert np.allclose(found.numpy(), expected)


def test_the_next_activations_are_those_that_everything_passes():
    x = torch.ones(2, 3, requires_grad=True)
    a = torch.relu(2 * x)
    b = torch.relu(3 * x)
    aside = torch.relu(x - 1)
    c = torch.relu(a + b)

    def names(output, start):
        known = SimpleNamespace(a=a, b=b, aside=aside, c=c)
        found = next_activations(output, start, [a, b, aside, c])
        return [name for name, value in vars(known).items() if any(value is f for f in found)]

    assert names(c.sum(), x) == ["a", "b"]
    assert names((5 * c).sum(), a) == ["c"]
    assert names((c + x).sum(), x) == []  # a way around them
    around = torch.relu(a + x)
    assert next_activations(around.sum(), x, [a, around]) == []  # one follows the other
