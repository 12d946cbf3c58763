"""Labels between class and cluster: targets, training, gradients, and what is refused."""

import numpy as np
import pytest

import featavg as fa
from featavg.errors import InputError
from featavg.training.train import objective_of

TASK = fa.MultiCluster(k=6, d=300)
SMALL = {"n": 60, "steps": 20, "lr": 1e-2, "seed": 0}
CONFUSED = np.kron(np.eye(2), np.full((3, 3), 1 / 3)).tolist()
KINDS = {
    "all fine": fa.Labels(),
    "half": fa.Labels(share=0.5),
    "none": fa.Labels(share=0.0),
    "by class": fa.Labels(share=(0.2, 0.8)),
    "by cluster": fa.Labels(share=(0.1, 0.5, 1.0, 0.0, 0.3, 0.9)),
    "merged": fa.Labels(groups=2, share=0.5),
    "explicit groups": fa.Labels(groups=(0, 0, 1, 2, 3, 3), share=0.5),
    "wrong": fa.Labels(share=0.7, wrong=0.4),
    "confused": fa.Labels(wrong=CONFUSED),
    "a few": fa.Labels(per_cluster=2),
    "without": fa.Labels(without=(0, 4)),
    "chosen": fa.Labels(known=[True, False] * 30),
}


@pytest.mark.parametrize("seed", [0, (0, 1)])
def test_all_labels_fine_is_the_fine_training_to_the_bit(seed) -> None:
    fine = fa.train(TASK, labels="fine", **(SMALL | {"seed": seed}))
    full = fa.train(TASK, labels=fa.Labels(share=1.0), **(SMALL | {"seed": seed}))
    for name, array in fine.parameters.items():
        np.testing.assert_array_equal(array, full.parameters[name])
    np.testing.assert_array_equal(fine.log_loss, full.log_loss)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("depth", [2, 3])
def test_the_gradient_is_that_of_autograd(kind: str, depth: int) -> None:
    torch = pytest.importorskip("torch")
    recipe = fa.Recipe(labels=KINDS[kind], h=2, depth=depth, sigma_w=0.03)
    data = fa.draw(TASK, 60, recipe.neurons(6), seed=0)
    objective = objective_of(data, recipe)
    evaluation = objective.evaluate(objective.params_of(objective.net))
    labels = KINDS[kind]
    sets = np.array([labels.output_classes(TASK) == sign for sign in (False, True)])
    sets = torch.tensor(np.concatenate([np.eye(sets.shape[1], dtype=bool), sets]))
    weights = [np.asarray(w) for w in objective.net.arrays().values() if np.ndim(w) == 2]
    *hidden, head = [torch.tensor(w, requires_grad=True) for w in weights]
    active = torch.tensor(data.x)
    for layer in hidden:
        active = torch.relu(active @ layer.T)
    log_p = torch.log_softmax(active @ head.T, dim=1)
    inside = sets[torch.tensor(objective.targets)]
    value = -torch.logsumexp(log_p.masked_fill(~inside, -torch.inf), dim=1).mean()
    value.backward()
    np.testing.assert_allclose(np.exp(evaluation.log_loss), value.item(), rtol=1e-12)
    twin = hidden[0].grad.numpy()
    mine = evaluation.gradient[0] * np.exp(evaluation.log_loss)
    np.testing.assert_allclose(mine, twin, rtol=0, atol=1e-12 * np.abs(twin).max())


@pytest.mark.parametrize("kind", KINDS)
def test_targets_say_what_is_known(kind: str) -> None:
    labels = KINDS[kind]
    clusters = np.arange(60) % 6
    targets, outputs = labels.targets(TASK, clusters, seed=3), labels.outputs(TASK)
    classes = labels.output_classes(TASK)
    count = labels.count(6)
    assert count == len(classes)
    coarse = targets >= count
    np.testing.assert_array_equal(targets[coarse] - count, TASK.positive_clusters[clusters][coarse])
    np.testing.assert_array_equal(classes[targets[~coarse]], TASK.positive_clusters[clusters][~coarse])
    if np.ndim(labels.wrong) == 0 and labels.wrong == 0:
        np.testing.assert_array_equal(targets[~coarse], outputs[clusters][~coarse])


