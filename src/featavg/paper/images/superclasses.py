"""CIFAR-100's own two levels of labels: heads on 20 superclasses against heads on 100 classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.data.streams import stream
from featavg.errors import InputError
from featavg.figures.figure import Axis, Figure, Lines, Series
from featavg.figures.marks import Style
from featavg.measures.accuracy import robust_share
from featavg.measures.averaging import evenness, feature_coefficients, random_coefficients
from featavg.nets.two_layer import TwoLayer
from featavg.paper.engine.claim import Check, Context, Evidence, NotRun, claim
from featavg.paper.engine.requirements import data_needed, run_folder, torch_needed
from featavg.paper.images.features import FeatureSet, efficientnet_lite0, embed
from featavg.progress import Progress, part, silent
from featavg.registry import READOUTS
from featavg.robustness.attacks.suite import attack_suite
from featavg.robustness.models.decision import Decision
from featavg.robustness.models.model import TwoLayerModel
from featavg.training.heads import HeadRecipe, class_features, lost_classes, train_head

if TYPE_CHECKING:
    import xarray as xr


@claim(
    "cifar100-superclasses", "Superclasses of CIFAR-100 on embeddings",
    theme="Real data", tier="full", minutes=8, needs=("torch", "cifar100", "efficientnet_lite_pytorch"), seeds=3,
    source="New: the paper's statement on CIFAR-100's own two levels of labels",
    measured="averaging index over superclasses; attacked l2 radii of the superclass decision",
    statements=("itcs-final-remarks", "summary-open-3",),
)  # fmt: skip
def superclasses(run: Context, h: int = 1, points: int = 500, budget: int = 60) -> Evidence:
    """Heads on image embeddings average the five classes of a superclass if told superclasses only,
    and decide superclasses more robustly if told the classes.
    """
    torch_needed()
    task = data_needed("cifar100", run)
    try:
        embedding = efficientnet_lite0(size=160)
    except InputError as error:
        raise NotRun(str(error)) from error
    folder = run_folder(run) / "features-cifar100-efficientnet"
    features = embed(embedding, task, folder, progress=part(run.progress, 0.0, 0.5))
    progress = part(run.progress, 0.5, 1.0)
    table = superclass_heads(features, run.seeds, h, points, budget, progress)
    index = {name: float(table["index"].sel(labels=name).mean(skipna=False)) for name in ("coarse", "fine")}
    accuracy = table["accuracy"].mean("seed", skipna=False)
    median = table["radius"].median(("seed", "image"))
    gains = median / max(float(median.sel(decision="coarse")), 1e-12)
    gain = {name: float(gains.sel(decision=name)) for name in READOUTS}
    return Evidence(
        Check("averaging index over the 5 classes of a superclass, 20 labels minus 100 labels",
              index["coarse"] - index["fine"], ">=", 0.1, note=f"random directions: {float(table['null']):.2f}"),
        Check("gain in median attacked radius, max", gain["max"], ">=", 1.05),
        Check("gain in median attacked radius, probability", gain["probability"], ">=", 1.05),
        Check("accuracy of superclasses, 100 labels minus 20 labels",
              accuracy.sel(of="fine") - accuracy.sel(of="coarse"), ">=", -0.02, role="note"),
        figure=figure(table, features.source),
        numbers={"source": features.source, "unit": "feature lengths", "gain": gain, "table": table},
        finding=f"On embeddings of CIFAR-100, heads told the 20 superclasses have averaging index "
        f"{index['coarse']:.2f}, heads told the 100 classes {index['fine']:.2f}; "
        f"median attacked radii grow by a factor {gain['max']:.2f} (max), "
        f"{gain['probability']:.2f} (probability), {gain['sum']:.2f} (sum).",
    )  # fmt: skip


def superclass_heads(
    features: FeatureSet,
    seeds: Sequence[int],
    h: int = 3,
    points: int = 500,
    budget: int = 60,
    progress: Progress = silent,
) -> xr.Dataset:
    """Heads with as many neurons each, trained with the coarse or with the fine classes.

    There are `h` neurons per fine class; a coarse class has those of all its fine ones together. Radii
    are upper bounds by the same attack on the same coarse decision, l2 in units of a feature's length.
    """
    import xarray as xr

    groups = features.groups
    coarse, fine = int(groups.max()) + 1, len(groups)
    wide = HeadRecipe(h=h * fine // coarse)
    mu = class_features(features.train, features.train_classes, fine)
    coarse_classes, truth = groups[features.train_classes], groups[features.test_classes]
    count = len(features.test)
    rows = stream(0, "attacked").choice(count, min(points, count), replace=False)
    x, y = features.test[rows], truth[rows]
    found = []
    for i, seed in enumerate(seeds):
        progress(i / len(seeds), f"superclasses, seed {seed}")
        none, alone = np.zeros(coarse, dtype=int), np.arange(coarse)
        few = train_head(features.train, coarse_classes, none, "fine", wide, seed)
        many = train_head(features.train, features.train_classes, groups, "fine", HeadRecipe(h=h), seed)
        best = many(features.test).argmax(axis=1)
        right = few(features.test).argmax(axis=1) == truth, groups[best] == truth
        radii = [_attacked(few, alone, "max", x, y, budget)]
        radii += [_attacked(many, groups, readout, x, y, budget) for readout in READOUTS]
        found.append({
            "index": [_index(few, mu, groups, np.repeat(alone, wide.h)),
                      _index(many, mu, groups, np.repeat(groups, h))],
            "lost": [len(lost_classes(few, features.train, coarse_classes)),
                     len(lost_classes(many, features.train, features.train_classes))],
            "accuracy": [np.mean(each) for each in (*right, best == features.test_classes)],
            "radius": np.array(radii) / features.length,
        })  # fmt: skip
    dims = {"index": ("labels",), "lost": ("labels",), "accuracy": ("of",), "radius": ("decision", "image")}
    return xr.Dataset(
        {name: (("seed", *axes), [each[name] for each in found]) for name, axes in dims.items()}
        | {"null": _null(mu, groups), "neurons": fine * h},
        coords={"seed": list(seeds), "labels": ["coarse", "fine"], "of": ["coarse", "fine", "fine classes"],
                "decision": ["coarse", *READOUTS]},
    )  # fmt: skip


def figure(table: xr.Dataset, source: str) -> Figure:
    """Robust accuracy of the coarse decision against the radius."""
    looks: dict[str, Style] = {"probability": "solid", "max": "dashed", "sum": "dotted"}
    radii = {name: table["radius"].sel(decision=name).values.ravel() for name in ("coarse", *looks)}
    grid = np.linspace(0.0, 4 * max(np.median(each) for each in radii.values()) or 1.0, 33)
    share = {name: 100 * robust_share(each, grid) for name, each in radii.items()}
    series = [Series("coarse labels", grid, share["coarse"], "averaged")]
    series += [Series(f"fine labels, {name}", grid, share[name], "decoupled", style) for name, style in looks.items()]
    return Figure(
        "superclasses",
        f"Superclasses on {source}",
        "Share of test embeddings whose superclass the attack does not change within a radius, for "
        "heads trained with coarse and with fine labels; the same attack on the same decision.",
        (Lines(Axis("radius", "feature lengths"), Axis("robust accuracy", "%"), tuple(series)),),
    )


def _index(net: TwoLayer, mu: Float[ndarray, "k N"], groups: Int[ndarray, " k"], owner: Int[ndarray, " M"]) -> float:
    """Mean evenness over the fine classes of each neuron's own coarse class.

    Evenness alone: embeddings have many directions that are no class mean, so the share in their
    span says more about the embedding than about averaging.
    """
    coefficients = feature_coefficients(net.weights, mu)
    even = [float(evenness(coefficients[r, groups == g])) for r, g in enumerate(owner)]
    return float(np.mean(even))


def _null(mu: Float[ndarray, "k N"], groups: Int[ndarray, " k"], draws: int = 2000) -> float:
    """The same for directions without any preference."""
    coefficients = random_coefficients(mu, draws, "superclass null")
    even = [evenness(coefficients[:, groups == g]).mean() for g in range(int(groups.max()) + 1)]
    return float(np.mean(even))


def _attacked(
    net: TwoLayer,
    groups: Int[ndarray, " c"],
    readout: str,
    x: Float[ndarray, "n N"],
    y: Int[ndarray, " n"],
    budget: int,
) -> Float[ndarray, " n"]:
    decision = Decision.of(groups=groups, readout=readout)
    model = TwoLayerModel(decision, None, "feature space", net=net)
    return attack_suite(model, x, y, "l2", ("ddn", "deepfool"), budget=budget).radii
