"""Theorem 1 and Theorem 4, parts 1 and 2: what is learned, and that it classifies.

The theorems say o(1) for d = Omega(k^10) and n = Omega(k^7). So each quantity is followed in three
ways: against d, against n, and for growing k in the theorems' own regime.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.claims.ledger import Check, Claim, ClaimSettings, Evidence
from featavg.claims.paper.lemmas import DIMENSIONS, SAMPLES
from featavg.experiments.paper.theorem_runs import RunSummary, scaled_run, slope, theorem_run
from featavg.figures.figure import Axis, Figure, Lines, Series
from featavg.figures.marks import Role
from featavg.measures.accuracy import Accuracy, wilson

# d = 10^6 stands clear of every n here.
SIZES = (125, 250, 500, 1000, 2000)
ROLE: dict[str, Role] = {"coarse": "averaged", "fine": "decoupled"}
Quantity = Callable[[RunSummary], float]


class Sweep:
    """All runs of one kind of labels: against d, against n, and in the theorems' regime."""

    def __init__(self, labels: str, settings: ClaimSettings) -> None:
        self.labels, self.seeds = labels, settings.seeds
        self.regime = (2, 3, 4) if settings.full else (2, 3)
        total = len(DIMENSIONS) + len(SIZES) + len(self.regime)
        done = 0

        def along(
            values: tuple[int, ...], run: Callable[[int, int], RunSummary]
        ) -> list[list[RunSummary]]:
            nonlocal done
            table = []
            for value in values:
                settings.progress(done / total, f"{labels} labels, {value}")
                table.append([run(value, seed) for seed in self.seeds])
                done += 1
            return table

        self.by_d = along(DIMENSIONS, lambda d, seed: scaled_run(labels, d, SAMPLES, seed))
        self.by_n = along(SIZES, lambda n, seed: scaled_run(labels, 10**6, n, seed))
        self.by_k = along(self.regime, lambda k, seed: theorem_run(labels, k, seed))

    def worst(self, table: list[list[RunSummary]], quantity: Quantity) -> Float[ndarray, " v"]:
        """The largest over the seeds, for each value of the axis."""
        return np.array([max(quantity(run) for run in runs) for runs in table])

    def median(self, table: list[list[RunSummary]], quantity: Quantity) -> Float[ndarray, " v"]:
        """The median over the seeds, for each value of the axis."""
        return np.array([float(np.median([quantity(run) for run in runs])) for runs in table])

    def panels(self, quantity: Quantity, label: str, log: bool = True) -> tuple[Lines, ...]:
        """The quantity against d, against n, and against k in the theorems' regime."""
        axes = (
            (Axis("dimension d", log=True), DIMENSIONS, self.by_d, f"n = {SAMPLES}, k = 10"),
            (Axis("samples n", log=True), SIZES, self.by_n, "d = 10⁶, k = 10"),
            (
                Axis("clusters k", ticks=self.regime, tick_labels=tuple(map(str, self.regime))),
                self.regime,
                self.by_k,
                "d = k¹⁰, n = k⁷",
            ),
        )
        role = ROLE[self.labels]
        return tuple(
            Lines(
                axis,
                Axis(label, log=log),
                (
                    Series.over_seeds(
                        f"{self.labels} labels",
                        values,
                        np.array([[quantity(run) for run in runs] for runs in table]).T,
                        role,
                        "line+markers",
                    ),
                ),
                title=title,
            )
            for axis, values, table, title in axes
        )

    def accuracy_checks(self) -> tuple[Check, ...]:
        """Part 2 of both theorems: the clean accuracy, of all fresh points of all runs together."""
        everywhere = self.accuracy([*self.by_d, *self.by_n, *self.by_k])
        regime = self.accuracy(self.by_k)
        name = "lower end of the 95% interval"
        return tuple(
            Check(f"clean accuracy {where}, {name}", a.low, ">=", 0.999, f"{a.n} fresh points")
            for where, a in (("over all runs", everywhere), ("in the theorem's regime", regime))
        )

    def accuracy(self, table: list[list[RunSummary]]) -> Accuracy:
        """The clean accuracy over some runs."""
        runs = [run for row in table for run in row]
        return wilson(sum(r.tests - r.errors for r in runs), sum(r.tests for r in runs))

    def where_errors(self) -> str:
        """Where fresh points were decided wrongly, as words."""
        tables = (
            ("d", DIMENSIONS, self.by_d),
            ("n", SIZES, self.by_n),
            ("k", self.regime, self.by_k),
        )
        wrong = [
            f"{100 * (1 - self.accuracy([runs]).value):.2g}% at {axis} = {value:,}"
            for axis, values, table in tables
            for value, runs in zip(values, table, strict=True)
            if any(run.errors for run in runs)
        ]
        if not wrong:
            return "No fresh point is decided wrongly in any run."
        lost = sum(r.smallest < 0.1 * r.lam for _, _, table in tables for row in table for r in row)
        why = f" In {lost} of the runs a neuron starts inactive on its cluster and never learns it."
        return f"Wrong decisions: {', '.join(wrong)}." + (why if lost else "")

    def numbers(self) -> dict[str, object]:
        """Every summary, for machines."""
        names = ("lam", "within", "across", "deviation", "bias", "balance", "errors", "tests")
        tables = (
            ("d", DIMENSIONS, self.by_d),
            ("n", SIZES, self.by_n),
            ("k", self.regime, self.by_k),
        )
        return {
            f"against_{axis}": [
                {axis: value, "seed": seed} | {name: getattr(run, name) for name in names}
                for value, runs in zip(values, table, strict=True)
                for seed, run in zip(self.seeds, runs, strict=True)
            ]
            for axis, values, table in tables
        }


