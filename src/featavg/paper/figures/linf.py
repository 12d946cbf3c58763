r"""Exact l_inf radii of averaged and decoupled networks, with features along axes and turned at random.

What to expect of networks without noise in their weights. A step of l_inf length t changes <w, x> by
at most t |w|_1. Features in random directions have Gaussian coordinates, so a sum of q of them
has |.|_1 = d sqrt(2 q / pi), and a point of one cluster, where the margin is d, is flipped at

    averaged:            t |sum_{J+} mu - sum_{J-} mu|_1 = d,   t = sqrt(pi / (2 k));
    decoupled, `max`:    t |mu_i - mu_j|_1 = d,                 t = sqrt(pi) / 2.

So t does not depend on d and the ratio is sqrt(k/2), the ratio of the l2 radii. Features along axes
have few coordinates, and what counts in |w|_1 is the noise that training left in the other d - k.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.data.clusters import MultiCluster
from featavg.figures.figure import Axis, Figure, Lines, Rule, Series
from featavg.figures.marks import Role
from featavg.figures.result import Result
from featavg.measures.power_law import power_law_exponent
from featavg.progress import Progress, silent
from featavg.robustness.exact.result import Radii
from featavg.robustness.radii import radii
from featavg.training.train import train

LINF_CLUSTERS, LINF_DIMENSIONS, TRAINING, POINTS = 10, (200, 400, 800), 200, 6
ORIENTATIONS = {"random": "features in random directions", "axes": "features along axes"}
NETWORKS = {"averaged": ("coarse", "sum"), "decoupled": ("fine", "max")}
THEORY = {"averaged": math.sqrt(math.pi / (2 * LINF_CLUSTERS)), "decoupled": math.sqrt(math.pi) / 2}
Medians = Float[ndarray, "d s"]


@dataclass(frozen=True, eq=False, repr=False)
class LinfRadii(Result):
    """Median exact l_inf radius by dimension and seed, for each orientation and network.

    Attributes:
        medians: keyed by (orientation, network).
        exact: the share of points for which certificate and attack meet.

    Returned by `fa.linf_study`, which has an example.
    """

    medians: Mapping[tuple[str, str], Medians]
    exact: float

    def ratio(self, orientation: str) -> Medians:
        """Decoupled over averaged radius."""
        return self.medians[orientation, "decoupled"] / self.medians[orientation, "averaged"]

    def against_theory(self, network: str) -> float:
        """Mean radius at the largest d with features in random directions, over the theory."""
        return float(self.medians["random", network].mean(axis=1)[-1] / THEORY[network])

    @property
    def exponent(self) -> float:
        """Of the averaged network's radius in d, features in random directions."""
        return power_law_exponent(LINF_DIMENSIONS, self.medians["random", "averaged"].mean(axis=1))

    def figure(self) -> Figure:
        """Both orientations."""
        panels = []
        for orientation, title in ORIENTATIONS.items():
            series = []
            for name in NETWORKS:
                rows = self.medians[orientation, name]
                role: Role = "averaged" if name == "averaged" else "decoupled"
                low, high = rows.min(axis=1), rows.max(axis=1)
                series.append(
                    Series(name, LINF_DIMENSIONS, rows.mean(axis=1), role, lo=low, hi=high)
                )
            labels = {"averaged": "√(π/2k)", "decoupled": "√π/2"}
            rules = tuple(Rule(THEORY[name], label=labels[name]) for name in NETWORKS)
            panels.append(
                Lines(
                    Axis("dimension d", log=True),
                    Axis("median radius", "l_inf"),
                    tuple(series),
                    rules=rules if orientation == "random" else (),
                    title=title,
                )
            )
        return Figure(
            "linf-radii",
            "Averaging hurts in l_inf as well",
            "Exact median l_inf radius of fresh points against d, mean and range over seeds. The "
            "decoupled network (max read-out) stands larger perturbations than the averaged one, with "
            "features in random directions at every d by about √(k/2), as in l2.",
            tuple(panels),
        )

    def to_json(self) -> dict[str, Any]:
        """Every median."""
        return {
            "dimensions": list(LINF_DIMENSIONS),
            "medians": {f"{o}, {n}": m.tolist() for (o, n), m in self.medians.items()},
            "smallest_ratio": {o: float(self.ratio(o).min()) for o in ORIENTATIONS},
            "exponent": self.exponent,
            "exact": self.exact,
        }

    def summary(self) -> str:
        """The ratio at the largest d."""
        lines = [
            f"  {title}: decoupled / averaged = {np.median(self.ratio(o)[-1]):.2f}"
            for o, title in ORIENTATIONS.items()
        ]
        return "\n".join(
            [f"Exact l_inf radii, k = {LINF_CLUSTERS}, d = {LINF_DIMENSIONS[-1]}", *lines]
        )


def linf_study(seeds: tuple[int, ...] = (0, 1, 2, 3, 4), progress: Progress = silent) -> LinfRadii:
    """Train both networks in R^d with both orientations and measure exact l_inf radii.

    Args:
        seeds: one network and one sample for each.
        progress: called with the share done and a note.

    >>> import featavg as fa  # long
    >>> fa.linf_study(seeds=(0,))
    Exact l_inf radii, k = 10, d = 800
    ...
    """
    keys = [(o, n, d) for o in ORIENTATIONS for n in NETWORKS for d in LINF_DIMENSIONS]
    medians: dict[tuple[str, str], list[list[float]]] = {}
    gaps: list[float] = []
    for i, (orientation, network, d) in enumerate(keys):
        progress(i / len(keys), f"{network}, {ORIENTATIONS[orientation]}, d = {d}")
        parts = [_radii(orientation, network, d, seed) for seed in seeds]
        row = [float(np.median(part.certified)) for part in parts]
        medians.setdefault((orientation, network), []).append(row)
        gaps += [gap for part in parts for gap in part.gaps.tolist()]
    tables = {key: np.array(rows) for key, rows in medians.items()}
    return LinfRadii(tables, float(np.mean(np.array(gaps) < 1e-6)))


def _radii(orientation: str, network: str, d: int, seed: int) -> Radii:
    """Exact radii of fresh points, after the paper's training at the same product of rate and d."""
    task = MultiCluster(k=LINF_CLUSTERS, d=d, orientation=orientation)
    labels, readout = NETWORKS[network]
    run = train(
        task, labels=labels, n=TRAINING, seed=seed, lr=1e-3 * 3072 / d, coordinates="ambient"
    )
    return radii(run, task.sample(POINTS, seed=seed), norm="linf", readout=readout, jobs=1)
