"""The table of labels: trainings do what they say, cells are kept, explanations can come out either way."""

import json
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from featavg.data.image_sets.loading import load_images  # noqa: E402
from featavg.errors import InputError  # noqa: E402
from featavg.figures import matplotlib_figure  # noqa: E402
from featavg.measures.shared_gradient import gradient_noise  # noqa: E402
from featavg.paper.engine.store import recorded_result  # noqa: E402
from featavg.paper.images import (  # noqa: E402
    hidden_study,
    label_cell,
    label_protocol,
)
from featavg.paper.images.hidden_study import HiddenStudy, undersampled  # noqa: E402
from featavg.paper.images.label_cell import CellResult, cell_key, trained_cell  # noqa: E402
from featavg.paper.images.label_protocol import CellProtocol, LabelCell  # noqa: E402
from featavg.paper.images.label_record import restore_cells  # noqa: E402
from featavg.paper.images.label_study import LabelRow, LabelTable, label_table  # noqa: E402
from featavg.paper.images.lipschitz import layer_norms, lipschitz  # noqa: E402
from featavg.training.torch.objectives import (  # noqa: E402
    Adversarial,
    CrossEntropy,
    GradientPenalty,
    GroupRobust,
    RepeatedOutputs,
)

torch.set_num_threads(1)
TINY = CellProtocol(600, 200, 20, 4, 64, 0.05, 0, 0.4, 0.3, 0.5)


@pytest.fixture
def tiny(monkeypatch):
    monkeypatch.setitem(label_protocol.PROTOCOLS, "digits", TINY)
    monkeypatch.setattr(label_cell, "LOOKED_INTO", 150)


def batch(n=16, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(n, 1, 8, 8, generator=generator)
    return x, torch.arange(n) % 2


def small_net(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 12), nn.Tanh(), nn.Linear(12, 2))


def test_the_penalty_is_the_mean_squared_length_of_input_gradients():
    net, (x, y) = small_net(), batch()
    expected = []
    for i, label in enumerate(y):
        image = x[i : i + 1].clone().requires_grad_()
        nn.functional.cross_entropy(net(image), label[None]).backward()
        expected.append(float(image.grad.square().sum()))
    plain, _ = CrossEntropy()(net, x, y)
    penalised, _ = GradientPenalty(2.0)(net, x, y)
    assert (penalised - plain).item() == pytest.approx(2.0 * np.mean(expected), rel=1e-4)


def test_adversarial_points_are_inside_the_ball_and_the_box_and_worse():
    net, (x, y) = small_net(), batch()
    net.train()
    attacked = Adversarial(0.5, steps=4).attacked(net, x, y)
    lengths = (attacked - x).flatten(1).norm(dim=1)
    assert float(lengths.max()) <= 0.5 + 1e-5
    assert float(lengths.min()) > 0.3
    assert float(attacked.min()) >= 0.0
    assert float(attacked.max()) <= 1.0
    assert CrossEntropy()(net, attacked, y)[0] > CrossEntropy()(net, x, y)[0] + 0.05
    assert net.training


def test_a_lipschitz_network_stretches_no_distance(monkeypatch):
    monkeypatch.setitem(label_protocol.PROTOCOLS, "digits", replace(TINY, epochs=2))
    task = load_images("digits")
    for network in ("two-layer", "narrow CNN"):
        net, _ = trained_cell(LabelCell("digits", network, "1-Lipschitz", "fine", 0), task)
        *inner, last = layer_norms(net)
        assert inner == pytest.approx([1.0] * len(inner), abs=0.02)
        assert last == pytest.approx(10.0, rel=0.02)
        x = torch.from_numpy(task.test.unit[:50])
        other = x[torch.randperm(50, generator=torch.Generator().manual_seed(0))]
        with torch.no_grad():
            moved = (net(x) - net(other)).norm(dim=1)
        apart = (x - other).flatten(1).norm(dim=1)
        assert bool((moved <= 10.2 * apart + 1e-4).all())


