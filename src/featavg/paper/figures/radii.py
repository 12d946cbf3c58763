"""Theorem 1 part 3, Theorem 4 part 3 and their kin: how far every point is from being flipped.

Radii here are exact, or certified from below and attacked from above; none is an attack's alone.
"""

from __future__ import annotations

import math

import numpy as np
import xarray as xr

from featavg.figures.figure import Axis, Figure, Lines, Rule, Series
from featavg.figures.marks import Role
from featavg.paper.engine.check import CheckRole
from featavg.paper.engine.claim import Check, Context, Evidence, Headline, claim
from featavg.paper.engine.tables import exponents, line
from featavg.paper.figures.networks import (
    CLUSTERS,
    CLUSTERS_D,
    DIMENSIONS,
    KINDS,
    SAMPLES,
    K,
    flow_case,
    growth,
    measured_radii,
    radii_of_kind,
)
from featavg.progress import part
from featavg.robustness.exact.result import Radii

SCALES = np.linspace(0.0, 1.6, 33)  # radii in units of sqrt(d/k), or of sqrt(d)
# Exponents are of medians of some hundred points over a factor of 300 in d and 5 in k: 0.05 and 0.1
# are several times their sampling error, and half of what would make another law.
IN_D, IN_K = 0.05, 0.1


def medians(run: Context, kinds: tuple[str, ...], d: tuple[int, ...], k: tuple[int, ...]) -> dict[str, xr.Dataset]:
    """Median radii of some kinds of networks against d and against k."""
    return {
        "d": growth(kinds, run.seeds, "d", d, part(run.progress, 0.0, 0.5)),
        "k": growth(kinds, run.seeds, "k", k, part(run.progress, 0.5, 1.0)),
    }


def figure(tables: dict[str, xr.Dataset]) -> Figure:
    """Both, logarithmic, with sqrt(d/k) beside them."""
    d, k = tables["d"]["d"].values, tables["k"]["k"].values
    horizontal = Axis("clusters k", log=True, ticks=k)
    sides = (
        (Axis("dimension d", log=True), d, tables["d"], np.sqrt(d / K)),
        (horizontal, k, tables["k"], np.sqrt(CLUSTERS_D / k)),
    )
    panels = []
    for axis, values, table, theory in sides:
        lines = []
        for kind in table:
            label, role, _ = KINDS[str(kind)]
            lines.append(line(label, table[kind], role))
        lines.append(Series("√(d/k)", values, theory, "reference", "dashed"))
        panels.append(Lines(axis, Axis("median radius", "l2", log=True), tuple(lines)))
    return Figure(
        "growth",
        "How the radius grows with d and falls with k",
        "Median exact l2 radius of fresh points; band: seeds.",
        tuple(panels),
    )


def _exponents(
    tables: dict[str, xr.Dataset], kind: str, name: str, in_k: float, role: CheckRole = "essential"
) -> tuple[Check, Check]:
    """The exponents of one kind of network in d and k, seed by seed."""
    slopes = {axis: exponents(table[kind]) for axis, table in tables.items()}
    allowed = {"d": (0.5 - IN_D, 0.5 + IN_D), "k": (in_k - IN_K, in_k + IN_K)}
    text = f"{name}exponent of the median radius in "
    return (
        Check(f"{text}d", slopes["d"], "within", allowed["d"], role=role),
        Check(f"{text}k", slopes["k"], "within", allowed["k"], role=role),
    )


def _share_curve(result: Radii, unit: float, label: str, role: Role) -> Series:
    """Robust accuracy against the radius in units of `unit`, with the band between the two ends."""
    lower, upper = result.robust_accuracy(SCALES * unit)
    return Series(label, SCALES, (lower + upper) / 2, role, lo=lower, hi=upper)


