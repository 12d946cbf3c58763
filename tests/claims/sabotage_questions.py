"""Sabotage of the claims on open questions: other data, other training than what a study says it has."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from functools import cache
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.claims.sabotage import Patch, Sabotage, setting, together
from tests.questions import test_depth as made_up

from featavg.audit import subclasses
from featavg.audit.label_budget import LabelBudget
from featavg.data.labels import Labels
from featavg.measures.alignment import neuron_signs
from featavg.paper.questions import adversarial, angle, borders, depth, depth_inner, depth_margin, measured, optimizers
from featavg.paper.remedies import labels_clusters, labels_images, labels_share
from featavg.simulate.label_means import label_run
from featavg.simulate.measurements import net_of
from featavg.simulate.sweep.run import sweep
from featavg.simulate.sweep.work import trained
from featavg.training.recipe import Recipe

# Angles.


def labels_swapped(points_and_runs):
    """Class labels decouple and cluster labels average."""
    points, runs = points_and_runs
    if len(runs) == 2:
        runs = {"coarse": runs["fine"], "fine": runs["coarse"]}
    return points, runs


# Where the honest claim holds; that it does not elsewhere is its finding.
HOLDING = ("orthogonal", "class closer", "classes mixed")


def neurons_look_for_one_feature(given):
    """With class labels every neuron has learned one feature of its class, all to the same length."""
    points, runs = trained(given)
    run = runs["coarse"]
    weights = run.parameters["weights"].copy()
    length = np.linalg.norm(weights[-1], axis=-1).mean()
    for r, sign in enumerate(neuron_signs(net_of(run, 0))):
        mine = points.task.class_clusters(int(sign))
        kept = points.features[mine[r % len(mine)]]
        weights[..., r, :] = length * kept / np.linalg.norm(kept)
    changed = replace(run, parameters=run.parameters | {"weights": weights})
    return points, runs | {"coarse": changed}


# Optimizers and adversarial training.


def few_of(module: ModuleType, name: str, *kept: str) -> Patch:
    """Only these keys of a table of the module."""
    return setting(module, **{name: {key: getattr(module, name)[key] for key in kept}})


def descent_is_sign_descent(patch: pytest.MonkeyPatch) -> None:
    known = optimizers.OPTIMIZERS
    patch.setitem(known, "gradient descent", known["sign descent"])


def without_attacks(patch: pytest.MonkeyPatch) -> None:
    honest = adversarial.AdversarialObjective
    patch.setattr(adversarial, "AdversarialObjective", lambda plain, length: honest(plain, 0.0))


# Maps.


def unkept(patch: pytest.MonkeyPatch) -> None:
    """Sweeps that leave nothing behind."""

    def forgotten(vary, store, **given):
        with tempfile.TemporaryDirectory() as folder:
            return sweep(vary, folder, **given)

    patch.setattr(borders, "sweep", forgotten)


def swept_with(**changes: object) -> Patch:
    """Sweeps that run something else than they are asked for; a function changes an axis."""

    def apply(patch: pytest.MonkeyPatch) -> None:
        honest = borders.sweep

        def other(vary, store, **given):
            for name, change in changes.items():
                if name in vary:
                    vary = vary | {name: [change(value) for value in vary[name]]}
                else:
                    given[name] = change
            return honest(vary, store, **given)

        patch.setattr(borders, "sweep", other)

    return apply


# Depth: a run takes minutes, so that its results are made up.


DEPTH = (
    ("averages", depth, "deeper networks learn half of the features of a class",
     made_up.averaging(), made_up.averaging(index=0.5)),
    ("radius", depth, "the radius grows like d^0.3", made_up.scaling(), made_up.scaling(power_d=0.3)),
    ("fine", depth, "an output looks for other features too",
     made_up.averaging(index=0.01, own=0.98), made_up.averaging(index=0.3, own=0.7)),
    ("inner", depth_inner, "a probe names most clusters", made_up.probe(0.25), made_up.probe(0.85)),
    ("margin", depth_margin, "the margin doubles the radius", made_up.margin(0.9), made_up.margin(2.2)),
)  # fmt: skip
DEPTH_ROWS = tuple(
    Sabotage(f"question-depth-{name}", what, setting(module, **broken), setting(module, **honest), seeds=made_up.SEEDS)
    for name, module, what, honest, broken in DEPTH
)

# Labels.


def all_labels_right(module: ModuleType) -> Patch:
    """Every point carries its cluster, whatever the labels say."""

    def run(task, recipe, *given):
        return label_run(task, replace(recipe, labels=Labels()), *given)

    return setting(module, label_run=run)


def shares_by(half) -> Patch:
    """Curves of the gain that are made up, with half of it at `half(n, recipe)`."""

    def made_up(task, n, seeds, shares, points, **fields):
        import xarray as xr

        recipe = Recipe(**fields)
        scale = half(n, recipe) / np.log(2)
        radius = 17.7 + 20.2 * (1 - np.exp(-np.array(shares) / scale))
        radius *= 1 - 0.3 * (recipe.sigma_w > 1e-4) - 0.3 * (recipe.sigma_w > 5e-3)
        cells = np.repeat(radius[:, None], len(seeds), axis=1)
        names = ("radius", "index", "predicted", "predicted_index")
        table = dict.fromkeys(names, (("share", "seed"), cells))
        return xr.Dataset(table, {"share": list(shares), "seed": list(seeds)})

    return setting(labels_share, by_share=made_up)


def clusters_are_not_looked_at(patch: pytest.MonkeyPatch) -> None:
    honest, near = labels_clusters.chosen, "nearest the boundary"

    def chosen(way, *rest):
        return honest(near if way == "of each cluster" else way, *rest)

    patch.setattr(labels_clusters, "chosen", chosen)


def larger_sample_is_right(patch: pytest.MonkeyPatch) -> None:
    def right(task, recipe, n, *given):
        long = n == 250 and recipe.steps == 1000
        return label_run(task, replace(recipe, labels=Labels()) if long else recipe, n, *given)

    patch.setattr(labels_clusters, "label_run", right)


def clusters_found_at_random(patch: pytest.MonkeyPatch) -> None:
    """Points of a class are dealt out at random over as many clusters."""

    def dealt(x, coarse, clusters, seed):
        rng = np.random.default_rng(seed)
        return coarse * clusters + rng.integers(clusters, size=len(x)), np.zeros(len(x))

    patch.setattr(subclasses, "clustered", dealt)


def seeds_alike(_, measure, *words):
    """Every seed is the first one, which is measured once and kept nowhere: more would take long."""
    first = cache(lambda network, share: measure(network, share, 0))
    return lambda network, share, seed: first(network, share)


def budgets_predicted(times: float) -> Patch:
    """Budgets that are predicted this many times as large as they are measured."""

    def budget(*_: Any, **__: Any) -> LabelBudget:
        curve = np.ones((2, 1))
        return LabelBudget((0.0, 1.0), curve, curve, curve, curve, 0.9, 0.1, 0.1 * times)

    spaces = [SimpleNamespace(source="toy", train=0, train_classes=0, groups=0)]
    made_up = {"label_budget": budget, "spaces": lambda _: spaces, "data_needed": lambda *_: None}
    return setting(labels_images, **made_up)


LABEL_ROWS = (
    Sabotage(
        "question-labels-merged",
        "merged labels tell clusters apart",
        setting(labels_clusters, label_run=lambda task, recipe, *rest: label_run(task, Recipe(labels=Labels()), *rest)),
        few_of(labels_clusters, "SIZES", "5 / 5", "1s / 5", "1s / 1s"),
    ),
    Sabotage(
        "question-labels-share",
        "every point carries its fine label",
        all_labels_right(labels_share),
        setting(labels_share, SHARES=(0.0, 0.1, 0.3, 1.0)),
        given={"ks": (10,)},
    ),
    Sabotage(
        "question-labels-time",
        "labels count by their number, whatever the time",
        shares_by(lambda n, recipe: 40 / n),
        shares_by(lambda n, recipe: 4 * recipe.h / recipe.steps),
    ),
    Sabotage(
        "question-labels-wrong",
        "all labels are right",
        all_labels_right(labels_clusters),
        setting(labels_clusters, RANDOM=(0.0, 0.5, 0.9, 1.0), STEPS=(10, 100, 1000)),
        given={"n": 200},
    ),
    Sabotage(
        "question-labels-memorised",
        "labels of the larger sample are right",
        larger_sample_is_right,
        given={"sizes": (60, 250)},
        improves=True,
    ),
    Sabotage("question-labels-found", "clustering finds nothing", clusters_found_at_random, seeds=(0, 1, 2)),
    Sabotage(
        "label-budget",
        "three times as many labels are predicted",
        budgets_predicted(3.0),
        budgets_predicted(1.1),
        needs=("torch",),
    ),
    Sabotage(
        "question-labels-phase",
        "as many labels are enough whatever the number of clusters",
        setting(
            labels_share, sweep=lambda vary, *given, **base: sweep(vary | {"k": (4,) * len(vary["k"])}, *given, **base)
        ),
        given={"k": (4, 10, 20), "share": (0.0, 0.01, 0.03, 0.1, 1.0), "n": 200},
    ),
    Sabotage("question-labels-missing", "clusters without fine labels have them", all_labels_right(labels_clusters)),
    Sabotage(
        "question-labels-chosen",
        "labels of each cluster are those nearest the boundary",
        clusters_are_not_looked_at,
        setting(labels_clusters, PER_CLUSTER=(2,)),
        seeds=(0, 1, 2),
    ),
    Sabotage(
        "question-labels-digits",
        "a part of the fine labels is none of them",
        setting(labels_images, Labels=lambda share: Labels(share=float(share == 1.0))),
        setting(labels_images, SHARES=(0.0, 0.1, 1.0), kept=seeds_alike),
        given={"steps": 300, "epochs": 3, "points": 20},
        seeds=(0, 1),
        needs=("torch",),
    ),
    Sabotage(
        "question-labels-mnist",
        "a part of the fine labels is none of them",
        setting(labels_images, Labels=lambda share: Labels(share=float(share == 1.0))),
        together(
            setting(labels_images, Labels=lambda share: Labels(share=float(share > 0.0)), kept=seeds_alike),
            setting(labels_images, NETWORKS=dict.fromkeys(labels_images.NETWORKS, ("digits", 1000))),
        ),
        given={"steps": 300, "points": 12},
        seeds=(0, 1),
        needs=("torch",),
    ),
    Sabotage(
        "question-labels-images",
        "a part of the fine labels is none of them",
        setting(labels_images, Labels=lambda share: Labels(share=float(share == 1.0))),
        together(
            setting(labels_images, Labels=lambda share: Labels(share=float(share > 0.0))),
            setting(labels_images, SHARES=(0.0, 0.02, 0.1, 1.0), kept=seeds_alike),
            setting(labels_images, NETWORKS=dict.fromkeys(list(labels_images.NETWORKS)[:2], ("digits", 1000))),
        ),
        given={"networks": tuple(labels_images.NETWORKS)[:2], "steps": 300, "points": 12},
        seeds=(0, 1),
        needs=("torch",),
    ),
)
BORDERS = (
    ("noise", "the noise is eight times what it is called", {"sigma": lambda value: 8 * value},
     {"k": (6, 16), "sigma": (0.2, 0.5, 1.0, 6.0, 10.0)}),
    ("samples", "the noise is ten times the usual", {"sigma": 10.0}, {"d": (1000, 10**6), "n": (10, 60, 120, 300)}),
    ("initialisation", "initial weights are thirty times what they are called", {"sigma_w": lambda value: 30 * value},
     {"lr": (0.02, 0.1), "sigma_w": (1e-4, 1e-3, 1e-2, 3e-2, 0.3, 1.0)}),
    ("neurons", "initial weights outweigh what is learned", {"sigma_w": 0.3}, {"k": (4, 12), "m": (1, 2, 20)}),
)  # fmt: skip
ROWS = (
    *DEPTH_ROWS,
    *LABEL_ROWS,
    Sabotage(
        "question-angle-equal",
        "class labels decouple and cluster labels average",
        setting(measured, trained=lambda given: labels_swapped(trained(given))),
        given={"cosines": (0.0, 0.3), "n": 200, "group": 4},
    ),
    Sabotage(
        "question-angle-geometry",
        "with class labels every neuron learns one feature",
        setting(measured, trained=neurons_look_for_one_feature),
        few_of(angle, "GEOMETRIES", *HOLDING),
    ),
    Sabotage(
        "question-optimizers",
        "gradient descent takes only the signs of the gradient",
        descent_is_sign_descent,
        few_of(optimizers, "OPTIMIZERS", "gradient descent", *optimizers.COORDINATE_WISE),
        given={"d": 150, "n": 80, "test_points": 4},
    ),
    Sabotage(
        "question-adversarial",
        "the worst case within any radius is the point itself",
        without_attacks,
        setting(adversarial, SHARES=(0.0, 0.75)),
        given={"steps": 120, "test_points": 4},
    ),
    *(
        Sabotage(f"question-border-{name}", what, swept_with(**change), unkept, given=given)
        for name, what, change, given in BORDERS
    ),
)
