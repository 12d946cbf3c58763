"""KKT points on multi-cluster data: are they reached, do they average, and how robust are they?"""

from __future__ import annotations

import math

import numpy as np

from featavg.figures.figure import Axis, Figure, Lines, Role, Series
from featavg.measures.averaging import averaging_index
from featavg.paper.engine.claim import Check, Context, Evidence, Headline, claim
from featavg.paper.margins.kkt_robustness import RADIUS_POINTS, kkt_radius, lipschitz_radii
from featavg.paper.margins.kkt_runs import LOSS_DEPTHS, POINTS_PER_CLUSTER, KKTRun, kkt_run
from featavg.progress import part
from featavg.robustness.radii import radii

K = 10
FREI = (
    "Talk (iTCS 2024), properties of KKT points (Vardi et al. 2022; Frei et al. 2023, Theorem 4.2)"
)
PLANS = {
    "first layer, small start": ("first", "small"),
    "both layers and biases, small start": ("both", "small"),
    "both layers and biases, large start": ("both", "large"),
}


def seeds_of(layers: str, settings: Context) -> tuple[int, ...]:
    """Both layers take seconds a seed: two of them, unless the full tier is asked for."""
    return settings.seeds if layers == "first" or settings.full else settings.seeds[:2]


@claim(
    "margin-kkt-residual",
    "Gradient flow ends in a KKT point of the max-margin problem",
    theme="Margins",
    source="Talks, max-margin problem (P) (Lyu and Li 2020; Ji and Telgarsky 2020)",
    measured="complementarity and relative stationarity with non-negative least-squares "
    "multipliers, data known, along the flow to e^-500: first layer trained, and both layers "
    "with biases from small and large starts (k = 10, d = 3072)",
    minutes=0.4,
    statements=("itcs-kkt", "csml-kkt"),
    shares="kkt points",
)
def residual_claim(settings: Context) -> Evidence:
    """The limit direction satisfies the KKT conditions of the max-margin problem: stationarity and
    complementarity. (That the direction converges: margin-direction.)
    """
    runs: dict[str, list[KKTRun]] = {}
    for i, (name, (layers, start)) in enumerate(PLANS.items()):
        settings.progress(i / len(PLANS), name)
        runs[name] = [
            kkt_run(K, seed, layers=layers, start=start) for seed in seeds_of(layers, settings)
        ]
    checks = [
        Check(
            f"{name}: complementarity", [float(run.complementarity[-1]) for run in rows], "<=", 1e-2
        )
        for name, rows in runs.items()
    ]
    checks += [
        Check(
            f"{name}: stationarity at e^-500 over that at e^-50",
            [float(run.stationarity[-1] / run.stationarity[2]) for run in rows],
            "<=",
            0.5,
        )
        for name, rows in runs.items()
    ]
    checks += [
        Check(
            f"{name}: stationarity",
            [float(run.stationarity[-1]) for run in rows],
            "<=",
            1e-3,
            role="note",
            note="a small start has it by construction"
            if "small" in name
            else "what the weights started with fades like a power of log(1/loss)",
        )
        for name, rows in runs.items()
    ]
    every = [run for rows in runs.values() for run in rows]
    least = min(run.residuals[-1].support for run in every)
    kinks = max(run.residuals[-1].kinks for run in every)
    worst = max(float(run.complementarity[-1]) for run in every)
    return Evidence(
        *tuple(checks),
        figure=_residuals(runs),
        numbers={name: [run.to_json() for run in rows] for name, rows in runs.items()},
        finding=f"At a loss of e^-500 the complementarity residual is at most {worst:.1e} from every "
        f"start, and stationarity falls as the loss does; at least {least} of {POINTS_PER_CLUSTER * K} "
        f"points are support vectors, and up to {kinks} pairs (neuron, point) slide on their kink.",
    )


def _residuals(runs: dict[str, list[KKTRun]]) -> Figure:
    roles: tuple[Role, ...] = ("averaged", "decoupled", "neutral")
    panels = []
    for quantity in ("complementarity", "stationarity"):
        series = tuple(
            Series.over_seeds(
                name, LOSS_DEPTHS, np.array([getattr(run, quantity) for run in rows]), role
            )
            for (name, rows), role in zip(runs.items(), roles, strict=False)
        )
        axes = Axis("log(1/loss)", log=True), Axis(f"relative {quantity}", log=True)
        panels.append(Lines(*axes, series, title=quantity.capitalize()))
    return Figure(
        "residuals",
        "The flow reaches a KKT point",
        "Residuals of the KKT conditions along the flow (k = 10, d = 3072). From a small start "
        "stationarity is small from the beginning, and complementarity tells.",
        tuple(panels),
    )


@claim(
    "margin-kkt-averaging",
    "Training longer keeps the average",
    theme="Margins",
    source=FREI,
    measured="the averaging index of every neuron from a loss of e^-2 to e^-500",
    minutes=0.02,
    statements=("itcs-kkt-radius",),
    shares="kkt points",
)
def averaging_claim(settings: Context) -> Evidence:
    """The KKT point that training from a small start tends to still averages features."""
    runs = [kkt_run(K, seed) for seed in settings.seeds]
    index = np.array(
        [
            # Evenness alone: few points per cluster leave noise in the weights, which is no averaging.
            [float(averaging_index(net, run.task).neuron_evenness.min()) for net in run.nets]
            for run in runs
        ]
    )
    axes = Axis("log(1/loss)", log=True), Axis("averaging index", range=(0.0, 1.05))
    series = (Series.over_seeds("smallest of all neurons", LOSS_DEPTHS, index, "averaged"),)
    figure = Figure(
        "averaging",
        "Training longer keeps the average",
        "The smallest averaging index of any neuron; 1 is a perfect average, 0 a single feature.",
        (Lines(*axes, series),),
    )
    return Evidence(
        Check("smallest averaging index at the KKT point", index[:, -1].min(), ">=", 0.9),
        Check("largest loss of it since the fit", (index[:, 0] - index[:, -1]).max(), "<=", 0.05),
        figure=figure,
        numbers={"index": index.tolist(), "depths": list(LOSS_DEPTHS)},
        finding=f"From a loss of e^-2 to e^-500 the index of every neuron stays above "
        f"{index.min():.2f}: the limit averages as the beginning does.",
    )


