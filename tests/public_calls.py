"""A small valid call of every public name that takes arguments: other tests vary it or watch it.

`CALLS[name]()` are the arguments by name, made of small objects; those of whole experiments are in
`tests.study_calls`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from tests.small import deep, features, module, pictures, points, run, shallow, task, training_set
from tests.study_calls import STUDIES

import featavg as fa

Arguments = dict[str, Any]


def attacked() -> Arguments:
    model = fa.network_model(run().net)
    return {"model": model, "x": points().x, "y": points().y}


def judged() -> Arguments:
    x = pictures().test.unit
    return {"x": x, "coarse": np.arange(80) % 4 // 2, "fine": np.arange(80) % 4}


LABELS = np.array([1, 1, -1, -1])
CALLS: dict[str, Callable[[], Arguments]] = {
    # data
    "MultiCluster": lambda: {"k": 4, "d": 30},
    "Sample": lambda: {"task": task(), "n": 5, "seed": 0},
    "draw": lambda: {"task": task(), "n": 20, "neurons": 10, "seed": 0},
    "draw_many": lambda: {"task": task(), "n": 20, "neurons": 10, "seeds": [0, 1]},
    "Images": lambda: {"pixels": np.zeros((4, 1, 8, 8), np.uint8), "fine": np.arange(4)},
    "load_images": lambda: {"source": "digits"},
    "Lattice": lambda: {"m": 3},
    "OnSubspace": lambda: {"k": 4, "d": 40, "r": 10},
    "Slabs": lambda: {"blocks": [5, 7]},
    # nets
    "TwoLayer": lambda: {"weights": np.eye(3, 5), "biases": np.zeros(3), "head": np.ones((1, 3))},
    "binary": lambda: {"weights": np.eye(4, 5)},
    "grouped": lambda: {"weights": np.eye(4, 5), "k": 4},
    "Deep": lambda: {"weights": (np.eye(3, 5), np.eye(2, 3))},
    "score": lambda: {"outputs": np.eye(4), "positive": [0, 1]},
    "biased_robust": lambda: {"task": task()},
    "feature_averaging": lambda: {"task": task()},
    "feature_decoupling": lambda: {"task": task()},
    "LeakyReLU": dict,
    "PowerReLU": lambda: {"p": 2.0},
    "Shallow": lambda: {"weights": np.eye(3, 5), "head": np.ones(3), "activation": fa.PowerReLU(2.0)},
    "averaged_limit": lambda: {"features": np.eye(4, 6), "labels": LABELS.astype(float), "p": 2.0},
    "decoupled_limit": lambda: {"features": np.eye(4, 6), "labels": LABELS.astype(float), "p": 2.0},
    # training
    "Recipe": dict,
    "train": lambda: {"task": task(), "n": 24, "steps": 3},
    "Stop": lambda: {"steps": 5},
    "SaveAt": dict,
    "Adam": dict,
    "GradientFlow": dict,
    "Momentum": dict,
    "StochasticGradientDescent": dict,
    "WeightDecay": dict,
    "Constant": lambda: {"rate": 0.1},
    "ErrorControl": dict,
    "LossBased": dict,
    "Cosine": lambda: {"rate": 0.1},
    "StepDecay": lambda: {"rate": 0.1},
    "WarmUp": lambda: {"rate": 0.1},
    "HeadRecipe": dict,
    "DenseRecipe": dict,
    "ImageRecipe": dict,
    "MarginSettings": dict,
    "SupportRule": dict,
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
    "compose": dict,
    # measures
    "averaging_index": lambda: {"net": run().net, "task": task()},
    "averaging_index_of": lambda: {"net": run().net, "features": np.eye(4, 30), "labels": LABELS},
    "block_cosines": lambda: {"matrix": np.eye(4), "labels": LABELS},
    "cosines": lambda: {"net": run().net, "task": task()},
    "equivalent_weights": lambda: {"net": run().net, "labels": LABELS},
    "effective_weights": lambda: {
        "net": run().net, "x": training_set().x[:, :30], "clusters": training_set().clusters,
        "labels": LABELS,
    },
    "gradient_cosines": lambda: {"net": run().net, "task": task(), "points": task().sample(60, seed=2)},
    "gradient_index": lambda: {"net": run().net, "task": task(), "points": task().sample(60, seed=2)},
    "accuracy": lambda: {"net": run().net, "points": points()},
    "fine_accuracy": lambda: {"net": run("fine").net, "points": points()},
    "power_law_exponent": lambda: {"x": [1.0, 2.0, 4.0], "y": [1.0, 4.0, 16.0]},
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
    "best_margin": lambda: {
        "x": np.array([[1.0, 0.2], [-1.0, 0.1]]), "y": np.array([1, -1]),
        "activation": fa.LeakyReLU(0.1), "rounds": 2,
    },
    "sphere_distance": lambda: {
        "f": shallow(), "g": shallow(), "starts": 3, "rounds": 1, "steps": 3,
    },
    "robust_usefulness": lambda: {"feature": fa.UsefulFeature(task(), np.ones(4))},
    "UsefulFeature": lambda: {"task": task(), "coefficients": np.ones(4)},
    "shuffled_auc": lambda: {
        "classifier": lambda x: x[:, 0], "coordinates": np.random.default_rng(0).normal(size=(20, 3)),
        "y": np.where(np.arange(20) % 2, 1, -1), "block": [0], "rotation": None, "seed": 0,
    },
    # robustness
    "radii": lambda: {"net": run("fine").net, "points": points()},
    "certify": lambda: {"net": deep(), "points": points().x, "y": np.arange(6) % 3, "radius": 0.1},
    "Budget": dict,
    "network_model": lambda: {"net": run("fine").net, "positive": [0, 1]},
    "torch_model": lambda: {"module": module()},
    "attack_suite": lambda: attacked() | {"budget": 10},
    "pgd_curve": lambda: attacked() | {"radii": [1.0], "steps": 3},
    "APGD": dict,
    "PGD": dict,
    "DDN": dict,
    "FMN": dict,
    "DeepFool": dict,
    "Directions": dict,
    "RandomStarts": dict,
    "Polish": dict,
    "MultiStartDDN": dict,
    # experiments
    "embed": lambda: {"source": "pixels", "task": pictures()},
    "study_heads": lambda: {
        "features": features(), "labels": "fine", "seeds": [0], "recipe": fa.HeadRecipe(steps=3),
    },
    "head_radii": lambda: {"net": fa.grouped(np.eye(4, 8), 4), "features": features(), "points": 3},
    "CurveSettings": dict,
    "audit": lambda: {"model": module(), **judged(), "images": 80, "radii": 2, "gradients": 2},
    "rehead": lambda: {"model": module(), **judged(), "recipe": fa.HeadRecipe(steps=3)},
    "retrain": lambda: {
        "model": module(), "task": pictures(), "labels": "coarse",
        "recipe": fa.ImageRecipe(epochs=1, batch=20),
    },
    "linear_drift": lambda: {"x": np.eye(4), "y": LABELS, "log_times": [1.0, 2.0]},
    "linear_limits": lambda: {"seeds": [0]},
    "boundary_picture": lambda: {"k": 4, "d": 30, "n": 20},
    "expressivity": lambda: {"m": 3},
    "hinted_margin": dict,
    "implicit_bias": lambda: {"k": 4, "d": 30, "n": 20},
    "off_manifold": lambda: {"k": 4, "d": 40, "r": 10},
    "optimal_radius": lambda: {"k": 4, "d": 30},
    "power_relu_descent": lambda: {"n": 20, "d": 30, "k": 4, "positive": 2, "width": 8, "iterations": 3},
    "PowerReluRecipe": dict,
    "power_relu_images": lambda: {
        "data": "digits", "powers": [1.0, 3.0],
        "recipe": fa.PowerReluRecipe(width=6, epochs=1, points=3, budget=15),
    },
    "power_relu_run": lambda: {"k": 4, "n": 20, "width": 8, "d": 30, "time": 10.0, "test": 4},
    "slab_reliance": lambda: {"n": 40, "widths": [4], "steps": 3},
    "useful_features": lambda: {"k": 4, "d": 30, "n": 50},
    "sweep": lambda: {"vary": {"cosine": [0.0]}, "engine": "serial", "n": 20, "steps": 1, "seeds": 1},
    "doctor": dict,
    "statements_table": dict,
} | STUDIES  # fmt: skip


def inside(folder: Path) -> dict[str, Arguments]:
    """What a call needs beside that must not land in the working folder."""
    return {"sweep": {"store": folder / "sweep"}, "doctor": {"out": folder}}
