r"""Open question 1: features at equal angles. How do averaging and its cost depend on the cosine?

With pairwise cosine c and |mu_j|^2 = d the averaged network has at a feature the margin d(1 - c) and a
gradient of length sqrt(d k (1 - c)); the decoupled one, read out by `max`, is flipped half way to the
nearest feature of the other class. So

    averaged radius sqrt(d (1 - c) / k),   decoupled radius sqrt(d (1 - c) / 2),   gain sqrt(k / 2):

both fall like sqrt(1 - c) and the gain does not depend on c, from c = -1/(k-1), where the features
sum to zero, up to c = 1. The signal of a cluster falls like 1 - c too, so training takes 1/(1 - c) times
as long, and the noise is kept below it: k sigma^2 / (n (1 - c)) is at most 0.02.

The closer the features are, the more a neuron that starts out of sight of one is out of sight of all,
and never learns. A group of the decoupled network therefore has eight neurons here; what becomes
of the paper's groups of one is measured beside it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

import featavg
from featavg.figures.figure import Axis, Figure, Lines, Rule, Series
from featavg.figures.result import Result
from featavg.measures.power_law import power_law_exponent
from featavg.nets.deep import Deep
from featavg.nets.two_layer import TwoLayer
from featavg.progress import Progress, silent
from featavg.robustness.radii import radii
from featavg.simulate.measurements import net_of, seed_index
from featavg.simulate.points import SimulationPoints
from featavg.simulate.setting import Setting
from featavg.simulate.sweep.work import trained
from featavg.storage.cache import kept_values

K, D, N, SIGMA, RATE, TIME, GROUP = 10, 1000, 400, 0.2, 0.02, 1.0, 8
COSINES = (-1 / (K - 1), -0.05, 0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95)
PerCosine = Float[ndarray, "c s"]


def centre_radii(
    points: SimulationPoints, net: TwoLayer | Deep, readout: str = "max"
) -> Float[ndarray, " k"]:
    """Exact l2 radii of the centres alpha mu_j of the clusters; zero where one is misclassified."""
    task = points.task
    centres = task.alpha * points.features
    positive = task.positive_clusters
    exact = radii(net, centres, task.cluster_labels, readout=readout, positive=positive, jobs=1)
    return exact.attack


@dataclass(frozen=True, eq=False, repr=False)
class EqualAngles(Result):
    """Radii and index by cosine (rows) and seed (columns).

    Attributes:
        cosines: between any two features.
        averaged, decoupled: median exact radius over the centres, with class labels, and with cluster
            labels read out by `max`.
        single: the same as `decoupled` with one neuron per group.
        dead: share of those groups that no centre activates.
        index: averaging index of the network with class labels.

    Returned by `fa.equal_angles`, which has an example.
    """

    cosines: tuple[float, ...]
    averaged: PerCosine
    decoupled: PerCosine
    single: PerCosine
    dead: PerCosine
    index: PerCosine

    @property
    def theory(self) -> dict[str, Float[ndarray, " c"]]:
        """The two radii of the formulas."""
        signal = D * (1.0 - np.array(self.cosines))
        return {"averaged": np.sqrt(signal / K), "decoupled": np.sqrt(signal / 2)}

    @property
    def theory_gain(self) -> float:
        """sqrt(k/2), the gain of equal angles."""
        return math.sqrt(K / 2)

    @property
    def gain(self) -> PerCosine:
        """Decoupled over averaged radius."""
        return self.decoupled / self.averaged

    def worst(self, name: str) -> Float[ndarray, " s"]:
        """Largest |measured / theory - 1| over the cosines, for each seed."""
        measured = getattr(self, name)
        ratio = np.full(len(self.cosines), self.theory_gain)
        theory = ratio if name == "gain" else self.theory[name]
        return np.abs(measured / theory[:, None] - 1.0).max(axis=0)

    def exponent(self, name: str) -> list[float]:
        """Of a radius in 1 - c, for each seed."""
        gaps = 1.0 - np.array(self.cosines)
        return [float(power_law_exponent(gaps, row)) for row in getattr(self, name).T]

    def figure(self) -> Figure:
        """Radii with the theory, the gain, and the index."""
        x = self.cosines
        radii = (
            Series.over_seeds("averaged", x, self.averaged.T, "averaged", "line+markers"),
            Series.over_seeds("decoupled", x, self.decoupled.T, "decoupled", "line+markers"),
            Series.over_seeds("decoupled, one neuron per group", x, self.single.T, "neutral"),
            Series("√(d(1−c)/k)", x, self.theory["averaged"], "reference", "dashed"),
            Series("√(d(1−c)/2)", x, self.theory["decoupled"], "reference", "dotted"),
        )
        gain = Series.over_seeds("gain", x, self.gain.T, "decoupled", "line+markers")
        index = Series.over_seeds("averaging index", x, self.index.T, "averaged", "line+markers")
        axis = Axis("cosine between features")
        return Figure(
            "equal-angles",
            "The closer the features, the smaller both radii; their ratio stays",
            "Median exact radius of the clusters' centres with class labels and with cluster labels "
            "(max), against the common cosine c; bands from the smallest to the largest seed. The gain "
            "is √(k/2) at every angle.",
            (
                Lines(axis, Axis("radius", "l2"), radii, title="radii"),
                Lines(
                    axis,
                    Axis("gain", range=(0.0, 1.5 * math.sqrt(K / 2))),
                    (gain,),
                    rules=(Rule(math.sqrt(K / 2), label="√(k/2)"),),
                    title="gain",
                ),
                Lines(axis, Axis("averaging index", range=(0.0, 1.05)), (index,), title="index"),
            ),
        )

    def to_json(self) -> dict[str, Any]:
        """Every number."""
        names = ("averaged", "decoupled", "single", "dead", "index")
        return {"k": K, "d": D, "n": N, "sigma": SIGMA, "cosines": list(self.cosines)} | {
            name: getattr(self, name).tolist() for name in names
        }

    def summary(self) -> str:
        """One line for each cosine."""
        lines = [f"Equal angles, k = {K}, d = {D}: cosine, averaged, decoupled, gain, index"]
        for i, cosine in enumerate(self.cosines):
            row = (np.median(v[i]) for v in (self.averaged, self.decoupled, self.gain, self.index))
            lines.append(f"  {cosine:6.3f}" + "".join(f"{v:9.3f}" for v in row))
        return "\n".join(lines)


def equal_angles(
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4),
    cosines: tuple[float, ...] = COSINES,
    store: str | Path | None = None,
    progress: Progress = silent,
) -> EqualAngles:
    """Train with class and with cluster labels at every cosine and measure the centres' radii.

    Args:
        seeds: one sample and one initialisation each.
        cosines: between any two features.
        store: folder for finished cosines, which are then not done again.

    >>> import featavg as fa  # needs a minute
    >>> study = fa.equal_angles(seeds=(0,), cosines=(0.0, 0.5))
    """
    rows = []
    for i, cosine in enumerate(cosines):
        progress(i / len(cosines), f"cosine {cosine:.2f}")
        sizes = "-".join(map(str, (K, D, N, SIGMA, RATE, TIME, GROUP, *seeds)))
        name = f"equal-angles-{featavg.__version__}-{sizes}-cosine{cosine:.6g}"
        path = None if store is None else Path(store) / f"{name}.json"
        rows.append(kept_values(path, name, partial(_cells, cosine, seeds))["cells"])
    averaged, decoupled, one, dead, even = np.moveaxis(np.array(rows), -1, 0)
    return EqualAngles(tuple(cosines), averaged, decoupled, one, dead, even)


def _cells(cosine: float, seeds: tuple[int, ...]) -> dict[str, Any]:
    """For each seed the fields of `EqualAngles` at one cosine, in their order."""
    steps = round(TIME / RATE / (1.0 - cosine))
    given: dict[str, Any] = {"k": K, "d": D, "n": N, "sigma": SIGMA, "cosine": cosine, "lr": RATE}
    points, runs = trained(Setting(**given, h=GROUP, steps=steps, seeds=seeds))
    # A neuron alone is GROUP times as fast as one of GROUP: the same steps of the outputs.
    slower = given | {"lr": RATE / GROUP}
    alone, single = trained(Setting(**slower, labels="fine", steps=steps, seeds=seeds))
    cells = []
    for index in range(len(seeds)):
        coarse, fine = net_of(runs["coarse"], index), net_of(runs["fine"], index)
        one_each = net_of(single["fine"], index)
        cells.append(
            [
                float(np.median(centre_radii(points, coarse))),
                float(np.median(centre_radii(points, fine))),
                float(np.median(centre_radii(alone, one_each))),
                float(np.mean(one_each(alone.features).max(axis=0) <= 0)),
                float(seed_index(points, coarse, index).value),
            ]
        )
    return {"cells": cells}
