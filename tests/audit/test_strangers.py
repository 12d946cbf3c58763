"""Networks as strangers write them: what a forward keeps is put back, what cannot be audited is said."""

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from featavg.audit.labels import audit_images  # noqa: E402
from featavg.audit.models import classifier  # noqa: E402
from featavg.audit.result import write_audit  # noqa: E402
from featavg.audit.run import audit  # noqa: E402
from featavg.errors import InputError  # noqa: E402

torch.set_num_threads(1)
pytestmark = pytest.mark.usefixtures("without_gains")


class Counting(nn.Module):
    """Counts its calls in buffers, and leaves its features in an attribute."""

    def __init__(self):
        super().__init__()
        self.last = nn.Linear(64, 2)
        self.calls = 0
        self.register_buffer("in_place", torch.zeros(()))
        self.register_buffer("anew", torch.zeros(()), persistent=False)

    def forward(self, x):
        self.calls += 1
        self.in_place += 1
        self.anew = self.anew + 1
        self.features = x.flatten(1)
        return self.last(self.features)


class InPlaceOnItsInput(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = nn.Linear(64, 2)

    def forward(self, x):
        x = x.view(len(x), -1)
        x -= 0.5
        return self.last(x)


class Drawn(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = nn.Linear(64, 2)

    def forward(self, x):
        return self.last(functional.dropout(x.flatten(1), 0.2, training=True))


class Leaves(nn.Module):
    def forward(self, x):
        raise SystemExit(3)


def made_under_inference_mode():
    with torch.inference_mode():
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 2))


def linear():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 2))


def regression():
    from sklearn.linear_model import LinearRegression

    random = np.random.default_rng(0)
    return LinearRegression().fit(random.random((40, 64)), random.random(40))


def one_against_one():
    """Its three outputs are of pairs of classes, not of classes."""
    from sklearn.svm import SVC

    random = np.random.default_rng(0)
    return SVC(kernel="linear").fit(random.random((90, 64)), np.arange(90) % 3)


def pipeline():
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), LogisticRegression())