@claim(
    "theorem-1-non-robust", "Averaged features are fragile at √(d/k)", theme="Exact robustness",
    source="arXiv 2410.10322, Theorem 1, part 3; lecture notes, Theorem 3 (which prints Ω(pd/k), a "
    "misprint)",
    measured="exact robust accuracy at 1.25 √(d/k) and the exponents of the median radius in d and k",
    minutes=0.04, shares="radii at any d",
    statements=(
        "notes-theorem-1", "notes-theorem-3", "summary-mechanism-2", "notes-definition-2.6",
        "summary-key-results", "abstract-vulnerability",
    ),
)  # fmt: skip
def averaged_is_fragile(
    run: Context, dimensions: tuple[int, ...] = DIMENSIONS, clusters: tuple[int, ...] = CLUSTERS
) -> Evidence:
    """After training on class labels the robust accuracy at radius δ = Ω(√(d/k)) is nearly zero."""
    tables = medians(run, ("averaged",), dimensions, clusters)
    in_d, in_k = (np.mean(exponents(tables[axis]["averaged"])) for axis in ("d", "k"))
    ends = {d: radii_of_kind("averaged", K, d, run.seeds) for d in (dimensions[0], dimensions[-1])}
    last, unit = dimensions[-1], math.sqrt(dimensions[-1] / K)
    lower, upper = ends[last].robust_accuracy(unit * np.array([0.75, 1.25]))
    below, above = lower[0], upper[1]
    curves = tuple(_share_curve(each, math.sqrt(d / K), f"d = {d:,}", "averaged") for d, each in ends.items())
    share = Figure(
        "share",
        "Robust until √(d/k), not beyond",
        "Exact robust accuracy against the radius in units of √(d/k): the larger the dimension, the sharper the fall.",
        (Lines(Axis("radius / √(d/k)"), Axis("robust accuracy"), curves),),
    )
    return Evidence(
        Check(f"robust accuracy at 1.25 √(d/k), d = {last:,}", above, "<=", 0.01, role="main"),
        *_exponents(tables, "averaged", "", -0.5),
        Check(f"robust accuracy at 0.75 √(d/k), d = {last:,}", below, ">=", 0.99, role="note",
              note="not in the theorem: √(d/k) would be the radius and not only a bound on it"),
        figures=(figure(tables), share), numbers=tables,
        finding=f"The median radius grows like d<sup>{in_d:.3f}</sup> and falls like "
        f"k<sup>{in_k:.3f}</sup>; at 1.25 √(d/k) {above:.1%} of the points are robust, at "
        f"0.75 √(d/k) {below:.1%}. With n = {SAMPLES} training points the clusters differ in size, "
        "and some points are nearer for it.",
        headlines=(Headline(f"d<sup>{in_d:.2f}</sup> k<sup>{in_k:.2f}</sup>",
                            "how the averaged network's radius grows", "averaged"),),
    )  # fmt: skip


@claim(
    "theorem-3-f-fa",
    "So is the average written down",
    theme="Exact robustness",
    source="Lecture notes on arXiv 2410.10322, Definition 1.1 and its remark, Theorem 3; talks, average "
    "features are non-robust",
    measured="the same for f<sub>FA</sub>, which is not trained",
    minutes=0.01,
    statements=("notes-definition-1.1", "notes-theorem-3", "itcs-theorem-nonrobust", "csml-theorem-nonrobust"),
)
def ideal_average_is_fragile(
    run: Context, dimensions: tuple[int, ...] = DIMENSIONS, clusters: tuple[int, ...] = CLUSTERS
) -> Evidence:
    """f<sub>FA</sub> fails at every radius beyond Ω(√(d/k))."""
    tables = medians(run, ("f_FA",), dimensions, clusters)
    d, unit = dimensions[-1], math.sqrt(dimensions[-1] / K)
    above = radii_of_kind("f_FA", K, d, run.seeds).robust_accuracy(np.array([1.25 * unit]))[1][0]
    constant = float(tables["d"]["f_FA"][-1].median() / unit)
    in_d, in_k = (np.mean(exponents(tables[axis]["f_FA"])) for axis in ("d", "k"))
    return Evidence(
        Check(f"robust accuracy at 1.25 √(d/k), d = {d:,}", above, "<=", 0.01, role="main"),
        *_exponents(tables, "f_FA", "", -0.5),
        figure=figure(tables),
        numbers=tables | {"constant": constant},
        finding=f"f<sub>FA</sub> has a median radius of {constant:.3f} √(d/k) at d = {d:,}, growing "
        f"like d<sup>{in_d:.3f}</sup> k<sup>{in_k:.3f}</sup>: training has no part in it.",
    )


