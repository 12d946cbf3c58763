"""Is averaging a bias of gradient descent, or of every optimizer? (Summary, next check 3)

All optimizers see the same points in R^d and stop at the same training loss, with features along the
axes and in random directions: Adam and sign descent look at single coordinates, so directions matter
to them. Smoothed labels keep the loss from falling that far; they are trained for a fixed time.

The tolerances were written before the first run. That Adam and sign descent decouple is what
arXiv 2505.24022 reports of three clusters in the plane, without radii.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import xarray as xr

from featavg.figures.figure import Axis, Bar, Bars, Figure, Rule
from featavg.figures.marks import Role
from featavg.paper.engine.claim import Check, Context, Evidence, claim
from featavg.paper.questions.measured import measure_each
from featavg.progress import part
from featavg.robustness.radii import radii
from featavg.simulate.sweep.measures import Run

RATE, SMALL_RATE = 2e-2, 1e-3  # of descent; of steps that have the same length in every coordinate
ORIENTATIONS = {"axes": "along the axes", "random": "in random directions"}
# For each optimizer what fits below a bar, and fields of a setting.
OPTIMIZERS: dict[str, tuple[str, dict[str, Any]]] = {
    "gradient descent": ("GD", {"lr": RATE}),
    "momentum": ("mom.", {"stepper": "momentum:beta=0.9", "lr": RATE / 10}),
    "mini-batches": ("SGD", {"stepper": "sgd:batch=20", "lr": RATE}),
    "weight decay": ("decay", {"stepper": "weight-decay:decay=0.01", "lr": RATE}),
    "cosine schedule": ("cos.", {"controller": "cosine", "lr": 2 * RATE, "steps": 400}),
    "step schedule": ("step", {"controller": "step-decay:every=200:factor=0.5", "lr": RATE}),
    "warm-up": ("warm", {"controller": "warmup:warmup=50", "lr": RATE}),
    "label smoothing": ("sm.", {"lr": RATE, "target_loss": None, "steps": 200}),
    "Adam": ("Ad.", {"stepper": "adam", "lr": SMALL_RATE}),
    "AdamW": ("AdW", {"stepper": "weight-decay:decay=0.01:stepper=adam", "lr": SMALL_RATE}),
    "sign descent": ("sign", {"stepper": "sign", "lr": SMALL_RATE}),
}
SMOOTHED = {"coarse": "smoothed-logistic", "fine": "smoothed-cross-entropy"}
COORDINATE_WISE = ("Adam", "AdamW", "sign descent")


@claim(
    "question-optimizers", "Descent averages in all its forms; Adam and sign descent decouple",
    theme="Open questions",
    source="Summary of arXiv 2410.10322, next check 3; arXiv 2505.24022 for Adam and sign descent",
    measured="averaging index and exact l2 radii at the same training loss, k = 10, d = 500, features "
    "along the axes and in random directions",
    tier="full", minutes=1, statements=("summary-check-3",),
)  # fmt: skip
def optimizers(
    run: Context,
    k: int = 10,
    d: int = 500,
    n: int = 200,
    target_loss: float = 0.1,
    steps: int = 1500,
    test_points: int = 10,
) -> Evidence:
    """Momentum, mini-batches, weight decay, schedules, warm-up and smoothed labels average as
    gradient descent does, and cluster labels gain √(k/2) with each; Adam and sign descent
    decouple with class labels alone and are more robust for it.
    """
    base = {"k": k, "d": d, "n": n, "target_loss": target_loss, "steps": steps}
    table = measured(run, base | {"coordinates": "ambient", "n_test": test_points})
    index, radius = table["index_coarse"], table["radius_coarse"]
    descent = [name for name in OPTIMIZERS if name not in COORDINATE_WISE]
    plain, wise = index.sel(optimizer=descent), index.sel(optimizer=list(COORDINATE_WISE))
    gain = (table["radius_fine"] / radius).sel(optimizer=descent)
    gain = gain.median("seed", skipna=False) / math.sqrt(k / 2)
    more = radius.sel(optimizer=list(COORDINATE_WISE)) / radius.sel(optimizer="gradient descent")
    # NaN must reach the checks, where it never passes.
    everywhere: dict[str, Any] = {"dim": ("orientation", "optimizer"), "skipna": False}
    named = "; ".join(
        "{} {:.2f} and {:.2f}".format(name, *wise.sel(optimizer=name).median("seed").values) for name in COORDINATE_WISE
    )
    along, across = (float(more.sel(orientation=each).median()) for each in ORIENTATIONS)
    return Evidence(
        Check("smallest index of descent and its relatives, both orientations", plain.min(**everywhere),
              ">=", 0.5),
        Check("their gain / √(k/2), smallest (median over seeds)", gain.min(skipna=False), ">=", 0.8),
        Check("their gain / √(k/2), largest (median over seeds)", gain.max(skipna=False), "<=", 1.2),
        Check("largest index of Adam, AdamW and sign descent, both orientations", wise.max(**everywhere),
              "<=", 0.5, note="they would decouple"),
        Check("their radius with class labels over that of gradient descent, smallest", more.min(**everywhere),
              ">=", 1.2, note="and gain from it"),
        figure=figure(table, k, d),
        numbers=table,
        finding=f"Gradient descent, momentum, mini-batches, weight decay, schedules, warm-up and smoothed "
        f"labels all average (index {plain.min():.2f} to {plain.max():.2f}). Index with features along "
        f"axes and in random directions: {named}. With class labels these have "
        f"{along:.2f} and {across:.2f} times the radius of gradient descent.",
    )  # fmt: skip


def measured(run: Context, base: dict[str, Any]) -> xr.Dataset:
    """Index, loss and radius of both labels by orientation, optimizer and seed.

    One network at a time: the points depend on the seed alone, and the losses may differ.
    """
    tables = []
    for i, labels in enumerate(SMOOTHED):
        fields = {name: each for name, (_, each) in OPTIMIZERS.items()}
        if "label smoothing" in fields:
            fields["label smoothing"] = fields["label smoothing"] | {"loss": SMOOTHED[labels]}
        tables.append(
            measure_each(
                base | {"labels": labels},
                run.seeds,
                ["index", "loss", fresh_radius],
                part(run.progress, i / 2, (i + 1) / 2),
                orientation=list(ORIENTATIONS),
                optimizer=fields,
            )
        )
    return tables[0].merge(tables[1])


def fresh_radius(run: Run) -> dict[str, float]:
    """Median exact radius of fresh points; cluster labels are read out by `max`."""
    task, ((labels, net),) = run.points.task, run.nets.items()
    fresh = task.sample(run.setting.n_test, run.seed)
    x, positive = fresh.coordinates(net.dimension), task.positive_clusters
    exact = radii(net, x, fresh.y, readout="max", positive=positive, jobs=1)
    return {f"radius_{labels}": exact.median[1]}


def figure(table: xr.Dataset, k: int, d: int) -> Figure:
    """Index and radii of every optimizer, a pair of panels for each orientation."""
    names = tuple(OPTIMIZERS[name][0] for name in table["optimizer"].values)
    rules = Rule(math.sqrt(d / k), label="√(d/k)"), Rule(math.sqrt(d / 2), label="√(d/2)")
    panels = []
    for orientation, where in ORIENTATIONS.items():
        by_seed = table.sel(orientation=orientation).transpose("seed", "optimizer")

        def bar(label: str, name: str, role: Role, rows: xr.Dataset = by_seed) -> Bar:
            return Bar.over_seeds(label, np.asarray(rows[name]), role)

        index = (bar("averaging index", "index_coarse", "averaged"),)
        radii = (
            bar("class labels", "radius_coarse", "averaged"),
            bar("cluster labels, max", "radius_fine", "decoupled"),
        )
        panels += [
            Bars(names, index, Axis("averaging index"), title=f"features {where}"),
            Bars(names, radii, Axis("median radius", "l2"), title=where, rules=rules),
        ]
    return Figure(
        "optimizers",
        "Averaging, optimizer by optimizer",
        "Averaging index with class labels and median exact radii of fresh points with both labels, at "
        "the same training loss, with features along the axes and in random directions; bars from the "
        "smallest to the largest seed. Gradient descent, momentum, mini-batches, weight decay, cosine "
        "and step schedules, warm-up, smoothed labels, Adam, AdamW, sign descent.",
        tuple(panels),
    )
