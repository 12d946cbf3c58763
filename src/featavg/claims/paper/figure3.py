"""Figure 3 left with exact curves beside PGD's, what the read-out hides, and the gap against k."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.claims.ledger import Check, Claim, ClaimSettings, Evidence, Headline
from featavg.experiments.paper.radius_runs import (
    CLUSTERS,
    CLUSTERS_D,
    Case,
    crossing,
    exponent,
    measured,
    pgd_accuracy,
    seed_medians,
)
from featavg.figures.figure import Axis, Figure, Lines, Series
from featavg.figures.marks import Role
from featavg.robustness.exact.result import Radii

POINTS = 200  # a seed
ATTACKED = 80  # points a seed for PGD, which is the slowest of all
BRACKETED = 20  # points a seed for `probability`, which costs a hundred times as much
AT = tuple(np.linspace(0.0, 48.0, 33).tolist())
# Read by eye off the published figure 3, left panel: robust accuracy in percent, good to 1.5 points.
PUBLISHED_AVERAGED = {12: 100, 14: 91, 16: 31, 18: 2, 20: 1, 22: 0}
PUBLISHED_DECOUPLED = {34: 100, 36: 86, 38: 35, 40: 14, 42: 4, 44: 0}
# Half-way down the curves fall by 30 points a unit of radius, so 1.5 points are 0.05 of it; the
# rest of the tolerance is for another sample of data.
READ_OFF = 1.0

Curve = tuple[str, Radii, Role, str]


def _band(label: str, found: Radii, role: Role, shade: float = 1.0) -> Series:
    lower, upper = found.robust_accuracy(np.array(AT))
    return Series(label, AT, (lower + upper) / 2, role, "solid", lower, upper, shade)


def _published(label: str, values: dict[int, int]) -> Series:
    return Series(label, list(values), [v / 100 for v in values.values()], "published", "markers")


def _published_median(values: dict[int, int]) -> float:
    return crossing(np.array(list(values), dtype=float), np.array(list(values.values())) / 100)


def _words(difference: float, name: str) -> str:
    """What a difference between an exact median and a published one means."""
    if abs(difference) <= READ_OFF:
        return f"The {name} one agrees."
    if difference > 0:
        return (
            f"The {name} one is {difference:.1f} nearer than any attack can come on networks trained "
            "as stated: the published curve is of another network, or in another unit."
        )
    return f"The {name} one is {-difference:.1f} farther than the exact radius."


def _middle(found: Radii) -> float:
    return float(np.mean(found.median))


def figure3(settings: ClaimSettings) -> Evidence:
    """Figure 3, left."""
    seeds = settings.seeds
    coarse, fine = Case("coarse"), Case("fine")
    settings.progress(0.0, "exact radii")
    averaged = measured(coarse, "sum", seeds, POINTS)
    largest = measured(fine, "max", seeds, POINTS)
    added = measured(fine, "sum", seeds, POINTS)
    settings.progress(0.3, "brackets for the read-out by probability")
    probability = measured(fine, "probability", seeds, BRACKETED, 0.02)
    settings.progress(0.9, "PGD-40")
    pgd_averaged = pgd_accuracy(coarse, "probability", seeds, ATTACKED, AT)
    pgd_decoupled = pgd_accuracy(fine, "probability", seeds, ATTACKED, AT)
    printed = _published_median(PUBLISHED_AVERAGED), _published_median(PUBLISHED_DECOUPLED)
    exact = _middle(averaged), _middle(probability)
    lines = (
        _band("averaged", averaged, "averaged"),
        Series("averaged, PGD-40", AT, pgd_averaged, "averaged", "dotted"),
        _band("decoupled", probability, "decoupled"),
        Series("decoupled, PGD-40", AT, pgd_decoupled, "decoupled", "dotted"),
        _band("decoupled, max", largest, "decoupled", 0.6),
        _band("decoupled, sum", added, "decoupled", 0.3),
        _published("published, 2", PUBLISHED_AVERAGED),
        _published("published, 10", PUBLISHED_DECOUPLED),
    )
    return Evidence(
        checks=(
            Check(
                "decoupled (probability, certified) over averaged (attacked), medians",
                probability.median[0] / averaged.median[1],
                ">=",
                2.0,
                note="published: 37.4 / 15.4 = 2.4",
            ),
            Check(
                "averaged: exact median minus the published one",
                exact[0] - printed[0],
                "within",
                (-READ_OFF, READ_OFF),
                note=f"published, read off: {printed[0]:.1f}",
            ),
            Check(
                "decoupled: bracketed median minus the published one",
                exact[1] - printed[1],
                "within",
                (-READ_OFF, READ_OFF),
                note=f"published, read off: {printed[1]:.1f}",
            ),
        ),
        figures=(
            Figure(
                "robust-accuracy",
                "Averaged features break at half the radius",
                "Robust accuracy against the l2 radius at the paper's setting, exact; for the decoupled "
                "network read out by probability the band reaches from the certificate to the attack. "
                "Dotted: PGD-40 on the same networks; markers: read off the published figure, 2 and 10 "
                "classes.",
                (Lines(Axis("radius", "l2", range=(8.0, 48.0)), Axis("robust accuracy"), lines),),
                headline=True,
            ),
        ),
        numbers={
            "median": {
                "averaged": averaged.median,
                "max": largest.median,
                "sum": added.median,
                "probability": probability.median,
            },
            "published_median": printed,
            "radii": AT,
            "pgd_averaged": pgd_averaged.tolist(),
            "pgd_decoupled": pgd_decoupled.tolist(),
        },
        finding=(
            f"Median radii: averaged {exact[0]:.1f}, decoupled {probability.median[0]:.1f} to "
            f"{probability.median[1]:.1f} by probability, {_middle(largest):.1f} by max, "
            f"{_middle(added):.1f} by sum. The published curves are half down at {printed[0]:.1f} "
            f"(averaged) and {printed[1]:.1f} (decoupled). {_words(exact[0] - printed[0], 'averaged')} "
            f"{_words(exact[1] - printed[1], 'decoupled')}"
        ),
        headlines=(
            Headline(f"{exact[0]:.1f}", "median l2 radius, averaged (exact)", "averaged"),
            Headline(f"{exact[1]:.1f}", "median l2 radius, decoupled (bracketed)", "decoupled"),
        ),
    )


def read_out(settings: ClaimSettings) -> Evidence:
    """PGD-40 against the truth, read-out by read-out."""
    seeds = settings.seeds
    rows = (
        ("averaged", Case("coarse"), "sum", math.sqrt(3072 / 10)),
        ("decoupled, max", Case("fine"), "max", math.sqrt(3072 / 2)),
        ("decoupled, sum", Case("fine"), "sum", math.sqrt(3072 / 6)),
    )
    ratios, series, numbers = {}, [], {}
    for i, (name, case, readout, theory) in enumerate(rows):
        settings.progress(i / 3, name)
        found = measured(case, readout, seeds, POINTS)
        shown = pgd_accuracy(case, readout, seeds, ATTACKED, AT)
        pgd, exact = crossing(np.array(AT), shown), _middle(found)
        ratios[name] = pgd / exact
        numbers[name] = {"pgd": pgd, "exact": exact, "theory": theory}
        role: Role = "averaged" if case.labels == "coarse" else "decoupled"
        shade = 0.5 if readout == "sum" and role == "decoupled" else 1.0
        series += [
            _band(f"{name}, exact", found, role, shade),
            Series(f"{name}, PGD-40", AT, shown, role, "dotted", shade=shade),
        ]
    told = numbers["decoupled, sum"]
    return Evidence(
        checks=(
            Check(
                "sum: what PGD-40 shows over the exact median",
                ratios["decoupled, sum"],
                ">=",
                1.25,
                note="38 over 25.1 was measured when the read-outs were first compared",
            ),
            Check("sum: exact median", told["exact"], "within", (24.6, 25.6), note="25.1 ± 0.5"),
            Check(
                "max: exact median",
                numbers["decoupled, max"]["exact"],
                "within",
                (37.7, 38.7),
                note="38.2 ± 0.5",
            ),
            Check(
                "averaged: exact median",
                numbers["averaged"]["exact"],
                "within",
                (16.9, 17.7),
                note="17.3 ± 0.4",
            ),
            Check(
                "max: what PGD-40 shows over the exact median",
                ratios["decoupled, max"],
                "within",
                (1.0, 1.1),
                essential=False,
            ),
            Check(
                "averaged: what PGD-40 shows over the exact median",
                ratios["averaged"],
                "within",
                (1.0, 1.1),
                essential=False,
            ),
        ),
        figures=(
            Figure(
                "read-outs",
                "PGD does not see what the sum read-out costs",
                "Robust accuracy against the l2 radius, exact and as PGD-40 shows it, for the same "
                "networks under the read-outs max and sum.",
                (
                    Lines(
                        Axis("radius", "l2", range=(8.0, 48.0)),
                        Axis("robust accuracy"),
                        tuple(series),
                    ),
                ),
            ),
        ),
        numbers=numbers,
        finding=(
            f"With the outputs added up, PGD-40 shows a median radius of {told['pgd']:.1f} where the "
            f"truth is {told['exact']:.1f}: dead ReLUs hide from it the direction that lifts a little of "
            "every rival's feature. Under max and for the averaged network it is within "
            f"{max(ratios['decoupled, max'], ratios['averaged']) - 1:.0%}."
        ),
    )


def gap_against_k(settings: ClaimSettings) -> Evidence:
    """How the advantage of decoupling grows with the number of clusters."""
    seeds = settings.seeds
    table: dict[str, list[Float[ndarray, " s"]]] = {"averaged": [], "max": [], "sum": []}
    for i, k in enumerate(CLUSTERS):
        settings.progress(i / len(CLUSTERS), f"k = {k}")
        for name, rows in table.items():
            labels, readout = ("coarse", "sum") if name == "averaged" else ("fine", name)
            found = measured(Case(labels, k=k, d=CLUSTERS_D, paper=False), readout, seeds, 100)
            rows.append(seed_medians(found, seeds))
    medians = {name: np.array(rows) for name, rows in table.items()}
    gain = {name: medians[name] / medians["averaged"] for name in ("max", "sum")}
    slopes = {name: exponent(CLUSTERS, np.median(gain[name], axis=1)) for name in gain}
    theory = {
        "max": np.sqrt(np.array(CLUSTERS) / 2),
        "sum": np.sqrt(np.array(CLUSTERS) / (1 + np.array(CLUSTERS) / 2)),
    }
    axis = Axis("clusters k", log=True, ticks=CLUSTERS, tick_labels=tuple(map(str, CLUSTERS)))
    shades = {"max": 1.0, "sum": 0.5}
    lines = [
        Series(
            f"decoupled by {name} over averaged",
            CLUSTERS,
            np.median(gain[name], axis=1),
            "decoupled",
            "line+markers",
            gain[name].min(axis=1),
            gain[name].max(axis=1),
            shades[name],
        )
        for name in gain
    ]
    lines += [
        Series(f"theory, {name}", CLUSTERS, values, "reference", "dashed")
        for name, values in theory.items()
    ]
    return Evidence(
        checks=(
            Check("max: exponent of the gain in k", slopes["max"], "within", (0.4, 0.6)),
            Check(
                "smallest gain of max at the largest k, against √(k/2)",
                float(gain["max"][-1].min() / theory["max"][-1]),
                ">=",
                0.8,
            ),
            Check(
                "sum: exponent of the gain in k",
                slopes["sum"],
                "<=",
                0.2,
                note="theory: √(k/(1+k/2)) levels off at √2",
                essential=False,
            ),
        ),
        figures=(
            Figure(
                "gain",
                "The more clusters, the more decoupling gains",
                f"Median exact l2 radius of the decoupled network over that of the averaged one, d = "
                f"{CLUSTERS_D:,}; band: seeds.",
                (Lines(axis, Axis("ratio of median radii", log=True), tuple(lines)),),
            ),
        ),
        numbers={name: values.tolist() for name, values in medians.items()} | {"exponents": slopes},
        finding=(
            "Read out by max, decoupling gains a factor that grows like "
            f"k<sup>{slopes['max']:.2f}</sup>, from "
            f"{np.median(gain['max'][0]):.2f} at k = {CLUSTERS[0]} to {np.median(gain['max'][-1]):.2f} at "
            f"k = {CLUSTERS[-1]}; read out by sum it grows like k<sup>{slopes['sum']:.2f}</sup> only."
        ),
    )


CLAIMS = (
    Claim(
        id="figure-3-left",
        title="Figure 3, left: robust accuracy of both networks",
        theme="Exact robustness",
        statement=(
            "At the paper's setting the network trained on 10 classes keeps its accuracy to more than twice "
            "the radius of the one trained on 2."
        ),
        source="arXiv 2410.10322, Figure 3, left",
        measured="exact curves (certificate to attack for probability), PGD-40 and the published points",
        run=figure3,
        minutes=0.3,
    ),
    Claim(
        id="readout-matters",
        title="PGD-40 overstates the sum read-out",
        theme="Exact robustness",
        statement=(
            "The read-outs look alike under PGD and are not: adding up the outputs of each class costs a "
            "third of the radius, unseen."
        ),
        source="Found while building featavg (design notes, section 5)",
        measured="median radii, exact and as PGD-40 on the coarse decision shows them",
        run=read_out,
        minutes=0.05,
    ),
    Claim(
        id="gap-against-k",
        title="The gap between averaged and decoupled grows with k",
        theme="Exact robustness",
        statement="Averaging costs a factor of order √k in the robust radius.",
        source="arXiv 2410.10322, Theorems 1 and 4 together",
        measured="ratio of exact median radii against k",
        run=gap_against_k,
        minutes=0.15,
    ),
)
