"""Truths of the claims on connections, broken: each must cost its claim the verdict "holds"."""

from dataclasses import replace

import numpy as np
import xarray as xr
from tests.claims.sabotage import Sabotage, setting

from featavg.paper.connections import (
    dimpled_manifold,
    hinted_margin,
    implicit_bias,
    min_vidal,
    min_vidal_descent,
    min_vidal_mnist,
    mnist_cifar,
    optimal_radius,
    picture,
    robust_features,
    simplicity,
)
from featavg.paper.connections.expressivity import Lattice
from featavg.paper.connections.limits import power_relu_run
from featavg.paper.connections.min_vidal_descent import power_relu_descent
from featavg.training.train import train


def small_powers(swapped=False):
    """Few points and neurons; if `swapped`, networks with p = 1 and p = 3 trade places."""

    def run(p, noise, seed, k=10, **sizes):
        small = {"n": 10 * k, "width": 8 * k, "test": 8}
        return replace(power_relu_run(4.0 - p if swapped else p, 0.01, seed, k, **small), p=p)

    return setting(min_vidal, power_relu_run=run, COUNTS=(4, 10), POWERS=(1.0,))


def small_descent(starts):
    """Fewer points and a start that is less small; `starts` says which start is run for which."""

    def run(p, start, *, seed, progress, **options):
        sizes = {"n": 400, "d": 60, "k": 4, "positive": 2, "width": 40, "iterations": 300}
        if start == "large":
            sizes |= {"d": 300, "iterations": 600, "rate": options["rate"] / 4, "until": 0.02}
            sizes["normalised"] = options.get("normalised", True)
        made = power_relu_descent(p, starts.get(start, start), seed=seed, scale=1e-3, **sizes)
        return replace(made, start=start)

    return lambda patch: patch.setattr(min_vidal_descent, "power_relu_descent", run)


def random_labels(monkeypatch):
    """Labels that no coordinate gives away."""
    honest = simplicity._one

    class Shuffled(simplicity.Slabs):
        def sample(self, n, seed, purpose="train"):
            x, y = super().sample(n, seed, purpose)
            return x, np.random.default_rng(seed).permutation(y)

    def short(task, seed, n, recipe):
        shuffled = Shuffled(task.blocks[:5], task.margin, task.noise)
        return honest(shuffled, seed, 500, simplicity.Minibatch((8,), 0.1, 0.0, 256, 20))

    monkeypatch.setattr(simplicity, "_one", short)


def roles_traded(monkeypatch):
    """What coarse labels learn is called a single feature, and the reverse."""
    honest = robust_features._learnt

    def traded(task, seed):
        learnt = honest(task, seed)
        return {"single": learnt["average"], "average": learnt["single"]}

    monkeypatch.setattr(robust_features, "_learnt", traded)


def nothing_off_the_manifold(monkeypatch):
    """Initial weights without a part outside the subspace."""
    honest = dimpled_manifold.dimpled_network
    monkeypatch.setattr(dimpled_manifold, "dimpled_network", lambda labels, size, *more: honest(labels, 1e-5, *more))


def structured_labels(monkeypatch):
    """The label of a vertex is its first coordinate."""
    labels = property(lambda self: np.where(self.vertices[:, 0] > 0, 1, -1))
    monkeypatch.setattr(Lattice, "y", labels)


def ideal_networks_traded(monkeypatch):
    """f_FA and f_FD under each other's name."""
    honest = picture.ideal_nets

    def traded(task):
        averaged, decoupled, biased = honest(task)
        return replace(averaged, net=decoupled.net), replace(decoupled, net=averaged.net), biased

    monkeypatch.setattr(picture, "ideal_nets", traded)


def large_start(monkeypatch):
    """Initial weights that training does not overcome: no linear phase, no low rank."""
    monkeypatch.setattr(implicit_bias, "train", lambda data, **options: train(data, **options | {"sigma_w": 1.0}))


def radii_too_long(monkeypatch):
    """Certificates that are 2.5 times too long."""
    honest = optimal_radius._radii
    monkeypatch.setattr(optimal_radius, "_radii", lambda *a: 2.5 * honest(*a))


def no_hint(monkeypatch):
    """The hint is left out."""
    honest = hinted_margin.hinted_points
    monkeypatch.setattr(hinted_margin, "hinted_points", lambda angle, hint: honest(angle, 0.0))


def areas(*values):
    """AUCs as they are, with the digits shuffled, and with the vehicles shuffled."""
    made = xr.Dataset({"auc": (("seed", "area"), [values])})
    return setting(mnist_cifar, paired_pictures=lambda *_, **__: made)


def powers(swapped):
    """Radii that give just the published shares; if `swapped`, p = 1 and p = 4 trade places."""
    radii = {}
    for norm in min_vidal_mnist.NORMS:
        known = {r: pair for (n, r), pair in min_vidal_mnist.PUBLISHED.items() if n == norm}
        rows = []
        for i in (1, 0) if swapped else (0, 1):
            lengths = np.zeros(1000)
            for radius in sorted(known):
                lengths[: round(10 * known[radius][i])] = 1.01 * radius
            rows.append([lengths])
        radii[norm] = (("p", "seed", "image"), np.array(rows))
    made = xr.Dataset({"accuracy": (("p", "seed"), np.full((2, 1), 0.98)), **radii})
    return setting(min_vidal_mnist, data_needed=lambda *_: None, power_relu_images=lambda *_, **__: made)


MIN_VIDAL = "connections-min-vidal-limits, connections-min-vidal-radius, connections-min-vidal-published"
SHUFFLED = "labels are shuffled"
few_steps = setting(simplicity, HARD={"d": 6, "n": 20_000, "steps": 1000, "lr": 0.1})
few_neurons = setting(optimal_radius, PRINTED={"k": 10, "positive": 6, "d": 500}, PRINTED_WIDTH=80)
TORCH = ("torch",)
ROWS = (
    Sabotage("connections-min-vidal-mnist", "p = 1 and p = 4 are swapped", powers(swapped=True),
             powers(swapped=False), needs=TORCH),
    Sabotage(MIN_VIDAL, "p = 1 and p = 3 are swapped", small_powers(swapped=True), small_powers()),
    Sabotage("connections-min-vidal-descent", "the small start is the large one",
             small_descent({"random": "large"}), small_descent({})),
    Sabotage("connections-simplicity-lms5", SHUFFLED, random_labels, found="holds"),
    Sabotage("connections-simplicity-slabs", SHUFFLED, random_labels, few_steps),
    Sabotage("connections-simplicity-mnist-cifar", "the network looks at the vehicle", areas(1.0, 0.95, 0.55),
             areas(1.0, 0.5, 1.0), needs=TORCH),
    Sabotage("connections-simplicity-margin", "there is no hint", no_hint, found="holds"),
    Sabotage("connections-robust-features", "single and average trade places", roles_traded, found="holds in part"),
    Sabotage("connections-dimpled-manifold", "the start has no part off the manifold", nothing_off_the_manifold,
             found="holds in part"),
    Sabotage("connections-expressivity", "labels are a coordinate", structured_labels, found="holds"),
    Sabotage("connections-picture", "f_FA and f_FD trade places", ideal_networks_traded, found="holds"),
    Sabotage("implicit-bias-early", "the start is large", large_start),
    Sabotage("connections-optimal-radius", "radii are too long", radii_too_long, few_neurons),
)  # fmt: skip
