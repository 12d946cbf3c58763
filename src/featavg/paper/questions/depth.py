"""Do deeper networks average, do cluster labels decouple them, is the radius sqrt(d/k)? (Open question 2)"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import xarray as xr

from featavg.data.clusters import MultiCluster
from featavg.errors import InputError
from featavg.figures.figure import Axis, Figure, Lines, Rule, Series
from featavg.figures.marks import Role
from featavg.paper.connections.picture import Shown, panel, through
from featavg.paper.engine.claim import Check, Context, Evidence, claim
from featavg.paper.engine.tables import line
from featavg.paper.questions.depth_networks import (
    AVERAGED,
    COMMON,
    POINTS,
    RADIUS,
    SOURCE,
    Architecture,
    D,
    K,
    kind,
    learned,
    networks,
    short,
)
from featavg.progress import Progress, part
from featavg.storage.places import results_folder

DEPTHS = (2, 3, 4, 6)
# Plain and residual networks of every depth, with the first or all layers trained.
SHAPES = tuple(
    Architecture(depth, residual, layers)
    for depth in DEPTHS
    for residual in (False, True)
    for layers in ("first", "all")
    if depth > 2 or not residual
)
# Other starts and widths at one depth, each once: the first layer's scale, that of inner layers, and
# the neurons.
VARIED = tuple(
    dict.fromkeys(
        (
            *(Architecture(4, True, sigma_w=sigma) for sigma in (1e-5, 1e-3, 1e-2)),
            *(Architecture(4, True, inner_scale=scale) for scale in (0.25, 0.5, 1.0, 2.0)),
            *(Architecture(4, True, neurons=width) for width in (10, 20, 40)),
        )
    )
)
# Shapes whose radius is measured against d, and against k at one d.
SCALED = (Architecture(2), Architecture(3), Architecture(3, True), Architecture(4, True))
CLUSTERS_D = 100_000
ROLES: dict[bool, Role] = {True: "averaged", False: "neutral"}
OPEN = "the interval is what the budget of 100 programs for each point left open"


@claim(
    "question-depth-averages", "Deeper networks average too", source=SOURCE,
    measured="the averaging index of the mean gradient over each cluster, first or all layers trained, "
    "several starts and widths; k = 10, d = 3072",
    minutes=3, **COMMON,
    statements=("summary-open-2", "summary-check-2", "summary-tradeoffs", "summary-limitations",),
)  # fmt: skip
def averages(run: Context, points: int = POINTS) -> Evidence:
    """Trained on class labels, networks of 3, 4 and 6 layers, plain and residual, look in every
    cluster for the average of the features of its class.
    """
    table, varied = measured(run, "coarse", points)
    kinds, two = by_kind(table), float(_shallow(table)["index"].mean())
    means = {each: float(rows["index"].mean()) for each, rows in kinds.items()}
    deep = table["accuracy"].where(table["depth"] > 2)
    return Evidence(
        *(
            Check(f"averaging index, {kind(*each)}", _mean(rows, "index"), ">=", AVERAGED,
                  note=f"random directions: {rows['null'][0]:.2f}; two layers: {two:.2f}")
            for each, rows in kinds.items()
        ),
        *(
            Check(f"averaging index, {kind(start.depth, start.residual)}: {start.neurons} neurons, first "
                  f"layer {start.sigma_w:g}, inner layers {start.inner_scale:g}",
                  varied["index"].isel(network=i), ">=", AVERAGED, role="note")
            for i, start in enumerate(VARIED)
        ),
        *(
            Check(f"median radius / √(d/k) at the paper's d, {kind(*each)}", None, "within", RADIUS,
                  interval=_ends(rows), role="note", note=OPEN)
            for each, rows in kinds.items()
        ),
        figures=(figure(table, "coarse"), boundary("coarse")),
        numbers={"networks": table, "varied": varied},
        finding=f"The mean index is {_both(means, 3, True)}, {_both(means, 4)}, {_both(means, 6)}, "
        f"against {two:.2f} at 2; lowest for {kind(*min(means, key=lambda each: means[each]))}. Clean "
        f"accuracy is at least {deep.min():.1%}.",
    )  # fmt: skip


@claim(
    "question-depth-fine", "Cluster labels decouple at any depth", source=SOURCE,
    measured="cosine of each output's mean gradient with its own feature, averaging index, and exact "
    "l2 radii (read-out max) against those with class labels",
    minutes=4, **COMMON,
    statements=("summary-open-2", "summary-check-2", "summary-break-3", "summary-tradeoffs",),
)  # fmt: skip
def fine(run: Context, points: int = POINTS) -> Evidence:
    """Trained on cluster labels, every output of a deeper network looks for its own feature only,
    and the network is more robust than with class labels.
    """
    table, varied = measured(run, "fine", points, part(run.progress, 0.0, 0.7))
    theirs = by_kind(measured(run, "coarse", points, part(run.progress, 0.7, 1.0))[0])
    checks, gains, scale = [], {}, math.sqrt(K / 2)
    for each, rows in by_kind(table).items():
        (low, high), (their_low, their_high) = _ends(rows), _ends(theirs[each])
        gains[each] = (scale * low / their_high, scale * high / their_low)
        checks += [
            Check(f"cosine with the own feature, {kind(*each)}", _mean(rows, "own"), ">=", 0.9),
            Check(f"averaging index, {kind(*each)}", _mean(rows, "index"), "<=", 0.1),
            Check(f"radius over that of class labels, {kind(*each)}", None, ">=", 1.5, interval=gains[each],
                  note=f"theory for two layers: √(k/2) = {scale:.2f}; {OPEN}"),
        ]  # fmt: skip
    own = {each: float(rows["own"].mean()) for each, rows in by_kind(table).items()}
    low, high = gains[3, True]
    return Evidence(
        *checks,
        figures=(figure(table, "fine"), boundary("fine")),
        numbers={"networks": table, "varied": varied},
        finding=f"The cosine of an output's effective weight with its own feature is "
        f"{_both(own, 3, True)}, {_both(own, 4)}, {_both(own, 6)}, against "
        f"{_shallow(table)['own'].mean():.2f} at 2: random inner layers mix the features. At 3 residual "
        f"layers cluster labels gain {low:.2f} to {high:.2f} in the radius, not {scale:.2f}.",
    )


def measured(run: Context, labels: str, points: int, progress: Progress | None = None) -> tuple[xr.Dataset, xr.Dataset]:
    """What `learned` says of all depths, and of other starts and widths, without radii."""
    keep, shown = results_folder("depth"), progress or run.progress
    return (
        learned(SHAPES, labels, run.seeds, K, D, points, keep, part(shown, 0.0, 0.7)),
        learned(VARIED, labels, run.seeds, K, D, 0, keep, part(shown, 0.7, 1.0)),
    )


def by_kind(table: xr.Dataset) -> dict[tuple[int, bool], xr.Dataset]:
    """The networks of more than two layers by depth and residual: the first or all layers trained."""
    pairs = list(zip(table["depth"].values.tolist(), table["residual"].values.tolist(), strict=True))
    return {
        each: table.isel(network=[i for i, pair in enumerate(pairs) if pair == each])
        for each in dict.fromkeys(pairs)
        if each[0] > 2
    }


def _mean(rows: xr.Dataset, name: str) -> xr.DataArray:
    """The mean over networks for each seed; NaN must reach the checks, where it never passes."""
    return rows[name].mean("network", skipna=False)


def _ends(rows: xr.Dataset) -> tuple[float, float]:
    """The ends of the median radius, means over networks and seeds."""
    return (float(rows["certified"].mean(skipna=False)), float(rows["attack"].mean(skipna=False)))


def _shallow(table: xr.Dataset) -> xr.Dataset:
    return table.isel(network=np.flatnonzero(table["depth"].values == 2))


def _both(means: dict[tuple[int, bool], float], depth: int, spelled: bool = False) -> str:
    """The means of plain and residual networks of one depth, in words."""
    plain, residual = means[depth, False], means[depth, True]
    if spelled:
        return f"{plain:.2f} (plain) and {residual:.2f} (residual) at {depth} layers"
    return f"{plain:.2f} and {residual:.2f} at {depth}"


def figure(table: xr.Dataset, labels: str) -> Figure:
    """Index and radius against depth."""
    coarse = labels == "coarse"
    unit, what = ("√(d/k)", "class") if coarse else ("√(d/2)", "cluster")

    def series(residual: bool, name: str, low: str, high: str) -> Series:
        same = (table["residual"] == residual) | (table["depth"] == 2)
        rows = table.isel(network=np.flatnonzero(same & (table["layers"] == "all")))
        role: Role = "averaged" if coarse else "decoupled"
        return Series(
            "residual" if residual else "plain",
            rows["depth"].values,
            rows[name].mean("seed").values,
            role if residual else "neutral",
            "line+markers",
            rows[low].min("seed").values,
            rows[high].max("seed").values,
        )

    index = tuple(series(residual, "index", "index", "index") for residual in (False, True))
    radius = tuple(series(each, "radius", "certified", "attack") for each in (False, True))
    axis = Axis("layers", ticks=DEPTHS)
    return Figure(
        f"depth-{labels}",
        f"Depth, with {what} labels",
        f"Averaging index of the effective weights (left) and median exact radius over {unit} "
        f"(right) against depth; all layers trained with {what} labels to a loss of 0.1. Bands span "
        "the seeds; those of radii include what the budget left open.",
        (
            Lines(axis, Axis("averaging index", range=(0.0, 1.0)), index),
            Lines(axis, Axis(f"radius / {unit}"), radius, rules=(Rule(1.0, label="theory"),)),
        ),
        headline=coarse,
    )


def boundary(
    labels: str,
    shapes: tuple[Architecture, ...] = (Architecture(2), Architecture(3), Architecture(4, True)),
    seed: int = 0,
) -> Figure:
    """The boundary of a network of each shape in the plane through two features of the class +1 and one
    of the class -1, with the exact minimal perturbation of the first centre.
    """
    task = MultiCluster(k=K, d=D)
    features, mask = task.features_in(K), task.positive_clusters
    chosen = np.array([*np.flatnonzero(mask)[:2], np.flatnonzero(~mask)[0]])
    view = through(*features[chosen])
    role: Role = "averaged" if labels == "coarse" else "decoupled"
    sides = ("towards another feature of the class, √d", "towards a rival's, √d")
    planes = []
    for shape in shapes:
        name = f"{short(shape.depth, shape.residual)}, {shape.layers} trained"
        net = networks(shape, labels, (seed,))[0][0]
        shown = Shown(name, net, role, positive=mask if labels == "fine" else None)
        start = features[chosen[0]]
        planes.append(panel(task, (shown,), view, (-1.0, 2.0), sides, name, chosen, start))
    return Figure(
        f"depth-boundary-{labels}",
        "The boundary in the plane of three features",
        f"Networks trained on {'class' if labels == 'coarse' else 'cluster'} labels. The arrow is the "
        "exact minimal perturbation of a cluster's centre, projected into the plane; lengths are in "
        "units of √d.",
        tuple(planes),
    )


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
    for i, shape in enumerate(SCALED):
        if shape.depth > 2:
            what = kind(shape.depth, shape.residual)
            checks += [
                Check(f"exponent of d, {what}", slope_d[i], "within", (0.45, 0.55)),
                Check(f"exponent of k, {what}", slope_k[i], "within", (-0.6, -0.4)),
                Check(f"radius / √(d/k), mean over d and k, {what}", ratio[i], "within", RADIUS),
            ]
    (two_d, *deep_d), (two_k, *deep_k), (two, *deep) = (each.mean("seed").values for each in (slope_d, slope_k, ratio))
    return Evidence(
        *checks,
        figure=scaling_figure(along_d, along_k),
        numbers={"along_d": along_d, "along_k": along_k},
        finding=f"The exponent of d is {min(deep_d):.2f} to {max(deep_d):.2f} with more than two "
        f"layers ({two_d:.2f} with two), that of k {min(deep_k):.2f} to {max(deep_k):.2f} "
        f"({two_k:.2f}), and the radius is {min(deep):.2f} to {max(deep):.2f} √(d/k) ({two:.2f}).",
    )


def along(run: Context, field: str, values: Sequence[int], points: int, progress: Progress) -> xr.Dataset:
    """What `learned` says of all shapes at several d (for k = 10) or k (for d = 100,000)."""
    if len(set(values)) < 2:
        raise InputError(field, f"has {len(set(values))} value", "an exponent needs two")
    tables = []
    for i, value in enumerate(values):
        shown = part(progress, i / len(values), (i + 1) / len(values))
        k, d = (K, value) if field == "d" else (value, CLUSTERS_D)
        keep = results_folder("depth")
        tables.append(learned(SCALED, "coarse", run.seeds, k, d, points, keep, shown))
    return xr.concat(tables, xr.Variable(field, list(values))).transpose("network", field, "seed")


def exponents(table: xr.Dataset, field: str, theory: float) -> xr.DataArray:
    """The exponent of d or k in the radius, by network and seed; `theory` is that of sqrt(d/k)."""
    size = np.log(table[field].values)
    ratios = np.log(table["radius"].transpose(field, "network", "seed").values)
    slopes = np.polyfit(size, ratios.reshape(len(size), -1), 1)[0]
    like = table["radius"].isel({field: 0}, drop=True)
    return like.copy(data=theory + slopes.reshape(like.shape))


def scaling_figure(along_d: xr.Dataset, along_k: xr.Dataset) -> Figure:
    """Radius over sqrt(d/k) against d and against k."""
    panels = []
    for name, table in (("d", along_d), ("k", along_k)):
        series = []
        for i, shape in enumerate(SCALED):
            rows, role = table.isel(network=i), ROLES[shape.residual]
            ends = rows["certified"], rows["attack"]
            label = short(shape.depth, shape.residual)
            series.append(line(label, rows["radius"], role, "line+markers", "mean", ends, 1 - 0.2 * i))
        level = Axis("radius / √(d/k)", range=(0, 2))
        panels.append(Lines(Axis(name, log=True), level, tuple(series)))
    return Figure(
        "depth-scaling",
        "√(d/k) at every depth",
        f"Median exact radius over √(d/k) of networks trained on class labels, against d (k = {K}, "
        f"left) and k (d = {CLUSTERS_D:,}, right). Level lines say that depth changes no exponent.",
        tuple(panels),
    )