def relative_deviation(run: RunSummary) -> float:
    """sqrt(d) |w - lambda sum mu/|mu|^2| in units of lambda."""
    return run.deviation / run.lam


def _learned(labels: str, settings: ClaimSettings) -> tuple[Sweep, tuple[Check, ...], Figure]:
    """Part 1 of either theorem: the distance to the ideal weights."""
    sweep = Sweep(labels, settings)
    against_n = slope(list(map(float, SIZES)), list(sweep.median(sweep.by_n, relative_deviation)))
    by_k = sweep.worst(sweep.by_k, lambda run: run.deviation)
    last_k = sweep.regime[-1]
    checks = (
        Check(
            f"√d |w − ideal| / λ in the theorem's regime, k = {last_k}",
            sweep.worst(sweep.by_k, relative_deviation)[-1],
            "<=",
            0.1,
        ),
        Check(
            f"√d |w − ideal| in the theorem's regime: k = {last_k} over k = 2",
            by_k[-1] / by_k[0],
            "<=",
            1.0,
            note="o(1) means it falls as k grows",
        ),
        Check(
            "exponent of √d |w − ideal| / λ in n",
            against_n,
            "within",
            (-0.6, -0.4),
            note="noise and cluster sizes average out like n^(-1/2)",
        ),
    )
    ideal = "λ Σ μ/|μ|²" if labels == "coarse" else "λ μ/|μ|²"
    figure = Figure(
        "distance-to-ideal",
        "How far the weights are from the theorem's",
        f"√d · |w − {ideal}| in units of λ, the worst neuron of each run; line: median over seeds, "
        "band: smallest to largest. More dimensions alone do not help; more samples do.",
        sweep.panels(relative_deviation, "√d |w − ideal| / λ"),
    )
    return sweep, checks, figure


def averaging(settings: ClaimSettings) -> Evidence:
    """Theorem 1, parts 1 and 2."""
    sweep, checks, figure = _learned("coarse", settings)
    bias = slope(list(map(float, DIMENSIONS)), list(sweep.worst(sweep.by_d, lambda r: r.bias)))
    lam = float(min(run.lam for run in sweep.by_k[-1]))
    relative = sweep.worst(sweep.by_k, relative_deviation)
    return Evidence(
        checks=(
            *checks,
            Check("λ in the theorem's regime, smallest seed", lam, ">=", 1.0),
            Check("exponent of the largest |bias| in d", bias, "<=", -0.9, note="o(1)"),
            *sweep.accuracy_checks(),
        ),
        figures=(figure,),
        numbers=sweep.numbers(),
        finding=(
            f"In the theorem's regime the weights are the average up to {relative[-1]:.1%} of it at "
            f"k = {sweep.regime[-1]} ({relative[0]:.1%} at k = 2), with λ = {lam:.1f}. What is left is "
            f"the noise of n samples, not of d dimensions. {sweep.where_errors()}"
        ),
    )


def decoupling(settings: ClaimSettings) -> Evidence:
    """Theorem 4, parts 1 and 2, and Lemma 10's bounds on lambda."""
    sweep, checks, figure = _learned("fine", settings)
    below, above = [], []
    for k, runs in zip(sweep.regime, sweep.by_k, strict=True):
        for run in runs:
            log_time = run.log_time  # log(eta T); T itself is that over eta = d^-2
            below.append(run.smallest / (log_time / 4))
            above.append(run.largest / (4 * (log_time + 20 * math.log(k))))
    k = sweep.regime[-1]
    lam = float(min(run.lam for run in sweep.by_k[-1]))
    relative = sweep.worst(sweep.by_k, relative_deviation)
    return Evidence(
        checks=(
            *checks,
            Check("smallest λ over Lemma 10's lower bound ln(ηT)/4", min(below), ">=", 1.0),
            Check("largest λ over Lemma 10's upper bound 4 ln(T+1)", max(above), "<=", 1.0),
            Check(f"λ over 2 ln k, k = {k}", lam / (2 * math.log(k)), ">=", 1.0, note="Ω(log k)"),
            *sweep.accuracy_checks(),
        ),
        figures=(figure,),
        numbers=sweep.numbers()
        | {"lambda_over_lower_bound": below, "lambda_over_upper_bound": above},
        finding=(
            f"With cluster labels each group is its own feature up to {relative[-1]:.1%} at k = {k} "
            f"({relative[0]:.1%} at k = 2); λ = {lam:.1f} lies well inside Lemma 10's bounds. "
            f"{sweep.where_errors()}"
        ),
    )