def test_shares_and_wrong_labels_are_met() -> None:
    clusters = np.arange(60_000) % 6
    targets = fa.Labels(share=0.3, wrong=0.2).targets(TASK, clusters, seed=0)
    known = targets < 6
    assert abs(known.mean() - 0.3) < 0.01
    assert abs((targets != clusters)[known].mean() - 0.2) < 0.01
    few = fa.Labels(per_cluster=7, without=(2,)).targets(TASK, clusters, seed=0)
    np.testing.assert_array_equal(np.bincount(few, minlength=6)[:6], [7, 7, 0, 7, 7, 7])


@pytest.mark.parametrize("options", [{"stepper": "momentum"}, {"stepper": "flow", "time": 0.3}])
@pytest.mark.parametrize("kind", ["half", "merged", "wrong"])
def test_every_stepper_takes_them(kind: str, options) -> None:
    ran = fa.train(TASK, labels=KINDS[kind], **(SMALL | options))
    assert ran.net.outputs == KINDS[kind].count(6)
    assert ran.log_loss[-1] < ran.log_loss[0]


def test_pooled_neurons_are_outputs_of_their_own() -> None:
    ran = fa.train(TASK, pooling="max", m=4, **SMALL)
    assert ran.net.outputs == 8
    assert not ran.net.biases.any()
    assert ran.settings["recipe"]["pooling"] == "max"


def test_a_default_setting_has_the_json_and_key_it_had() -> None:
    plain = fa.Setting()
    assert not [n for n in plain.to_json() if n.startswith("label_") or n == "pooling"]
    assert plain.recipe("fine").labels == "fine"
    assert fa.Setting(label_share=1.0).key == plain.key != fa.Setting(label_share=0.5).key


LABELLED = {"label_share": 0.5, "label_groups": 2, "label_wrong": 0.1, "pooling": "max"}
RUN = {"k": 6, "d": 300, "n": 60, "steps": 20, "lr": 1e-2, "n_test": 10}


def test_a_simulation_with_them_is_written_and_read_back(tmp_path) -> None:
    done = fa.simulate(**RUN, **LABELLED, out=tmp_path / "run", figures=False)
    assert done.net("fine").outputs == 4
    assert done.net("coarse").outputs == 10
    again = fa.load_simulation(tmp_path / "run")
    assert again.setting == done.setting
    assert fa.Setting.from_toml(tmp_path / "run" / "settings.toml") == done.setting
    report = fa.radius_report(tmp_path / "run", points=4, readout="max")
    assert [row["read-out"] for row in report.rows()] == ["max", "max"]
    with pytest.raises(InputError, match="another"):
        fa.simulate(**RUN, out=tmp_path / "run")


def test_a_sweep_varies_them(tmp_path) -> None:
    table = fa.sweep(
        {"label_share": [0.0, 1.0], "label_groups": [1, 3]},
        tmp_path / "store",
        measures="radii,index,accuracy,cosines,coefficients,curve",
        labels="fine",
        **RUN,
    ).to_xarray()
    assert table["radius_fine_max"].dims[:2] == ("label_share", "label_groups")
    assert np.isfinite(table["radius_fine_max"]).all()
    assert table["index_fine"].sel(label_groups=1).min() > 0.5


