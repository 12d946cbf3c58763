"""Every kind of classifier gets the right answer: one function, written down in twenty ways."""

from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests.audit.nets import Attention, fitted, layers, linear  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

import featavg as fa  # noqa: E402
from featavg.audit.models import classifier  # noqa: E402
from featavg.audit.run import audit  # noqa: E402
from featavg.data.image_sets.loading import load_images  # noqa: E402
from featavg.nets.torch.inference import devices_of, graphics, unchanged  # noqa: E402
from featavg.nets.two_layer import TwoLayer  # noqa: E402
from featavg.robustness.models.decision import Decision  # noqa: E402

torch.set_num_threads(1)
pytestmark = pytest.mark.usefixtures("without_gains")


class Plain(nn.Module):
    """Two layers; subclasses change how they are called and what comes out."""

    def __init__(self, weights):
        super().__init__()
        w, b, head, c = weights
        self.first, self.last = linear(w, b), linear(head, c)

    def hidden(self, x):
        return torch.relu(self.first(x.flatten(1)))

    def logits(self, x):
        return self.last(self.hidden(x))

    def forward(self, x):
        return self.logits(x)


class Functional(Plain):
    def logits(self, x):
        z = functional.linear(x.flatten(1), self.first.weight, self.first.bias)
        return functional.relu(z) @ self.last.weight.T + self.last.bias


class InPlace(Plain):
    def hidden(self, x):
        return functional.relu(self.first(x.flatten(1)), inplace=True)


class Reused(Plain):
    def __init__(self, weights):
        super().__init__(weights)
        self.act = nn.ReLU()

    def hidden(self, x):
        return self.act(self.act(self.first(x.flatten(1))))


class Tuple(Plain):
    def forward(self, x):
        return self.logits(x), self.hidden(x)


class Named(Plain):
    def forward(self, x):
        return SimpleNamespace(hidden_states=self.hidden(x), logits=self.logits(x))


class Table(Plain):
    def forward(self, x):
        return {"hidden": self.hidden(x), "logits": self.logits(x)}


class Sparse(Plain):
    def forward(self, x):
        return self.logits(x).to_sparse()


class Shifts(Plain):
    """Writes into its input."""

    def forward(self, x):
        x.sub_(0.5)
        return self.logits(x + 0.5)


class Softmax(Plain):
    def forward(self, x):
        return self.logits(x).softmax(dim=1)


class LogSoftmax(Plain):
    def forward(self, x):
        return functional.log_softmax(self.logits(x), dim=1)


class OneLogit(Plain):
    def forward(self, x):
        both = self.logits(x)
        return both[:, 1:] - both[:, :1]


class FlatLogit(OneLogit):
    def forward(self, x):
        return super().forward(x)[:, 0]


class Sigmoid(OneLogit):
    def forward(self, x):
        return torch.sigmoid(super().forward(x))


class Dropped(Plain):
    def __init__(self, weights):
        super().__init__(weights)
        self.drop = nn.Dropout(0.5)

    def logits(self, x):
        return self.last(self.drop(self.hidden(x)))


class Ensemble(nn.Module):
    def __init__(self, weights):
        super().__init__()
        self.members = nn.ModuleList([Plain(weights), Functional(weights)])

    def forward(self, x):
        return torch.stack([member(x) for member in self.members]).mean(dim=0)


class Convolution(Plain):
    """The first layer as a convolution that sees the whole image."""

    def __init__(self, weights):
        super().__init__(weights)
        self.conv = nn.Conv2d(1, len(weights[0]), 8)
        with torch.no_grad():
            self.conv.weight.copy_(self.first.weight.reshape(-1, 1, 8, 8))
            self.conv.bias.copy_(self.first.bias)

    def hidden(self, x):
        return torch.relu(self.conv(x)).flatten(1)


def traced(weights):
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch advises against TorchScript; people still have it
        return torch.jit.trace(Plain(weights).eval(), torch.zeros(2, 1, 8, 8))


def two_layer(weights):
    w, b, head, c = weights
    return TwoLayer(np.vstack([w, np.zeros((1, w.shape[1]))]), np.append(b, 1.0), np.hstack([head, c[:, None]]))