def test_the_norm_of_a_convolution_is_that_of_its_matrix():
    torch.manual_seed(0)
    layer = nn.Conv2d(2, 3, 3, padding=1, bias=False)
    eye = torch.eye(2 * 5 * 5).reshape(-1, 2, 5, 5)
    with torch.no_grad():
        matrix = layer(eye).flatten(1)
        norm = float(torch.linalg.matrix_norm(matrix, 2))
        before = layer.weight.clone()
        lipschitz(layer, (2, 5, 5), scale=1.0)
        assert torch.allclose(layer.weight * norm, before, rtol=0.01, atol=1e-4)


def test_the_robust_loss_turns_to_the_worst_group():
    groups = (0, 0, 1)
    objective = GroupRobust(groups, rate=1.0)
    net = RepeatedOutputs(small_net(), groups)
    x, _ = batch(30)
    y = torch.arange(30) % 3
    loss, logits = objective(net, x, y)
    assert logits.shape == (30, 3)
    assert torch.equal(logits[:, 0], logits[:, 1])
    classes = torch.tensor(groups)[y]
    each = nn.functional.cross_entropy(net.net(x), classes, reduction="none")
    means = [each[y == g].mean().item() for g in range(3)]
    assert int(objective.weights.argmax()) == int(np.argmax(means))
    assert loss.item() >= np.mean(means) - 1e-6


def test_gradient_noise_of_a_mean_with_noise_around_it():
    rng = np.random.default_rng(0)
    fine = np.arange(4000) % 2
    rows = 3.0 * np.eye(20)[fine] + rng.standard_normal((4000, 20))
    # The squared mean is 9, the energy of the noise 20.
    assert gradient_noise(rows, fine, 2) == pytest.approx(20 / 29, abs=0.01)


@pytest.mark.usefixtures("tiny")
def test_a_table_is_kept_cell_by_cell(tmp_path, monkeypatch):
    arguments = {"networks": ["two-layer"], "trainings": ["cross-entropy", "gradient penalty"]}
    first = label_table(["digits"], seeds={"digits": 1}, folder=tmp_path, **arguments)
    assert len(list(tmp_path.glob("*.json"))) == 4
    assert [row.training for row in first.rows] == arguments["trainings"]
    cell = first.rows[0].coarse[0]
    assert cell.accuracy > 0.8
    assert cell.median > 0.05
    assert 0.0 <= cell.noise <= 1.0
    assert json.dumps(first.to_json(), allow_nan=False)
    assert len(first.figure().panels[0].series) == 2
    assert "gradient penalty" in repr(first)
    damaged = next(tmp_path.glob("*fine*.json"))
    damaged.write_text("{")
    real, calls = label_cell._measured, []
    monkeypatch.setattr(label_cell, "_measured", lambda *given: (calls.append(1), real(*given))[1])
    again = label_table(["digits"], seeds={"digits": 1}, folder=tmp_path, **arguments)
    assert len(calls) == 1  # the damaged one alone
    assert again.to_json()["rows"][0]["gains"] == first.to_json()["rows"][0]["gains"]


@pytest.mark.usefixtures("tiny")
def test_recorded_cells_are_taken_over_by_their_key_and_say_their_commit(tmp_path, monkeypatch):
    arguments = {"networks": ["two-layer"], "trainings": ["cross-entropy"]}
    first = label_table(["digits"], seeds={"digits": 1}, **arguments)
    numbers = json.loads(json.dumps(first.to_json()))
    fine = numbers["rows"][0]["fine"]
    fine["commit"] = ["", *fine["commit"][1:]]
    assert restore_cells(numbers, "abc", tmp_path) == 2
    assert restore_cells(numbers, "abc", tmp_path) == 0  # what is there is left alone
    real, calls = label_cell._measured, []
    monkeypatch.setattr(label_cell, "_measured", lambda *given: (calls.append(1), real(*given))[1])
    again = label_table(["digits"], seeds={"digits": 1}, folder=tmp_path, **arguments)
    assert calls == []
    assert again.rows[0].fine[0].radii is None
    assert again.rows[0].gain == pytest.approx(first.rows[0].gain, rel=1e-4)
    assert again.to_json()["rows"][0]["fine"]["commit"] == ["abc"]
    fine["key"] = ["another"]  # of another protocol: computed anew
    for path in tmp_path.glob("*fine*.json"):
        path.unlink()
    restore_cells(numbers, "abc", tmp_path)
    label_table(["digits"], seeds={"digits": 1}, folder=tmp_path, **arguments)
    assert calls == [1]


