"""Is it gradient descent, or every optimizer? Index and exact radii after training by each.

All see the same points in R^d and stop at the same training loss, with features along the axes and in
random directions: Adam and sign descent look at single coordinates, so directions matter to
them. Smoothed labels keep the loss from falling that far; they are trained for a fixed time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.figures.figure import Axis, Bar, Bars, Figure, Rule
from featavg.figures.marks import Role
from featavg.figures.result import Result
from featavg.progress import Progress, silent
from featavg.robustness.radii import radii
from featavg.simulate.measurements import net_of, seed_index
from featavg.simulate.setting import Setting
from featavg.simulate.sweep.work import trained

K, D, N, TEST_POINTS, TARGET, STEPS = 10, 500, 200, 10, 0.1, 1500
RATE, SMALL_RATE = 2e-2, 1e-3  # of descent; of steps that have the same length in every coordinate
ORIENTATIONS = ("axes", "random")
# Fields of a setting; `loss` is that of class labels, `fine_loss` that of cluster labels.
OPTIMIZERS: Mapping[str, Mapping[str, Any]] = {
    "gradient descent": {"stepper": "gd", "lr": RATE},
    "momentum": {"stepper": "momentum:beta=0.9", "lr": RATE / 10},
    "mini-batches": {"stepper": "sgd:batch=20", "lr": RATE},
    "weight decay": {"stepper": "weight-decay:decay=0.01", "lr": RATE},
    "cosine schedule": {"stepper": "gd", "controller": "cosine", "lr": 2 * RATE, "steps": 400},
    "step schedule": {"stepper": "gd", "controller": "step-decay:every=200:factor=0.5", "lr": RATE},
    "warm-up": {"stepper": "gd", "controller": "warmup:warmup=50", "lr": RATE},
    "label smoothing": {
        "stepper": "gd",
        "lr": RATE,
        "loss": "smoothed-logistic",
        "fine_loss": "smoothed-cross-entropy",
        "target_loss": None,
        "steps": 200,
    },
    "Adam": {"stepper": "adam", "lr": SMALL_RATE},
    "AdamW": {"stepper": "weight-decay:decay=0.01:stepper=adam", "lr": SMALL_RATE},
    "sign descent": {"stepper": "sign", "lr": SMALL_RATE},
}
# What fits below a bar.
_WORDS = {
    "gradient descent": "GD",
    "momentum": "mom.",
    "mini-batches": "SGD",
    "weight decay": "decay",
    "cosine schedule": "cos.",
    "step schedule": "step",
    "warm-up": "warm",
    "label smoothing": "sm.",
    "Adam": "Ad.",
    "AdamW": "AdW",
    "sign descent": "sign",
}
COORDINATE_WISE = ("Adam", "AdamW", "sign descent")
COLUMNS = ("index", "share", "averaged", "decoupled", "log10_loss", "log10_loss_fine")


@dataclass(frozen=True, eq=False, repr=False)
class OptimizerStudy(Result):
    """Numbers by orientation, optimizer and seed.

    Attributes:
        optimizers: names, keys of `OPTIMIZERS`.
        table: orientation x optimizer x seed x `COLUMNS`; averaged and decoupled are median exact
            radii of fresh points with class labels, and with cluster labels read out by `max`.

    Returned by `fa.optimizer_study`, which has an example.
    """

    optimizers: tuple[str, ...]
    table: Float[ndarray, "o p s q"]

    def column(self, name: str) -> Float[ndarray, "o p s"]:
        """One of `COLUMNS`."""
        return self.table[..., COLUMNS.index(name)]

    @property
    def theory_gain(self) -> float:
        """sqrt(k/2), the gain of equal angles."""
        return math.sqrt(K / 2)

    @property
    def gain(self) -> Float[ndarray, "o p s"]:
        """Decoupled over averaged radius."""
        return self.column("decoupled") / self.column("averaged")

    def of(self, values: Float[ndarray, "o p s"], coordinate_wise: bool) -> Float[ndarray, "o q s"]:
        """The part of the optimizers that look at single coordinates, or of the others."""
        chosen = [(name in COORDINATE_WISE) == coordinate_wise for name in self.optimizers]
        return values[:, chosen]

    def figure(self) -> Figure:
        """Index and radii of every optimizer, a panel for each orientation."""
        panels = []
        names = tuple(_WORDS[name] for name in self.optimizers)
        for i, orientation in enumerate(ORIENTATIONS):
            where = "along the axes" if orientation == "axes" else "in random directions"
            index = _bar("averaging index", self.column("index")[i], "averaged")
            radii = (
                _bar("class labels", self.column("averaged")[i], "averaged"),
                _bar("cluster labels, max", self.column("decoupled")[i], "decoupled"),
            )
            rules = (
                Rule(math.sqrt(D / K), label="√(d/k)"),
                Rule(math.sqrt(D / 2), label="√(d/2)"),
            )
            panels += [
                Bars(names, (index,), Axis("averaging index"), title=f"features {where}"),
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

    def to_json(self) -> dict[str, Any]:
        """Every number."""
        return {"orientations": list(ORIENTATIONS), "optimizers": list(self.optimizers)} | {
            name: self.column(name).tolist() for name in COLUMNS
        }

    def summary(self) -> str:
        """A line for each optimizer: index and radii, along axes and in random directions."""
        lines = ["Optimizers: index, averaged and decoupled radius, along axes | random directions"]
        for j, name in enumerate(self.optimizers):
            parts = []
            for i in range(len(ORIENTATIONS)):
                row = np.median(self.table[i, j], axis=0)
                parts.append(f"{row[0]:6.2f}{row[2]:7.2f}{row[3]:7.2f}")
            lines.append(f"  {name:<18}{' |'.join(parts)}")
        return "\n".join(lines)


def _bar(label: str, values: Float[ndarray, "p s"], role: Role) -> Bar:
    return Bar(label, np.median(values, axis=1), role, values.min(axis=1), values.max(axis=1))


def optimizer_study(
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4),
    optimizers: tuple[str, ...] = tuple(OPTIMIZERS),
    progress: Progress = silent,
) -> OptimizerStudy:
    """Train by every optimizer in both orientations and measure index and radii.

    Args:
        seeds: one network and one sample for each.
        optimizers: names, keys of `OPTIMIZERS`.
        progress: called with the share done and a note.

    >>> import featavg as fa  # long
    >>> fa.optimizer_study(seeds=(0,), optimizers=("gradient descent",))
    Optimizers: ...
    """
    table = []
    for i, orientation in enumerate(ORIENTATIONS):
        rows = []
        for j, name in enumerate(optimizers):
            progress((i + j / len(optimizers)) / 2, f"{name}, features: {orientation}")
            rows.append(_measured(orientation, OPTIMIZERS[name], seeds))
        table.append(rows)
    return OptimizerStudy(tuple(optimizers), np.array(table))


def _measured(
    orientation: str, fields: Mapping[str, Any], seeds: tuple[int, ...]
) -> list[list[float]]:
    """A row of `COLUMNS` for each seed."""
    given = {"k": K, "d": D, "n": N, "orientation": orientation, "coordinates": "ambient"}
    given |= {"target_loss": TARGET, "steps": STEPS, "seeds": seeds} | dict(fields)
    fine_loss = given.pop("fine_loss", None)
    # One network at a time: the points depend on the seed alone, and the losses may differ.
    points, coarse = trained(Setting(**given, labels="coarse"))
    if fine_loss is not None:
        given["loss"] = fine_loss
    _, fine = trained(Setting(**given, labels="fine"))
    task, rows = points.task, []
    for index, seed in enumerate(seeds):
        fresh = task.sample(TEST_POINTS, seed)
        x, positive = fresh.coordinates(D), task.positive_clusters
        nets = net_of(coarse["coarse"], index), net_of(fine["fine"], index)
        exact = [radii(n, x, fresh.y, readout="max", positive=positive, jobs=1) for n in nets]
        spread = seed_index(points, nets[0], index)
        losses = [
            float(np.atleast_1d(run.log_loss[-1])[index]) / math.log(10)
            for run in (coarse["coarse"], fine["fine"])
        ]
        rows.append(
            [float(spread.value), float(spread.share), *(one.median[1] for one in exact), *losses]
        )
    return rows
