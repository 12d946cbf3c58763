"""Theorem 1 part 3, Theorem 4 part 3 and their kin: how far every point is from being flipped.

Radii here are exact, or certified from below and attacked from above; none is an attack's alone.
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.claims.ledger import Check, Claim, ClaimSettings, Evidence, Headline
from featavg.data.clusters import MultiCluster
from featavg.experiments.paper.radius_runs import (
    CLUSTERS,
    CLUSTERS_D,
    DIMENSIONS,
    SWEEP_N,
    Case,
    exponent,
    fresh,
    measured,
    seed_medians,
    together,
)
from featavg.figures.figure import Axis, Figure, Lines, Rule, Series
from featavg.figures.marks import Role
from featavg.nets.ideal import biased_robust, feature_averaging, feature_decoupling
from featavg.robustness.exact.result import Radii
from featavg.robustness.radii import radii

POINTS = 100  # a seed
CERTIFIED_POINTS = 30
IDEAL_POINTS = 60
SCALES = np.linspace(0.0, 1.6, 33)  # radii in units of sqrt(d/k), or of sqrt(d)
Table = Float[ndarray, "v s"]


def _trained_medians(labels: str, readout: str, settings: ClaimSettings) -> tuple[Table, Table]:
    """Median radii of trained networks: dimensions x seeds, and clusters x seeds."""
    seeds, total = settings.seeds, len(DIMENSIONS) + len(CLUSTERS)
    cases = [Case(labels, d=d, paper=False) for d in DIMENSIONS]
    cases += [Case(labels, k=k, d=CLUSTERS_D, paper=False) for k in CLUSTERS]
    rows = []
    for i, case in enumerate(cases):
        settings.progress(i / total, f"{labels} labels, k = {case.k}, d = {case.d:,}")
        rows.append(seed_medians(measured(case, readout, seeds, POINTS), seeds))
    return np.array(rows[: len(DIMENSIONS)]), np.array(rows[len(DIMENSIONS) :])


def _growth(
    name: str, title: str, caption: str, series: tuple[tuple[str, Table, Table, Role], ...]
) -> Figure:
    """Median radius against d and against k, both logarithmic."""
    clusters = Axis("clusters k", log=True, ticks=CLUSTERS, tick_labels=tuple(map(str, CLUSTERS)))
    sides = (
        (Axis("dimension d", log=True), DIMENSIONS, 1, np.sqrt(np.array(DIMENSIONS) / 10)),
        (clusters, CLUSTERS, 2, np.sqrt(CLUSTERS_D / np.array(CLUSTERS))),
    )
    panels = []
    for axis, values, place, theory in sides:
        lines = [
            Series.over_seeds(one[0], values, np.asarray(one[place]).T, one[3], "line+markers")
            for one in series
        ]
        lines.append(Series("√(d/k)", values, theory, "reference", "dashed"))
        panels.append(Lines(axis, Axis("median radius", "l2", log=True), tuple(lines)))
    return Figure(name, title, caption, tuple(panels))


def _share_curve(found: Radii, unit: float, label: str, role: Role) -> Series:
    """Robust accuracy against the radius in units of `unit`, with the band between the two ends."""
    lower, upper = found.robust_accuracy(SCALES * unit)
    return Series(label, SCALES, (lower + upper) / 2, role, lo=lower, hi=upper)


def averaged_is_fragile(settings: ClaimSettings) -> Evidence:
    """Theorem 1, part 3."""
    by_d, by_k = _trained_medians("coarse", "sum", settings)
    in_d, in_k = exponent(DIMENSIONS, np.median(by_d, 1)), exponent(CLUSTERS, np.median(by_k, 1))
    last = measured(Case("coarse", d=DIMENSIONS[-1], paper=False), "sum", settings.seeds, POINTS)
    unit = math.sqrt(DIMENSIONS[-1] / 10)
    above = last.robust_accuracy(np.array([1.25 * unit]))[1][0]
    below = last.robust_accuracy(np.array([0.75 * unit]))[0][0]
    curves = tuple(
        _share_curve(
            measured(Case("coarse", d=d, paper=False), "sum", settings.seeds, POINTS),
            math.sqrt(d / 10),
            f"d = {d:,}",
            "averaged",
        )
        for d in (DIMENSIONS[0], DIMENSIONS[-1])
    )
    return Evidence(
        checks=(
            Check(f"robust accuracy at 1.25 √(d/k), d = {DIMENSIONS[-1]:,}", above, "<=", 0.01),
            Check("exponent of the median radius in d", in_d, "within", (0.45, 0.55)),
            Check("exponent of the median radius in k", in_k, "within", (-0.6, -0.4)),
            Check(
                f"robust accuracy at 0.75 √(d/k), d = {DIMENSIONS[-1]:,}",
                below,
                ">=",
                0.99,
                note="so √(d/k) is the radius and not only a bound on it",
                essential=False,
            ),
        ),
        figures=(
            _growth(
                "growth",
                "Averaged features: the radius is √(d/k)",
                "Median exact l2 radius of networks trained on class labels; band: seeds.",
                (("averaged, trained", by_d, by_k, "averaged"),),
            ),
            Figure(
                "share",
                "Robust until √(d/k), not beyond",
                "Exact robust accuracy against the radius in units of √(d/k): the larger the "
                "dimension, the sharper the fall.",
                (Lines(Axis("radius / √(d/k)"), Axis("robust accuracy"), curves),),
            ),
        ),
        numbers={
            "median_by_d": by_d.tolist(),
            "median_by_k": by_k.tolist(),
            "in_d": in_d,
            "in_k": in_k,
        },
        finding=(
            f"The median radius grows like d<sup>{in_d:.3f}</sup> and falls like "
            f"k<sup>{in_k:.3f}</sup>; at 1.25 √(d/k) "
            f"{above:.1%} of the points are robust, at 0.75 √(d/k) {below:.1%}. With n = {SWEEP_N} "
            "training points the clusters differ in size, and some points are nearer for it."
        ),
        headlines=(
            Headline(
                f"d<sup>{in_d:.2f}</sup> k<sup>{in_k:.2f}</sup>",
                "how the averaged network's radius grows",
                "averaged",
            ),
        ),
    )


def _ideal(kind: str, k: int, d: int, seeds: tuple[int, ...]) -> Radii:
    task = MultiCluster(k=k, d=d)
    if kind == "averaging":
        net = feature_averaging(task)
    else:
        net = feature_decoupling(task) if kind == "decoupling" else biased_robust(task)
    return together([radii(net, fresh(task, IDEAL_POINTS, seed)) for seed in seeds])


def _ideal_medians(kind: str, seeds: tuple[int, ...]) -> tuple[Table, Table]:
    by_d = [seed_medians(_ideal(kind, 10, d, seeds), seeds) for d in DIMENSIONS]
    by_k = [seed_medians(_ideal(kind, k, CLUSTERS_D, seeds), seeds) for k in CLUSTERS]
    return np.array(by_d), np.array(by_k)


def ideal_average_is_fragile(settings: ClaimSettings) -> Evidence:
    """The remark after Theorem 3: f_FA itself."""
    by_d, by_k = _ideal_medians("averaging", settings.seeds)
    in_d, in_k = exponent(DIMENSIONS, np.median(by_d, 1)), exponent(CLUSTERS, np.median(by_k, 1))
    last = _ideal("averaging", 10, DIMENSIONS[-1], settings.seeds)
    unit = math.sqrt(DIMENSIONS[-1] / 10)
    above = last.robust_accuracy(np.array([1.25 * unit]))[1][0]
    constant = float(np.median(by_d[-1]) / unit)
    return Evidence(
        checks=(
            Check(f"robust accuracy at 1.25 √(d/k), d = {DIMENSIONS[-1]:,}", above, "<=", 0.01),
            Check("exponent of the median radius in d", in_d, "within", (0.45, 0.55)),
            Check("exponent of the median radius in k", in_k, "within", (-0.6, -0.4)),
        ),
        figures=(
            _growth(
                "growth",
                "The average written down: √(d/k) as well",
                "Median exact l2 radius of f_FA; band: seeds of the test points.",
                (("f<sub>FA</sub>", by_d, by_k, "averaged"),),
            ),
        ),
        numbers={"median_by_d": by_d.tolist(), "median_by_k": by_k.tolist(), "constant": constant},
        finding=(
            f"f<sub>FA</sub> has a median radius of {constant:.3f} √(d/k) at d = {DIMENSIONS[-1]:,}, growing "
            f"like d<sup>{in_d:.3f}</sup> k<sup>{in_k:.3f}</sup>: training has no part in it."
        ),
    )


def robust_solution_exists(settings: ClaimSettings) -> Evidence:
    """A network of the same kind with a radius of order sqrt(d), whatever k is."""
    plain_d, plain_k = _ideal_medians("decoupling", settings.seeds)
    biased_d, biased_k = _ideal_medians("biased", settings.seeds)
    slopes = {
        name: (exponent(DIMENSIONS, np.median(d, 1)), exponent(CLUSTERS, np.median(k, 1)))
        for name, d, k in (("plain", plain_d, plain_k), ("biased", biased_d, biased_k))
    }
    return Evidence(
        checks=(
            Check("with biases: exponent in d", slopes["biased"][0], "within", (0.45, 0.55)),
            Check("with biases: exponent in k", slopes["biased"][1], "within", (-0.1, 0.1)),
            Check("f<sub>FD</sub>: exponent in d", slopes["plain"][0], "within", (0.45, 0.55)),
            Check(
                "f<sub>FD</sub>: exponent in k",
                slopes["plain"][1],
                "within",
                (-0.1, 0.1),
                note="order √d means: does not shrink as clusters are added",
            ),
        ),
        figures=(
            _growth(
                "growth",
                "Biases make it independent of k",
                "Median exact l2 radius of f<sub>FD</sub> (one neuron a cluster, outputs added up) "
                "and of the "
                "same network with biases that filter noise; band: seeds of the test points.",
                (
                    ("f<sub>FD</sub> with biases", biased_d, biased_k, "decoupled"),
                    ("f<sub>FD</sub>", plain_d, plain_k, "neutral"),
                ),
            ),
        ),
        numbers={
            "f_fd_by_d": plain_d.tolist(),
            "f_fd_by_k": plain_k.tolist(),
            "biased_by_d": biased_d.tolist(),
            "biased_by_k": biased_k.tolist(),
        },
        finding=(
            f"With biases the radius is {np.median(biased_k) / math.sqrt(CLUSTERS_D):.2f} √d for every k "
            f"(k<sup>{slopes['biased'][1]:.2f}</sup>). f<sub>FD</sub> without them adds its outputs "
            "up, and a little of "
            f"every rival's feature flips it: its radius falls like k<sup>{slopes['plain'][1]:.2f}</sup>, as "
            "√(d/(1+k/2)) says."
        ),
    )


def decoupled_is_robust(settings: ClaimSettings) -> Evidence:
    """Theorem 4, part 3, with certificates."""
    seeds = settings.seeds
    cases = {d: Case("fine", d=d, paper=False) for d in (DIMENSIONS[0], DIMENSIONS[-1])}
    found = {}
    for i, (d, case) in enumerate(cases.items()):
        settings.progress(i / 2, f"certifying at d = {d:,}")
        found[d] = measured(case, "probability", seeds, CERTIFIED_POINTS, 0.1)
    worst, reach = {}, {}
    for d, one in found.items():
        worst[d] = float(one.robust_accuracy(np.array([math.sqrt(d) / 10]))[0][0])
        reach[d] = float(np.quantile(one.certified, 0.01) / math.sqrt(d))
    first, last = DIMENSIONS[0], DIMENSIONS[-1]
    curves = tuple(
        _share_curve(one, math.sqrt(d), f"d = {d:,}", "decoupled") for d, one in found.items()
    )
    return Evidence(
        checks=(
            Check(f"certified robust accuracy at √d/10, d = {last:,}", worst[last], ">=", 0.99),
            Check(f"certified robust accuracy at √d/10, d = {first:,}", worst[first], ">=", 0.99),
            Check(
                "certified for 99% of the points, in units of √d",
                min(reach.values()),
                ">=",
                0.1,
                note="how far beyond √d/10 it holds",
                essential=False,
            ),
        ),
        figures=(
            Figure(
                "certified",
                "Decoupled features: certified far beyond √d/10",
                "Robust accuracy of networks trained on cluster labels, read-out by probability, against "
                "the radius in units of √d. Band: certificate below, attack above.",
                (
                    Lines(
                        Axis("radius / √d", range=(0.0, 1.0)),
                        Axis("robust accuracy"),
                        curves,
                        rules=(Rule(0.1, axis="x", label="√d/10"),),
                    ),
                ),
            ),
        ),
        numbers={"certified_share": worst, "reach": reach},
        finding=(
            f"Every certificate holds at √d/10 for {min(worst.values()):.1%} of the points, and 99% of "
            f"them are certified up to {min(reach.values()):.2f} √d."
        ),
        headlines=(
            Headline(
                f"{min(reach.values()):.2f} √d",
                "certified for 99% of points, decoupled",
                "decoupled",
            ),
        ),
    )


CLAIMS = (
    Claim(
        id="theorem-1-non-robust",
        title="Averaged features are fragile at √(d/k)",
        theme="Exact robustness",
        statement=(
            "After training on class labels the robust accuracy at radius δ = Ω(√(d/k)) is nearly zero."
        ),
        source="arXiv 2410.10322, Theorem 1, part 3 (one document prints Ω(pd/k), a misprint)",
        measured="exact robust accuracy at 1.25 √(d/k) and the exponents of the median radius in d and k",
        run=averaged_is_fragile,
        minutes=0.15,
    ),
    Claim(
        id="theorem-3-f-fa",
        title="So is the average written down",
        theme="Exact robustness",
        statement="f<sub>FA</sub> fails at every radius beyond Ω(√(d/k)).",
        source="Lecture notes, Theorem 3 and the remark after it",
        measured="the same for f<sub>FA</sub>, which is not trained",
        run=ideal_average_is_fragile,
        minutes=0.05,
    ),
    Claim(
        id="robust-solution-exists",
        title="A robust network exists",
        theme="Exact robustness",
        statement=(
            "There are two-layer networks, one neuron a cluster, with a robust radius of order √d."
        ),
        source="arXiv 2410.10322, section 4; talk at CSML 2024",
        measured="exact median radii of f<sub>FD</sub> and of its biased version against d and k",
        run=robust_solution_exists,
        minutes=0.1,
    ),
    Claim(
        id="theorem-4-robust",
        title="Cluster labels make it robust, certified",
        theme="Exact robustness",
        statement=(
            "After training on cluster labels the robust accuracy at radius δ = O(√d) is nearly perfect; "
            "the proof shows it at √d/10."
        ),
        source="arXiv 2410.10322, Theorem 4, part 3 (lecture notes, Theorem 5)",
        measured="certified (not attacked) robust accuracy at √d/10, by probability, and how far it goes",
        run=decoupled_is_robust,
        minutes=0.2,
    ),
)
