"""Radii of the same points by our attack and by others: who is longer, how often, by how much."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.figures.figure import Axis, Figure, Lines, Series
from featavg.figures.marks import Style
from featavg.figures.result import Result


@dataclass(frozen=True, eq=False, repr=False)
class AttackComparison(Result):
    """Radii of the same points by our attack and by others, each with the same budget.

    Attributes:
        network: what was attacked, in words.
        norm, unit: of the radii.
        budget: gradients per point that every attack may spend; APGD at each radius.
        ours: our radii: 0 where the decision is wrong anyway, infinite where no flip was found.
        others: radii of each opponent.
        gradients: per point, really spent, by attack.
        apgd_radii, apgd_accuracy: where APGD was run, and the share of points that stay right.

    Returned by `fa.compare_attacks`, which has an example.
    """

    network: str
    norm: str
    unit: str
    budget: int
    ours: Float[ndarray, " n"]
    others: Mapping[str, Float[ndarray, " n"]]
    gradients: Mapping[str, float]
    apgd_radii: tuple[float, ...] = ()
    apgd_accuracy: tuple[float, ...] = ()

    @property
    def best_of_others(self) -> Float[ndarray, " n"]:
        """Point by point, the smallest radius that any opponent found."""
        return np.min(list(self.others.values()), axis=0)

    @property
    def longer(self) -> float:
        """The share of points where ours is over 1% longer than the best of the others."""
        return float(np.mean(self.ours > 1.01 * self.best_of_others))

    @property
    def shorter(self) -> float:
        """The share of points where the best of the others is over 1% longer than ours."""
        return float(np.mean(self.best_of_others > 1.01 * self.ours))

    @property
    def mean_ratio(self) -> float:
        """The mean of ours over the best of the others, where both are finite and positive."""
        best = self.best_of_others
        both = np.isfinite(self.ours) & np.isfinite(best) & (best > 0)
        return float(np.mean(self.ours[both] / best[both]))

    @property
    def excess_points(self) -> float:
        """The most that our robust accuracy is above that of all others together, in points.

        Over every radius where a curve steps; 0 or less is what a stronger attack has.
        """
        best = self.best_of_others
        steps = np.unique(np.concatenate([self.ours, best]))
        steps = steps[np.isfinite(steps)]
        excess = [np.mean(self.ours > r) - np.mean(best > r) for r in steps]
        return 100 * float(np.max(excess, initial=-1.0))

    @property
    def apgd_excess_points(self) -> float:
        """The same against APGD, at the radii where it was run."""
        shares = [np.mean(self.ours > r) for r in self.apgd_radii]
        excess = [a - b for a, b in zip(shares, self.apgd_accuracy, strict=True)]
        return 100 * float(np.max(excess, initial=-1.0))

    def figure(self) -> Figure:
        """Robust accuracy against the radius, by each attack."""
        return comparison_figure([self])

    def panel(self) -> Lines:
        """The curves of this comparison."""
        finite = [r[np.isfinite(r)] for r in (self.ours, *self.others.values())]
        grid = np.linspace(0.0, float(np.quantile(np.concatenate(finite), 0.98)) or 1.0, 81)

        def shares(radii: ndarray) -> list[float]:
            return [100 * float(np.mean(radii > r)) for r in grid]

        series = [Series("ours", grid.tolist(), shares(self.ours), "decoupled")]
        for i, (name, radii) in enumerate(self.others.items()):
            style: Style = "dashed" if i == 0 else "dotted"
            series.append(
                Series(f"foolbox {name}", grid.tolist(), shares(radii), "published", style)
            )
        if self.apgd_radii:
            values = [100 * share for share in self.apgd_accuracy]
            series.append(
                Series("APGD", list(self.apgd_radii), values, "published", "markers", shade=0.5)
            )
        y = Axis("robust accuracy", "%", range=(0, 100))
        return Lines(Axis("radius", self.unit), y, tuple(series), f"{self.network}, {self.norm}")

    def to_json(self) -> dict[str, Any]:
        """Plain values; -1 stands for a radius that was not found."""
        return {
            "network": self.network,
            "norm": self.norm,
            "unit": self.unit,
            "budget": self.budget,
            "ours": plain_radii(self.ours),
            "others": {name: plain_radii(radii) for name, radii in self.others.items()},
            "gradients": dict(self.gradients),
            "apgd_radii": list(self.apgd_radii),
            "apgd_accuracy": list(self.apgd_accuracy),
        }

    @classmethod
    def from_json(cls, described: Mapping[str, Any]) -> AttackComparison:
        """The inverse of `to_json`."""
        return cls(
            network=described["network"],
            norm=described["norm"],
            unit=described["unit"],
            budget=described["budget"],
            ours=read_radii(described["ours"]),
            others={name: read_radii(values) for name, values in described["others"].items()},
            gradients=described["gradients"],
            apgd_radii=tuple(described["apgd_radii"]),
            apgd_accuracy=tuple(described["apgd_accuracy"]),
        )

    def numbers(self) -> dict[str, float]:
        """What the comparison comes down to."""
        names = ("mean_ratio", "longer", "shorter", "excess_points", "apgd_excess_points")
        return {name: getattr(self, name) for name in names} | {
            "median": float(np.median(np.minimum(self.ours, 1e9))),
            "images": len(self.ours),
        }

    def summary(self) -> str:
        """Medians, then how often and by how much ours is longer."""
        lines = [
            f"{self.network}: {len(self.ours)} points, {self.unit}, {self.budget} gradients each",
            f"  {'ours':20} median {np.median(self.ours):.4g}",
        ]
        lines += [
            f"  {name:20} median {np.median(radii):.4g}" for name, radii in self.others.items()
        ]
        lines += [
            f"  ours over the best of them: {self.mean_ratio:.4f} on average; over 1% longer on "
            f"{self.longer:.1%}, over 1% shorter on {self.shorter:.1%} of the points",
            f"  robust accuracy at most {self.excess_points:+.2f} points above theirs, "
            f"{self.apgd_excess_points:+.2f} above APGD's",
        ]
        return "\n".join(lines)


def comparison_figure(comparisons: Sequence[AttackComparison]) -> Figure:
    """A panel for each comparison."""
    images = max(len(comparison.ours) for comparison in comparisons)
    return Figure(
        "attack-comparison",
        "Robust accuracy by our attack, by foolbox's and by APGD",
        f"{images} test images of each network, the same decision and the same number of gradients "
        "for everyone. Lower is a stronger attack.",
        tuple(comparison.panel() for comparison in comparisons),
    )


def plain_radii(radii: Float[ndarray, " n"], digits: int = 5) -> list[float]:
    """To five digits, more than an attack can promise; -1 where no flip was found."""
    return [float(f"{r:.{digits}g}") if np.isfinite(r) else -1.0 for r in radii.tolist()]


def read_radii(values: Sequence[float]) -> Float[ndarray, " n"]:
    """The inverse of `plain_radii`."""
    given = np.asarray(values, dtype=float)
    return np.where(given < 0, np.inf, given)
