"""Slab data, mini-batch SGD and the block-shuffle measure, each against something obvious."""

import numpy as np
import pytest

from featavg.errors import InputError
from featavg.paper.connections.simplicity import Minibatch, Slabs, _step, auc, shuffled_auc, slab_task, train_minibatch


def edges(k, margin):
    """The slabs of [-1, 1] from left to right, counted off rather than computed from the middle."""
    width = (2 - 2 * (k - 1) * margin) / k
    left = -1 + np.arange(k) * (width + 2 * margin)
    return np.stack([left, left + width], axis=1)


@pytest.mark.parametrize(("k", "margin"), [(3, 0.1), (5, 0.1), (5, 0.05), (7, 0.05)])
def test_slabs_lie_where_they_should_and_alternate(k, margin):
    z, y = Slabs((1, k), margin).sample(20_000, 0)
    slabs = edges(k, margin)
    at = [(z[:, 1] >= low - 1e-12) & (z[:, 1] <= high + 1e-12) for low, high in slabs]
    assert np.all(np.sum(at, axis=0) == 1)
    middle = k // 2
    for number, inside in enumerate(at):
        expected = -1 if (number - middle) % 2 == 0 else 1
        assert inside.sum() > 100
        assert np.all(y[inside] == expected)
    assert np.all(y * z[:, 0] >= margin)


def test_noise_hides_the_label_in_the_margin():
    z, _ = Slabs((1, 7, 7), 0.05, noise=0.2).sample(50_000, 1)
    assert abs(np.mean(np.abs(z[:, 0]) < 0.05) - 0.2) < 0.01


def test_a_slab_coordinate_has_no_linear_signal():
    z, y = slab_task("ms-5-7", 2).sample(200_000, 0)
    assert np.all(np.abs(np.mean(z * y[:, None], axis=0)) < 0.01)


def test_the_rotation_is_one_and_belongs_to_the_seed():
    task = slab_task("lms-5", 20)
    turn = task.rotation(3)
    np.testing.assert_allclose(turn @ turn.T, np.eye(20), atol=1e-12)
    assert np.array_equal(turn, slab_task("lms-5", 20).rotation(3))
    assert not np.allclose(turn, task.rotation(4))


@pytest.mark.parametrize("seed", range(3))
def test_auc_is_the_share_of_ordered_pairs(seed):
    rng = np.random.default_rng(seed)
    scores, y = np.round(rng.normal(size=60), 1), rng.choice([-1, 1], size=60)
    up, down = scores[y > 0], scores[y < 0]
    pairs = (up[:, None] > down).mean() + 0.5 * (up[:, None] == down).mean()
    assert abs(auc(scores, y) - pairs) < 1e-12


def test_shuffling_finds_the_coordinate_that_is_used():
    task = slab_task("lms-5", 6)
    z, y = task.sample(5000, 0)
    turn = task.rotation(0)

    def reads_the_line(x):
        return (x @ turn.T)[:, 0]

    assert shuffled_auc(reads_the_line, z, y, [], turn, 0) == 1.0
    assert abs(shuffled_auc(reads_the_line, z, y, task.simple, turn, 0) - 0.5) < 0.03
    assert shuffled_auc(reads_the_line, z, y, task.complex, turn, 0) == 1.0


def test_a_step_is_torchs():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(32, 4)).astype(np.float32), rng.choice([-1, 1], 32).astype(np.float32)
    sizes = [(7, 4), (5, 7), (1, 5)]
    weights = [rng.normal(size=s).astype(np.float32) for s in sizes]
    biases = [rng.normal(size=s[0]).astype(np.float32) for s in sizes]
    ours = [a.copy() for a in (*weights, *biases)]
    theirs = [torch.tensor(a, requires_grad=True) for a in ours]
    optimiser = torch.optim.SGD(theirs, lr=0.1, momentum=0.9)
    moments = [np.zeros_like(a) for a in ours]
    for _ in range(3):
        loss = _step(x, y, ours[:3], ours[3:], moments, Minibatch(lr=0.1, momentum=0.9))
        h = torch.tensor(x)
        for w, b in zip(theirs[:2], theirs[3:5], strict=True):
            h = torch.relu(h @ w.T + b)
        margin = torch.tensor(y) * (h @ theirs[2].T + theirs[5])[:, 0]
        their_loss = torch.nn.functional.softplus(-margin).mean()
        assert abs(loss - their_loss.item()) < 1e-5
        optimiser.zero_grad()
        their_loss.backward()
        optimiser.step()
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b.detach().numpy(), atol=2e-5)


def test_same_seed_same_network():
    task = slab_task("lms-5", 5)
    z, y = task.sample(600, 0)
    nets = [train_minibatch(z, y, Minibatch((8,), steps=40), 7) for _ in range(2)]
    assert all(np.array_equal(a, b) for a, b in zip(nets[0].weights, nets[1].weights, strict=True))


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: slab_task("lms-4", 5), "task"),
        (lambda: Slabs((1, 4)), "blocks"),
        (lambda: Slabs((1,)), "blocks"),
        (lambda: Slabs((1, 5), margin=0.3), "margin"),
        (lambda: Slabs((1, 5), noise=2.0), "noise"),
        (lambda: Slabs((1, 5)).sample(0, 0), "n"),
        (lambda: Minibatch(lr=0.0), "lr"),
        (lambda: Minibatch(momentum=1.0), "momentum"),
    ],
)
def test_bad_input_is_named(make, name):
    with pytest.raises(InputError, match=name):
        make()