def test_the_record_of_the_package_has_the_keys_that_a_table_asks_for(tmp_path):
    kept = recorded_result("finer-labels-border")
    assert restore_cells(kept.evidence.numbers, kept.commit, tmp_path) >= 204
    task = load_images("digits")
    for row in kept.evidence.numbers["rows"]:
        if row["data"] == "digits":
            cells = [
                LabelCell(row["data"], row["network"], row["training"], "fine", s) for s in (0, 1)
            ]
            assert [cell_key(cell, task) for cell in cells] == row["fine"]["key"][:2]


def test_a_preset_trains_the_network_beside_the_table(tmp_path, monkeypatch):
    from featavg.training.torch import recipe

    kind = ("digits", "narrow ResNet-18", "cross-entropy")
    monkeypatch.setitem(label_protocol.BY_PRESET, kind, "digits")
    monkeypatch.setattr(label_protocol, "PRESET_ATTACKED", 5)
    monkeypatch.setattr(label_cell, "LOOKED_INTO", 150)
    quick = replace(recipe.image_preset("digits"), recipe=recipe.ImageRecipe(epochs=1, batch=64))
    monkeypatch.setattr(recipe, "image_preset", lambda _: quick)
    monkeypatch.setattr("featavg.training.torch.image_network.image_preset", lambda _: quick)
    table = label_table(
        ["digits"], [kind[1]], [kind[2]], {"digits": 1}, folder=tmp_path / "label-table"
    )
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {
        *("label-table", "digits-coarse", "digits-fine"),
    }
    assert len(table.rows[0].fine[0].radii) == 5
    assert table.rows[0].protocol.epochs == 1


def test_no_valid_layer_is_said_and_drawn_nowhere():
    from featavg.paper.images.sharing import SharingStudy

    row = made_up("mnist", "narrow CNN", "cross-entropy", 1.2, 0.5)
    silent = replace(row, fine=(replace(row.fine[0], shared=np.nan, null=np.nan), *row.fine[1:]))
    study = SharingStudy((row.sharing(), replace(silent, data="digits").sharing()))
    assert not study.rows[1].told
    assert np.isnan(study.rows[1].gap)
    assert [panel.title for panel in study.figure().panels] == ["mnist"]
    assert json.dumps(study.to_json(), allow_nan=False)


@pytest.mark.parametrize(
    "given",
    [
        {"networks": ["narrow ResNet-18"]},
        {"data": ["imagenet"]},
        {"data": []},
        {"networks": ["transformer"]},
        {"trainings": ["none"]},
        {"seeds": {"digits": 0}},
    ],
    ids=str,
)
def test_bad_tables_are_one_sentence(given):
    with pytest.raises(InputError):
        label_table(**({"data": ["digits"]} | given))


def made_up(data, network, training, gain, cosine, shared=(0.8, 0.2), seeds=3):
    def cell(labels, seed):
        which = LabelCell(data, network, training, labels, seed)
        radii = np.full(5, (gain if labels == "fine" else 1.0) * (1 + 0.01 * seed))
        a = shared[labels == "fine"] + 0.01 * seed
        return CellResult(which, 0.9, radii, 0.5, a, "input", 1.0, 0.5, 1.0, cosine, 1.0, 1.0)

    return LabelRow(
        data,
        network,
        training,
        *(tuple(cell(labels, s) for s in range(seeds)) for labels in ("coarse", "fine")),
    )


