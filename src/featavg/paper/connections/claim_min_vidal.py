"""Min and Vidal (2024): the activation decides whether features are averaged or decoupled."""

from __future__ import annotations

import math

from featavg.figures.figure import Axis, Figure, Lines, Series
from featavg.figures.marks import Role
from featavg.paper.connections.power_relu_runs import (
    POWER_RELU_SOURCE,
    PowerReluRun,
    cosine_panel,
    median_band,
    power_relu_run,
)
from featavg.paper.engine.claim import Check, Context, Evidence, Headline, claim

NOISES = (0.01, 0.1, 0.3)


@claim(
    "connections-min-vidal-limits",
    "The activation decides: averaged for p = 1, decoupled for p = 3",
    theme="Connections",
    source=POWER_RELU_SOURCE,
    measured="inf<sub>c>0</sub> sup<sub>|x|=1</sub> |c f − F| for both limits, from below by "
    "ascent and from above by a certificate, and cosines of the dominant neurons; D = 1000, "
    "K = 10, six positive, noise 0.01 to 0.3, 300 points and 80 neurons in exactly compressed "
    "coordinates",
    minutes=0.12,
    statements=("csml-conjecture-1",),
    shares="power relus",
)
def limits(settings: Context) -> Evidence:
    """With activation relu(⟨w,x⟩)<sup>p</sup>/|w|<sup>p−1</sup>, both layers trained from a small
    balanced start on K clusters on the sphere, the network tends to F (two averaged neurons) for
    p = 1 and to F<sup>(p)</sup> (one neuron a cluster) for p = 3.
    """
    runs: dict[tuple[float, float], list[PowerReluRun]] = {}
    total = 2 * len(NOISES)
    for i, (p, noise) in enumerate((p, noise) for p in (1.0, 3.0) for noise in NOISES):
        settings.progress(i / total, f"p = {p:g}, noise {noise:g}")
        # The checks are about small noise; one seed shows how the distance grows with it.
        seeds = settings.seeds if noise == NOISES[0] or settings.full else settings.seeds[:1]
        runs[p, noise] = [power_relu_run(p, noise, seed) for seed in seeds]
    checks: list[Check] = []
    numbers: dict[str, object] = {}
    for p in (1.0, 3.0):
        pairs = [run.limits for run in runs[p, NOISES[0]]]
        ratio = min(wrong.lower / right.ascent for right, wrong in pairs)
        proven = min(wrong.lower / right.upper for right, wrong in pairs)
        size = math.sqrt(6) if p == 1 else 1.0
        far = max(right.upper for right, _ in pairs) / size
        cosine = min(
            run.average_cosine if p == 1 else run.feature_cosine for run in runs[p, NOISES[0]]
        )
        name = "averages" if p == 1 else "features"
        checks += [
            Check(
                f"p = {p:g}: wrong over right limit, worst seed",
                ratio,
                ">=",
                5.0,
                note="ascent from many starts, both distances",
            ),
            Check(
                f"p = {p:g}: the same, certified",
                proven,
                ">=",
                5.0,
                note="lower bound of the wrong over upper bound of the right one",
                role="note",
            ),
            Check(
                f"p = {p:g}: certified distance to the right limit over its largest value",
                far,
                "<=",
                0.1,
            ),
            Check(
                f"p = {p:g}: mean cosine of dominant neurons with {name}, worst seed",
                cosine,
                ">=",
                0.95,
            ),
        ]
        numbers |= {f"ratio_p{p:g}": ratio, f"certified_ratio_p{p:g}": proven}
        for noise in NOISES:
            group = [run.limits for run in runs[p, noise]]
            numbers[f"p{p:g}_noise{noise:g}"] = {
                "right": [right.ascent for right, _ in group],
                "right_certified": [right.upper for right, _ in group],
                "wrong": [wrong.lower for _, wrong in group],
            }
    one, three = checks[0].measured, checks[4].measured
    finding = (
        f"At noise {NOISES[0]:g} the network with p = 1 is {one:.0f} times nearer to the averaged "
        f"limit F than to the decoupled one, and with p = 3 it is {three:.0f} times nearer to the "
        f"decoupled one, on the worst of {len(settings.seeds)} seeds "
        f"({numbers['certified_ratio_p1']:.0f} and {numbers['certified_ratio_p3']:.0f} times by "
        "certified bounds)."
    )
    headlines = (
        Headline(f"{one:.0f}×", "nearer to averaged than to decoupled neurons, p = 1", "averaged"),
        Headline(
            f"{three:.0f}×", "nearer to decoupled than to averaged neurons, p = 3", "decoupled"
        ),
    )
    figures = (_distances(runs), _cosines(runs[1.0, NOISES[0]][0], runs[3.0, NOISES[0]][0]))
    return Evidence(
        *tuple(checks),
        headlines=headlines,
        finding=finding,
        numbers=numbers,
        figures=figures,
    )


def _distances(runs: dict[tuple[float, float], list[PowerReluRun]]) -> Figure:
    panels = []
    for p in (1.0, 3.0):
        series = []
        for which, role, label in ((0, "averaged", "to F"), (1, "decoupled", "to F<sup>(p)</sup>")):
            chosen: Role = role  # type: ignore[assignment]
            values = [
                [(run.near_average, run.near_decoupled)[which].ascent for run in runs[p, noise]]
                for noise in NOISES
            ]
            series.append(median_band(label, NOISES, values, chosen))
        # A network that is near no limit of its own power has no certificate: a gap in the line.
        uppers = [max(run.limits[0].upper for run in runs[p, noise]) for noise in NOISES]
        bound = [upper if math.isfinite(upper) else math.nan for upper in uppers]
        series.append(Series("certified bound, nearer limit", NOISES, bound, "reference", "dashed"))
        panels.append(
            Lines(
                Axis(
                    "noise α", log=True, ticks=NOISES, tick_labels=tuple(f"{a:g}" for a in NOISES)
                ),
                Axis("distance on the sphere", log=True, range=(0.01, 4)),
                tuple(series),
                title=f"p = {p:g}",
            )
        )
    return Figure(
        "distances",
        "Which limit is the trained network near?",
        "Largest |c f − F| on the unit sphere after the best rescaling c, for the averaged limit F "
        "and the decoupled limit F<sup>(p)</sup>. With p = 1 it is near F, with p = 3 near "
        "F<sup>(p)</sup>; bands are the range over seeds.",
        tuple(panels),
        headline=True,
    )


def _cosines(one: PowerReluRun, three: PowerReluRun) -> Figure:
    return Figure(
        "cosines",
        "What the dominant neurons look at",
        "Cosine of the twelve strongest neurons with the two class averages (left) and the ten "
        "features. With p = 1 every neuron is a class average; with p = 3 every neuron is one "
        "feature.",
        (cosine_panel(one), cosine_panel(three)),
    )
