"""Robust radii of a saved simulation: the Python side of `featavg radius`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy import ndarray

from featavg.boundary.kinds import Count, Seed
from featavg.boundary.public import public
from featavg.data.clusters import MultiCluster
from featavg.errors import InputError, one_of
from featavg.figures.figure import Axis, Figure, Lines, Result, Series
from featavg.machine import require
from featavg.nets.deep import Deep
from featavg.nets.two_layer import TwoLayer
from featavg.progress import Progress, part
from featavg.registry import READOUTS
from featavg.robustness.exact.budget import Budget
from featavg.robustness.exact.result import Radii, RadiusStatus
from featavg.robustness.radii import radii
from featavg.simulate.measurements import ROLES
from featavg.simulate.points import gather_points
from featavg.simulate.run import Simulation, load_simulation
from featavg.storage.files import dumps, usable_file, usable_folder, write
from featavg.storage.provenance import provenance


@dataclass(frozen=True, eq=False, repr=False)
class RadiusReport(Result):
    """Radii of the fresh points of every network of a simulation.

    Attributes:
        radii: of each network, by its labels ("coarse", "fine").
        readout: how the grouped network was read out.
        points, seed: how many fresh points, and their seed.
        simulation: whose networks they are; the first seed of each.

    Returned by `fa.radius_report`, which has an example.
    """

    radii: dict[str, Radii]
    readout: str
    points: int
    seed: int
    simulation: Simulation

    def rows(self) -> list[dict[str, str]]:
        """One row per network, as text for a table."""
        return [self._row(labels, each) for labels, each in self.radii.items()]

    def _row(self, labels: str, each: Radii) -> dict[str, str]:
        low, high = (f"{end:.4g}" for end in each.median)
        finite = each.attack[np.isfinite(each.attack)]
        counts = {one.value: int(np.sum(each.outcome == one.code)) for one in RadiusStatus}
        recipe = self.simulation.setting.recipe(labels)
        chosen = recipe.pooling if recipe.competes else self.readout
        return {
            "labels": labels,
            "read-out": "one output" if recipe.one_output else chosen,
            "median radius (l2)": low if low == high else f"{low} to {high}",
            "smallest": f"{each.certified.min():.4g}",
            "largest": f"{finite.max():.4g}" if len(finite) else "infinite",
            "largest gap": f"{each.gaps.max():.2g}",
            "outcomes": ", ".join(f"{name}: {count}" for name, count in counts.items() if count),
        }

    def figures(self) -> tuple[Figure, ...]:
        """The robust-accuracy curves, from certificate to attack, and the histogram of the radii."""
        attacks = np.concatenate([each.attack for each in self.radii.values()])
        farthest = float(np.max(attacks[np.isfinite(attacks)], initial=0.0)) or 1.0
        lengths = np.linspace(0.0, 1.05 * farthest, 106)
        curves, histograms = [], {}
        for labels, each in self.radii.items():
            lower, upper = each.robust_accuracy(lengths)
            name = f"{labels} labels"
            middle, role = (lower + upper) / 2, ROLES[labels]
            curves.append(Series(name, lengths, middle, role, lo=lower, hi=upper))
            histograms[name] = (each.certified[np.isfinite(each.certified)], role)
        about = f"{self.points} fresh points, read-out by {self.readout} where there is a choice."
        radius = Axis("radius", "l2")
        lines = Lines(radius, Axis("robust accuracy"), tuple(curves))
        bars = Lines.histogram(radius, histograms, bins=30)
        share = f"Share of points that no perturbation of that length flips: {about}"
        spread = f"How the certified radii are spread: {about}"
        bands = "Bands reach from the certificate to the attack."
        return (
            Figure("robust-accuracy", "Robust accuracy", f"{share} {bands}", (lines,)),
            Figure("radii", "Certified radii", spread, (bars,)),
        )

    def figure(self) -> Figure:
        """The robust-accuracy curves."""
        return self.figures()[0]

    def summary(self) -> str:
        """A line per network."""
        rows = ("; ".join(f"{name} {cell}" for name, cell in row.items()) for row in self.rows())
        return "\n".join([f"Radii (l2) of {self.points} fresh points", *(f"  {r}" for r in rows)])

    def to_json(self) -> dict[str, Any]:
        """Everything for machines, with the configuration and the version that made it."""
        return {
            "kind": "featavg radii",
            "about": provenance(),
            "result": str(self.simulation.folder),
            "setting": self.simulation.setting.to_json(),
            "network_seed": self.simulation.setting.seeds[0],
            "points": self.points,
            "points_seed": self.seed,
            "readout": self.readout,
            "networks": {labels: each.to_json() for labels, each in self.radii.items()},
        }


@public
def radius_report(
    result: str | Path,
    points: Count = 1000,
    seed: Seed = 1,
    readout: str = "probability",
    out: str | Path | None = None,
    json: str | Path | None = None,
    budget: Budget | None = None,
    progress: Progress | None = None,
) -> RadiusReport:
    """Radii of fresh points for the networks of a saved simulation.

    Args:
        result: the folder that `featavg simulate` wrote.
        points: how many fresh points; a file of the user's own brings its own test points.
        seed: of the fresh points.
        readout: how the grouped network's outputs become a decision.
        out: a folder for the figures (PDF, SVG, PNG, CSV).
        json: a file for everything.
        budget: what one point may cost.

    >>> import tempfile
    >>> from pathlib import Path
    >>> import featavg as fa  # long
    >>> folder = Path(tempfile.mkdtemp())
    >>> done = fa.simulate(fa.compose(k=4, d=100, n=40, steps=20), out=folder)
    >>> fa.radius_report(folder, points=10, readout="max")
    Radii (l2) of 10 fresh points
    ...
    """
    one_of("readout", readout, READOUTS)
    if json is not None:
        usable_file(Path(json), "json")
    simulation = load_simulation(result)
    measured = {}
    kinds = simulation.setting.each_labels
    for i, labels in enumerate(kinds):
        net = simulation.net(labels)
        require(8.0 * points * net.dimension * 3, "points", "ask for fewer")
        x, y, task = _points(simulation, net, points, seed)
        mask, rule = simulation.setting.recipe(labels).decision(task, readout)
        inner = part(progress, i / len(kinds), (i + 1) / len(kinds))
        measured[labels] = radii(net, x, y, readout=rule, positive=mask, budget=budget, progress=inner)
    count = len(next(iter(measured.values())))
    report = RadiusReport(measured, readout, count, seed, simulation)
    if out is not None:
        from featavg.figures.matplotlib_figure import save

        folder = usable_folder(Path(out))
        for figure in report.figures():
            save(figure, folder)
    if json is not None:
        write(Path(json), dumps(report.to_json()), "json")
    return report


def _points(
    simulation: Simulation, net: TwoLayer | Deep, points: int, seed: int
) -> tuple[ndarray, ndarray, MultiCluster]:
    """Fresh points in the network's coordinates, their labels, and the task."""
    setting = simulation.setting
    if setting.data is None:
        sample = setting.task().sample(points, seed=seed)
        return sample.coordinates(net.dimension), sample.y, sample.task
    gathered = gather_points(setting)
    fresh = gathered.fresh(seed, points)
    if fresh is None:
        raise InputError("data", "has no test points", "add x_test and clusters_test to the file")
    x, clusters = (array[:points] for array in fresh)
    return x, gathered.task.cluster_labels[clusters], gathered.task
