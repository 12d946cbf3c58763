"""The audit from end to end: bad input, verdicts, discovery, remedies, the page, the command, a kill."""

import json
import pickle

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests.audit.nets import network  # noqa: E402
from torch import nn  # noqa: E402

import featavg as fa  # noqa: E402
from featavg.__main__ import main  # noqa: E402
from featavg.audit import radii as radii_module  # noqa: E402
from featavg.audit.gain import ERROR, measured_gain, predicted_gain  # noqa: E402
from featavg.audit.gradients import LayerGradient, Sharing  # noqa: E402
from featavg.audit.inputs import balanced  # noqa: E402
from featavg.audit.models import load_model  # noqa: E402
from featavg.audit.remedies import rehead, retrain  # noqa: E402
from featavg.audit.result import audit_page, pictures_of  # noqa: E402
from featavg.audit.run import audit  # noqa: E402
from featavg.audit.subclasses import discover  # noqa: E402
from featavg.audit.verdict import BORDER, MERGED, AuditVerdict, judge  # noqa: E402
from featavg.errors import InputError  # noqa: E402
from featavg.measures.accuracy import wilson  # noqa: E402
from featavg.measures.shared_gradient import SharedGradient  # noqa: E402
from featavg.nets.torch.image_nets import Normalise  # noqa: E402

torch.set_num_threads(1)
QUICK = {"images": 300, "radii": 12, "gradients": 15}


class NoGradient(nn.Module):
    def forward(self, x):
        with torch.no_grad():
            return x.flatten(1)[:, :2]


class Broken(nn.Module):
    def forward(self, x):
        raise KeyError("no such layer")


class NotFinite(nn.Module):
    def forward(self, x):
        return x.flatten(1)[:, :2].sqrt()  # infinite slope at 0


class Text(nn.Module):
    def forward(self, x):
        return "two"


def _nan():
    net = network(10)
    with torch.no_grad():
        net[1].weight[0, 0] = float("nan")
    return net


