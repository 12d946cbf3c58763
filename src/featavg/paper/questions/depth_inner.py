"""Does a deep network trained on class labels know the clusters in an inner layer? (Open question 2)"""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import partial
from typing import Any

import numpy as np
import xarray as xr
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.data.clusters import MultiCluster
from featavg.figures.figure import Axis, Figure, Lines, Rule
from featavg.figures.marks import Role
from featavg.measures.averaging import evenness
from featavg.nets.deep import Deep
from featavg.nets.two_layer import TwoLayer
from featavg.paper.engine.claim import Check, Context, Evidence, claim
from featavg.paper.engine.tables import line
from featavg.paper.questions.depth_networks import (
    AVERAGED,
    COMMON,
    N_TRAIN,
    SOURCE,
    TEST,
    Architecture,
    D,
    K,
    kept_cell,
    networks,
    short,
)
from featavg.storage.places import results_folder
from featavg.training.train import train

FITTED, TESTED = 2000, 1000
# Differences of neurons that are a thousandth of what the layer says count for little.
RIDGE = 1e-3
SHAPES = (Architecture(3), Architecture(4), Architecture(4, True), Architecture(6, True))
LABELS: dict[str, tuple[str, Role]] = {
    "coarse": ("class labels", "averaged"),
    "fine": ("cluster labels", "decoupled"),
    "untrained": ("untrained", "neutral"),
}
CHANCE = 2 / K  # one over the clusters of a class


@claim(
    "question-depth-inner", "Every inner layer mixes the clusters of a class", source=SOURCE,
    measured="linear probes of every hidden layer for the cluster, the class being known, and evenness "
    "of the neurons' mean activations",
    minutes=1, statements=("summary-open-2", "summary-check-2"), **COMMON,
)  # fmt: skip
def inner(run: Context) -> Evidence:
    """A deep network trained on class labels tells the clusters of a class apart in none of its
    hidden layers.
    """
    table = probed(run)
    # Layers beyond a network's last say nothing; any other NaN must reach the checks.
    exists, every = table["layer"] < table["depth"], ("network", "layer")
    best = table["accuracy"].where(exists, -np.inf).max(every, skipna=False)
    coarse, fine, untrained = (best.sel(labels=labels) for labels in LABELS)
    even = table["evenness"].where(exists, np.inf).sel(labels="coarse").min(every, skipna=False)
    return Evidence(
        Check("clusters of a class named by a probe of the best hidden layer, class labels", coarse,
              "<=", 2 * CHANCE, note=f"chance: {CHANCE:.2f}"),
        Check("evenness of activations over the clusters of a class, least even layer", even, ">=", AVERAGED),
        Check("the same probe on networks trained with cluster labels", fine, ">=", 0.9, role="note"),
        Check("the same probe on untrained networks", untrained, "<=", 1.0, role="note"),
        figure=figure(table),
        numbers=table,
        finding=f"The best hidden layer of any network trained on class labels names {coarse.mean():.0%} "
        f"of the clusters (chance {CHANCE:.0%}), of untrained ones {untrained.mean():.0%}, "
        f"with cluster labels {fine.mean():.0%}; activations are even to {even.mean():.2f} in "
        "the least even layer.",
    )  # fmt: skip


def probed(run: Context) -> xr.Dataset:
    """Accuracy of the probe and evenness, by network, labels, seed and layer; NaN beyond the last."""
    seeds, layers = tuple(run.seeds), max(shape.depth for shape in SHAPES) - 1
    sizes = (len(SHAPES), len(LABELS), len(seeds), layers)
    arrays = {name: np.full(sizes, np.nan) for name in ("accuracy", "evenness")}
    for i, shape in enumerate(SHAPES):
        run.progress(i / len(SHAPES), short(shape.depth, shape.residual))
        for j, labels in enumerate(LABELS):
            about = ["probe", asdict(shape), labels, list(seeds), FITTED, TESTED, RIDGE]
            cell = kept_cell(results_folder("depth"), about, partial(_cell, shape, labels, seeds))
            for name, array in arrays.items():
                array[i, j, :, : shape.depth - 1] = cell[name]
    dims = ("network", "labels", "seed", "layer")
    coords = {"labels": list(LABELS), "seed": list(seeds), "layer": list(range(1, layers + 1))}
    names = ("network", [short(shape.depth, shape.residual) for shape in SHAPES])
    depths = ("network", [shape.depth for shape in SHAPES])
    variables = {name: (dims, array) for name, array in arrays.items()}
    return xr.Dataset(variables, coords | {"network": names, "depth": depths})


