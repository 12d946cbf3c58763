r"""The numbers behind Lemmas 6 to 12 and the proof of Theorem 5, in the regime of Theorem 4.

All of them are measured against one small number (Lemma 12),

    epsilon = max{ 2 ln(n/k) / (sqrt(n/k) - ln(n/k)),  k^2 Delta / d,  k^2 / n },   Delta = sqrt(d) ln d.

The regime is d = Omega(k^10), n = Omega(k^7). At k = 2 or 3 a constant of one before k^10 leaves
|w| = lambda / sqrt(d) too large for Lemma 9, so these runs have d = 100 k^10, which Omega allows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.special import ndtri

from featavg.figures.figure import Axis, Figure, Lines, Series
from featavg.figures.result import Result
from featavg.measures.power_law import power_law_exponent
from featavg.paper.theorems.theorem_runs import TheoremRun, theorem_run
from featavg.progress import Progress, silent

REGIME_CONSTANT = 100
# The bounds are a third of themselves or more away: an error of 0.4% in lambda is nothing to them.
TOLERANCE = 1e-3
# A fresh noise vector passes |<w, xi>| <= 4.9 |w| all but once in a million.
RARE = float(ndtri(1 - 0.5e-6))


def epsilon(k: float, n: float, d: float) -> float:
    """Lemma 12's epsilon.

    >>> round(epsilon(3, 3**7, 3.0**10), 3)
    0.646
    """
    each = n / k
    first = 2 * math.log(each) / (math.sqrt(each) - math.log(each))
    return max(first, k**2 * math.log(d) / math.sqrt(d), k**2 / n)


def epsilon_in_regime(k: float, d_power: float = 10.0, n_power: float = 7.0) -> float:
    """epsilon for d = k^d_power and n = k^n_power."""
    return epsilon(k, k**n_power, k**d_power)


def epsilon_exponent(d_power: float = 10.0, n_power: float = 7.0) -> float:
    """The exponent of epsilon in k for large k (10^8 to 10^12), where logarithms hardly count."""
    clusters = np.geomspace(1e8, 1e12, 5)
    return power_law_exponent(clusters, [epsilon_in_regime(k, d_power, n_power) for k in clusters])


def _over(part: float, whole: float) -> float:
    """A ratio that is infinite, not negative, where nothing is allowed or nothing is left."""
    return part / whole if whole > 0 else math.inf


def _drawable(ratios: Float[ndarray, " v"]) -> Float[ndarray, " v"]:
    return np.where(np.isfinite(ratios) & (ratios > 0), ratios, np.nan)


@dataclass(frozen=True, eq=False, repr=False)
class DecouplingLemmas(Result):
    """Lemma by lemma, what was measured over what is allowed (at most 1 where a lemma holds).

    Attributes:
        clusters: k of each row.
        runs: a row for each k, a run for each seed.

    Returned by `fa.decoupling_lemmas`, which has an example.
    """

    clusters: tuple[int, ...]
    runs: tuple[tuple[TheoremRun, ...], ...]

    def table(self, name: str) -> Float[ndarray, "v s"]:
        """The ratio called `name` for each k and seed."""
        return np.array([[self.ratios(run)[name] for run in row] for row in self.runs])

    @property
    def epsilons(self) -> tuple[float, ...]:
        """Lemma 12's epsilon for each k."""
        return tuple(epsilon(row[0].k, row[0].n, row[0].d) for row in self.runs)

    @staticmethod
    def ratios(run: TheoremRun) -> dict[str, float]:
        """Measured over allowed, for one run."""
        small = epsilon(run.k, run.n, run.d)
        lam = float(run.lam[-1])
        spread = max(abs(run.largest[-1] - lam), abs(run.smallest[-1] - lam)) / lam
        return {
            "lemma 6": run.inner_gap / (small / 6),
            "lemma 7, features": float(run.across[-1]) / small,
            "lemma 7, noise": run.noise_off / (2 * small),
            "lemma 9": RARE * run.longest / (small / 6),
            "lemma 11": spread / (204 * run.k**2 * small),
            "lemma 11, without its constant": spread / small,
            "theorem 5, norm": math.sqrt(run.d) * run.longest / (2 * lam),
            "theorem 5, own": _over(0.75 * lam, run.own_low),
            "theorem 5, other": _over(run.other_high, 0.75 * lam - math.log(run.k)),
        }

    def figure(self) -> Figure:
        """Every ratio against k."""
        names = [name for name in self.ratios(self.runs[0][0]) if name != "lemma 11"]
        lines = tuple(
            Series(
                name,
                self.clusters,
                _drawable(self.table(name).max(axis=1)),
                "decoupled" if "theorem" in name else "neutral",
                "line+markers",
                shade=0.3 + 0.7 * i / len(names),
            )
            for i, name in enumerate(names)
        )
        ticks = tuple(map(str, self.clusters))
        return Figure(
            "lemmas",
            "Measured over allowed",
            "Each quantity of Lemmas 6 to 11 and of the proof of Theorem 5 over its bound, worst seed; "
            f"d = {REGIME_CONSTANT} k¹⁰, n = k⁷, ηT = k⁸. Below 1 a lemma holds.",
            (
                Lines(
                    Axis("clusters k", ticks=self.clusters, tick_labels=ticks),
                    Axis("measured / allowed", log=True),
                    lines,
                ),
            ),
        )

    def to_json(self) -> dict[str, Any]:
        """Every ratio, and epsilon."""
        names = self.ratios(self.runs[0][0])
        plain: dict[str, Any] = {name: self.table(name).tolist() for name in names}
        return plain | {"clusters": list(self.clusters), "epsilon": list(self.epsilons)}

    def summary(self) -> str:
        """The worst ratio of each lemma."""
        names = self.ratios(self.runs[0][0])
        lines = [f"  {name:32} {self.table(name).max():.3g}" for name in names]
        return "\n".join([f"Measured over allowed, k = {self.clusters}", *lines])


def decoupling_lemmas(
    seeds: tuple[int, ...] = (0, 1), clusters: tuple[int, ...] = (2, 3), progress: Progress = silent
) -> DecouplingLemmas:
    """Runs with cluster labels at d = 100 k^10, n = k^7, and what the lemmas allow.

    Args:
        seeds: one network and one sample for each.
        clusters: values of k.
        progress: called with the share done and a note.

    >>> import featavg as fa
    >>> fa.decoupling_lemmas(seeds=(0,), clusters=(2,))
    Measured over allowed, k = (2,)
    ...
    """
    rows = []
    for i, k in enumerate(clusters):
        progress(i / len(clusters), f"k = {k}")
        rows.append(
            tuple(
                theorem_run("fine", k, seed, REGIME_CONSTANT, tolerance=TOLERANCE) for seed in seeds
            )
        )
    return DecouplingLemmas(clusters, tuple(rows))
