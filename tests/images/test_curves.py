"""Robust-accuracy curves on digits: attack strength, protocols, resume, and the commands."""

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from featavg.__main__ import main  # noqa: E402
from featavg.cli.images import register as register_data  # noqa: E402
from featavg.cli.images import register as register_images  # noqa: E402
from featavg.data.image_sets.loading import load  # noqa: E402
from featavg.errors import InputError  # noqa: E402
from featavg.figures import matplotlib_figure  # noqa: E402
from featavg.paper.images import attacks, curves, protocols  # noqa: E402
from featavg.paper.images.attacks import (  # noqa: E402
    compare_attacks,
    comparison_figure,
    foolbox_radii,
    plain,
    read_comparison,
    strength,
)
from featavg.paper.images.curves import ADAPTIVE, OWN_LOSS, CurveSettings, adaptive, image_curves, own_loss_pgd  # noqa: E402
from featavg.paper.images.figure3 import picked  # noqa: E402
from featavg.robustness.attacks.pgd import beginnings  # noqa: E402
from featavg.training.torch.image_network import train_images  # noqa: E402
from featavg.training.torch.recipe import ImageRecipe  # noqa: E402

torch.set_num_threads(1)
SETTINGS = CurveSettings(
    images=40,
    pgd_images=40,
    budget=40,
    norms=("l2",),
    readouts=("probability", "max"),
    pgd_steps=20,
    pgd_radii=(0.0, 0.3, 0.6, 1.0),
    radii={"l2": (0.0, 0.3, 0.6, 1.0), "linf": (0.0, 0.1)},
)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    task, folder = load("digits"), tmp_path_factory.mktemp("nets")
    recipe = ImageRecipe(epochs=6, batch=64, rate=0.05, crop=1)
    nets = {
        labels: train_images(task, labels, folder / f"digits-{labels}", "convnet", 8, recipe).net
        for labels in ("coarse", "fine")
    }
    return task, nets, folder


def test_the_adaptive_attack_is_nowhere_weaker_than_the_published_one(trained):
    task, nets, _ = trained
    for labels in nets:
        strong = adaptive(nets[labels], task, (ADAPTIVE, labels, "probability", "l2"), SETTINGS)
        weak = own_loss_pgd(nets[labels], task, (OWN_LOSS, labels, "probability", "l2"), SETTINGS)
        assert np.all(np.array(strong["accuracy"]) <= np.array(weak["accuracy"]) + 1e-9)
        assert strong["unit"] == "l2, pixels in [0,1]"
        assert strong["accuracy"][0] > 0.85


@pytest.mark.parametrize("labels", ["coarse", "fine"])
def test_the_attack_is_no_weaker_than_foolbox_at_the_same_budget(trained, labels):
    pytest.importorskip("foolbox")
    task, nets, _ = trained
    rows = curves.attacked_images(task, 60, seed=0)
    model = curves.coarse_model(nets[labels], task, labels, "probability")
    pixels, y = task.test.unit[rows], task.targets(task.test, "coarse")[rows]
    compared = compare_attacks(model, pixels, y, budget=60, network=f"{labels} labels")
    found = strength(compared)
    assert found["mean_ratio"] <= 1.0
    assert found["longer"] <= 3 / 60  # three images of sixty may end elsewhere
    assert found["apgd_excess_points"] <= 100 / 60 + 1e-9
    assert compared.gradients["ours"] <= 61  # one for the question whether a gradient is dead
    again = read_comparison(json.loads(json.dumps(plain(compared))))
    assert strength(again)["longer"] == found["longer"]
    assert len(comparison_figure([compared]).panels[0].series) == 4


def test_what_foolbox_found_before_is_compared_with_and_not_searched_again(trained, monkeypatch):
    pytest.importorskip("foolbox")
    task, nets, _ = trained
    model = curves.coarse_model(nets["fine"], task, "fine", "probability")
    pixels, y = task.test.unit[:12], task.targets(task.test, "coarse")[:12]
    whole = compare_attacks(model, pixels, y, "linf", budget=20)
    theirs = json.loads(json.dumps(foolbox_radii(model, pixels, y, "linf", budget=20)))
    monkeypatch.setattr(attacks, "foolbox_attack", None)  # not called any more
    again = compare_attacks(model, pixels, y, "linf", budget=20, foolbox=theirs)
    assert plain(again) == plain(whole)
    wrong = {name: part | {"radii": [-1.0] * 12} for name, part in theirs.items()}
    never = compare_attacks(model, pixels, y, "linf", 20, foolbox=wrong)
    assert np.all(np.isinf(never.best_of_others))


