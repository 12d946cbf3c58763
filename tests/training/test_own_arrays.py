"""Training on arrays of one's own: the same as from a file, labels that are partly known, refusals."""

from __future__ import annotations

import logging

import numpy as np
import pytest

import featavg as fa

RNG = np.random.default_rng(0)
FINE = np.arange(80) % 4
X = 6 * np.eye(30)[FINE] + 0.3 * RNG.standard_normal((80, 30))
Y = np.where(FINE < 2, 1, -1)
SOME = np.where(RNG.random(80) < 0.7, -1, FINE)
SMALL = {"steps": 20, "lr": 0.05}


@pytest.mark.parametrize("seeds", [(0,), (0, 1)])
def test_arrays_are_trained_on_as_a_file_of_them(seeds, tmp_path):
    np.savez(tmp_path / "points.npz", x=X, clusters=FINE, positive=[0, 1])
    read = fa.simulate(data=str(tmp_path / "points.npz"), labels="coarse", seeds=seeds, **SMALL)
    ours = fa.train(X, Y, fine=FINE, labels="coarse", seed=seeds[0] if len(seeds) == 1 else seeds, **SMALL)
    np.testing.assert_array_equal(ours.net.weights, read.runs["coarse"].net.weights)
    plain = fa.train(X.tolist(), (Y > 0).astype(int), seed=seeds[0] if len(seeds) == 1 else seeds, **SMALL)
    np.testing.assert_array_equal(ours.net.weights, plain.net.weights)


def test_clusters_give_a_network_with_an_output_for_each():
    run = fa.train(X, Y, fine=FINE, **SMALL)
    assert run.net(X).argmax(axis=1).tolist() == FINE.tolist()
    merged = fa.train(X, Y, fine=FINE, labels=fa.Labels(groups=1), **SMALL)
    assert merged.net.outputs == 2


def test_unknown_clusters_count_for_their_class_alone():
    """The twin: all clusters, and a `Labels` that says which are known."""
    some = fa.train(X, Y, fine=SOME, **SMALL)
    twin = fa.train(X, Y, fine=FINE, labels=fa.Labels(known=(SOME >= 0).tolist()), **SMALL)
    np.testing.assert_array_equal(some.net.weights, twin.net.weights)
    missing = fa.train(X, Y, fine=np.where(SOME < 0, np.nan, SOME), **SMALL)
    np.testing.assert_array_equal(some.net.weights, missing.net.weights)
    assert np.mean(some.net(X).argmax(axis=1) == FINE) > 0.9


REFUSED = {
    "y is missing": {"y": None},
    "y has shape (5,)": {"y": Y[:5]},
    "y has shape (80,)": {"y": FINE},
    "fine puts cluster 0 into both classes": {"fine": FINE % 3},
    "fine is -1 everywhere": {"fine": np.full(80, -1)},
    "data has fine of shape (7,)": {"fine": FINE[:7]},
    "data has fine of shape (80,) and type float64": {"fine": FINE + 0.5},
    "fine names no point of cluster 0": {"fine": FINE + 1},
    "fine names clusters of one class alone": {"fine": np.where(FINE < 2, FINE, -1)},
    "data has label -2 in fine": {"fine": FINE - 2},
    "labels are finer than the classes": {"labels": "fine"},
    "labels are chosen": {"fine": SOME, "labels": fa.Labels(share=0.5)},
    "task holds a number that is not finite": {"x": np.where(np.arange(30) == 3, np.nan, X)},
}


@pytest.mark.parametrize("words", REFUSED)
def test_arrays_that_cannot_be_trained_on_are_refused(words):
    given = {"x": X, "y": Y} | REFUSED[words]
    with pytest.raises(fa.InputError) as caught:
        fa.train(given.pop("x"), given.pop("y"), **given)
    assert str(caught.value).startswith(words)


def test_labels_beside_a_task_are_refused():
    with pytest.raises(fa.InputError, match="y is given beside a task"):
        fa.train(fa.MultiCluster(k=2, d=30), Y)


@pytest.mark.parametrize(("gram", "told"), [(1.0, "ratio alpha |mu| / sigma of 1:"), (100.0, "")])
def test_features_that_the_noise_hides_are_told(gram, told, caplog):
    with caplog.at_level(logging.WARNING):
        fa.draw(fa.MultiCluster(k=4, d=3000, gram=gram * np.eye(4)), 9, 8, seed=0)
    assert told in caplog.text
    assert bool(caplog.text) == bool(told)
