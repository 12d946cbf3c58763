"""Networks of NumPy arrays are audited without torch, and by the numbers that torch gives."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import featavg as fa
from featavg.audit.dense import ACTIVATIONS, DenseClassifier, net_of
from featavg.audit.models import classifier
from featavg.errors import InputError
from featavg.nets.deep import Deep
from featavg.robustness.models.decision import Decision

ROOT = Path(__file__).parents[2]
HIDDEN = """
import warnings
from importlib.machinery import PathFinder
found = PathFinder.find_spec
def find_spec(name, *where):
    return None if name.split(".")[0] == "torch" else found(name, *where)
PathFinder.find_spec = find_spec
import numpy as np
import featavg as fa
warnings.simplefilter("ignore")
"""
AUDITS = (
    HIDDEN
    + """
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from tests.audit.conftest import leave_out_gains
task = fa.load_images("digits")
flat = lambda images: images.unit.reshape(len(images), -1).astype(float)
x, y, fine = flat(task.test), task.targets(task.test, "coarse"), task.test.fine
labels = task.targets(task.train, "coarse")
quick = {"images": 300, "radii": 4, "gradients": 10}
models = [
    MLPClassifier((20,), max_iter=60, random_state=0).fit(flat(task.train), labels),
    MLPClassifier((20, 10), activation="tanh", max_iter=60, random_state=0).fit(flat(task.train), labels),
    LogisticRegression(max_iter=200).fit(flat(task.train), labels),
]
for model in models:
    print(fa.audit(model, x, y, fine, **quick).verdict.value)
    leave_out_gains(setattr)  # of the first they were found without torch
print(fa.audit(models[0], x, y, **quick).discovery is not None)
clusters = fa.MultiCluster(k=4, d=50)
points = clusters.sample(200, seed=0)
two = fa.feature_averaging(clusters, 50)
deep = fa.Deep((two.weights, two.head), (two.biases, None))
for net in (two, deep):
    result = fa.audit(net, points.x, points.y, points.clusters, bounds=None, **quick)
    print(result.verdict.value, "torch" in result.about)
import tempfile
print(fa.write_audit(result, tempfile.mkdtemp()).name)
"""
)


def printed(code):
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert ran.returncode == 0, ran.stderr[-2000:]
    return ran.stdout.splitlines()


def test_the_audit_of_numpy_networks_needs_no_torch():
    lines = printed(AUDITS)
    assert lines == [*["averages"] * 3, "True", *["averages False"] * 2, "audit.html"]


def test_every_name_that_needs_torch_says_so_in_one_sentence():
    code = """
for name in fa.__all__:
    try:
        getattr(fa, name)
    except fa.InputError as error:
        print(name, str(error).count("needs PyTorch, which is not installed"))
try:
    fa.torch_model(None)
except fa.InputError as error:
    print("torch_model", str(error).count("needs PyTorch, which is not installed"))
"""
    told = dict(line.split() for line in printed(HIDDEN + code))
    assert {"rehead", "retrain", "discover_labels", "train_images", "torch_model"} <= told.keys()
    assert "audit" not in told
    assert set(told.values()) == {"1"}


def network(widths, activation, residual=False, seed=0):
    rng = np.random.default_rng(seed)
    weights = [rng.standard_normal(shape) for shape in zip(widths[1:], widths[:-1], strict=True)]
    biases = [rng.standard_normal(width) for width in widths[1:]]
    return Deep(tuple(weights), tuple(biases), activation, residual)


@pytest.mark.parametrize("effective", [False, True])
@pytest.mark.parametrize("widths", [(6, 3), (6, 5, 3), (6, 5, 4, 3), (6, 5, 5, 5, 5, 5, 5, 3)])
@pytest.mark.parametrize("name", [*ACTIVATIONS, "leaky-relu:leak=0.1"])
def test_gradients_by_hand_are_those_of_autograd(name, widths, effective):
    pytest.importorskip("torch")
    from featavg.audit.torch_classifier import as_module

    net = network(widths, ACTIVATIONS.get(name, name))
    x = np.random.default_rng(1).standard_normal((20, 6))
    slopes = np.random.default_rng(2).standard_normal((20, 3))
    mean, std = 0.3, np.linspace(1.0, 2.0, 6)
    by_hand, by_torch = (classifier(m, x, None, mean, std) for m in (net, as_module(net)))
    assert by_hand.kind == by_torch.kind == "logits"
    one, other = (c.look(x, lambda _: slopes, effective) for c in (by_hand, by_torch))
    assert list(one.gradients) == list(other.gradients)
    assert np.allclose(one.outputs, other.outputs)
    for layer, rows in one.gradients.items():
        # Of a linear model the features are its input, before or after the normalisation.
        scale = std if len(widths) == 2 and layer.startswith("features") else 1.0
        assert np.allclose(rows * scale, other.gradients[layer]), layer
    if len(widths) > 2:
        assert np.allclose(one.features, other.features)
        assert np.allclose(one.weight, other.weight)


def test_the_gradient_of_a_residual_network_by_differences():
    net = network((6, 5, 5, 3), "relu", residual=True)
    subject = classifier(net, np.zeros((4, 6)), None)
    x, v = np.random.default_rng(1).standard_normal((20, 6)), np.array([1.0, -2.0, 0.5])
    seen = subject.look(x, lambda f: np.tile(v, (len(f), 1)), False)

    def behind(h):
        (_, _, _), (w, b, _), (head, c, _) = net.layers
        return (h + np.maximum(h @ w.T + b, 0.0)) @ head.T + c

    hidden = seen.values["activation 1 of 2"]
    assert np.allclose(behind(hidden), seen.outputs)
    for name, at, tail in (("input", x, net), ("activation 1 of 2", hidden, behind)):
        step = 1e-6 * np.eye(at.shape[1])
        differences = np.stack([(tail(at + s) - tail(at - s)) @ v / 2e-6 for s in step], axis=1)
        assert np.allclose(seen.gradients[name], differences, atol=1e-6)


def test_what_no_network_is_one_sentence():
    x = np.zeros((5, 4))
    batch = fa.train(fa.MultiCluster(k=4, d=50), n=40, steps=2, seed=[0, 1]).net
    for model, words in (
        (batch, "is a batch of networks"),
        (network((6, 3), "relu"), "takes 6 numbers, and images have shape"),
        ("text", "a TwoLayer or a Deep"),
    ):
        with pytest.raises(InputError, match=words):
            classifier(model, x)
    for mean, std, words in (
        (np.zeros(3), 1.0, "has 3 numbers for inputs of shape"),
        (0.0, 0.0, "std is not positive"),
        (np.nan, 1.0, "mean holds a number that is not finite"),
    ):
        with pytest.raises(InputError, match=words):
            classifier(network((4, 3), "relu"), x, None, mean, std)
    assert net_of(network((4, 3), "relu")).outputs == 3


def test_a_flip_of_a_dense_network_must_be_deeper_than_rounding() -> None:
    net = Deep((np.eye(2), np.eye(2)))
    dense = DenseClassifier("identity", None, 2, "logits", None, net=net)
    decision = Decision.of(groups=[0, 1], readout="max")
    model = dense.model(decision, np.zeros((1, 2)))
    eps = float(np.finfo(float).eps)
    # Own output 1, the other one above it by so many roundings: 31 are not enough, 34 are.
    outputs = np.array([[1.0, 1.0 + 31 * eps], [1.0, 1.0 + 34 * eps]])
    np.testing.assert_array_equal(model.flips(outputs, np.zeros(2, dtype=int)), [False, True])
