"""Robust-accuracy curves on digits: attack strength, protocols, resume, and the commands."""

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from featavg.cli.app import main  # noqa: E402
from featavg.cli.data import register as register_data  # noqa: E402
from featavg.data.image_sets.loading import load  # noqa: E402
from featavg.errors import InputError  # noqa: E402
from featavg.figures import matplotlib_figure  # noqa: E402
from featavg.paper.commands.images import register as register_images  # noqa: E402
from featavg.paper.images import curves, foolbox_comparison, pgd_protocols  # noqa: E402
from featavg.paper.images.attack_comparison import AttackComparison  # noqa: E402
from featavg.paper.images.curves import (  # noqa: E402
    CurveSettings,
    adaptive,
    image_curve,
    own_loss_pgd,
)
from featavg.paper.images.decision_curve import ADAPTIVE, OWN_LOSS  # noqa: E402
from featavg.paper.images.foolbox_comparison import compare_attacks, foolbox_radii  # noqa: E402
from featavg.paper.images.pgd_protocols import USUAL_UNIT, published_protocols  # noqa: E402
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
        strong = adaptive(nets[labels], task, labels, "probability", "l2", SETTINGS)
        weak = own_loss_pgd(nets[labels], task, labels, "probability", "l2", SETTINGS)
        assert np.all(strong.curve.accuracy <= weak.curve.accuracy + 1e-9)
        assert strong.curve.unit == "l2, pixels in [0,1]"
        assert strong.curve.accuracy[0] > 0.85


@pytest.mark.parametrize("labels", ["coarse", "fine"])
def test_the_attack_is_no_weaker_than_foolbox_at_the_same_budget(trained, labels):
    pytest.importorskip("foolbox")
    task, nets, _ = trained
    rows = curves.attacked_images(task, 60, seed=0)
    model = curves.coarse_model(nets[labels], task, labels, "probability")
    pixels, y = task.test.unit[rows], task.targets(task.test, "coarse")[rows]
    comparison = compare_attacks(model, pixels, y, budget=60, network=f"{labels} labels")
    assert comparison.mean_ratio <= 1.0
    assert comparison.longer <= 3 / 60  # three images of sixty may end elsewhere
    assert comparison.apgd_excess_points <= 100 / 60 + 1e-9
    assert comparison.gradients["ours"] <= 61  # one for the question whether a gradient is dead
    again = AttackComparison.from_json(json.loads(json.dumps(comparison.to_json())))
    assert again.longer == comparison.longer
    assert "over 1% longer on" in repr(comparison)
    assert len(comparison.figure().panels[0].series) == 4


def test_what_foolbox_found_before_is_compared_with_and_not_searched_again(trained, monkeypatch):
    pytest.importorskip("foolbox")
    task, nets, _ = trained
    model = curves.coarse_model(nets["fine"], task, "fine", "probability")
    pixels, y = task.test.unit[:12], task.targets(task.test, "coarse")[:12]
    whole = compare_attacks(model, pixels, y, "linf", budget=20)
    theirs = json.loads(json.dumps(foolbox_radii(model, pixels, y, "linf", budget=20)))
    monkeypatch.setattr(foolbox_comparison, "foolbox_attack", None)  # not called any more
    again = compare_attacks(model, pixels, y, "linf", budget=20, foolbox=theirs)
    assert again.to_json() == whole.to_json()
    wrong = {name: part | {"radii": [-1.0] * 12} for name, part in theirs.items()}
    assert np.all(
        np.isinf(compare_attacks(model, pixels, y, "linf", 20, foolbox=wrong).best_of_others)
    )


def test_own_loss_pgd_may_end_in_another_class_of_the_same_side(trained):
    task, nets, _ = trained
    ends = curves.pgd_ends(nets["fine"], task, SETTINGS)
    curve = own_loss_pgd(nets["fine"], task, "fine", "probability", "l2", SETTINGS).curve
    assert ends.radius == 1.0
    assert 0.0 < ends.kept <= curve.accuracy[-1] + 1e-9
    assert ends.kept <= ends.fooled <= 1.0
    assert ends.fooled > 0.8


def test_finished_parts_are_not_run_again(trained, tmp_path, monkeypatch):
    task, nets, _ = trained
    quick = CurveSettings(**(vars(SETTINGS) | {"images": 10, "pgd_images": 10, "budget": 20}))
    first = image_curve(nets, task, quick, tmp_path)
    assert set(first.by_name(ADAPTIVE)) == {"coarse", "fine, probability", "fine, max"}
    assert set(first.by_name(OWN_LOSS)) == {"coarse", "fine, probability"}
    assert len(list(tmp_path.glob("*.json"))) == 5
    assert json.dumps(first.to_json(), allow_nan=False)
    assert len(first.figure().panels) == 2
    monkeypatch.setattr(curves, "adaptive", None)
    monkeypatch.setattr(curves, "own_loss_pgd", None)
    assert image_curve(nets, task, quick, tmp_path).to_json() == first.to_json()


def test_more_images_than_there_are_is_refused(trained):
    task, nets, _ = trained
    many = CurveSettings(**(vars(SETTINGS) | {"images": 10**6}))
    with pytest.raises(InputError, match="test images"):
        adaptive(nets["fine"], task, "fine", "max", "l2", many)


def test_a_network_with_another_number_of_outputs_is_refused(trained):
    task, nets, _ = trained
    with pytest.raises(InputError, match="outputs"):
        adaptive(nets["fine"], task, "coarse", "max", "l2", SETTINGS)


