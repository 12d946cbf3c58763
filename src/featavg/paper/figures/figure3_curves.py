"""Figure 3, left, with exact curves beside PGD's, and what the read-out hides from PGD."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.figures.figure import Axis, Figure, Lines, Series
from featavg.figures.marks import Role
from featavg.figures.result import Result
from featavg.paper.theorems.radius_runs import (
    D,
    K,
    RadiusCase,
    crossing,
    measured_radii,
    pgd_accuracy,
)
from featavg.progress import Progress, silent
from featavg.robustness.exact.result import Radii

POINTS = 200  # for each seed
ATTACKED = 80  # points for each seed for PGD, which is the slowest of all
BRACKETED = 20  # points for each seed for `probability`, which costs a hundred times as much
AT = tuple(np.linspace(0.0, 48.0, 33).tolist())
# Read by eye off the published figure 3, left panel: robust accuracy in percent, good to 1.5 points.
PUBLISHED_AVERAGED = {12: 100, 14: 91, 16: 31, 18: 2, 20: 1, 22: 0}
PUBLISHED_DECOUPLED = {34: 100, 36: 86, 38: 35, 40: 14, 42: 4, 44: 0}
# Networks of the read-out comparison: labels, read-out, theory of a cluster's centre, colour, shade.
READOUT_ROWS: dict[str, tuple[str, str, float, Role, float]] = {
    "averaged": ("coarse", "sum", math.sqrt(D / K), "averaged", 1.0),
    "decoupled, max": ("fine", "max", math.sqrt(D / 2), "decoupled", 1.0),
    "decoupled, sum": ("fine", "sum", math.sqrt(D / (1 + K / 2)), "decoupled", 0.5),
}


def published_median(values: dict[int, int]) -> float:
    """Where a published curve is half down."""
    return crossing(np.array(list(values), dtype=float), np.array(list(values.values())) / 100)


def middle_radius(result: Radii) -> float:
    """The median radius; the middle of its bracket where there is one."""
    return float(np.mean(result.median))


def _band(label: str, result: Radii, role: Role, shade: float = 1.0) -> Series:
    lower, upper = result.robust_accuracy(np.array(AT))
    return Series(label, AT, (lower + upper) / 2, role, "solid", lower, upper, shade)


def _markers(label: str, values: dict[int, int]) -> Series:
    return Series(label, list(values), [v / 100 for v in values.values()], "published", "markers")


def _panel(series: tuple[Series, ...]) -> Lines:
    return Lines(Axis("radius", "l2", range=(8.0, 48.0)), Axis("robust accuracy"), series)


@dataclass(frozen=True, eq=False, repr=False)
class RobustCurves(Result):
    """Radii at the paper's setting, exact or bracketed, and robust accuracy as PGD-40 shows it.

    Attributes:
        averaged: of the binary network.
        largest, added, probability: of the grouped one under max, sum, probability.
        pgd_averaged, pgd_decoupled: robust accuracy under PGD-40 at the radii `AT`.

    Returned by `fa.robust_curves`, which has an example.
    """

    averaged: Radii
    largest: Radii
    added: Radii
    probability: Radii
    pgd_averaged: Float[ndarray, " q"]
    pgd_decoupled: Float[ndarray, " q"]

    @property
    def published(self) -> tuple[float, float]:
        """Where the published curves are half down, averaged and decoupled."""
        return published_median(PUBLISHED_AVERAGED), published_median(PUBLISHED_DECOUPLED)

    def figure(self) -> Figure:
        """Figure 3, left."""
        lines = (
            _band("averaged", self.averaged, "averaged"),
            Series("averaged, PGD-40", AT, self.pgd_averaged, "averaged", "dotted"),
            _band("decoupled", self.probability, "decoupled"),
            Series("decoupled, PGD-40", AT, self.pgd_decoupled, "decoupled", "dotted"),
            _band("decoupled, max", self.largest, "decoupled", 0.6),
            _band("decoupled, sum", self.added, "decoupled", 0.3),
            _markers("published, 2", PUBLISHED_AVERAGED),
            _markers("published, 10", PUBLISHED_DECOUPLED),
        )
        return Figure(
            "robust-accuracy",
            "Averaged features break at half the radius",
            "Robust accuracy against the l2 radius at the paper's setting, exact; for the decoupled "
            "network read out by probability the band reaches from the certificate to the attack. "
            "Dotted: PGD-40 on the same networks; markers: read off the published figure, 2 and 10 "
            "classes.",
            (_panel(lines),),
            headline=True,
        )

    def to_json(self) -> dict[str, Any]:
        """Medians, published medians, PGD's curves."""
        names = ("averaged", "largest", "added", "probability")
        return {
            "median": {name: getattr(self, name).median for name in names},
            "published_median": self.published,
            "radii": AT,
            "pgd_averaged": self.pgd_averaged.tolist(),
            "pgd_decoupled": self.pgd_decoupled.tolist(),
        }

    def summary(self) -> str:
        """The medians."""
        low, high = self.probability.median
        return (
            f"Median l2 radii at the paper's setting: averaged {middle_radius(self.averaged):.1f} "
            f"(published {self.published[0]:.1f}); decoupled {low:.1f} to {high:.1f} by probability "
            f"(published {self.published[1]:.1f}), {middle_radius(self.largest):.1f} by max, "
            f"{middle_radius(self.added):.1f} by sum"
        )