def coefficients(settings: ClaimSettings) -> Evidence:
    """The talk's form of the theorem: ratios inside a class, size across classes."""
    sweep = Sweep("coarse", settings)

    def excess(run: RunSummary) -> float:
        return run.within - 1.0

    n_slope = slope(list(map(float, SIZES)), list(sweep.median(sweep.by_n, excess)))
    d_slope = slope(
        list(map(float, DIMENSIONS)), list(sweep.median(sweep.by_d, lambda r: r.across))
    )
    # Two clusters leave one feature a class: the ratio says something from k = 3 on.
    last = sweep.by_k[-1]
    within, across = max(r.within for r in last), max(r.across for r in last)
    k = sweep.regime[-1]
    runs = [
        (r.smallest, "d", d) for d, row in zip(DIMENSIONS, sweep.by_d, strict=True) for r in row
    ]
    runs += [(r.smallest, "n", n) for n, row in zip(SIZES, sweep.by_n, strict=True) for r in row]
    runs += [
        (r.smallest, "k", c) for c, row in zip(sweep.regime, sweep.by_k, strict=True) for r in row
    ]
    smallest, axis, where = min(runs)
    figures = (
        Figure(
            "within",
            "Inside a class all coefficients tend to the same value",
            "Largest ratio of a neuron's coefficients λ inside its class, minus one. It falls with "
            "the number of samples, because clusters are of ever more equal size.",
            sweep.panels(lambda r: max(excess(r), 1e-12), "ratio − 1")[:2],
        ),
        Figure(
            "across",
            "Across classes the coefficients vanish",
            "Largest |λ| on a feature of the other class, relative to λ on its own.",
            sweep.panels(lambda r: r.across, "|λ across| / λ"),
        ),
    )
    return Evidence(
        checks=(
            Check("exponent of (ratio inside a class − 1) in n", n_slope, "within", (-0.65, -0.35)),
            Check("exponent of |λ across| / λ in d", d_slope, "<=", -0.1),
            Check(f"ratio inside a class in the theorem's regime, k = {k}", within, "<=", 1.05),
            Check(f"|λ across| / λ in the theorem's regime, k = {k}", across, "<=", 0.05),
            Check(
                "smallest λ inside a class over all runs",
                smallest,
                ">=",
                1.0,
                note=f"Ω(1); the smallest is at {axis} = {where:,}",
            ),
        ),
        figures=figures,
        numbers=sweep.numbers(),
        finding=(
            f"Inside a class the coefficients agree to {within - 1:.2%} at k = {k} in the theorem's regime; "
            f"at k = 10 the gap closes like n<sup>{n_slope:.2f}</sup>. Across classes they are "
            f"{across:.2%} of λ there and fall like d<sup>{d_slope:.2f}</sup>."
        ),
    )


CLAIMS = (
    Claim(
        id="theorem-1-averaging",
        title="Class labels make the network average",
        theme="Theorem 1: averaging",
        statement=(
            "After training on class labels, |w<sub>s,r</sub> − λ Σ<sub>j∈J<sub>s</sub></sub> "
            "μ<sub>j</sub>/|μ<sub>j</sub>|²| = o(d<sup>−1/2</sup>) for every neuron, with λ = Ω(1) and "
            "biases o(1), and the clean accuracy is nearly perfect."
        ),
        source="arXiv 2410.10322, Theorem 1, parts 1 and 2",
        measured="√d times that distance, biases and clean accuracy: against d, against n, for d = k¹⁰",
        run=averaging,
        minutes=0.5,
    ),
    Claim(
        id="theorem-1-coefficients",
        title="Same coefficients inside a class, none across",
        theme="Theorem 1: averaging",
        statement=(
            "λ<sub>s,r,j</sub> = Ω(1) and λ<sub>s,r,j</sub>/λ<sub>s,r,j′</sub> = 1 ± o(1) for features "
            "j, j′ of class s; λ<sub>s,r,j</sub> = o(1) for features of the other class."
        ),
        source="Talk at CSML 2024, theorem on averaged features",
        measured="the coefficients of every neuron as d and n grow",
        run=coefficients,
        minutes=0.1,
    ),
    Claim(
        id="theorem-4-decoupling",
        title="Cluster labels make it learn each feature",
        theme="Theorem 4: decoupling",
        statement=(
            "After training on cluster labels, |w<sub>j,r</sub> − λ μ<sub>j</sub>/|μ<sub>j</sub>|²| = "
            "o(d<sup>−1/2</sup>) with λ = Ω(log k), ln(ηT)/4 ≤ λ<sub>j,r,j</sub> ≤ 4 ln(T+1), and the "
            "clean accuracy is nearly perfect."
        ),
        source="arXiv 2410.10322, Theorem 4, parts 1 and 2; lecture, Lemmas 8, 10 and 11",
        measured="√d times that distance, λ and clean accuracy: against d, against n, for d = k¹⁰",
        run=decoupling,
        minutes=0.5,
    ),
)
