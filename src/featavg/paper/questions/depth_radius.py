"""Does depth change the radius sqrt(d/k) of networks trained on class labels? (Open question 2)"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from featavg.errors import InputError
from featavg.figures.figure import Axis, Figure, Lines, Series
from featavg.paper.engine.claim import Check, Context, Evidence, claim
from featavg.paper.questions.depth_networks import (
    COMMON,
    RADIUS,
    SOURCE,
    Architecture,
    K,
    kind,
    learned,
    short,
)
from featavg.progress import Progress, part
from featavg.storage.places import results_folder

if TYPE_CHECKING:
    import xarray as xr

SHAPES = (Architecture(2), Architecture(3), Architecture(3, True), Architecture(4, True))
CLUSTERS_D = 100_000


@claim(
    "question-depth-radius", "Depth leaves the radius at √(d/k)", source=SOURCE,
    measured="exact l2 radii of fresh points, networks of 2 to 4 layers, d from 10³ to 10⁶ and k "
    "from 4 to 16",
    minutes=3, **COMMON,
    statements=("summary-open-2", "summary-check-2", "abstract-principal",),
)  # fmt: skip
def radius(
    run: Context,
    d: tuple[int, ...] = (1_000, 10_000, 100_000, 1_000_000),
    k: tuple[int, ...] = (4, 6, 10, 16),
    points: int = 10,
) -> Evidence:
    """Networks of more than two layers trained on class labels are as fragile as those of two: their
    radius grows like √(d/k).
    """
    along_d = along(run, "d", d, points, part(run.progress, 0.0, 0.5))
    along_k = along(run, "k", k, points, part(run.progress, 0.5, 1.0))
    slope_d = along_d["exponent"] = exponents(along_d, "d", 0.5)
    slope_k = along_k["exponent"] = exponents(along_k, "k", -0.5)
    # NaN must reach the checks, where it never passes.
    total = along_d["radius"].sum("d", skipna=False) + along_k["radius"].sum("k", skipna=False)
    ratio = total / (len(d) + len(k))
    checks = []
    for i, shape in enumerate(SHAPES):
        if shape.depth > 2:
            what = kind(shape.depth, shape.residual)
            checks += [
                Check(f"exponent of d, {what}", slope_d[i], "within", (0.45, 0.55)),
                Check(f"exponent of k, {what}", slope_k[i], "within", (-0.6, -0.4)),
                Check(f"radius / √(d/k), mean over d and k, {what}", ratio[i], "within", RADIUS),
            ]
    (two_d, *deep_d), (two_k, *deep_k), (two, *deep) = (
        each.mean("seed").values for each in (slope_d, slope_k, ratio)
    )
    return Evidence(
        *checks,
        figure=figure(along_d, along_k),
        numbers={"along_d": along_d, "along_k": along_k},
        finding=f"The exponent of d is {min(deep_d):.2f} to {max(deep_d):.2f} with more than two "
        f"layers ({two_d:.2f} with two), that of k {min(deep_k):.2f} to {max(deep_k):.2f} "
        f"({two_k:.2f}), and the radius is {min(deep):.2f} to {max(deep):.2f} √(d/k) ({two:.2f}).",
    )


def along(
    run: Context, field: str, values: Sequence[int], points: int, progress: Progress
) -> xr.Dataset:
    """What `learned` says of all shapes at several d (for k = 10) or k (for d = 100,000)."""
    import xarray as xr

    if len(set(values)) < 2:
        raise InputError(field, f"has {len(set(values))} value", "an exponent needs two")
    tables = []
    for i, value in enumerate(values):
        shown = part(progress, i / len(values), (i + 1) / len(values))
        k, d = (K, value) if field == "d" else (value, CLUSTERS_D)
        keep = results_folder("depth")
        tables.append(learned(SHAPES, "coarse", run.seeds, k, d, points, keep, shown))
    return xr.concat(tables, xr.Variable(field, list(values))).transpose("network", field, "seed")


def exponents(table: xr.Dataset, field: str, theory: float) -> xr.DataArray:
    """The exponent of d or k in the radius, by network and seed; `theory` is that of sqrt(d/k)."""
    size = np.log(table[field].values)
    ratios = np.log(table["radius"].transpose(field, "network", "seed").values)
    slopes = np.polyfit(size, ratios.reshape(len(size), -1), 1)[0]
    like = table["radius"].isel({field: 0}, drop=True)
    return like.copy(data=theory + slopes.reshape(like.shape))


def figure(along_d: xr.Dataset, along_k: xr.Dataset) -> Figure:
    """Radius over sqrt(d/k) against d and against k."""
    panels = []
    for name, table in (("d", along_d), ("k", along_k)):
        series = []
        for i, shape in enumerate(SHAPES):
            rows = table.isel(network=i)
            series.append(
                Series(
                    short(shape.depth, shape.residual),
                    table[name].values,
                    rows["radius"].mean("seed").values,
                    "averaged" if shape.residual else "neutral",
                    "line+markers",
                    rows["certified"].min("seed").values,
                    rows["attack"].max("seed").values,
                    shade=1.0 - 0.2 * i,
                )
            )
        level = Axis("radius / √(d/k)", range=(0, 2))
        panels.append(Lines(Axis(name, log=True), level, tuple(series)))
    return Figure(
        "depth-scaling",
        "√(d/k) at every depth",
        f"Median exact radius over √(d/k) of networks trained on class labels, against d (k = {K}, "
        f"left) and k (d = {CLUSTERS_D:,}, right). Level lines say that depth changes no exponent.",
        tuple(panels),
    )