def robust_curves(
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4), progress: Progress = silent
) -> RobustCurves:
    """Figure 3, left: both networks at the paper's setting, exact radii and PGD-40.

    Args:
        seeds: one network and one sample for each.
        progress: called with the share done and a note.

    >>> import featavg as fa  # long
    >>> fa.robust_curves(seeds=(0,))
    Median l2 radii at the paper's setting: averaged ...
    """
    coarse, fine = RadiusCase("coarse"), RadiusCase("fine")
    progress(0.0, "exact radii")
    averaged = measured_radii(coarse, "sum", seeds, POINTS)
    largest = measured_radii(fine, "max", seeds, POINTS)
    added = measured_radii(fine, "sum", seeds, POINTS)
    progress(0.3, "brackets for the read-out by probability")
    probability = measured_radii(fine, "probability", seeds, BRACKETED, 0.02)
    progress(0.9, "PGD-40")
    return RobustCurves(
        averaged,
        largest,
        added,
        probability,
        pgd_accuracy(coarse, "probability", seeds, ATTACKED, AT),
        pgd_accuracy(fine, "probability", seeds, ATTACKED, AT),
    )


@dataclass(frozen=True, eq=False, repr=False)
class ReadoutComparison(Result):
    """Exact radii and PGD-40's robust accuracy of the same networks, read-out by read-out.

    Attributes:
        exact: the radii of each row of `READOUT_ROWS`.
        pgd: robust accuracy under PGD-40 at the radii `AT`.

    Returned by `fa.compare_readouts`, which has an example.
    """

    exact: Mapping[str, Radii]
    pgd: Mapping[str, Float[ndarray, " q"]]

    def shown(self, row: str) -> float:
        """The median radius as PGD-40 shows it."""
        return crossing(np.array(AT), self.pgd[row])

    def overstated(self, row: str) -> float:
        """What PGD-40 shows over the exact median."""
        return self.shown(row) / middle_radius(self.exact[row])

    def against_theory(self, row: str) -> float:
        """The exact median over the theory of a cluster's centre."""
        return middle_radius(self.exact[row]) / READOUT_ROWS[row][2]

    def figure(self) -> Figure:
        """Exact curves and PGD's."""
        series = []
        for name, result in self.exact.items():
            _, _, _, role, shade = READOUT_ROWS[name]
            series += [
                _band(f"{name}, exact", result, role, shade),
                Series(f"{name}, PGD-40", AT, self.pgd[name], role, "dotted", shade=shade),
            ]
        return Figure(
            "read-outs",
            "PGD does not see what the sum read-out costs",
            "Robust accuracy against the l2 radius, exact and as PGD-40 shows it, for the same "
            "networks under the read-outs max and sum.",
            (_panel(tuple(series)),),
        )

    def to_json(self) -> dict[str, Any]:
        """Medians: PGD's, exact, theory."""
        return {
            name: {
                "pgd": self.shown(name),
                "exact": middle_radius(result),
                "theory": READOUT_ROWS[name][2],
            }
            for name, result in self.exact.items()
        }

    def summary(self) -> str:
        """One line for each row."""
        lines = [
            f"  {name:15}  PGD-40 {row['pgd']:5.1f}  exact {row['exact']:5.1f}  theory {row['theory']:5.1f}"
            for name, row in self.to_json().items()
        ]
        return "\n".join(["Median l2 radii", *lines])


def compare_readouts(
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4), progress: Progress = silent
) -> ReadoutComparison:
    """The same networks under their read-outs: exact medians against PGD-40's.

    Args:
        seeds: one network and one sample for each.
        progress: called with the share done and a note.

    >>> import featavg as fa
    >>> fa.compare_readouts(seeds=(0,))
    Median l2 radii
    ...
    """
    exact, pgd = {}, {}
    for i, (name, (labels, readout, *_)) in enumerate(READOUT_ROWS.items()):
        progress(i / len(READOUT_ROWS), name)
        exact[name] = measured_radii(RadiusCase(labels), readout, seeds, POINTS)
        pgd[name] = pgd_accuracy(RadiusCase(labels), readout, seeds, ATTACKED, AT)
    return ReadoutComparison(exact, pgd)