def test_own_loss_pgd_may_end_in_another_class_of_the_same_side(trained):
    task, nets, _ = trained
    ends = curves.pgd_ends(nets["fine"], task, SETTINGS)
    curve = own_loss_pgd(nets["fine"], task, (OWN_LOSS, "fine", "probability", "l2"), SETTINGS)
    assert ends["radius"] == 1.0
    assert 0.0 < ends["kept"] <= curve["accuracy"][-1] + 1e-9
    assert ends["kept"] <= ends["fooled"] <= 1.0
    assert ends["fooled"] > 0.8


def test_finished_parts_are_not_run_again(trained, tmp_path, monkeypatch):
    task, nets, _ = trained
    quick = CurveSettings(**(vars(SETTINGS) | {"images": 10, "pgd_images": 10, "budget": 20}))
    first = image_curves(nets, task, quick, tmp_path)
    assert set(picked(first, ADAPTIVE)) == {"coarse", "fine, probability", "fine, max"}
    assert set(picked(first, OWN_LOSS)) == {"coarse", "fine, probability"}
    assert len(list(tmp_path.glob("*.json"))) == 5
    assert json.dumps(first, allow_nan=False)
    monkeypatch.setattr(curves, "adaptive", None)
    monkeypatch.setattr(curves, "own_loss_pgd", None)
    assert image_curves(nets, task, quick, tmp_path) == first


def test_more_images_than_there_are_is_refused(trained):
    task, nets, _ = trained
    many = CurveSettings(**(vars(SETTINGS) | {"images": 10**6}))
    with pytest.raises(InputError, match="test images"):
        adaptive(nets["fine"], task, (ADAPTIVE, "fine", "max", "l2"), many)


def test_a_network_with_another_number_of_outputs_is_refused(trained):
    task, nets, _ = trained
    with pytest.raises(InputError, match="outputs"):
        adaptive(nets["fine"], task, (ADAPTIVE, "coarse", "max", "l2"), SETTINGS)


def run(*words):
    import typer
    from typer.testing import CliRunner

    app = typer.Typer()
    app.callback()(lambda: None)
    register_data(app)
    register_images(app)
    return CliRunner().invoke(app, list(map(str, words)))


