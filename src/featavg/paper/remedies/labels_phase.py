"""How many fine labels does half of the robustness take? A map over clusters and shares, by `featavg sweep`.

5,000 runs: twenty numbers of clusters, fifty shares of fine labels, five seeds; 500 points, so that the
largest number of clusters leaves twelve to each. Beside it two predictions, of which nothing is fitted:
training on the mean of each kind of point, and two coefficients.

The tolerances were written before the first run. Known by then: the half takes 2.8, 3.8 and 7.8% at
k = 4, 10 and 20 with 1000 points (`question-labels-share`), where means predict radii within 4% and two
coefficients within 37%.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from featavg.data.clusters import MultiCluster
from featavg.data.labels import Labels
from featavg.figures.figure import Axis, Figure, Heatmap, Lines, Series
from featavg.paper.engine.claim import Check, Context, Evidence, claim
from featavg.paper.engine.requirements import run_folder
from featavg.paper.engine.tables import power_law_exponent
from featavg.paper.remedies.labels_share import half_share, part_of_gain
from featavg.simulate.label_means import mean_run, two_coefficients
from featavg.simulate.sweep.run import sweep
from featavg.training.recipe import Recipe

if TYPE_CHECKING:
    import xarray as xr

CLUSTERS = tuple(range(4, 43, 2))
SHARES = (0.0, *(float(f"{p:.4g}") for p in np.geomspace(0.002, 1.0, 49)))


@claim(
    "question-labels-phase", "Half of the robustness takes a share of fine labels that grows with the clusters",
    theme="Open questions", source="Summary of arXiv 2410.10322, design tradeoffs: finer labels cost",
    measured="median exact l2 radius (by `max`) over k from 4 to 42 and 50 shares of fine labels from none to "
    "all, d = 3072, n = 500, five seeds, beside its prediction by means and by two coefficients",
    tier="full", minutes=12, statements=("summary-tradeoffs",),
)  # fmt: skip
def labels_phase(
    run: Context, k: tuple[int, ...] = CLUSTERS, share: tuple[float, ...] = SHARES, d: int = 3072, n: int = 500
) -> Evidence:
    """The share of fine labels that has half of the gain in radius grows with the number of clusters,
    no faster than in proportion, and training on the mean of each kind of point predicts it.
    """
    table = measured(run, k, share, d, n)
    names = ("radius", "predicted", "two")
    halves = {name: [half_share(table[name].sel(k=each)) for each in k] for name in names}
    half = np.array(halves["radius"])
    off = {name: np.abs(np.log2(np.array(halves[name]) / half)) for name in names[1:]}
    exponent = power_law_exponent(k, half)
    parts = {name: part_of_gain(table[name].mean("seed", skipna=False)) for name in names[:2]}
    error = abs(parts["predicted"] - parts["radius"])
    told = ", ".join(f"{100 * half[i]:.1f}% at k = {k[i]}" for i in range(0, len(k), 3))
    return Evidence(
        Check("exponent of k in the share with half of the gain", exponent, "within", (0.3, 1.0)),
        Check("that share by means, in factors of two, the worst k", off["predicted"].max(), "<=", 0.585),
        Check("the largest such share over k", half.max(), "<=", 0.15),
        Check("error of the part of the gain by means, median of the cells", error.median(), "<=", 0.05),
        Check("the same, the largest", error.max(skipna=False), "<=", 0.2, role="note"),
        Check("that share by two coefficients, in factors of two, the worst k", off["two"].max(), "<=", 1.0,
              role="note", note="labels are spread unevenly over clusters, which they do not know"),
        Check("runs that failed", table.attrs["failed"], "<=", 0, role="note"),
        figure=figure(table, parts["radius"], halves),
        numbers={"table": table.mean("seed").round(4), "half": halves, "exponent": exponent},
        finding=f"Half of the gain takes {told}: like k<sup>{exponent:.2f}</sup>. By means it is off by at most "
        f"{2 ** off['predicted'].max():.2f} times, by two coefficients {2 ** off['two'].max():.2f} times.",
    )  # fmt: skip


def measured(run: Context, k: tuple[int, ...], share: tuple[float, ...], d: int, n: int) -> xr.Dataset:
    """Radius and index by clusters, share and seed, and both predictions of the radius."""
    import xarray as xr

    vary = {"k": k, "label_share": share}
    found = sweep(
        vary, run_folder(run) / "sweeps", measures=("index", "max"), seeds=run.seeds, engine="serial",
        progress=lambda done, note: run.progress(0.85 * done, note), d=d, n=n, labels="fine",
    )  # fmt: skip
    shape, dims = (len(k), len(share), len(run.seeds)), ("k", "share", "seed")
    names = {"radius": "radius_fine_max", "index": "index_fine"}
    cells = {name: (dims, found.cells(each).reshape(shape)) for name, each in names.items()}
    predicted = np.full(shape, np.nan)
    for i, count in enumerate(k):
        run.progress(0.85 + 0.15 * i / len(k), f"means, k = {count}")
        for j, p in enumerate(share):
            recipe = Recipe(labels=Labels(share=p))
            means = [mean_run(MultiCluster(k=count, d=d), recipe, n, seed) for seed in run.seeds]
            predicted[i, j] = [one.radius for one in means]
    two = [[[two_coefficients(count, d, p)[2]] * len(run.seeds) for p in share] for count in k]
    table = xr.Dataset(
        cells | {"predicted": (dims, predicted), "two": (dims, two)},
        {"k": list(k), "share": list(share), "seed": list(run.seeds)},
    )
    return table.assign_attrs(failed=int(np.count_nonzero(found.columns["error"] != "")))


def figure(table: xr.Dataset, part: xr.DataArray, halves: dict[str, list[float]]) -> Figure:
    """The part of the gain over k and share, and where it is one half."""
    some = part.isel(share=slice(1, None, 3), k=slice(None, None, -1))
    heat = Heatmap(
        some.values,
        tuple(f"{k}" for k in some["k"].values),
        tuple(f"{100 * share:.2g}%" for share in some["share"].values),
        label="part of the gain",
        row_label="clusters k",
        column_label="share of fine labels",
        limit=1.0,
    )
    k = table["k"].values
    lines = (
        Series("measured", k, halves["radius"], "decoupled", "line+markers"),
        Series("by means", k, halves["predicted"], "reference", "dashed"),
        Series("by two coefficients", k, halves["two"], "neutral", "dotted"),
    )
    return Figure(
        "labels-phase",
        "How many fine labels, for how many clusters",
        "Left: part of the gain in median exact radius that a share of fine labels has, mean over the "
        "seeds; every third share is shown. Right: the share with half of the gain.",
        (heat, Lines(Axis("clusters k", log=True), Axis("share of fine labels", log=True), lines)),
    )
