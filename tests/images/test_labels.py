"""The table of labels: trainings do what they say, cells are kept, explanations can come out either way."""

import json
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests.claims.sabotage_images import made_up_cell  # noqa: E402
from torch import nn  # noqa: E402

from featavg.data.image_sets.loading import load_images  # noqa: E402
from featavg.errors import InputError  # noqa: E402
from featavg.figures import matplotlib_figure  # noqa: E402
from featavg.measures.shared_gradient import gradient_noise  # noqa: E402
from featavg.paper.engine.store import recorded_result  # noqa: E402
from featavg.paper.images import audit, hidden, label_cell, labels  # noqa: E402
from featavg.paper.images.label_cell import TRAININGS, CellProtocol, LabelCell, cell_key, trained_cell  # noqa: E402
from featavg.paper.images.labels import contrasts, explanations, label_table, measured_cells  # noqa: E402
from featavg.paper.images.lipschitz import lipschitz  # noqa: E402
from featavg.storage.files import dumps, strict_json  # noqa: E402
from featavg.training.torch.objectives import Adversarial, CrossEntropy, GradientPenalty, GroupRobust, RepeatedOutputs  # noqa: E402

torch.set_num_threads(1)
KINDS = [("digits", "two-layer", "cross-entropy"), ("digits", "two-layer", "gradient penalty")]
TINY = CellProtocol(600, 200, 20, 4, 64, 0.05, 0, 0.4, 0.3, 0.5)


@pytest.fixture
def tiny(monkeypatch):
    monkeypatch.setitem(label_cell.PROTOCOLS, "digits", TINY)
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
    monkeypatch.setitem(label_cell.PROTOCOLS, "digits", replace(TINY, epochs=2))
    task = load_images("digits")
    for network in ("two-layer", "narrow CNN"):
        net, _ = trained_cell(LabelCell("digits", network, "1-Lipschitz", "fine", 0), task)
        last = [layer for layer in net.modules() if isinstance(layer, nn.Linear)][-1]
        assert float(torch.linalg.matrix_norm(last.weight.detach(), 2)) == pytest.approx(10.0, rel=0.02)
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
    first = measured_cells(KINDS, {"digits": 1}, tmp_path)
    assert len(list(tmp_path.glob("*.json"))) == 4
    assert dumps(strict_json(first))
    table = label_table(first)
    assert table["row"].values.tolist() == [", ".join(kind) for kind in KINDS]
    cell = table.sel(labels="coarse").isel(row=0, seed=0)
    assert cell["accuracy"] > 0.8
    assert cell["median"] > 0.05
    assert 0.0 <= cell["noise"] <= 1.0
    assert len(labels.figure(table).panels[0].series) == 2
    damaged = next(tmp_path.glob("*fine*.json"))
    damaged.write_text("{")
    real, calls = label_cell._measured, []
    monkeypatch.setattr(label_cell, "_measured", lambda *given: (calls.append(1), real(*given))[1])
    again = label_table(measured_cells(KINDS, {"digits": 1}, tmp_path))
    assert len(calls) == 1  # the damaged one alone
    assert again["gains"].equals(table["gains"])


def test_the_record_of_the_package_has_the_keys_that_a_table_asks_for():
    task = load_images("digits")
    for row in recorded_result("finer-labels-border").evidence.numbers["rows"]:
        if row["data"] == "digits":
            cells = [LabelCell(row["data"], row["network"], row["training"], "fine", s) for s in (0, 1)]
            assert [cell_key(cell, task) for cell in cells] == row["fine"]["key"][:2]


def test_a_preset_trains_the_network_beside_the_table(tmp_path, monkeypatch):
    from featavg.training.torch import recipe

    kind = ("digits", "narrow ResNet-18", "cross-entropy")
    monkeypatch.setitem(label_cell.BY_PRESET, kind, "digits")
    monkeypatch.setattr(label_cell, "PRESET_ATTACKED", 5)
    monkeypatch.setattr(label_cell, "LOOKED_INTO", 150)
    quick = replace(recipe.image_preset("digits"), recipe=recipe.ImageRecipe(epochs=1, batch=64))
    monkeypatch.setattr(recipe, "image_preset", lambda _: quick)
    monkeypatch.setattr("featavg.training.torch.image_network.image_preset", lambda _: quick)
    measured_cells([kind], {"digits": 1}, tmp_path / "label-table")
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {
        *("label-table", "digits-coarse", "digits-fine")
    }
    cell = LabelCell(*kind, "fine", 0)
    kept = json.loads((tmp_path / "label-table" / cell.file).read_text())
    assert len(kept["radii"]) == 5
    assert cell.protocol.epochs == 1


def made_up(data, network, training, gain, cosine=0.5, shared=(0.8, 0.2), seeds=3):
    """The cells of a row."""
    return [
        made_up_cell(
            (data, network, training),
            which,
            seed,
            (gain if which == "fine" else 1.0) * (1 + 0.01 * seed),
            shared[which == "fine"] + 0.01 * seed,
            same_class_cosine=cosine,
        )
        for which in ("coarse", "fine")
        for seed in range(seeds)
    ]