KINDS = {
    "sequential": lambda weights: nn.Sequential(*layers(weights)),
    "in-place sequential": lambda weights: nn.Sequential(*layers(weights, inplace=True)),
    "module": Plain,
    "functional": Functional,
    "in place": InPlace,
    "reused layer": Reused,
    "tuple": Tuple,
    ".logits": Named,
    "table": Table,
    "sparse": Sparse,
    "input written into": Shifts,
    "softmax": Softmax,
    "log-softmax": LogSoftmax,
    "one logit": OneLogit,
    "flat logit": FlatLogit,
    "sigmoid": Sigmoid,
    "dropout in training mode": Dropped,
    "ensemble": Ensemble,
    "convolution": Convolution,
    "TorchScript": traced,
    "float64": lambda weights: Plain(weights).double(),
    "two-layer NumPy": two_layer,
}
WITHOUT_FEATURES = {"ensemble", "TorchScript", "one logit", "flat logit", "sigmoid"}


@pytest.fixture(scope="module")
def reference(weights, digits):
    x, coarse, fine = digits
    # As a module of its own, so that no exact radii are looked for: one kind does that below.
    return audit(Plain(weights), x, coarse, fine, images=300, radii=12, gradients=30)


def state(model):
    """Everything of a module that an audit could change."""
    if not isinstance(model, nn.Module):
        return None
    tensors = {name: value.clone() for name, value in model.state_dict().items()}
    modes = [part.training for part in model.modules()]
    hooks = [len(part._forward_hooks) for part in model.modules() if hasattr(part, "_forward_hooks")]
    grads = [p.grad is None and p.requires_grad for p in model.parameters()]
    return tensors, modes, hooks, grads


def margin(model, x):
    """What the audit takes for the margin of class 1, whatever the model returns."""
    subject = classifier(model, x)
    groups = None if subject.outputs == 1 else np.arange(2)
    wrapped = subject.model(Decision.of(groups=groups), x)
    out = wrapped.outputs(wrapped.rows(x))
    return out[:, 0] if out.shape[1] == 1 else out[:, 1] - out[:, 0]


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_the_same_function(kind, weights, digits):
    """Probabilities are undone, not squashed again: margins are those of the logits."""
    x = digits[0][:60]
    expected = margin(Plain(weights), x)
    near = np.abs(expected) < 8  # beyond, a float32 probability is 1 to its last digits
    assert near.sum() > 20
    found = margin(KINDS[kind](weights), x)
    assert np.allclose(found[near], expected[near], rtol=2e-3, atol=1e-3)
    assert np.array_equal(found > 0, expected > 0)


@pytest.mark.parametrize("kind", ["tuple", "table", "sparse"])
def test_torch_model_unwraps_what_the_audit_unwraps(kind, weights, digits):
    x, coarse, _ = digits

    def descent(model):
        wrapped = fa.torch_model(model, positive=[False, True]).shaped(x)
        return wrapped.descend(wrapped.rows(x[:60]), wrapped.decision.labels(2 * coarse[:60] - 1))

    for found, expected in zip(*(descent(make(weights)) for make in (KINDS[kind], Plain)), strict=True):
        assert np.allclose(found, expected, atol=1e-6)


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_gets_the_right_answer_and_is_left_as_it_was(kind, weights, digits, reference):
    x, coarse, fine = digits
    model = KINDS[kind](weights)
    before, random = state(model), torch.get_rng_state()
    result = audit(model, x, coarse, fine, images=300, radii=12, gradients=30)
    assert result.accuracy.value == pytest.approx(reference.accuracy.value, abs=0.003)
    first, expected = result.layers[0].shared, reference.layers[0].shared
    assert result.layers[0].layer == "input"
    assert first.value == pytest.approx(expected.value, abs=0.02)
    assert first.null == pytest.approx(expected.null, abs=0.02)
    assert result.verdict == reference.verdict
    # The same decision, so image by image the same flip. What is left (3e-4 for a sigmoid) are the last
    # digits of a probability, which its logarithm magnifies; without the hair that `confirmed` goes beyond
    # the boundary they decided for single images whether a flip counted at all, and moved the median by 10%.
    assert np.allclose(result.radii.attack, reference.radii.attack, rtol=2e-3)
    assert np.all(np.isfinite(reference.radii.attack))
    assert (result.collapse is None) == (kind in WITHOUT_FEATURES)
    after = state(model)
    assert torch.equal(random, torch.get_rng_state())
    if before is not None:
        assert all(torch.equal(value, after[0][name]) for name, value in before[0].items())
        assert before[1:] == after[1:]


