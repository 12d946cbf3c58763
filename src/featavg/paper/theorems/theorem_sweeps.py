"""One quantity of Theorems 1 and 4 in three ways: against d, against n, and in their own regime."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.figures.figure import Axis, Figure, Lines, Series
from featavg.figures.marks import Role
from featavg.figures.result import Result
from featavg.measures.accuracy import Accuracy, wilson
from featavg.paper.theorems.theorem_runs import TheoremRun, scaled_run, theorem_run
from featavg.progress import Progress, silent

DIMENSIONS = (10**3, 10**5, 10**7, 10**9)
# Below the smallest dimension, so that features and noise stay linearly independent there.
SAMPLES = 900
# d = 10^6 stands clear of every n here.
SIZES = (200, 400, 800, 1600)
SIZES_D = 10**6
ROLE: dict[str, Role] = {"coarse": "averaged", "fine": "decoupled"}
Quantity = Callable[[TheoremRun], float]
Runs = tuple[tuple[TheoremRun, ...], ...]


def relative_deviation(run: TheoremRun) -> float:
    """sqrt(d) |w - lambda sum mu/|mu|^2| in units of lambda, at the end of a run."""
    return run.relative_deviation


@dataclass(frozen=True, eq=False, repr=False)
class TheoremSweep(Result):
    """All runs with one kind of labels; each table has a row for each value and a run for each seed.

    Attributes:
        labels: "coarse" or "fine".
        dimensions, by_d: n = SAMPLES, k = 10, at the paper's time.
        sizes, by_n: d = SIZES_D, k = 10, at the paper's time.
        clusters, by_k: d = k^10, n = k^7, up to eta T = k^8.

    Returned by `fa.theorem_sweep`, which has an example.
    """

    labels: str
    dimensions: tuple[int, ...]
    by_d: Runs
    sizes: tuple[int, ...]
    by_n: Runs
    clusters: tuple[int, ...]
    by_k: Runs

    def table(self, runs: Runs, quantity: Quantity) -> Float[ndarray, "v s"]:
        """The quantity of every run."""
        return np.array([[quantity(run) for run in row] for row in runs])

    def panels(self, quantity: Quantity, label: str) -> tuple[Lines, ...]:
        """The quantity against d, against n, and against k in the theorems' regime."""
        ticks = tuple(map(str, self.clusters))
        axes = (
            (Axis("dimension d", log=True), self.dimensions, self.by_d, f"n = {SAMPLES}, k = 10"),
            (Axis("samples n", log=True), self.sizes, self.by_n, f"d = {SIZES_D:,}, k = 10"),
            (
                Axis("clusters k", ticks=self.clusters, tick_labels=ticks),
                self.clusters,
                self.by_k,
                "d = k¹⁰, n = k⁷",
            ),
        )
        return tuple(
            Lines(
                axis,
                Axis(label, log=True),
                (
                    Series.over_seeds(
                        f"{self.labels} labels",
                        values,
                        self.table(runs, quantity).T,
                        ROLE[self.labels],
                        "line+markers",
                    ),
                ),
                title=title,
            )
            for axis, values, runs, title in axes
        )

    def figure(self) -> Figure:
        """How far the weights are from those of the theorem."""
        ideal = "λ Σ μ/|μ|²" if self.labels == "coarse" else "λ μ/|μ|²"
        return Figure(
            "distance-to-ideal",
            "How far the weights are from the theorem's",
            f"√d · |w − {ideal}| in units of λ, the worst neuron of each run; line: median over "
            "seeds, band: smallest to largest. More dimensions alone do not help; more samples do.",
            self.panels(relative_deviation, "√d |w − ideal| / λ"),
        )

    def accuracy(self, runs: Runs, fine: bool = False) -> Accuracy:
        """The clean accuracy over some runs: of the coarse decision, or of the largest output."""
        flat = [run for row in runs for run in row]
        wrong = sum(run.fine_errors if fine else run.errors for run in flat)
        return wilson(sum(run.tests for run in flat) - wrong, sum(run.tests for run in flat))

    def to_json(self) -> dict[str, Any]:
        """The end of every run."""
        tables = (("d", self.by_d), ("n", self.by_n), ("k", self.by_k))
        return {
            f"against_{axis}": [run.to_json() for row in runs for run in row]
            for axis, runs in tables
        }

    def summary(self) -> str:
        """One line for each value of an axis."""
        lines = [f"Theorem runs with {self.labels} labels: median of √d |w − ideal| / λ, and of λ"]
        tables = (
            ("d", self.dimensions, self.by_d),
            ("n", self.sizes, self.by_n),
            ("k", self.clusters, self.by_k),
        )
        for axis, values, runs in tables:
            far = np.median(self.table(runs, relative_deviation), axis=1)
            lam = np.median(self.table(runs, lambda run: float(run.lam[-1])), axis=1)
            lines += [
                f"  {axis} = {value:>13,}  {distance:8.4f}  {size:8.3f}"
                for value, distance, size in zip(values, far, lam, strict=True)
            ]
        return "\n".join(lines)


def clusters_of_tier(full: bool) -> tuple[int, ...]:
    """k of the runs in the theorems' regime: k = 4 takes gigabytes and minutes."""
    return (2, 3, 4) if full else (2, 3)


def largest_dimension(labels: str, seeds: tuple[int, ...]) -> tuple[TheoremRun, ...]:
    """The last row of a sweep against d, without the rest of the sweep."""
    return tuple(scaled_run(labels, DIMENSIONS[-1], SAMPLES, seed) for seed in seeds)


def theorem_sweep(
    labels: str,
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4),
    clusters: tuple[int, ...] = (2, 3),
    progress: Progress = silent,
) -> TheoremSweep:
    """Run (or remember) all runs of a sweep.

    Args:
        labels: "coarse" for Theorem 1, "fine" for Theorem 4.
        seeds: one run each, at every value.
        clusters: k of the runs in the theorems' regime; k = 4 takes gigabytes and minutes.

    >>> import featavg as fa  # long
    >>> fa.theorem_sweep("coarse", seeds=(0,), clusters=(2,))
    Theorem runs with coarse labels: median of √d |w − ideal| / λ, and of λ
    ...
    """
    total = len(DIMENSIONS) + len(SIZES) + len(clusters)
    done = 0

    def along(values: tuple[int, ...], run: Callable[[int, int], TheoremRun]) -> Runs:
        nonlocal done
        rows = []
        for value in values:
            progress(done / total, f"{labels} labels, {value:,}")
            rows.append(tuple(run(value, seed) for seed in seeds))
            done += 1
        return tuple(rows)

    by_d = along(DIMENSIONS, lambda d, seed: scaled_run(labels, d, SAMPLES, seed))
    by_n = along(SIZES, lambda n, seed: scaled_run(labels, SIZES_D, n, seed))
    by_k = along(clusters, lambda k, seed: theorem_run(labels, k, seed))
    return TheoremSweep(labels, DIMENSIONS, by_d, SIZES, by_n, clusters, by_k)