def cells(text):
    """The rows of all tables, split into words."""
    return [line.split() for line in text.splitlines() if line.strip()]


def test_every_share_stands_under_its_own_radius(trained):
    """PGD is read at six radii, the adaptive attack at eleven: one header cannot serve both."""
    _, _, folder = trained
    words = ("--images", 10, "--budget", 20, "--pgd-steps", 2, "--runs", folder, "--threads", 1)
    shown = run("images", "curve", "digits", *words)
    assert shown.exit_code == 0, shown.output
    parts = {}
    for file in (folder / "digits-curves").glob("*.json"):
        described = json.loads(file.read_text())
        parts[described["protocol"], described["labels"], described["readout"]] = described
    header, checked = [], 0
    for row in cells(shown.output):
        if row[:2] == ["labels", "read-out"]:
            header = [float(word) for word in row[2:]]
        elif header and row[0] in ("coarse", "fine"):
            shares = [int(word) for word in row if word.isdigit()]
            assert len(shares) == len(header), row
            protocol = OWN_LOSS if len(header) == 6 else ADAPTIVE
            readout = row[1] if row[0] == "fine" else "probability"
            part = parts[protocol, row[0], readout]
            expected = dict(zip(part["radii"], part["accuracy"], strict=True))
            for radius, share in zip(header, shares, strict=True):
                assert share == pytest.approx(100 * expected[radius], abs=0.51)
            checked += 1
    assert checked == len(parts) == 6
    assert (folder / "digits-curves" / "digits-curves.png").exists()


def run(*words):
    import typer
    from typer.testing import CliRunner

    app = typer.Typer()
    app.callback()(lambda: None)
    register_data(app)
    register_images(app)
    return CliRunner().invoke(app, list(map(str, words)))


def test_the_commands(trained, tmp_path):
    _, _, folder = trained
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
    heads = run("images", "heads", "digits", "--seeds", 1, "--points", 5)
    assert heads.exit_code == 0
    assert "averaging" in heads.output
    words = ("--images", 10, "--budget", 20, "--pgd-steps", 0, "--runs", folder, "--threads", 1)
    curve = run("images", "curve", "digits", *words)
    assert curve.exit_code == 0
    assert "adaptive" in curve.output


@pytest.mark.parametrize(
    "words",
    [
        ("images", "train", "nothing", "fine"),
        ("images", "train", "digits", "medium"),
        ("images", "train", "digits", "fine", "--groups", "0/1"),
        ("images", "train", "mnist", "fine", "--data-dir", "/nowhere"),
        ("images", "curve", "digits", "--runs", "/nowhere"),
        ("images", "heads", "digits", "--features", "/nowhere.th"),
        ("data", "get", "imagenet"),
        ("data", "get", "digits"),
        ("images", "train", "digits", "fine", "--width", "0"),
        ("images", "train", "digits", "fine", "--epochs", "0"),
        ("images", "train", "digits", "fine", "--seed", "-1"),
        ("images", "train", "digits", "fine", "--threads", "-1"),
        ("images", "train", "digits", "fine", "--device", "cuda:99"),
        ("images", "train", "digits", "fine", "--preset", "huge"),
        ("images", "train", "x" * 300, "fine"),
        ("images", "heads", "digits", "--seeds", "0"),
        ("images", "heads", "digits", "--points", "0"),
        ("images", "curve", "digits", "--pgd-steps", "-1"),
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
    study = published_protocols(nets, task, images=30, folder=tmp_path)
    assert len(study.rows) == 8
    plain = study.rows[0]
    assert plain.residual("coarse")[0] == pytest.approx(plain.percent["coarse"][0] - 94.5)
    # A radius in smaller units is a smaller ball: fewer images flip.
    small = next(row for row in study.rows if row.unit == USUAL_UNIT)
    assert all(
        a >= b for a, b in zip(small.percent["coarse"], plain.percent["coarse"], strict=True)
    )
    # So are steps that do not reach the radius; both shrink the ball.
    short = next(row for row in study.rows if "quarter" in row.protocol)
    assert short.percent["coarse"][-1] >= plain.percent["coarse"][-1]
    assert study.nearest(full_steps=True).protocol != short.protocol
    assert study.nearest().distance == min(row.distance for row in study.rows)
    monkeypatch.setattr(pgd_protocols, "_attacked", lambda *_: 1 / 0)
    again = published_protocols(nets, task, images=30, folder=tmp_path)
    assert again.to_json() == study.to_json()
    matplotlib_figure.render(study.figure())
    assert "points from the published curves" in repr(study)


def test_the_coarse_label_is_attacked_as_its_cross_entropy_would_be(trained):
    """With two classes the margin of `probability` and -log of its share have parallel gradients."""
    task, nets, _ = trained
    model = curves.coarse_model(nets["fine"], task, "fine", "probability").shaped(
        task.test.unit[:5]
    )
    x = model.rows(task.test.unit[:5])
    label = model.decision.labels(task.targets(task.test, "coarse")[:5])
    _, _, margin = model.descend(x, label, np.full(5, -1))
    pixels = torch.from_numpy(task.test.unit[:5]).requires_grad_()
    groups = torch.from_numpy(task.groups)
    shares = torch.stack(
        [nets["fine"](pixels).softmax(1)[:, groups == g].sum(1) for g in (0, 1)], dim=1
    )
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
