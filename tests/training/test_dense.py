"""Fully connected networks on images by Adam: against plain torch, killed in the middle, wrong input."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from featavg.data.image_sets.loading import load
from featavg.errors import InputError
from featavg.training.torch.dense import DenseRecipe, train_dense

SMALL = DenseRecipe((12, 8), epochs=4, batch=64)


def same(a, b):
    return all(np.array_equal(v, w) for v, w in zip((*a.weights, *a.biases), (*b.weights, *b.biases), strict=True))


def test_a_killed_run_goes_on_to_the_same_bits(tmp_path: Path):
    task = load("digits")
    whole = train_dense(task, SMALL)

    def kill(share, note):
        if share >= 0.5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_dense(task, SMALL, tmp_path / "net", kill, every=0.0)
    epochs = []
    resumed = train_dense(task, SMALL, tmp_path / "net", lambda _, note: epochs.append(note), 0.0)
    assert epochs == ["epoch 3 of 4", "epoch 4 of 4"]
    assert same(whole, resumed)
    kept = train_dense(task, SMALL, tmp_path / "net", lambda *_: pytest.fail("trained again"))
    assert same(whole, kept)
    assert [path.name for path in tmp_path.iterdir()] == ["net"]


def test_it_learns_and_starts_as_printed():
    task = load("digits")
    x = task.test.unit.reshape(len(task.test), -1).astype(float)
    net = train_dense(task, DenseRecipe((32,), epochs=15, rate=1e-2))
    assert np.mean(net(x).argmax(axis=1) == task.test.fine) > 0.9
    start = train_dense(task, DenseRecipe((400,), epochs=1, rate=1e-12))
    deviation = np.sqrt(2 / 64)
    assert np.abs(start.weights[0]).max() <= 2 * deviation + 1e-6
    # A normal variable that is cut at two deviations has 0.88 of the deviation left.
    assert start.weights[0].std() == pytest.approx(0.8796 * deviation, rel=0.02)
    assert np.abs(start.biases[0]).max() < 1e-9


def test_attacks_in_training_change_the_network():
    task = load("digits")
    plain = train_dense(task, DenseRecipe((8,), epochs=1))
    assert not same(plain, train_dense(task, DenseRecipe((8,), epochs=1, attack=0.3)))


def test_decay_makes_the_weights_small():
    task = load("digits")
    plain, small = (train_dense(task, DenseRecipe((32,), epochs=10, rate=1e-2, decay=decay)) for decay in (0, 0.01))
    assert np.linalg.norm(small.weights[0], 2) < 0.7 * np.linalg.norm(plain.weights[0], 2)


@pytest.mark.parametrize(
    "wrong",
    [
        {"hidden": ()},
        {"hidden": (0,)},
        {"epochs": 0},
        {"rate": 0.0},
        {"attack": -1.0},
        {"decay": -1.0},
        {"decay": float("nan")},
    ],
)
def test_recipes_that_make_no_sense(wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        DenseRecipe(**wrong)
