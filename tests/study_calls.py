"""Small valid calls of public names that run whole experiments, or that read what those wrote."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from tests.small import features, module, pictures, points, run, task, training_set

import featavg as fa

Arguments = dict[str, Any]


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
def margin_settings() -> Any:
    from featavg.paper.margins.network.margin_cnn import MarginCNN

    return fa.MarginSettings(network=MarginCNN(size=8, channels=(4, 8), hidden=16))


@cache
def margin_run() -> Path:
    fa.train_margin_network(folder() / "margins", "digits", margin_settings(), epochs=1)
    return folder() / "margins"


@cache
def labelled() -> Path:
    np.savez(folder() / "points.npz", x=np.eye(4) - 0.3, y=np.array([1, -1, 1, -1]))
    return folder() / "points.npz"


@cache
def audited() -> Any:
    sample = task().sample(200, seed=0)
    net = fa.feature_averaging(task(), task().d)
    return fa.audit(net, sample.x, sample.y, sample.clusters, bounds=None, radii=3)


@cache
def claimed() -> Path:
    fa.reproduce(only="lemma-12", seeds=1, out=folder() / "report", quiet=True)
    return folder() / "report"


@cache
def attack_end() -> Any:
    model = fa.network_model(run().net)
    return fa.attack_suite(model, points().x, points().y, budget=5)


def driven() -> Arguments:
    from featavg.training.train import objective_of

    objective = objective_of(training_set(), fa.Recipe(steps=3))
    start = (np.zeros((10, training_set().x.shape[-1])), np.full(10, 1e-5))
    stop = fa.Stop(steps=3)
    return {"objective": objective, "params": start, "stepper": "gd", "stop": stop} | {
        "controller": fa.Constant(0.01)
    }


def projected() -> Arguments:
    data = fa.draw(task(), 12, 10, 0)
    start = np.zeros((10, data.x.shape[-1]))
    return {"weights": start + data.features[0], "initial": start, "data": data}


# Over two seconds each, and a minute for the map: the suite leaves their calls out.
SLOW = {
    "border_map", "compare_rates", "compare_readouts", "label_table", "linf_study", "start_sweep",
    "theorem_scale", "theorem_sweep", "write_audit",
}  # fmt: skip
SHAPE = {"seeds": (0,), "shapes": (fa.Architecture(3),)}
STUDIES: dict[str, Callable[[], Arguments]] = {
    # what is read
    "load_simulation": lambda: {"folder": simulated()},
    "load_trajectory": lambda: {"folder": simulated() / "coarse"},
    "load_trained": lambda: {"folder": trained()},
    "read_labelled": lambda: {"path": labelled()},
    "radius_report": lambda: {"result": simulated(), "points": 3},
    "margin_table": lambda: {"folder": margin_run()},
    "rebuild": lambda: {"folder": claimed(), "only": "lemma-12", "quiet": True},
    # what is written
    "write_audit": lambda: {"audit": audited(), "folder": folder() / "audit"},
    "playground": lambda: {"path": folder() / "playground.html"},
    "reproduce": lambda: {
        "only": "lemma-12", "seeds": 1, "out": folder() / "report-again", "quiet": True,
    },
    "train_margin_network": lambda: {
        "folder": Path(tempfile.mkdtemp(dir=folder())) / "run", "data": "digits",
        "settings": margin_settings(), "epochs": 1,
    },
    # parts
    "curve": lambda: {"results": attack_end(), "radii": [0.5, 1.0]},
    "draw_packed": lambda: {"task": task(), "n": 20, "neurons": 4, "seed": 0},
    "margins": lambda: {
        "outputs": np.eye(3), "targets": np.arange(3), "log_losses": -np.ones(3), "norm": 2.0,
        "order": 2,
    },
    "projected_coefficients": projected,
    "run": driven,
    "image_presets": dict,
    "all_claims": dict,
    "all_statements": dict,
    # images and audits
    "compare_attacks": lambda: {
        "model": fa.network_model(run().net), "x": points().x, "y": points().y, "budget": 5,
    },
    "discover_labels": lambda: {"model": module(), "task": pictures(), "clusters": 2},
    "image_curve": lambda: {
        "nets": {"coarse": fa.load_trained(trained())}, "task": pictures(),
        "settings": fa.CurveSettings(images=8, norms=("l2",), pgd_steps=0, budget=5),
    },
    "label_table": lambda: {
        "data": ("digits",), "networks": ["two-layer"], "trainings": ["cross-entropy"],
        "seeds": {"digits": 1},
    },
    "study_superclasses": lambda: {
        "features": features(), "seeds": (0,), "h": 1, "points": 5, "budget": 5,
    },
    # margins
    "compare_rates": lambda: {"passes": 1, "channels": (4, 8), "hidden": 16},
    "homogeneous_flow": lambda: {"depth": 2, "target": -10.0},
    "kkt_radius": lambda: {"clusters": (4,)},
    "kkt_run": lambda: {"k": 4},
    # questions
    "adversarial_study": lambda: {"seeds": (0,), "shares": (0.0,)},
    "border_map": lambda: {"name": "neurons", "seeds": (0,)},
    "equal_angles": lambda: {"seeds": (0,), "cosines": (0.0,)},
    "geometry_study": lambda: {"seeds": (0,), "geometries": ("orthogonal",)},
    "optimizer_study": lambda: {"seeds": (0,), "optimizers": ("gradient descent",)},
    "depth_averaging": lambda: {"seeds": (0,), "depths": (2,), "points": 2},
    "depth_boundary": lambda: {"shapes": (fa.Architecture(3),)},
    "depth_margin": lambda: {"seeds": (0,), "depths": (2,), "stages": (-2.0,)},
    "depth_probe": lambda: dict(SHAPE),
    "depth_scaling": lambda: SHAPE | {"dimensions": (1000, 2000), "clusters": (4, 6)},
    # the paper
    "bias_grid": dict,
    "clean_error": lambda: {"seeds": (0,)},
    "compare_readouts": lambda: {"seeds": (0,)},
    "cosine_matrices": lambda: {"labels": "coarse", "seeds": (0,)},
    "dead_neurons_study": dict,
    "decoupling_lemmas": lambda: {"seeds": (0,), "clusters": (2,)},
    "linf_study": lambda: {"seeds": (0,)},
    "paper_run": lambda: {"seeds": (0,)},
    "radius_growth": lambda: {"seeds": (0,)},
    "remark_lengths": lambda: {"seeds": (0,)},
    "robust_curves": lambda: {"seeds": (0,)},
    "slopes": lambda: {"seeds": (0,)},
    "start_sweep": lambda: {"seeds": (0,)},
    "theorem_run": lambda: {"labels": "coarse", "k": 2, "seed": 0, "tests": 10},
    "theorem_scale": lambda: {"clusters": (3,)},
    "theorem_sweep": lambda: {"labels": "coarse", "seeds": (0,), "clusters": (2,)},
    "unequal_clusters": lambda: {"seeds": (0,)},
    "universal_vector": lambda: {"seeds": (0,)},
}  # fmt: skip