REFUSED = {
    "share": lambda: fa.Labels(share=1.5),
    "shares": lambda: fa.Labels(share=(0.1, 0.2, 0.3)).targets(TASK, np.arange(6), 0),
    "wrong": lambda: fa.Labels(wrong=-0.1),
    "per_cluster": lambda: fa.Labels(per_cluster=2, share=0.5),
    "confusion": lambda: fa.Labels(wrong=np.ones((6, 6)).tolist()).targets(TASK, np.arange(6), 0),
    "ragged confusion": lambda: fa.Labels(wrong=[[1, 0], [1]]),
    "other class": lambda: fa.Labels(wrong=np.eye(6)[::-1].tolist()).targets(TASK, np.arange(6), 0),
    "crossing groups": lambda: fa.train(TASK, labels=fa.Labels(groups=(0, 0, 1, 1, 2, 2)), **SMALL),
    "too many groups": lambda: fa.train(TASK, labels=fa.Labels(groups=4), **SMALL),
    "no groups": lambda: fa.train(TASK, labels=fa.Labels(groups=0), **SMALL),
    "without": lambda: fa.train(TASK, labels=fa.Labels(without=(9,)), **SMALL),
    "known": lambda: fa.train(TASK, labels=fa.Labels(known=(True,)), **SMALL),
    "not a number": lambda: fa.Labels(share=float("nan")),
    "a text": lambda: fa.Labels(share="half"),
    "a kind": lambda: fa.Recipe(labels="partly"),
    "a number": lambda: fa.Recipe(labels=3),
    "a loss": lambda: fa.Recipe(labels=fa.Labels(), loss="logistic"),
    "a loss of clusters": lambda: fa.train(TASK, labels=fa.Labels(share=0.5), loss="cross-entropy", **SMALL),
    "coarse": lambda: fa.Setting(labels="coarse", label_share=0.5),
    "groups of a setting": lambda: fa.Setting(k=4, label_groups=3),
    "share of a setting": lambda: fa.Setting(label_share=2),
    "pooling": lambda: fa.Setting(labels="fine", pooling="max"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_labels_are_refused_in_one_sentence(case: str) -> None:
    with pytest.raises(InputError) as refused:
        REFUSED[case]()
    assert str(refused.value).endswith(".")
    assert "\n" not in str(refused.value)


def test_images_with_all_labels_are_the_fine_training_to_the_bit() -> None:
    torch = pytest.importorskip("torch")
    task = fa.load_images("digits")
    recipe = fa.ImageRecipe(epochs=1, crop=0)
    fine, full = (fa.train_images(task, labels, recipe=recipe) for labels in ("fine", fa.Labels()))
    for one, other in zip(fine.net.parameters(), full.net.parameters(), strict=True):
        assert torch.equal(one, other)
    some = fa.train_images(task, fa.Labels(share=0.1), recipe=recipe)
    assert some.about["known"] == {"share": 0.1}
    with pytest.raises(InputError, match="merge"):
        fa.train_images(task, fa.Labels(groups=2), recipe=recipe)


def test_the_loss_of_images_is_that_of_the_simulator() -> None:
    torch = pytest.importorskip("torch")
    from featavg.training.losses import PartialCrossEntropy

    outputs = np.random.default_rng(0).normal(size=(30, 4))
    targets = np.arange(30) % 6
    loss, _ = fa.objectives.PartialCrossEntropy((1, 1, 0, 0))(
        torch.nn.Identity(), torch.tensor(outputs), torch.tensor(targets)
    )
    mine = np.exp(PartialCrossEntropy("++--")(outputs, targets).log_mean)
    np.testing.assert_allclose(float(loss), mine, rtol=1e-6)


@pytest.mark.parametrize("missing", [-1, np.nan])
def test_a_head_takes_images_whose_sub_class_is_not_known(missing) -> None:
    torch = pytest.importorskip("torch")
    task = fa.load_images("digits")
    torch.manual_seed(0)
    layers = (torch.nn.Flatten(), torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 2))
    net, coarse = torch.nn.Sequential(*layers), task.groups[task.train.fine]
    fine = task.train.fine.astype(float)
    fine[np.random.default_rng(0).random(len(fine)) < 0.5] = missing
    recipe = fa.HeadRecipe(steps=20)
    found = fa.rehead(net, task.train.unit, coarse, fine, recipe=recipe)
    assert found.head.outputs == 10
    fine[coarse == 1] = missing
    with pytest.raises(InputError, match="label some images of each"):
        fa.rehead(net, task.train.unit, coarse, fine, recipe=recipe)
