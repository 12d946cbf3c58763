"""Fine labels that are wrong: what do they cost, and is a guess better than nothing?

A part of the fine labels is drawn at random inside the class, so that at 1 they have nothing to do with the
clusters: the control. A network that is trained long enough memorises them.

The tolerances were written before the first run, after a trial with one seed (radii 37.9, 27.0, 17.8 for 0,
50 and 90% at random; 33.8, 26.8, 17.8, 10.8 after 10, 100, 300, 1000 steps at 50%).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from featavg.data.clusters import MultiCluster
from featavg.data.labels import Labels
from featavg.figures.figure import Axis, Figure, Lines, Series
from featavg.paper.engine.claim import Check, Context, Evidence, claim
from featavg.simulate.label_means import label_run, mean_run
from featavg.training.recipe import Recipe

if TYPE_CHECKING:
    import xarray as xr

RANDOM = (0.0, 0.25, 0.5, 0.7, 0.9, 1.0)
STEPS = (10, 100, 300, 1000)


@claim(
    "question-labels-wrong", "Wrong fine labels harm, and more so with time: leave out rather than guess",
    theme="Open questions", source="Summary of arXiv 2410.10322, design tradeoffs: finer labels cost",
    measured="median exact l2 radius (by `max`) against the part of the fine labels that is drawn at random "
    "inside the class and against steps, k = 10, d = 3072, n = 1000, beside its prediction by means",
    tier="full", minutes=2, statements=("summary-tradeoffs",),
)  # fmt: skip
def labels_wrong(
    run: Context, k: int = 10, d: int = 3072, n: int = 1000, test_points: int = 20
) -> Evidence:
    """Fine labels of which a part is random inside the class give a smaller radius the larger that
    part is and the longer training lasts; random labels that have nothing to do with clusters are no
    better than none, and 10% right labels alone are better than the same among 90% random ones.
    """
    table = measured(run, MultiCluster(k=k, d=d), n, test_points)
    radius, usual = table["radius"], table["radius"].sel(steps=100)
    mean = table.mean("seed", skipna=False)
    error = abs(mean["predicted"] / mean["radius"] - 1)
    harm = radius.sel(random=0.5, steps=1000) / radius.sel(random=0.5, steps=10)
    control, guess = usual.sel(random=1.0) / table["none"], usual.sel(random=0.9) / table["tenth"]
    half = usual.sel(random=0.5) / usual.sel(random=0.0)
    at_half = ", ".join(f"{float(mean['radius'].sel(random=0.5, steps=s)):.1f}" for s in STEPS)
    return Evidence(
        Check("radius at 50% random labels: after 1000 steps over after 10", harm, "<=", 0.5),
        Check("radius at 50% random labels over that at none, 100 steps", half, "<=", 0.85),
        Check("radius at 100% random labels over that without fine labels", control, "<=", 1.05),
        Check("90% random labels over 10% right ones and no others", guess, "<=", 0.7),
        Check("error of the radius predicted by means, the largest", error.max(skipna=False), "<=", 0.2,
              role="note"),
        Check("the same after 10 and 100 steps", error.sel(steps=[10, 100]).max(skipna=False), "<=", 0.2,
              role="note"),
        figure=figure(table),
        numbers=table,
        finding=f"At 50% random labels the radius is {at_half} after {', '.join(map(str, STEPS))} steps. Random "
        f"labels alone have {float(control.mean()):.2f} of the radius without any; 90% random ones have "
        f"{float(guess.mean()):.2f} of what their right tenth has alone. The means are off by at most "
        f"{100 * float(error.max()):.0f}%.",
    )  # fmt: skip


def measured(run: Context, task: MultiCluster, n: int, points: int) -> xr.Dataset:
    """Radii by part at random, steps and seed; without fine labels; and with a tenth of them, all right."""
    import xarray as xr

    shape = (len(RANDOM), len(STEPS), len(run.seeds))
    radius, predicted = np.full(shape, np.nan), np.full(shape, np.nan)
    others = task.k // 2 - 1
    for i, random in enumerate(RANDOM):
        # A random label is the right one with probability 2/k.
        labels = Labels(wrong=random * others / (others + 1))
        for j, steps in enumerate(STEPS):
            run.progress((i + j / len(STEPS)) / len(RANDOM), f"{random:.0%} random, {steps} steps")
            recipe = Recipe(labels=labels, steps=steps)
            for s, seed in enumerate(run.seeds):
                radius[i, j, s] = label_run(task, recipe, n, seed, points).radius
                predicted[i, j, s] = mean_run(task, recipe, n, seed).radius
    few = {
        name: [
            label_run(task, Recipe(labels=Labels(share=p)), n, s, points).radius for s in run.seeds
        ]
        for name, p in (("none", 0.0), ("tenth", 0.1))
    }
    cells = {name: ("seed", values) for name, values in few.items()}
    dims = ("random", "steps", "seed")
    coordinates = {"random": list(RANDOM), "steps": list(STEPS), "seed": list(run.seeds)}
    return xr.Dataset(
        {"radius": (dims, radius), "predicted": (dims, predicted)} | cells, coordinates
    )


def figure(table: xr.Dataset) -> Figure:
    """Radius against the part at random, one shade for each number of steps."""
    series = []
    for i, steps in enumerate(table["steps"].values):
        rows, shade = table.sel(steps=steps), 0.3 + 0.7 * i / (len(table["steps"]) - 1)
        runs = rows["radius"].transpose("seed", "random").values
        x = table["random"].values
        low, high = runs.min(axis=0), runs.max(axis=0)
        name = f"{steps} steps"
        series.append(Series(name, x, runs.mean(axis=0), "averaged", "markers", low, high, shade))
        means = rows["predicted"].mean("seed").values
        series.append(Series(f"{name}, means", x, means, "reference", "solid", shade=shade))
    axes = Axis("part of the fine labels that is random"), Axis("median radius", "l2")
    about = "Median exact radius against the part of the fine labels that is drawn at random inside the class"
    return Figure(
        "labels-wrong",
        "Wrong fine labels",
        f"{about}, after more and more steps: measured, and predicted by the mean of each kind of point.",
        (Lines(*axes, tuple(series)),),
    )