def test_explanations_are_ranked_and_chance_is_told():
    names = [(n, t) for n in label_protocol.NETWORKS for t in label_protocol.TRAININGS]
    rows = tuple(made_up("digits", n, t, 1 + 0.1 * i, 0.05 * i) for i, (n, t) in enumerate(names))
    collapse, nc1, *_ = LabelTable(rows).explanations()
    assert collapse.correlation == pytest.approx(1.0)
    assert collapse.p < 0.01
    assert np.isnan(nc1.correlation)  # the same everywhere: it explains nothing
    depth, width = LabelTable(rows).contrasts()
    assert (depth.rows, depth.larger) == (4, 4)
    assert width.ratio > 1
    mixed = tuple(
        made_up("digits", n, t, 1 + 0.1 * (i % 3), 0.05 * i) for i, (n, t) in enumerate(names)
    )
    assert LabelTable(mixed).explanations()[0].p > 0.05


def test_a_network_that_guesses_is_left_out_and_counted():
    """A constant network has no boundary: its radius was infinite, and the claim stopped at its figure."""
    row = made_up("mnist", "narrow CNN", "1-Lipschitz", 1.2, 0.5)
    guess = replace(row.fine[0], accuracy=0.51, radii=np.full(4, np.inf))
    table = LabelTable((replace(row, fine=(guess, *row.fine[1:])),))
    (changed,) = table.rows
    assert changed.left_out == 1
    assert changed.gain == pytest.approx(row.gain)
    assert changed.gap == pytest.approx(1.2 * 1.01 - 1.02)  # of the two seeds that are left
    for figure in (table.figure(), table.gain_figure()):
        matplotlib_figure.render(figure)
    assert "1.20" in table.summary()
    assert table.to_json()["rows"][0]["pairs_left_out"] == 1


def test_the_claims_on_the_table_can_fail(monkeypatch):
    from featavg.paper.engine.claim import Context, Verdict
    from featavg.paper.images import claim_audit as audit
    from featavg.paper.images import claim_labels as labels

    def table(plain=1.3, controlled=1.05, shared=(0.8, 0.2)):
        gains = {"cross-entropy": plain, "1-Lipschitz": 1.2}
        return LabelTable(
            tuple(
                made_up(d, n, t, gains.get(t, controlled), 0.5 + 0.1 * len(n), shared)
                for d in ("digits", "mnist", "cifar10")
                for n in label_protocol.NETWORKS
                for t in label_protocol.TRAININGS
            )
        )

    for changed, border, sharing in (
        ({}, Verdict.HOLDS, Verdict.HOLDS),
        ({"plain": 0.9}, Verdict.FAILS, Verdict.HOLDS),
        ({"controlled": 1.4}, Verdict.IN_PART, Verdict.HOLDS),
        ({"shared": (0.4, 0.4)}, Verdict.HOLDS, Verdict.FAILS),
    ):
        for module in (audit, labels):
            monkeypatch.setattr(module, "tables", lambda _, changed=changed: table(**changed))
        assert labels.border.run(Context()).verdict is border
        assert audit.images.run(Context()).verdict is sharing


def test_a_hidden_digit_is_rare_in_training_only(monkeypatch, tmp_path):
    digits = load_images("digits")
    task = undersampled(digits, train=len(digits.train))
    before = np.bincount(digits.train.fine)
    after = np.bincount(task.train.fine)
    assert after[8] == round(0.05 * before[8])
    assert np.array_equal(np.delete(after, 8), np.delete(before, 8))
    assert task.groups.tolist() == [1] * 5 + [0] * 5
    assert len(task.test) == len(digits.test)
    for name, value in {"EPOCHS": 2, "PER_DIGIT": 3, "BUDGET": 15, "CLUSTERS": 3}.items():
        monkeypatch.setattr(hidden_study, name, value)
    monkeypatch.setattr(hidden_study, "NUMBERS", (2, 3))
    study = hidden_study.hidden_subclasses(digits, (0,), tmp_path)
    assert [row.method for row in study.rows] == list(hidden_study.METHODS)
    assert study.mean("true digits", "accuracy") > 0.7
    assert 0.0 < study.mean("discovered labels", "rand") <= 1.0
    assert json.dumps(study.to_json(), allow_nan=False)
    assert len(study.figure().panels) == 2
    monkeypatch.setattr(hidden_study, "_one_seed", None)
    again = hidden_study.hidden_subclasses(digits, (0,), tmp_path)
    assert isinstance(again, HiddenStudy)
    assert again.to_json() == study.to_json()