REFUSED = {
    "random": (Drawn, "a second time"),
    "inference mode": (made_under_inference_mode, "inference_mode"),
    "lazy": (lambda: nn.Sequential(nn.Flatten(), nn.LazyLinear(2)), "run it once"),
    "meta": (lambda: linear().to("meta"), "load them"),
    "leaves": (Leaves, "SystemExit"),
    "class": (lambda: Counting, "is the class Counting"),
    "function": (lambda: functional.relu, "in the forward of a torch.nn.Module"),
    "state dict": (lambda: linear().state_dict(), "load it into its torch.nn.Module"),
    "regressor": (regression, "one output per class"),
    "one against one": (one_against_one, "one output per class"),
    "pipeline": (pipeline, "give its last step"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_cannot_be_audited_is_one_sentence(kind, digits):
    make, words = REFUSED[kind]
    with pytest.raises(InputError, match=words) as told:
        classifier(make(), digits[0])
    assert told.value.argument == "model"


def test_what_a_forward_counts_or_keeps_is_put_back(digits):
    x, coarse, fine = digits
    model = Counting()
    before = set(vars(model))
    audit(model, x, coarse, fine, images=200, radii=2, gradients=2)
    assert (model.calls, float(model.in_place), float(model.anew)) == (0, 0.0, 0.0)
    assert set(vars(model)) == before
    assert model.training


def test_a_network_that_works_in_place_on_its_input(digits):
    x, coarse, fine = digits
    model, twin = InPlaceOnItsInput(), linear()
    twin[1].load_state_dict(model.last.state_dict())
    given = x.copy()
    found = audit(model, x, coarse, fine, images=200, radii=4, gradients=5)
    expected = audit(twin, x, coarse, fine, mean=0.5, images=200, radii=4, gradients=5)
    assert np.array_equal(given, x)
    assert found.accuracy == expected.accuracy
    assert np.allclose(found.radii.attack, expected.radii.attack, rtol=1e-3)


def test_exact_radii_know_of_mean_and_std(perceptron, digits):
    """They were those of the network without its normalisation: certified beyond what an attack found."""
    x, coarse, fine = digits
    flat = x.reshape(len(x), -1).astype(float)
    mean, std = flat.mean(axis=0), flat.std(axis=0) + 0.5
    subject = classifier(perceptron, flat, mean=mean, std=std)
    logits = subject.exact(flat[:9])[:, 0]
    assert np.allclose(logits, subject.net(flat[:9])[:, 0])
    probability = perceptron.predict_proba((flat[:9] - mean) / std)[:, 1]
    assert np.allclose(1 / (1 + np.exp(-logits)), probability)
    result = audit(perceptron, flat, coarse, fine, mean=0.3, std=2.0, images=200, radii=5)
    free = audit(perceptron, (flat - 0.3) / 2.0, coarse, fine, bounds=None, images=200, radii=5)
    assert np.allclose(result.radii.certified, 2.0 * free.radii.certified, rtol=1e-6)


def test_a_page_where_no_attack_flipped_anything(tmp_path, digits):
    x, coarse, fine = digits
    result = audit(linear(), x, coarse, fine, images=200, radii=4, gradients=2)
    never = replace(result.radii, attack=np.full(4, np.inf), certified=None)
    page = write_audit(replace(result, radii=never), tmp_path)
    assert page.exists()


def test_a_twin_is_looked_at_first_and_on_the_same_few_images(digits):
    x, coarse, fine = digits
    wide = nn.Sequential(nn.Flatten(), nn.Linear(64, 7))
    with pytest.raises(InputError, match=r"^twin has 7 outputs"):
        audit(linear(), x, coarse, fine, images=100, radii=2, gradients=2, twin=wide)
    result = audit(linear(), x, coarse, fine, images=100, radii=2, gradients=2, twin=linear())
    assert result.twin is not None  # ten images of a digit are too few to be given, not to be sampled
    assert result.twin.about["images"] == 100


def test_a_file_with_x_and_labels_is_audited_whole(tmp_path, digits):
    x, coarse, fine = digits
    path = tmp_path / "mine.npz"
    np.savez(path, x=x, coarse=coarse.astype(float), fine=fine)
    given = audit_images(str(path))
    assert np.array_equal(given.x, x)
    result = audit(linear(), given.x, given.coarse, given.fine, images=200, radii=2, gradients=2)
    assert result.about["classes"] == 2
    assert np.array_equal(audit_images(str(path), "parity").coarse, fine % 2)
    np.savez(path, x=x, coarse=coarse)
    assert audit_images(str(path)).fine is None
    with pytest.raises(InputError, match="groups divide sub-classes"):
        audit_images(str(path), "parity")
    np.savez(path, x=x)
    with pytest.raises(InputError, match="has no 'coarse'"):
        audit_images(str(path))


def test_weights_without_a_factory_and_of_a_parallel_network(tmp_path, monkeypatch):
    from safetensors.torch import save_file

    from featavg.audit.models import load_model

    (tmp_path / "strangers_net.py").write_text("import torch\n\nnet = lambda: torch.nn.Linear(3, 2)\n")
    monkeypatch.chdir(tmp_path)
    weights = nn.Linear(3, 2).state_dict()
    save_file({f"module.{name}": value for name, value in weights.items()}, "net.safetensors")
    path = tmp_path / "net.safetensors"
    assert torch.equal(load_model("strangers_net:net", path).weight, weights["weight"])
    with pytest.raises(InputError, match="which has its own"):
        load_model(str(path), path)


def test_clusters_beside_fine_labels_are_refused(digits):
    x, coarse, fine = digits
    with pytest.raises(InputError, match="clusters is for discovery"):
        audit(linear(), x, coarse, fine, clusters=3)


def test_a_network_that_names_one_class_is_not_a_matter_of_labels(digits):
    x, _, fine = digits
    model = linear()
    with torch.no_grad():
        model[1].bias.copy_(torch.tensor([-1e3, 1e3]))
    with pytest.raises(InputError, match=r"^model decides .* of 200 images rightly"):
        audit(model, x, (fine == 1).astype(int), fine, images=200, radii=2, gradients=2)