def test_no_valid_layer_is_said_and_drawn_nowhere():
    cells = made_up("mnist", "narrow CNN", "cross-entropy", 1.2)
    silent = made_up("digits", "narrow CNN", "cross-entropy", 1.2)
    silent[-1] |= {"shared": np.nan, "null": np.nan}
    rows = audit.of_cells([*cells, *silent])
    assert rows[0].gap == pytest.approx(0.8 - 0.22)
    assert np.isnan(rows[1].gap)
    assert [panel.title for panel in audit.figure(rows).panels] == ["mnist"]


def test_explanations_are_ranked_and_chance_is_told():
    names = [(n, t) for n in label_cell.NETWORKS for t in label_cell.TRAININGS]

    def table(gains):
        made = [made_up("digits", *name, gains(i), 0.05 * i) for i, name in enumerate(names)]
        return label_table([cell for row in made for cell in row])

    rising = table(lambda i: 1 + 0.1 * i)
    collapse, nc1, *_ = explanations(rising).values()
    assert collapse["correlation"] == pytest.approx(1.0)
    assert collapse["p"] < 0.01
    assert np.isnan(nc1["correlation"])  # the same everywhere: it explains nothing
    depth, width = contrasts(rising).values()
    assert (depth["rows"], depth["larger"]) == (4, 4)
    assert width["ratio"] > 1
    mixed = table(lambda i: 1 + 0.1 * (i % 3))
    assert next(iter(explanations(mixed).values()))["p"] > 0.05


def test_a_network_that_guesses_is_left_out_and_counted():
    """A constant network has no boundary: its radius was infinite, and the claim stopped at its figure."""
    cells = made_up("mnist", "narrow CNN", "1-Lipschitz", 1.2)
    honest = label_table(cells)
    cells[3] |= {"accuracy": 0.51, "median": np.inf}
    table = label_table(cells)
    assert table["left_out"].values == [1]
    assert float(table["gain"][0]) == pytest.approx(float(honest["gain"][0]))
    assert float(table["gap"][0]) == pytest.approx(1.2 * 1.01 - 1.02)  # of the two seeds that are left
    for figure in (labels.figure(table), labels.gain_figure(table)):
        matplotlib_figure.render(figure)


def test_seeds_that_one_data_set_has_more_are_no_gaps_of_the_other():
    """Digits have five seeds, MNIST three: a mean is over those that were run, and NaN if one is."""
    cells = made_up("digits", "narrow CNN", "cross-entropy", 1.2, seeds=5)
    cells += made_up("mnist", "narrow CNN", "cross-entropy", 1.2)
    table = label_table(cells)
    assert table["seeds"].values.tolist() == [5, 3]
    assert table["left_out"].values.tolist() == [0, 0]
    assert labels.of_coarse(table, "shared") == pytest.approx([0.82, 0.81])
    cells[-5] |= {"shared": np.nan}
    assert np.isnan(labels.of_coarse(label_table(cells), "shared")).tolist() == [False, True]


def test_a_gain_under_control_takes_a_part_of_the_statement(monkeypatch):
    from featavg.paper.engine.claim import Context, Verdict

    kinds = [(d, n, t) for d in ("digits", "mnist") for n in label_cell.NETWORKS for t in TRAININGS]
    made = [cell for kind in kinds for cell in made_up(*kind, 1.4)]
    monkeypatch.setattr(labels, "all_cells", lambda *_, **__: made)
    assert labels.border.run(Context()).verdict is Verdict.IN_PART


def test_a_table_without_the_data_of_the_statement_is_refused():
    from featavg.paper.engine.claim import Context

    with pytest.raises(InputError, match="neither digits nor mnist"):
        labels.border.run(Context(), data=("cifar10",))


def test_a_hidden_digit_is_rare_in_training_only(monkeypatch, tmp_path):
    digits = load_images("digits")
    task = hidden.undersampled(digits, train=len(digits.train))
    before = np.bincount(digits.train.fine)
    after = np.bincount(task.train.fine)
    assert after[8] == round(0.05 * before[8])
    assert np.array_equal(np.delete(after, 8), np.delete(before, 8))
    assert task.groups.tolist() == [1] * 5 + [0] * 5
    assert len(task.test) == len(digits.test)
    for name, value in {"EPOCHS": 2, "PER_DIGIT": 3, "BUDGET": 15, "CLUSTERS": 3}.items():
        monkeypatch.setattr(hidden, name, value)
    monkeypatch.setattr(hidden, "NUMBERS", (2, 3))
    table = hidden.hidden_subclasses(digits, (0,), tmp_path)
    accuracy, rand = table["accuracy"].isel(seed=0), table["rand"].isel(seed=0)
    assert accuracy.sel(training="true digits") > 0.7
    assert np.isnan(rand.values).tolist() == [True, False, False, True]
    assert 0.0 < rand.sel(training="discovered labels") <= 1.0
    assert len(hidden.figure(table).panels) == 2
    monkeypatch.setattr(hidden, "_one_seed", None)
    assert hidden.hidden_subclasses(digits, (0,), tmp_path).equals(table)
