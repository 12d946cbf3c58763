"""Min and Vidal (2024): what averaging costs, in robust radius, against K and against p."""

from __future__ import annotations

import math

import numpy as np

from featavg.figures.figure import Axis, Figure, Lines, Rule, Series
from featavg.paper.connections.power_relu_runs import (
    POWER_RELU_SOURCE,
    PowerReluRun,
    median_band,
    power_relu_run,
)
from featavg.paper.engine.claim import Check, Context, Evidence, claim

POWERS = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0)
COUNTS = (4, 10, 16, 30)


@claim(
    "connections-min-vidal-radius",
    "Radius of order 1/√K for p = 1, of order 1 for p = 3",
    theme="Connections",
    source=POWER_RELU_SOURCE,
    measured="median radius of 40 fresh points by attack, with a certified lower bound, for "
    "K = 4 to 30 and for p = 1 to 4 at noise 0.01",
    minutes=0.1,
    statements=("csml-conjecture-1",),
    shares="power relus",
)
def radius(settings: Context) -> Evidence:
    """The averaged limit has radius of order 1/√K, the decoupled one of order 1, and so have the
    networks trained with p = 1 and p = 3.
    """
    by_count: dict[float, list[list[PowerReluRun]]] = {1.0: [], 3.0: []}
    for i, k in enumerate(COUNTS):
        settings.progress(i / (len(COUNTS) + 2), f"K = {k}")
        for p, rows in by_count.items():
            seeds = settings.seeds if k == 10 or settings.full else settings.seeds[:1]
            rows.append([power_relu_run(p, 0.01, seed, k) for seed in seeds])
    by_power = []
    for i, p in enumerate(POWERS):
        settings.progress((len(COUNTS) + 2 * i / len(POWERS)) / (len(COUNTS) + 2), f"p = {p:g}")
        by_power.append([power_relu_run(p, 0.01, seed) for seed in settings.seeds[:1]])
    medians = {p: [[run.radius for run in row] for row in by_count[p]] for p in by_count}
    slopes = {
        p: float(np.polyfit(np.log(COUNTS), np.log([np.median(v) for v in medians[p]]), 1)[0])
        for p in medians
    }
    ten = COUNTS.index(10)
    one, three = medians[1.0][ten], medians[3.0][ten]
    proven = min(run.certified for run in by_count[3.0][ten])
    low = min(run.certified for run in by_count[1.0][ten])
    checks = (
        Check(
            "p = 1, K = 10: median radius times √K, farthest seed from 1",
            max((v * math.sqrt(10) for v in one), key=lambda v: abs(v - 1)),
            "within",
            (0.85, 1.15),
        ),
        Check(
            "p = 3, K = 10: median radius, smallest seed",
            min(three),
            ">=",
            0.6,
            note="√2/2 for the decoupled limit",
        ),
        Check(
            "p = 3, K = 10: certified median radius, smallest seed",
            proven,
            ">=",
            1 / math.sqrt(10),
            note="more than the averaged network can have",
        ),
        Check("p = 1: slope of log radius in log K", slopes[1.0], "within", (-0.6, -0.4)),
        Check("p = 3: slope of log radius in log K", slopes[3.0], "within", (-0.1, 0.1)),
    )
    finding = (
        f"The median radius falls like K<sup>{slopes[1.0]:.2f}</sup> with p = 1 and like "
        f"K<sup>{slopes[3.0]:.2f}</sup> with p = 3; at K = 10 it is {np.median(one):.3f} "
        f"(1/√K = {1 / math.sqrt(10):.3f}, certified at least {low:.3f}) against "
        f"{np.median(three):.3f} (certified at least {proven:.3f}). The mean "
        f"cosine with the nearest feature is "
        + ", ".join(
            f"{np.mean([r.feature_cosine for r in row]):.2f} at p = {p:g}"
            for p, row in zip(POWERS, by_power, strict=True)
        )
        + "."
    )
    numbers = {
        "slopes": {f"{p:g}": s for p, s in slopes.items()},
        "radius_by_K": {
            f"{p:g}": dict(zip(map(str, COUNTS), v, strict=True)) for p, v in medians.items()
        },
        "by_p": {
            f"{p:g}": {
                "radius": [r.radius for r in row],
                "average_cosine": [r.average_cosine for r in row],
                "feature_cosine": [r.feature_cosine for r in row],
            }
            for p, row in zip(POWERS, by_power, strict=True)
        },
    }
    return Evidence(
        *checks,
        finding=finding,
        numbers=numbers,
        figure=_radius_figure(medians, by_power),
    )


def _radius_figure(
    medians: dict[float, list[list[float]]], by_power: list[list[PowerReluRun]]
) -> Figure:
    counts = np.geomspace(COUNTS[0], COUNTS[-1], 20)
    ticks, names = tuple(float(k) for k in COUNTS), tuple(str(k) for k in COUNTS)
    against_k = Lines(
        Axis("number of clusters K", log=True, ticks=ticks, tick_labels=names),
        Axis(
            "median radius",
            "l2, |μ| = 1",
            log=True,
            range=(0.1, 1.2),
            ticks=(0.1, 0.2, 0.5, 1.0),
            tick_labels=("0.1", "0.2", "0.5", "1"),
        ),
        (
            median_band("p = 1", ticks, medians[1.0], "averaged"),
            median_band("p = 3", ticks, medians[3.0], "decoupled"),
            Series("1/√K", counts, counts**-0.5, "reference", "dashed"),
        ),
        title="Radius against K",
        rules=(Rule(math.sqrt(0.5), label="√2/2"),),
    )
    shown = (
        ("radius", "reference", [[r.radius for r in row] for row in by_power]),
        (
            "cosine with the class average",
            "averaged",
            [[r.average_cosine for r in row] for row in by_power],
        ),
        (
            "cosine with the nearest feature",
            "decoupled",
            [[r.feature_cosine for r in row] for row in by_power],
        ),
    )
    against_p = Lines(
        Axis("power p", ticks=POWERS, tick_labels=tuple(f"{p:g}" for p in POWERS)),
        Axis("", range=(0.0, 1.05)),
        tuple(median_band(label, POWERS, found, role) for label, role, found in shown),  # type: ignore[arg-type]
        title="From averaged to decoupled",
    )
    return Figure(
        "radius",
        "The price of averaging, and its cure by the activation",
        "Left: the attack's median radius falls like 1/√K with p = 1 and stays at √2/2 with p = 3. "
        "Right: as the power p grows, neurons turn from class averages to single features and the "
        "radius at K = 10 rises.",
        (against_k, against_p),
    )