BAD = {
    "outputs": lambda x, coarse, fine: (network(7), x, coarse, fine, "has 7 outputs: the labels have 2 classes and 10"),
    "one logit": lambda x, coarse, fine: (network(1), x, fine, None, "has one logit: there are 10 classes"),
    "bounds": lambda x, coarse, fine: (network(10), 3 * x, coarse, fine, "outside"),
    "nan": lambda x, coarse, fine: (network(10), np.full_like(x, np.nan), coarse, fine, "not finite"),
    "no sample": lambda x, coarse, fine: (network(10), x, 2 * coarse, fine, "has no image of class 1"),
    "one class": lambda x, coarse, fine: (network(10), x, 0 * coarse, fine, "one class only"),
    "not nested": lambda x, coarse, fine: (
        network(10),
        x,
        coarse,
        (fine + np.arange(len(fine))) % 10,
        "into two classes",
    ),
    "not finer": lambda x, coarse, fine: (network(10), x, coarse, coarse, "one sub-class per class"),
    "huge label": lambda x, coarse, fine: (network(10), x, coarse, fine + 10**9, "holds 100000000"),
    "floats": lambda x, coarse, fine: (network(10), x, coarse, fine / 2, "one whole number"),
    "short": lambda x, coarse, fine: (network(10), x, coarse[:-1], fine, "one whole number"),
    "no gradient": lambda x, coarse, fine: (NoGradient(), x, coarse, fine, "no gradient in its input"),
    "infinite": lambda x, coarse, fine: (NotFinite(), x, coarse, fine, "gradient that is not finite"),
    "raises": lambda x, coarse, fine: (Broken(), x, coarse, fine, "stopped on 4 images of shape"),
    "returns text": lambda x, coarse, fine: (Text(), x, coarse, fine, "returned a str"),
    "no model": lambda x, coarse, fine: (3, x, coarse, fine, "is a int: give a torch.nn.Module"),
    "half": lambda x, coarse, fine: (network(10).half(), x, coarse, fine, "half precision"),
    "nan weights": lambda x, coarse, fine: (_nan(), x, coarse, fine, "NaN or an infinity"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_sentence(name, digits):
    model, x, coarse, fine, sentence = BAD[name](*digits)
    with pytest.raises(InputError) as error:
        audit(model, x, coarse, fine, **QUICK)
    assert sentence in str(error.value)


def layer(value, low, high, null=1.0, undefined=0.0):
    matrix, counts = np.eye(2), np.array([30, 30])
    shared = SharedGradient(value, low, high, null, null, null, matrix, counts, undefined)
    return LayerGradient("made up", shared)


@pytest.mark.parametrize(
    ("low", "high", "finer", "expected"),
    [
        (BORDER + 0.01, 0.95, True, AuditVerdict.AVERAGES),
        (BORDER + 0.01, 0.95, False, AuditVerdict.CANNOT_TELL),
        (MERGED + 0.01, 0.95, False, AuditVerdict.AVERAGES),
        (0.0, BORDER - 0.01, True, AuditVerdict.DECOUPLED),
        (0.0, BORDER - 0.01, False, AuditVerdict.DECOUPLED),
        (BORDER - 0.01, 0.9, True, AuditVerdict.CANNOT_TELL),
    ],
)
def test_the_rule_of_the_verdict(low, high, finer, expected):
    found = Sharing((layer((low + high) / 2, low, high),))
    assert judge(found, wilson(95, 100), 0.5, finer=finer).verdict is expected
    guessing = judge(found, wilson(52, 100), 0.5)
    assert guessing.verdict is AuditVerdict.CANNOT_TELL
    assert "hardly better than by always naming one class" in guessing.reason


def test_pixels_are_not_normalised_twice(digits):
    """The accuracy of a public ResNet-20 fell from 94% to 52% that way, and a verdict came out."""
    x, coarse, fine = digits
    net = nn.Sequential(Normalise([0.3], [0.2]), network(10))
    with pytest.raises(InputError, match="normalises its own input: leave out both"):
        audit(net, x, coarse, fine, mean=0.3, **QUICK)


def test_the_first_layer_that_means_something_is_reported():
    noise, good = layer(0.3, 0.1, 0.4, null=0.5), layer(0.8, 0.7, 0.9)
    torn = layer(0.3, 0.1, 0.4, undefined=0.2)
    assert Sharing((noise, torn, good, layer(0.1, 0.0, 0.2))).reported is good
    assert Sharing((noise, torn)).reported is None
    assert judge(Sharing((noise,)), wilson(95, 100), 0.5).verdict is AuditVerdict.CANNOT_TELL
    assert Sharing((noise, good), "made up").reported is good
    assert Sharing((good,), "another").reported is None


def test_a_layer_that_is_not_there_is_named_before_anything_else():
    """Whatever else may be said: no image is decided rightly here."""
    task = fa.MultiCluster(k=4, d=40)
    points = task.sample(160, seed=0)
    net = fa.feature_averaging(task)
    x, wrong = points.coordinates(net.dimension), (points.y < 0).astype(int)
    for layer, words in (("nan", "layer is 'nan': choose auto or input"), ("auto", "model decides 0 of")):
        with pytest.raises(InputError, match=words):
            fa.audit(net, x, wrong, points.clusters, bounds=None, layer=layer)


@pytest.mark.usefixtures("without_gains")
@pytest.mark.parametrize(
    ("labels", "readout", "shared", "within"),
    [
        ("coarse", "probability", 1.0, 0.01),
        # Six orthogonal directions without what they share are the corners of a simplex.
        ("fine", "probability", -1 / 5, 0.05),
        ("fine", "max", -1 / 5, 0.05),
    ],
)
def test_the_simulator_is_told_apart(labels, readout, shared, within):
    task = fa.MultiCluster(k=6, d=600)
    net = fa.train(task, labels=labels, n=300, steps=100, seed=0).net
    points = task.sample(300, seed=1)
    result = audit(
        net, points.coordinates(net.dimension), points.y, points.clusters, bounds=None,
        readout=readout, radii=8, gradients=20,
    )  # fmt: skip
    assert result.shared_gradient == pytest.approx(shared, abs=within)
    assert result.verdict.value == ("averages" if labels == "coarse" else "decoupled")
    assert result.layer.shared.null > 0.9


def test_everything_a_page_needs_is_there(fine_net, digits, tmp_path):
    x, coarse, fine = digits
    result = audit(fine_net, x, coarse, fine, twin=network(10), names=tuple("0123456789"), **QUICK)
    assert json.loads(json.dumps(result.to_json(), allow_nan=False))["twin"] is not None
    assert "twin" in result.comparison()
    assert len(repr(result).splitlines()) < 40
    assert "<svg" in result._repr_html_()
    page = fa.write_audit(result, tmp_path).read_text()
    for words in (
        result.verdict.value,
        "What would help",
        "NC1",
        "twin with fine labels</th>",
        "radii-by-subclass",
        "permutation",
    ):
        assert words in page
    assert "http://" not in page.split("<script>")[0]
    assert {path.name for path in (tmp_path / "figures").glob("*.png")} == {
        f"{figure.name}.png" for figure in result.figures()
    }
    # Not a word about finer labels without a twin that has them.
    alone = audit(network(2), x, coarse, fine, **QUICK)
    assert alone.comparison() == ""
    assert any("was not measured" in line for line in alone.remedies)
    alone_page = audit_page(alone, [], {})
    assert "<code>fa.retrain</code>" in alone_page
    assert "twin with fine labels</th>" not in alone_page


@pytest.mark.usefixtures("without_gains")
def test_a_killed_audit_goes_on(fine_net, digits, tmp_path, monkeypatch):
    x, coarse, fine = digits
    settings = QUICK | {"radii": 100, "folder": tmp_path}
    real, calls = radii_module.minimal_radii, []

    def killed(*arguments):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(radii_module, "minimal_radii", killed)
    with pytest.raises(KeyboardInterrupt):
        audit(fine_net, x, coarse, fine, **settings)
    kept = list(tmp_path.glob("radii-*.json"))
    assert len(kept) == 1
    result = audit(fine_net, x, coarse, fine, **settings)
    assert len(calls) == 3  # the first block was not attacked again
    monkeypatch.undo()
    whole = audit(fine_net, x, coarse, fine, **(settings | {"folder": None}))
    assert np.allclose(result.radii.attack, whole.radii.attack, rtol=1e-6)
    kept[0].write_text("broken")
    again = audit(fine_net, x, coarse, fine, **settings)
    assert np.allclose(again.radii.attack, whole.radii.attack, rtol=1e-6)


def blobs(k=6, n=60, d=8, apart=6.0, seed=0):
    rng = np.random.default_rng(seed)
    fine = np.arange(k * n) % k
    return apart * np.eye(d)[fine] + rng.standard_normal((k * n, d)), fine, (np.arange(k) % 2)


def test_discovery_finds_what_can_be_found():
    from sklearn.metrics import adjusted_rand_score

    x, fine, groups = blobs()
    found = discover(x, groups[fine], clusters=3)
    assert adjusted_rand_score(fine, found.labels) == pytest.approx(1.0)
    assert max(found.table, key=lambda row: row.stability).clusters == 3
    assert {len(rows) for rows in found.examples.values()} == {8}
    for clusters in (1, 100):
        with pytest.raises(InputError, match="clusters is"):
            discover(x, groups[fine], clusters=clusters)


@pytest.mark.parametrize(
    ("count", "clusters", "sentence"),
    [
        (12, 5, "coarse has 6 images of a class: give at least 40 of each, so that it can be divided."),
        (80, 5, "clusters is 5 for 40 images of a class: give from 2 to 2, since each needs 20 images."),
        (80, 2, "images fall into no sub-classes of 20 or more: give more of them, or fine labels."),
    ],
)
def test_few_images_are_one_sentence_about_images(count, clusters, sentence):
    x = np.arange(count)[:, None] ** 6.0
    with pytest.raises(InputError) as caught:
        discover(x, np.arange(count) % 2, clusters)
    assert str(caught.value) == sentence


def test_a_handful_of_outliers_is_no_subclass():
    x, fine, groups = blobs(k=4)
    x[:3] += 100.0 * np.eye(8)[7]  # three images of three digits far away from everything
    found = discover(x, groups[fine], clusters=3)
    assert np.bincount(found.labels).min() >= 20
    assert np.array_equal(np.unique(found.labels), np.arange(found.labels.max() + 1))
    inside = {(int(a), int(groups[b])) for a, b in zip(found.labels, fine, strict=True)}
    assert len(inside) == found.labels.max() + 1  # no cluster in two classes


@pytest.mark.usefixtures("without_gains")
def test_an_embedding_of_the_users_finds_what_the_features_do_not(digits):
    from sklearn.metrics import adjusted_rand_score

    x, coarse, fine = digits
    rows = np.eye(10)[fine] + 0.01 * np.random.default_rng(0).standard_normal((len(fine), 10))
    result = audit(network(2), x, coarse, clusters=5, embedding=rows, **QUICK)
    assert result.discovery.where == "the embedding that was given"
    assert adjusted_rand_score(fine[result.images], result.discovery.labels) > 0.99
    for wrong in (rows[:-1], rows[:, 0], np.full_like(rows, np.nan)):
        with pytest.raises(InputError, match="embedding"):
            audit(network(2), x, coarse, embedding=wrong, **QUICK)


@pytest.mark.usefixtures("without_gains")
def test_an_audit_without_fine_labels_discovers_and_says_so(digits, caplog):
    caplog.set_level("INFO", "featavg")
    x, coarse, _ = digits
    result = audit(network(2), x, coarse, clusters=3, **QUICK)
    assert "found 6 sub-classes in" in caplog.text
    assert "audited Sequential in" in caplog.text
    assert result.discovery is not None
    assert len(result.names) == 6
    rows = [text for name, text in result.rows() if name == "sub-classes"]
    assert "discovered" in rows[0]
    assert np.array_equal(result.images, balanced(coarse, QUICK["images"], 0))
    page = audit_page(result, [], pictures_of(result, x))
    assert "No rule finds the right number of clusters" in page
    assert page.count("An example of") >= 18
    worst, _ = result.worst_subclass
    ranked = page[page.index("worst decided first") :]
    assert ranked.index(f"<b>{worst}</b>") == min(ranked.index(f"<b>{name}</b>") for name in result.names)


def test_the_predicted_gain_agrees_with_the_measured_one_on_gaussian_features():
    x, fine, groups = blobs(apart=8.0, n=80)
    predicted, measured = (gain(x, fine, groups) for gain in (predicted_gain, measured_gain))
    assert predicted.value == pytest.approx(measured.value, rel=0.15)
    assert predicted.value > 1.2
    # Repetitions differ by less than predictions are wrong by.
    assert predicted.low <= predicted.value / ERROR
    assert predicted.high >= predicted.value * ERROR
    assert measured.high < measured.value * ERROR
    # Class labels alone, and neurons that compete: as far as with fine labels.
    competing = measured_gain(x, fine, groups, labels="competing")
    assert competing.value == pytest.approx(measured.value, rel=0.15)
    assert competing.words().startswith("neurons that compete would enlarge")
    change = f"enlarge the radius by {predicted.value - 1:.0%}"
    assert predicted.words().startswith(f"finer labels would {change}")
    assert predicted.words(finer=True).startswith(f"its finer labels {change}")
    refused = predicted_gain(*blobs(apart=0.5))
    assert refused.value is None
    assert "overlap" in refused.refused
    assert predicted_gain(x, fine, np.arange(6) // 2).value is None  # three classes


def test_a_new_head_decides_the_subclasses_and_can_be_saved(fine_net, digits, tmp_path):
    from safetensors.torch import load_file, save_model

    x, coarse, fine = digits
    result = rehead(fine_net, x, coarse, fine)
    outputs = result.module(torch.from_numpy(x)).detach().numpy()
    assert outputs.shape == (len(x), 10)
    assert np.mean(result.groups[outputs.argmax(axis=1)] == coarse) > 0.8
    again = audit(result.module, x, coarse, fine, **QUICK)
    assert again.about["outputs"] == "10 logits"
    save_model(result.module, str(tmp_path / "net.safetensors"))
    assert load_file(tmp_path / "net.safetensors")
    assert "finer labels would" in repr(result)
    with pytest.raises(InputError, match="no last linear layer"):
        rehead(nn.Flatten(), x.reshape(len(x), -1)[:, :2], coarse, fine)


@pytest.mark.parametrize("recipe", [None, fa.HeadRecipe(m=9, h=1, start="samples")])
def test_neurons_that_compete_are_a_head_from_class_labels_alone(fine_net, digits, recipe):
    x, coarse, fine = digits
    result = rehead(fine_net, x, coarse, recipe=recipe)
    assert "classes, which compete" in repr(result)
    outputs = result.module(torch.from_numpy(x)).detach().numpy()
    assert outputs.shape == (len(x), 2)
    features = torch.relu(fine_net[1](torch.from_numpy(x).flatten(1))).detach().numpy().astype(float)
    neurons = np.maximum(features @ result.head.weights.T, 0.0)
    half = neurons.shape[1] // 2
    by_hand = np.stack([neurons[:, half:].max(axis=1), neurons[:, :half].max(axis=1)], axis=1)
    assert np.allclose(outputs, by_hand, atol=1e-4)
    assert np.mean(outputs.argmax(axis=1) == coarse) > 0.85
    if recipe is None:
        assert result.gain.fine_accuracy > result.gain.coarse_accuracy + 0.03
        with pytest.raises(InputError, match="coarse has 10 classes: give fine labels"):
            rehead(fine_net, x, fine)


def test_training_again_gives_the_architecture_other_labels(digits):
    task = fa.load_images("digits")
    coarse = network(2)
    before = {name: value.clone() for name, value in coarse.state_dict().items()}
    recipe = fa.ImageRecipe(epochs=6, batch=64, rate=0.1, crop=0)
    fine = retrain(coarse, task, recipe=recipe, mean=[0.3], std=[0.4])
    x, _, labels = digits
    share = float((fine(torch.from_numpy(x)).argmax(1).numpy() == labels).mean())
    assert share > 0.8
    assert all(torch.equal(value, coarse.state_dict()[name]) for name, value in before.items())
    with pytest.raises(InputError, match=r"no nn\.Linear"):
        retrain(nn.Flatten(), task)
    smooth = retrain(coarse, task, "coarse", recipe, objective=fa.objectives.GradientPenalty(3.0))
    plain = retrain(coarse, task, "coarse", recipe)
    slopes = []
    for net in (smooth, plain):
        images = torch.from_numpy(x).requires_grad_()
        outputs = net(images)
        (outputs[:, 1] - outputs[:, 0]).sum().backward()
        slopes.append(images.grad.flatten(1).norm(dim=1).mean().item())
    assert slopes[0] < 0.7 * slopes[1]


def test_discovered_labels_are_a_task_to_train_on(fine_net):
    task = fa.load_images("digits")
    found = fa.discover_labels(fine_net, task, clusters=3)
    for part, given in ((found.train, task.train), (found.test, task.test)):
        assert np.array_equal(found.targets(part, "coarse"), task.targets(given, "coarse"))
    assert 2 < found.fine <= 6
    again = retrain(network(2), found, recipe=fa.ImageRecipe(epochs=1, batch=64, crop=0))
    assert again(torch.from_numpy(task.test.unit[:3])).shape == (3, found.fine)
    with pytest.raises(InputError, match="clusters is 1"):
        fa.discover_labels(fine_net, task, clusters=1)


FACTORY = """
from torch import nn
def net():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 12), nn.ReLU(), nn.Linear(12, 10))
def broken():
    raise RuntimeError("not today")
def text():
    return "a network"
"""


@pytest.fixture
def workplace(tmp_path, monkeypatch, fine_net):
    from safetensors.torch import save_model

    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(FACTORY)
    (tmp_path / "stops.py").write_text("1 / 0")
    save_model(fine_net, "net.safetensors")
    torch.save({"w": torch.zeros(2)}, "other.pt")
    (tmp_path / "evil.pt").write_bytes(pickle.dumps(Evil()))
    return tmp_path


class Evil:
    def __reduce__(self):
        return print, ("this must not be printed",)


@pytest.mark.usefixtures("without_gains")
def test_the_command_writes_the_page(workplace, capsys):
    words = ["audit", "mine:net", "--weights", "net.safetensors", "--data", "digits", "--out", "o"]
    sizes = ["--images", "300", "--radii", "12", "--gradients", "15", "--threads", "1"]
    assert main(words + sizes) == 0
    shown = capsys.readouterr().out
    assert "verdict" in shown
    assert "audit.html" in shown
    assert json.loads((workplace / "o" / "audit.json").read_text())["accuracy"]["value"] > 0.8
    assert (workplace / "o" / "audit.html").exists()
    # Ten outputs and no fine labels: the data say which class an output belongs to.
    assert main([*words, *sizes, "--no-fine", "--clusters", "3"]) == 0
    assert "discovered in" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("source", "weights", "sentence"),
    [
        ("mine", None, "give MODULE:FACTORY"),
        ("mine:nothing", None, "cannot be imported"),
        ("nowhere:net", None, "cannot be imported"),
        ("stops:net", None, "stopped while it was imported (ZeroDivisionError"),
        ("mine:broken", None, "stopped (RuntimeError: not today)"),
        ("mine:text", None, "returned a str"),
        ("net.onnx", None, "net.onnx is not there"),
        ("mine:net", "missing.pt", "is not a file"),
        ("mine:net", "other.pt", "weights of another network"),
        ("mine:net", "evil.pt", "perhaps code"),
    ],
)
def test_models_that_cannot_be_had_are_one_sentence(workplace, capsys, source, weights, sentence):
    with pytest.raises(InputError) as error:
        load_model(source, None if weights is None else workplace / weights)
    assert sentence in str(error.value)
    assert "printed" not in capsys.readouterr().out
