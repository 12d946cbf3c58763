"""A small valid call of every public function and class: other tests vary it or watch it.

`CALLS[name]()` are the arguments by name, made of small objects.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from tests.small import deep, features, module, pictures, points, run, task

import featavg as fa

Arguments = dict[str, Any]


def attacked() -> Arguments:
    model = fa.network_model(run().net)
    return {"model": model, "x": points().x, "y": points().y}


def judged() -> Arguments:
    x = pictures().test.unit
    return {"x": x, "coarse": np.arange(80) % 4 // 2, "fine": np.arange(80) % 4}


def dark_and_bright() -> Any:
    """Pictures with two sub-classes a class that any network tells apart."""
    fine = np.arange(160) % 4
    pixels = np.random.default_rng(0).integers(0, 40, (160, 1, 8, 8), dtype=np.uint8)
    pixels += (200 * (fine % 2)).astype(np.uint8)[:, None, None, None]
    return replace(pictures(), train=fa.Images(pixels, fine))


@cache
def folder() -> Path:
    """Where the small results below are: outside of the working folder, gone with the process."""
    keep = tempfile.TemporaryDirectory()
    _KEPT.append(keep)
    return Path(keep.name)


_KEPT: list[Any] = []


@cache
def simulated() -> Path:
    fa.simulate(out=folder() / "simulation", figures=False, k=4, d=30, n=20, steps=3, n_test=10)
    return folder() / "simulation"


@cache
def trained() -> Path:
    kept = folder() / "trained"
    recipe = fa.ImageRecipe(epochs=1, batch=20)
    fa.train_images(pictures(), "coarse", network="convnet", width=4, recipe=recipe, folder=kept)
    return kept


@cache
def labelled() -> Path:
    np.savez(folder() / "points.npz", x=np.eye(4) - 0.3, y=np.array([1, -1, 1, -1]))
    return folder() / "points.npz"


@cache
def audited() -> Any:
    sample = task().sample(200, seed=0)
    net = fa.feature_averaging(task(), task().d)
    return fa.audit(net, sample.x, sample.y, sample.clusters, bounds=None, radii=3)


LABELS = np.array([1, 1, -1, -1])
SLOW = {"write_audit"}  # over two seconds: the suite leaves its call out
CALLS: dict[str, Callable[[], Arguments]] = {
    # data
    "MultiCluster": lambda: {"k": 4, "d": 30},
    "Sample": lambda: {"task": task(), "n": 5, "seed": 0},
    "Labels": dict,
    "draw": lambda: {"task": task(), "n": 20, "neurons": 10, "seed": 0},
    "Images": lambda: {"pixels": np.zeros((4, 1, 8, 8), np.uint8), "fine": np.arange(4)},
    "load_images": lambda: {"source": "digits"},
    "TwoLayer": lambda: {"weights": np.eye(3, 5), "biases": np.zeros(3), "head": np.ones((1, 3))},
    "binary": lambda: {"weights": np.eye(4, 5)},
    "grouped": lambda: {"weights": np.eye(4, 5), "k": 4},
    "Deep": lambda: {"weights": (np.eye(3, 5), np.eye(2, 3))},
    "load_network": lambda: {"source": module(), "shape": (1, 8, 8)},
    "score": lambda: {"outputs": np.eye(4), "positive": [0, 1]},
    "biased_robust": lambda: {"task": task()},
    "feature_averaging": lambda: {"task": task()},
    "feature_decoupling": lambda: {"task": task()},
    "Recipe": dict,
    "train": lambda: {"task": task(), "n": 24, "steps": 3},
    "Stop": lambda: {"steps": 5},
    "SaveAt": dict,
    "HeadRecipe": dict,
    "DenseRecipe": dict,
    "ImageRecipe": dict,
    "train_head": lambda: {
        "x": features().train, "classes": features().train_classes, "groups": features().groups,
        "labels": "fine", "recipe": fa.HeadRecipe(steps=3), "seed": 0,
    },
    "train_dense": lambda: {"task": pictures(), "recipe": fa.DenseRecipe((4,), epochs=1)},
    "train_images": lambda: {
        "task": pictures(), "labels": "coarse", "network": "convnet", "width": 4,
        "recipe": fa.ImageRecipe(epochs=1, batch=20),
    },
    "simulate": lambda: {"k": 4, "d": 30, "n": 20, "steps": 3, "n_test": 10},
    "averaging_index": lambda: {"net": run().net, "task": task()},
    "averaging_index_of": lambda: {"net": run().net, "features": np.eye(4, 30), "labels": LABELS},
    "cosines": lambda: {"net": run().net, "task": task()},
    "gradient_cosines": lambda: {"net": run().net, "task": task(), "points": task().sample(60, seed=2)},
    "gradient_index": lambda: {"net": run().net, "task": task(), "points": task().sample(60, seed=2)},
    "accuracy": lambda: {"net": run().net, "points": points()},
    "fine_accuracy": lambda: {"net": run("fine").net, "points": points()},
    "max_margin": lambda: {"x": np.eye(4), "y": LABELS},
    "kkt": lambda: {"net": fa.Deep((np.eye(2), np.ones((1, 2)))), "x": np.eye(2), "y": np.array([1, 1])},
    "shared_gradient": lambda: {
        "gradients": np.random.default_rng(0).normal(size=(40, 6)), "fine": np.arange(40) % 4,
        "groups": np.array([0, 0, 1, 1]), "permutations": 3, "resamples": 3,
    },
    "collapse": lambda: {"features": features().train, "labels": features().train_classes},
    "subclass_collapse": lambda: {
        "features": features().train, "fine": features().train_classes, "groups": features().groups,
    },
    "radii": lambda: {"net": run("fine").net, "points": points()},
    "certify": lambda: {"net": deep(), "points": points().x, "y": np.arange(6) % 3, "radius": 0.1},
    "Budget": dict,
    "network_model": lambda: {"net": run("fine").net, "positive": [0, 1]},
    "torch_model": lambda: {"module": module()},
    "attack_suite": lambda: attacked() | {"budget": 10},
    "pgd_curve": lambda: attacked() | {"radii": [1.0], "steps": 3},
    "audit": lambda: {"model": module(), **judged(), "images": 80, "radii": 2, "gradients": 2},
    "label_budget": lambda: {"task": task(), "shares": (0, 1), "n": 24, "seeds": (0,), "steps": 3},
    "rehead": lambda: {"model": module(), **judged(), "recipe": fa.HeadRecipe(steps=3)},
    "retrain": lambda: {
        "model": module(), "task": pictures(), "labels": "coarse",
        "recipe": fa.ImageRecipe(epochs=1, batch=20),
    },
    "compose": dict,
    "load_simulation": lambda: {"folder": simulated()},
    "load_trajectory": lambda: {"folder": simulated() / "coarse"},
    "load_trained": lambda: {"folder": trained()},
    "read_labelled": lambda: {"path": labelled()},
    "radius_report": lambda: {"result": simulated(), "points": 3},
    "write_audit": lambda: {"audit": audited(), "folder": folder() / "audit"},
    "playground": lambda: {"path": folder() / "playground.html"},
    "curve": lambda: {"results": fa.attack_suite(**attacked(), budget=5), "radii": [0.5, 1.0]},
    "margins": lambda: {
        "outputs": np.eye(3), "targets": np.arange(3), "log_losses": -np.ones(3), "norm": 2.0,
        "order": 2,
    },
    "discover_labels": lambda: {"model": module(), "task": dark_and_bright(), "clusters": 2},
    "sweep": lambda: {"vary": {"cosine": [0.0]}, "engine": "serial", "n": 20, "steps": 1, "seeds": 1},
    "doctor": dict,
}  # fmt: skip


def inside(folder: Path) -> dict[str, Arguments]:
    """What a call needs beside that must not land in the working folder."""
    return {"sweep": {"store": folder / "sweep"}, "doctor": {"out": folder}}
