"""Min and Vidal (2024) with as many training points as they had: full tier."""

from __future__ import annotations

from featavg.figures.figure import Axis, Bar, Bars, Figure
from featavg.paper.connections.power_relu_runs import (
    POWER_RELU_SOURCE,
    PowerReluRun,
    power_relu_run,
)
from featavg.paper.engine.claim import Check, Context, Evidence, claim

N, WIDTH = 20_000, 100
NOISES = (0.01, 0.3)


@claim(
    "connections-min-vidal-published",
    "The same two limits with 20,000 training points",
    theme="Connections",
    source=POWER_RELU_SOURCE,
    measured="as connections-min-vidal-limits, with 20,000 points in R<sup>1000</sup> and 100 "
    "neurons (published: 2000), one seed; minutes, so it is not in the quick tier",
    tier="full",
    minutes=5,
    statements=("csml-conjecture-1",),
)
def published(settings: Context) -> Evidence:
    """With as many training points as in the publication, the networks with p = 1 and p = 3 are near
    their limits at both ends of the published range of noise.
    """
    runs: dict[tuple[float, float], PowerReluRun] = {}
    plans = [(p, noise) for p in (1.0, 3.0) for noise in NOISES]
    for i, (p, noise) in enumerate(plans):
        settings.progress(i / len(plans), f"p = {p:g}, noise {noise:g}")
        runs[p, noise] = power_relu_run(p, noise, settings.seeds[0], n=N, width=WIDTH)
    pairs = {key: run.limits for key, run in runs.items()}
    ratio = {key: wrong.lower / right.ascent for key, (right, wrong) in pairs.items()}
    checks = tuple(
        Check(f"p = {p:g}, noise {noise:g}: wrong over right limit", ratio[p, noise], ">=", 5.0)
        for p, noise in plans
    )
    groups = tuple(f"p = {p:g}, α = {noise:g}" for p, noise in plans)
    figure = Figure(
        "published-size",
        "Distances with 20,000 training points",
        "Distance on the sphere to the averaged and to the decoupled limit, at both ends of the "
        "published range of noise.",
        (
            Bars(
                groups,
                (
                    Bar("to F", [runs[key].near_average.ascent for key in plans], "averaged"),
                    Bar("to F<sup>(p)</sup>", [runs[key].near_decoupled.ascent for key in plans],
                        "decoupled"),
                ),
                Axis("distance on the sphere", log=True),
            ),
        ),
    )  # fmt: skip
    numbers = {
        f"p{p:g}_noise{noise:g}": {
            "right": pairs[p, noise][0].ascent,
            "right_certified": pairs[p, noise][0].upper,
            "wrong": pairs[p, noise][1].lower,
            "radius": runs[p, noise].radius,
        }
        for p, noise in plans
    }
    finding = "With 20,000 points the wrong limit is " + ", ".join(
        f"{ratio[p, noise]:.0f} times further at p = {p:g} and noise {noise:g}"
        for p, noise in plans
    )
    return Evidence(
        *checks,
        finding=f"{finding}.",
        numbers=numbers,
        figure=figure,
    )
