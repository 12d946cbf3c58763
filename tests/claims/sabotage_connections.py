"""Truths of the claims on connections, broken: each must cost its claim the verdict "holds"."""

from dataclasses import replace

import numpy as np
from tests.claims.sabotage import Sabotage

from featavg.claims.connections import (
    margin,
    min_vidal,
    min_vidal_radius,
    published,
    simplicity,
)
from featavg.data.related_work.lattice import Lattice
from featavg.experiments.connections import bayes_radius as optimal_radius_experiment
from featavg.experiments.connections import (
    boundary,
    dimpled_manifold,
    feature_usefulness,
    slab_shuffling,
)
from featavg.experiments.connections import implicit_biases as implicit_bias_experiment
from featavg.experiments.connections.half_margin import hinted_margin
from featavg.experiments.connections.mnist_cifar import PairedPictures
from featavg.experiments.connections.power_relu_runs import power_relu_run
from featavg.training.train import train

# Their honest runs need data or minutes: the verdict of the broken ones is tested here alone.
FULL_TIER = ("connections-min-vidal-published", "connections-simplicity-mnist-cifar")


def powers_swapped(module):
    """Networks with p = 1 and p = 3 trade places."""

    def run(p, noise, seed, k=10, **sizes):
        small = {"n": 40, "width": 30, "time": 3000.0, "test": 8}
        return replace(power_relu_run(4.0 - p, 0.01, seed, 4, **small), p=p)

    def sabotage(monkeypatch):
        monkeypatch.setattr(module, "power_relu_run", run)
        if hasattr(module, "COUNTS"):
            monkeypatch.setattr(module, "COUNTS", (4, 10))
            monkeypatch.setattr(module, "POWERS", (1.0,))

    return sabotage


def random_labels(monkeypatch):
    """Labels that no coordinate gives away."""
    honest = slab_shuffling.slab_task

    def shuffled(name, d):
        task = honest(name, 5)
        sample = type(task).sample

        class Shuffled(type(task)):
            def sample(self, n, seed, purpose="train"):
                x, y = sample(self, n, seed, purpose)
                return x, np.random.default_rng(seed).permutation(y)

        return Shuffled(task.blocks, task.margin, task.noise)

    monkeypatch.setattr(slab_shuffling, "slab_task", shuffled)
    plain = slab_shuffling._one.__wrapped__

    def short(name, seed, d, *_):
        return plain(name, seed, d, 500, (8,), 20, 0.1, 0.0)

    monkeypatch.setattr(slab_shuffling, "_one", short)


def roles_traded(monkeypatch):
    """What coarse labels learn is called a single feature, and the reverse."""
    honest = feature_usefulness._learnt

    def traded(task, seed):
        learnt = honest(task, seed)
        return {"single": learnt["average"], "average": learnt["single"]}

    monkeypatch.setattr(feature_usefulness, "_learnt", traded)


def nothing_off_the_manifold(monkeypatch):
    """Initial weights without a part outside the subspace."""
    honest = dimpled_manifold.dimpled_network
    monkeypatch.setattr(
        dimpled_manifold, "dimpled_network", lambda labels, size, seed, task: honest(labels, 1e-5, seed, task)
    )  # fmt: skip


def structured_labels(monkeypatch):
    """The label of a vertex is its first coordinate."""
    labels = property(lambda self: np.where(self.vertices[:, 0] > 0, 1, -1))
    monkeypatch.setattr(Lattice, "y", labels)


def ideal_networks_traded(monkeypatch):
    """f_FA and f_FD under each other's name."""
    honest = boundary.ideal_nets

    def traded(task):
        averaged, decoupled, biased = honest(task)
        return replace(averaged, net=decoupled.net), replace(decoupled, net=averaged.net), biased

    monkeypatch.setattr(boundary, "ideal_nets", traded)


def large_start(monkeypatch):
    """Initial weights that training does not overcome: no linear phase, no low rank."""
    monkeypatch.setattr(
        implicit_bias_experiment,
        "train",
        lambda data, **options: train(data, **options | {"sigma_w": 1.0}),
    )


def radii_too_long(monkeypatch):
    """Certificates that are 2.5 times too long."""
    honest = optimal_radius_experiment._radii
    monkeypatch.setattr(optimal_radius_experiment, "_radii", lambda *a: 2.5 * honest(*a))


def coins(*_, **__):
    return PairedPictures((0,), np.array([[1.0, 0.95, 0.55]]))


_BROKEN = {
    "connections-min-vidal-limits": ("p = 1 and p = 3 are swapped", powers_swapped(min_vidal)),
    "connections-min-vidal-radius": ("p = 1 and p = 3 are swapped", powers_swapped(min_vidal_radius)),
    "connections-min-vidal-published": ("p = 1 and p = 3 are swapped", powers_swapped(published)),
    "connections-simplicity-lms5": ("labels are shuffled", random_labels),
    "connections-simplicity-slabs": ("labels are shuffled", random_labels),
    "connections-simplicity-mnist-cifar": (
        "the network looks at the vehicle",
        lambda m: m.setattr(simplicity, "paired_pictures", coins),
    ),
    "connections-simplicity-margin": (
        "there is no hint",
        lambda m: m.setattr(margin, "hinted_margin", lambda **o: hinted_margin(80.0, 0.0, **o)),
    ),
    "connections-robust-features": ("single and average trade places", roles_traded),
    "connections-dimpled-manifold": ("the start has no part off the manifold", nothing_off_the_manifold),
    "connections-expressivity": ("labels are a coordinate", structured_labels),
    "connections-picture": ("f_FA and f_FD trade places", ideal_networks_traded),
    "implicit-bias-early": ("the start is large", large_start),
    "connections-optimal-radius": ("radii are too long", radii_too_long),
}  # fmt: skip
ROWS = tuple(
    Sabotage(claim, what, mutate, seeds=(0,))
    for claim, (what, mutate) in _BROKEN.items()
    if claim not in FULL_TIER
)