@claim(
    "robust-solution-exists", "A robust network exists", theme="Exact robustness",
    source="arXiv 2410.10322, section 4; talks at iTCS and CSML 2024, robust solution exists",
    measured="exact median radii of the construction against d and k, and of the one without biases",
    minutes=0.05, statements=("itcs-robust-exists", "csml-robust-exists", "summary-mechanism-2"),
)  # fmt: skip
def robust_solution_exists(
    run: Context, dimensions: tuple[int, ...] = DIMENSIONS, clusters: tuple[int, ...] = CLUSTERS
) -> Evidence:
    """There are two-layer networks, one neuron for each cluster and biases that filter noise, with a
    robust radius of order √d.
    """
    tables = medians(run, ("biased", "f_FD"), dimensions, clusters)
    biased = tables["k"]["biased"] / math.sqrt(CLUSTERS_D)
    slopes = {kind: np.mean(exponents(tables["k"][kind])) for kind in ("biased", "f_FD")}
    return Evidence(
        Check(f"construction of the talks: smallest median / √d, k up to {clusters[-1]}",
              biased.min(), ">=", 0.25, role="main"),
        *_exponents(tables, "biased", "with biases: ", 0.0),
        *_exponents(tables, "f_FD", "f<sub>FD</sub> without biases: ", 0.0, "note"),
        figure=figure(tables), numbers=tables,
        finding=f"The network of the talks exists: with biases the radius is {biased.median():.2f} √d for "
        f"every k (k<sup>{slopes['biased']:.2f}</sup>). Without them outputs add up, and a little "
        f"of every rival's feature flips it: its radius falls like k<sup>{slopes['f_FD']:.2f}</sup>, as "
        "√(d/(1+k/2)) says.",
    )  # fmt: skip


@claim(
    "theorem-4-robust", "Cluster labels make it robust, certified", theme="Exact robustness",
    source="arXiv 2410.10322, Theorem 4, part 3 (lecture notes, Theorem 5)",
    measured="certified (not attacked) robust accuracy at √d/10, by probability, and how far it goes",
    minutes=0.14, shares="radii at any d", times=4,
    statements=(
        "notes-theorem-4", "notes-theorem-5", "summary-mechanism-3", "csml-remark-supervision",
        "abstract-supervision",
    ),
)  # fmt: skip
def decoupled_is_robust(
    run: Context, first: int = DIMENSIONS[0], last: int = DIMENSIONS[-1], points: int = 30
) -> Evidence:
    """After training on cluster labels the robust accuracy at radius δ = O(√d) is nearly perfect;
    the proof shows it at √d/10.
    """
    brackets = {}
    for i, d in enumerate((first, last)):
        run.progress(i / 2, f"certifying at d = {d:,}")
        brackets[d] = measured_radii(flow_case("fine", d), "probability", run.seeds, points, 0.1)
    worst, reach = {}, {}
    for d, one in brackets.items():
        by_seed = one.certified.reshape(len(run.seeds), -1)
        worst[d] = np.mean(by_seed > math.sqrt(d) / 10, axis=1)
        reach[d] = float(np.quantile(one.certified, 0.01) / math.sqrt(d))
    curves = tuple(_share_curve(one, math.sqrt(d), f"d = {d:,}", "decoupled") for d, one in brackets.items())
    horizontal, rule = Axis("radius / √d", range=(0.0, 1.0)), Rule(0.1, axis="x", label="√d/10")
    drawn = Figure(
        "certified",
        "Decoupled features: certified far beyond √d/10",
        "Robust accuracy of networks trained on cluster labels, read-out by probability, against "
        "the radius in units of √d. Band: certificate below, attack above.",
        (Lines(horizontal, Axis("robust accuracy"), curves, rules=(rule,)),),
    )
    least = min(reach.values())
    return Evidence(
        Check(f"certified robust accuracy at √d/10, d = {last:,}", worst[last], ">=", 0.99, role="main"),
        Check(f"certified robust accuracy at √d/10, d = {first:,}", worst[first], ">=", 0.99),
        Check("certified for 99% of the points, in units of √d", least, ">=", 0.1,
              note="how far beyond √d/10 it holds", role="note"),
        figure=drawn, numbers={"certified_share": worst, "reach": reach},
        finding=f"On average {min(share.mean() for share in worst.values()):.1%} of the points are certified at "
        f"√d/10, and all of them in {sum(worst[last] == 1)} of {len(run.seeds)} networks at d = {last:,}. 99% of "
        f"the points are certified up to {least:.2f} √d.",
        headlines=(Headline(f"{least:.2f} √d", "certified for 99% of points, decoupled", "decoupled"),),
    )  # fmt: skip
