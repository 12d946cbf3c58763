r"""Does averaging hurt in l_inf as well? Exact radii, with features along axes and turned at random.

What to expect of networks without noise in their weights. A step of l_inf length t changes <w, x> by
at most t |w|_1. Features in random directions have Gaussian coordinates, so a sum of q of them
has |.|_1 = d sqrt(2 q / pi), and a point of one cluster, where the margin is d, is flipped at

    averaged:            t |sum_{J+} mu - sum_{J-} mu|_1 = d,   t = sqrt(pi / (2 k));
    decoupled, `max`:    t |mu_i - mu_j|_1 = d,                 t = sqrt(pi) / 2.

So t does not depend on d and the ratio is sqrt(k/2), the ratio of the l2 radii. Features along axes
have few coordinates, and what counts in |w|_1 is the noise that training left in the other d - k.

The tolerances follow from these formulas and were written before the claim was run. One trial had been
seen by then: a single seed, 300 training points, d = 300, 1000 and 3072.
"""

from __future__ import annotations

import math

import numpy as np
import xarray as xr

from featavg.data.clusters import MultiCluster
from featavg.figures.figure import Axis, Figure, Lines, Rule
from featavg.figures.marks import Role
from featavg.paper.engine.claim import Check, Context, Evidence, Headline, claim
from featavg.paper.engine.tables import line, power_law_exponent, tabulate
from featavg.robustness.radii import radii
from featavg.training.train import train

K = 10
ORIENTATIONS = {"random": "features in random directions", "axes": "features along axes"}
NETWORKS = {"averaged": ("coarse", "sum"), "decoupled": ("fine", "max")}
THEORY: dict[str, tuple[float, str, Role]] = {
    "averaged": (math.sqrt(math.pi / (2 * K)), "√(π/2k)", "averaged"),
    "decoupled": (math.sqrt(math.pi) / 2, "√π/2", "decoupled"),
}


def figure(median: xr.DataArray) -> Figure:
    """Median radii against d, a panel for each orientation."""
    panels = []
    for orientation, title in ORIENTATIONS.items():
        lines = []
        for name, (_, _, role) in THEORY.items():
            runs = median.sel(orientation=orientation, network=name)
            lines.append(line(name, runs, role, "solid", "mean"))
        rules = tuple(Rule(value, label=label) for value, label, _ in THEORY.values())
        panels.append(
            Lines(
                Axis("dimension d", log=True),
                Axis("median radius", "l_inf"),
                tuple(lines),
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


@claim(
    "linf-averaging", "Averaging hurts in l_inf as well", theme="Exact robustness",
    source="Summary of arXiv 2410.10322: its first experiments ask for l_inf beside l2; the paper "
    "itself treats l2",
    measured="exact l_inf radii (linear programs) of fresh points at k = 10, d = 200 to 800",
    tier="full", minutes=1.2, statements=("summary-experiment-2", "summary-question-linf"),
)  # fmt: skip
def averaging_in_linf(
    run: Context, dimensions: tuple[int, ...] = (200, 400, 800), n: int = 200, points: int = 6
) -> Evidence:
    """A network that learned the average of the features of each class is flipped by smaller l_inf
    perturbations than one that learned the features apart; with features in random directions by
    the factor √(k/2), as in l2.
    """

    def measure(orientation: str, network: str, d: int, seed: int) -> dict[str, float]:
        # The paper's training at the same product of rate and d.
        task, lr = MultiCluster(k=K, d=d, orientation=orientation), 1e-3 * 3072 / d
        labels, readout = NETWORKS[network]
        net = train(task, labels=labels, n=n, seed=seed, lr=lr, coordinates="ambient")
        found = radii(net, task.sample(points, seed=seed), norm="linf", readout=readout, jobs=1)
        median, exact = float(np.median(found.certified)), float(np.mean(found.gaps < 1e-6))
        return {"median": median, "exact": exact}

    table = tabulate(
        measure, run.seeds, run.progress, orientation=tuple(ORIENTATIONS), network=tuple(NETWORKS), d=dimensions
    )
    median = table["median"]
    ratio = median.sel(network="decoupled") / median.sel(network="averaged")
    typical = ratio.isel(d=-1).median("seed")
    along = {name: float(typical.sel(orientation=name)) for name in ORIENTATIONS}
    mean = median.sel(orientation="random").mean("seed")
    relative = {name: float(mean.sel(network=name)[-1]) / THEORY[name][0] for name in THEORY}
    exponent = power_law_exponent(dimensions, mean.sel(network="averaged").values)
    return Evidence(
        Check("random directions: decoupled / averaged radius, smallest over d and seeds",
              ratio.sel(orientation="random").min(), ">=", 1.5,
              note=f"theory: √(k/2) = {math.sqrt(K / 2):.2f}", role="main"),
        Check("along axes: decoupled / averaged radius, smallest over d and seeds",
              ratio.sel(orientation="axes").min(), ">=", 1.5,
              note="no theory: noise left in the weights decides"),
        Check("random directions: averaged radius / √(π/2k) at the largest d", relative["averaged"], "within",
              (0.85, 1.15)),
        Check("random directions: decoupled radius / (√π/2) at the largest d", relative["decoupled"], "within",
              (0.85, 1.15)),
        Check("random directions: exponent of the averaged radius in d", exponent, "within", (-0.1, 0.1),
              note="theory: 0", role="note"),
        Check("share of points answered exactly", table["exact"].mean(), ">=", 0.99, role="note"),
        figure=figure(median), numbers=table,
        finding=f"In l_inf too the averaged network is flipped by less: at d = {dimensions[-1]} the "
        f"decoupled one stands {along['random']:.2f} times as much with features in random "
        f"directions (√(k/2) = {math.sqrt(K / 2):.2f}, as in l2) and {along['axes']:.2f} times "
        "as much with features along axes.",
        headlines=(Headline(f"{along['random']:.1f}×", "l_inf radius gained by decoupling", "decoupled"),),
    )  # fmt: skip