def _cell(shape: Architecture, labels: str, seeds: tuple[int, ...]) -> dict[str, Any]:
    """Every seed's probes of one architecture, as plain values."""
    task = MultiCluster(k=K, d=D)
    if labels == "untrained":
        recipe = replace(shape.recipe("coarse", task), steps=0, target_log_loss=-1e9)
        run = train(task, recipe, n=N_TRAIN, seed=seeds)
        nets = tuple(run.net[i] for i in range(len(seeds)))
    else:
        nets = networks(shape, labels, seeds)[0]
    pairs = [_probes(net, task, seed) for net, seed in zip(nets, seeds, strict=True)]
    return {"accuracy": [named for named, _ in pairs], "evenness": [even for _, even in pairs]}


def _probes(net: TwoLayer | Deep, task: MultiCluster, seed: int) -> tuple[list[float], list[float]]:
    signs = task.cluster_labels
    fit, test = task.sample(FITTED, TEST + seed), task.sample(TESTED, 2 * TEST + seed)
    known = hidden_layers(net, fit.coordinates(net.dimension))
    fresh = hidden_layers(net, test.coordinates(net.dimension))
    named = [probe_accuracy(a, fit.clusters, b, test.clusters, signs) for a, b in zip(known, fresh, strict=True)]
    return named, [selectivity(b, test.clusters, signs) for b in fresh]


def hidden_layers(net: TwoLayer | Deep, x: Float[ndarray, "n N"]) -> list[Float[ndarray, "n m"]]:
    """What every hidden layer says about each point."""
    if isinstance(net, TwoLayer):
        return [np.maximum(net.preactivations(x), 0.0)]
    return net.hidden(net.preactivations(x))


def probe_accuracy(
    fit: Float[ndarray, "n m"],
    fit_clusters: Int[ndarray, " n"],
    test: Float[ndarray, "q m"],
    test_clusters: Int[ndarray, " q"],
    labels: Int[ndarray, " k"],
) -> float:
    r"""The share of points whose cluster a linear probe names, the class being known.

    The probe is ridge regression of one-hot clusters, with RIDGE times the mean variance of the
    layer's neurons as its penalty; among the clusters of the point's class the largest output wins,
    so chance is 1 / |J_s|.

    >>> x = np.repeat(np.eye(4), 5, axis=0)
    >>> c = np.repeat(np.arange(4), 5)
    >>> probe_accuracy(x, c, x, c, np.array([1, 1, -1, -1]))
    1.0
    """
    mean = fit.mean(axis=0)
    centred = fit - mean
    covariance = centred.T @ centred / len(fit)
    penalty = RIDGE * float(np.trace(covariance)) / len(covariance)
    if not penalty > 0.0:  # a dead layer says nothing
        return float(np.mean(1.0 / np.bincount(labels + 1)[labels[test_clusters] + 1]))
    targets = np.eye(len(labels))[fit_clusters]
    moved = centred.T @ (targets - targets.mean(axis=0)) / len(fit)
    probe = np.linalg.solve(covariance + penalty * np.eye(len(covariance)), moved)
    outputs = (test - mean) @ probe + targets.mean(axis=0)
    allowed = labels[None, :] == labels[test_clusters][:, None]
    return float(np.mean(np.where(allowed, outputs, -np.inf).argmax(axis=1) == test_clusters))


def selectivity(hidden: Float[ndarray, "n m"], clusters: Int[ndarray, " n"], labels: Int[ndarray, " k"]) -> float:
    """How evenly neurons answer to the clusters of the class that they answer to most.

    The mean over neurons of the evenness of their mean activations (see `measures.averaging`): 1 if
    all clusters of the class excite a neuron alike, 0 if one does. Neurons are weighted with their
    activation, so that dead ones do not count.
    """
    k = len(labels)
    means = np.stack([hidden[clusters == j].mean(axis=0) for j in range(k)], axis=-1)
    sides = np.stack([means[:, labels == s].sum(axis=1) for s in (1, -1)], axis=-1)
    even = np.where(sides[:, 0] >= sides[:, 1], evenness(means[:, labels == 1]), evenness(means[:, labels == -1]))
    weight = sides.max(axis=1)
    return float(np.sum(even * weight) / np.sum(weight)) if weight.sum() > 0 else 1.0


def figure(table: xr.Dataset) -> Figure:
    """Accuracy of the probe against the layer, one panel for each architecture."""
    panels = []
    for name in table["network"].values:
        of_network = table["accuracy"].sel(network=name).dropna("layer")
        layers, series = of_network["layer"].values, []
        for labels, (label, role) in LABELS.items():
            series.append(line(label, of_network.sel(labels=labels), role, middle="mean"))
        panels.append(
            Lines(
                Axis("hidden layer", ticks=layers),
                Axis("clusters named", range=(0, 1)),
                tuple(series),
                title=str(name),
                rules=(Rule(CHANCE, label="chance"),),
            )
        )
    return Figure(
        "depth-probe",
        "What inner layers know of the clusters",
        "Share of fresh points whose cluster a linear probe of a hidden layer names, the class being "
        "known, for networks trained on class labels, on cluster labels, and not at all.",
        tuple(panels),
    )