@claim(
    "margin-kkt-radius",
    "KKT points have radius of order √(d/k)",
    theme="Margins",
    source=FREI,
    measured="exact radii, clean accuracy and the shortest such z that flips 99% of 1000 fresh points, "
    "k = 4, 6, 10, at the KKT points that the flow reaches: first layer trained, and both layers with "
    "biases, from small and large starts (not at every KKT point: nobody can list them)",
    minutes=0.5,
    statements=("itcs-kkt-radius", "itcs-theorem-4.2", "csml-double-edged"),
    shares="kkt points",
)
def radius_claim(settings: Context) -> Evidence:
    """Every KKT point of a two-layer network (both layers and biases) is at most O(√(d/k))-robust,
    and one direction z = η Σ y<sub>j</sub>μ<sub>j</sub> of length O(√(d/(c²k))) flips all but ε
    of the points, which it decides rightly as they are.
    """
    results = {}
    for i, (name, (layers, start)) in enumerate(PLANS.items()):
        share = part(settings.progress, i / len(PLANS), (i + 1) / len(PLANS))
        results[name] = kkt_radius(layers, start, seeds=seeds_of(layers, settings), progress=share)
    checks = []
    for name, result in results.items():
        near, far = result.every_radius, result.every_universal
        checks += [
            Check(f"{name}: largest median radius / √(d/k)", max(near), "<=", 2.0),
            Check(f"{name}: longest universal direction / √(d/(c²k))", max(far), "<=", 1.0),
            Check(
                f"{name}: smallest clean accuracy",
                min(result.every_accuracy),
                ">=",
                0.99,
                note="the other edge of the sword: KKT points generalise",
            ),
            Check(f"{name}: smallest median radius / √(d/k)", min(near), ">=", 0.5, role="note"),
        ]
    every = [value for result in results.values() for value in result.every_radius]
    reach = max(value for result in results.values() for value in result.every_universal)
    return Evidence(
        *tuple(checks),
        figure=list(results.values())[-1].figure(),
        numbers={name: result.to_json() for name, result in results.items()},
        finding=f"Median radii are {min(every):.2f} to {max(every):.2f} times √(d/k) for k = 4, 6, 10, "
        f"with the first layer or both and biases trained, from small and large starts; one direction "
        f"of {reach:.2f} times √(d/(c²k)) flips 99% of fresh points, of which "
        f"at least {min(min(result.every_accuracy) for result in results.values()):.1%} are decided rightly "
        "without it.",
        headlines=(Headline(f"{np.mean(every):.2f} √(d/k)", "radius of KKT points", "averaged"),),
    )


@claim(
    "margin-lipschitz",
    "Robustness is at least margin over Lipschitz constant",
    theme="Margins",
    source="Talks, margin and robustness (Sokolic et al. 2017)",
    measured="q/β beside the exact radius for fresh points of the KKT networks",
    minutes=0.02,
    statements=("itcs-lipschitz", "csml-lipschitz"),
    shares="kkt points",
)
def lipschitz_claim(settings: Context) -> Evidence:
    """If q is β-Lipschitz, the radius is at least q/β. (An identity, which tests the code; the note
    says how tight it is.)
    """
    above, tight, pairs = -math.inf, [], []
    for i, seed in enumerate(settings.seeds):
        settings.progress(i / len(settings.seeds), f"seed {seed}")
        run = kkt_run(K, seed)
        sample = run.task.sample(RADIUS_POINTS, seed)
        net = run.nets[-1]
        bound = lipschitz_radii(net, sample.coordinates(net.dimension), sample.y)
        exact = radii(net, sample, jobs=1).certified
        above = max(above, float(((bound - exact) / exact.max()).max()))
        tight.append(float(np.median(bound[exact > 0] / exact[exact > 0])))
        pairs.append((bound, exact))
    bound, exact = pairs[0]
    line = np.array([0.0, float(exact.max())])
    series = (
        Series("points", exact, bound, "averaged", "markers"),
        Series("exact", line, line, "reference", "dashed"),
    )
    figure = Figure(
        "lipschitz",
        "The Lipschitz bound beside the exact radius",
        "Fresh points of one seed; every point lies below the diagonal.",
        (Lines(Axis("exact radius", "l2"), Axis("q/β", "l2"), series),),
    )
    return Evidence(
        Check(
            "largest excess of q/β over the exact radius",
            above,
            "<=",
            1e-9,
            note="an identity: it tests the code, not the theory",
        ),
        Check("median tightness", tight, ">=", 0.1, role="note"),
        figure=figure,
        numbers={"tightness": tight},
        finding=f"The bound is never above the exact radius, as must be, and has "
        f"{np.median(tight):.0%} of it.",
    )