def test_scikit_learn_and_the_exact_radii(perceptron, weights, digits, reference):
    x, coarse, fine = digits
    flat = x.reshape(len(x), -1)
    result = audit(perceptron, flat, coarse, fine, images=300, radii=10, gradients=30)
    assert result.layers[0].shared.value == pytest.approx(reference.layers[0].shared.value, abs=0.02)
    assert result.radii.certified is not None
    assert np.all(result.radii.certified <= result.radii.attack + 1e-9)
    assert np.median(result.radii.certified) > 0.5 * result.radii.median


def test_a_linear_model_has_its_textbook_radius(digits):
    from sklearn.linear_model import LogisticRegression

    x, coarse, fine = digits
    flat = x.reshape(len(x), -1).astype(float)
    model = LogisticRegression(max_iter=200).fit(flat, coarse)
    result = audit(model, flat, coarse, fine, bounds=None, images=300, radii=20, gradients=20)
    margin = model.decision_function(flat) / np.linalg.norm(model.coef_)
    assert result.layers[0].shared.value == pytest.approx(1.0, abs=1e-6)
    assert result.verdict.value == "averages"
    expected = np.sort(np.abs(margin[(margin > 0) == (coarse == 1)]))
    found = result.radii.attack[result.radii.attack > 0]
    nearest = np.abs(expected[None, :] - found[:, None]).min(axis=1)
    assert nearest.max() < 1e-3
    assert np.allclose(result.radii.certified, result.radii.attack, rtol=1e-3)


def test_a_network_behind_a_normalisation(weights, digits, reference):
    """The same function of raw pixels, whatever is subtracted and divided before the module."""
    w, b, head, c = weights
    moved = (2.0 * w, b + w.sum(axis=1) * 0.3, head, c)
    x, coarse, fine = digits
    result = audit(Plain(moved), x, coarse, fine, mean=[0.3], std=[2.0], images=300, radii=12, gradients=30)
    assert result.layers[0].shared.value == pytest.approx(reference.layers[0].shared.value, abs=0.02)
    assert result.radii.median == pytest.approx(reference.radii.median, rel=0.05)


def test_a_transformer_is_audited(digits):
    x, coarse, fine = digits
    torch.manual_seed(0)
    model = fitted(Attention(10, dropout=0.1), x, fine, rate=0.01)
    result = audit(model, x, coarse, fine, images=300, radii=10, gradients=20)
    assert result.about["outputs"] == "10 logits"
    assert result.collapse is not None
    assert result.layer is not None
    assert model.training


def test_the_twin_of_a_two_layer_module_is_the_same_function(weights, digits):
    x, _, _ = digits
    subject = classifier(nn.Sequential(*layers(weights)), x, mean=0.25, std=0.5)
    assert subject.exact is not None
    with torch.no_grad():
        expected = subject.module((torch.from_numpy(x[:9]) - 0.25) / 0.5).numpy()
    assert np.allclose(subject.exact(x[:9].reshape(9, -1).astype(float)), expected, atol=1e-4)


def test_nothing_asks_a_network_on_another_device_with_tensors_of_the_cpu():
    """Torch's device `meta` has shapes and no numbers; mixed with the CPU it raises as a GPU would."""
    from featavg.audit.remedies import _replace_last
    from featavg.training.torch.module import _check_small, _check_width

    task = load_images("digits")
    layers = (nn.Conv2d(1, 2, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2, 2))
    net = nn.Sequential(*layers).to("meta")
    _replace_last(net, 10, task)
    assert net[-1].weight.device.type == "meta"
    _check_width(net, task, "fine")
    _check_small(net, 1, 6)
    assert devices_of(net) == [torch.device("meta")]
    assert graphics([torch.device("cpu"), torch.device("cuda", 1)]) == [torch.device("cuda", 1)]
    with unchanged(net):
        assert not net.training