def test_the_commands(tmp_path):
    shown = run("data", "--data-dir", tmp_path)
    assert shown.exit_code == 0
    assert "digits" in shown.output
    assert "not here" in shown.output
    words = ("--epochs", 2, "--width", 4, "--out", tmp_path, "--threads", 1)
    assert run("images", "train", "digits", "coarse", *words).exit_code == 0
    assert (tmp_path / "digits-coarse" / "arrays.safetensors").exists()
    # Another seed is another network: it lies beside the first, where experiments look for it.
    assert run("images", "train", "digits", "coarse", *words, "--seed", 1).exit_code == 0
    assert (tmp_path / "digits-coarse-seed1" / "arrays.safetensors").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("images", "train", "nothing", "fine"),
        ("images", "train", "digits", "medium"),
        ("images", "train", "digits", "fine", "--groups", "0/1"),
        ("images", "train", "mnist", "fine", "--data-dir", "/nowhere"),
        ("data", "get", "imagenet"),
        ("data", "get", "digits"),
        ("images", "train", "digits", "fine", "--width", "0"),
        ("images", "train", "digits", "fine", "--epochs", "0"),
        ("images", "train", "digits", "fine", "--seed", "-1"),
        ("images", "train", "digits", "fine", "--threads", "-1"),
        ("images", "train", "digits", "fine", "--device", "cuda:99"),
        ("images", "train", "digits", "fine", "--preset", "huge"),
        ("images", "train", "x" * 300, "fine"),
    ],
    ids=lambda words: " ".join(words)[:60],
)
def test_bad_input_is_one_sentence(words, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_protocols_are_compared_with_the_published_curves_and_kept(trained, tmp_path, monkeypatch):
    task, nets, _ = trained
    found = protocols.robust_accuracies(nets, task, 30, tmp_path)
    # The second pair has no image left: it must not be lost in the means.
    percent, clean = np.array([found[0], 0 * found[0]]), [found[1], found[1]]
    table = protocols.table_of(percent, clean, protocols.unit_scales(task), (0, 1))
    distance = protocols.distances(table)
    assert distance.shape == (2, 8)
    coarse = table["percent"].sel(labels="coarse", seed=0)
    plain, small = coarse[0], coarse[list(table["unit"].values).index(protocols.USUAL_UNIT)]
    assert float(table["published"].sel(labels="coarse")[0]) == 94.5
    # A radius in smaller units is a smaller ball: fewer images flip.
    assert np.all(small >= plain)
    # So are steps that do not reach the radius; both shrink the ball.
    (short,) = [row for row in coarse if "quarter" in row["row"].item()]
    assert short[-1] >= plain[-1]
    mean = distance.mean("seed")
    assert float(mean.sel(row=protocols.nearest(distance))) == float(mean.min())
    assert np.all(distance.sel(seed=1) == 96.7)
    monkeypatch.setattr(protocols, "_attacked", lambda *_: 1 / 0)
    for again, before in zip(protocols.robust_accuracies(nets, task, 30, tmp_path), found, strict=True):
        assert np.array_equal(again, before)
    matplotlib_figure.render(protocols.figure(table, 30))


@pytest.mark.parametrize("labels", ["coarse", "fine"])
def test_bisection_finds_what_every_radius_on_its_own_shows(trained, labels):
    task, nets, _ = trained
    radii = (0.0, 0.2, 0.4, 0.6, 0.9, 1.3)
    settings = CurveSettings(**(vars(SETTINGS) | {"pgd_radii": radii}))
    each = own_loss_pgd(nets[labels], task, (OWN_LOSS, labels, "probability", "l2"), settings)
    found = protocols._attacked(nets[labels], task, protocols.PgdProtocol("", steps=20), radii[1:], labels, 40)
    assert found["clean"] == pytest.approx(100 * each["accuracy"][0])
    # PGD need not flip at a larger radius what it flips at a smaller one: an image may differ.
    assert np.abs(np.array(found["percent"]) / 100 - each["accuracy"][1:]).max() <= 1 / 40 + 1e-9
    assert found["percent"] == sorted(found["percent"], reverse=True)


@pytest.mark.parametrize("change", [{"images": 0}, {"budget": 0}, {"pgd_steps": -1}], ids=str)
def test_settings_that_attack_nothing_are_refused(change):
    with pytest.raises(InputError, match=next(iter(change))):
        CurveSettings(**change)


def test_the_coarse_label_is_attacked_as_its_cross_entropy_would_be(trained):
    """With two classes the margin of `probability` and -log of its share have parallel gradients."""
    task, nets, _ = trained
    model = curves.coarse_model(nets["fine"], task, "fine", "probability").shaped(task.test.unit[:5])
    x = model.rows(task.test.unit[:5])
    label = model.decision.labels(task.targets(task.test, "coarse")[:5])
    _, _, margin = model.descend(x, label, np.full(5, -1))
    pixels = torch.from_numpy(task.test.unit[:5]).requires_grad_()
    groups = torch.from_numpy(task.groups)
    shares = torch.stack([nets["fine"](pixels).softmax(1)[:, groups == g].sum(1) for g in (0, 1)], dim=1)
    truth = torch.from_numpy(task.targets(task.test, "coarse")[:5])
    (loss,) = torch.autograd.grad(shares[torch.arange(5), truth].log().sum(), pixels)
    loss = loss.reshape(5, -1).numpy()
    cosine = (loss * margin).sum(1) / np.linalg.norm(loss, axis=1) / np.linalg.norm(margin, axis=1)
    assert cosine == pytest.approx(np.ones(5), abs=1e-3)


def test_a_random_start_is_not_the_point_itself():
    x, radius = np.zeros((3, 8)), np.full(3, 2.0)
    assert [float(np.abs(b).max()) for b in beginnings(x, radius, "l2", 1, (), 0)] == [0.0]
    (begin,) = beginnings(x, radius, "l2", 1, (), 0, random_start=True)
    lengths = np.linalg.norm(begin, axis=1)
    assert np.all((lengths > 0.5) & (lengths <= 2.0))
