"""Why averages are fragile: which neurons are active on a point, and how steep the network is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from featavg.figures.figure import Axis, Figure, Lines, Series
from featavg.figures.marks import Role
from featavg.nets.two_layer import biased_robust
from featavg.paper.engine.claim import Check, Context, Evidence, claim
from featavg.paper.engine.tables import exponents, tabulate
from featavg.paper.figures.networks import CLUSTERS, CLUSTERS_D, flow_case, fresh, networks

if TYPE_CHECKING:
    import xarray as xr

NETWORKS: dict[str, tuple[str, Role]] = {
    "averaged": ("averaged, trained", "averaged"),
    "biased": ("robust solution", "decoupled"),
}


def slopes(run: Context, clusters: tuple[int, ...], points: int) -> xr.Dataset:
    """Steepness and activity of averaged trained networks and of the robust solution at fresh points."""

    def measure(k: int, network: str, seed: int) -> dict[str, float]:
        case = flow_case("coarse", CLUSTERS_D, k)
        robust = network == "biased"
        net = (
            biased_robust(case.task) if robust else networks(case, run.seeds)[run.seeds.index(seed)]
        )
        test = fresh(case.task, points, seed)
        x = test.coordinates(net.dimension)
        on, margins = net.preactivations(x) >= 0, test.y * net(x)[:, 0]
        lengths = np.linalg.norm((on * net.head[0]) @ net.weights, axis=1)
        own = np.sign(net.head[0])[None, :] == test.y[:, None]
        alone = np.all(on == (test.clusters[:, None] == np.arange(k)), axis=1) if robust else np.nan
        return {
            # sqrt(d) |grad f(x)| / (y f(x)): the gradient at equal margin.
            "steepness": float(np.median((np.sqrt(CLUSTERS_D) * lengths / margins)[margins > 0])),
            "active": float((on & own).sum() / own.sum()),  # share of own-class neurons
            "one_neuron": float(np.mean(alone)),  # points that activate only their own neuron
        }

    names, missing = tuple(NETWORKS), ("one_neuron",)
    return tabulate(measure, run.seeds, run.progress, missing=missing, k=clusters, network=names)


def figure(table: xr.Dataset) -> Figure:
    """Steepness and activity against k."""
    k = table["k"].values
    horizontal = Axis("clusters k", log=True, ticks=k, tick_labels=tuple(map(str, k)))

    def lines(name: str) -> tuple[Series, ...]:
        runs = {network: table[name].sel(network=network).values.T for network in NETWORKS}
        return tuple(
            Series.over_seeds(label, k, runs[network], role, "line+markers")
            for network, (label, role) in NETWORKS.items()
        )

    return Figure(
        "slopes",
        "At equal margin the average is steeper",
        "Left: median of √d |∇f(x)| / (y f(x)) at fresh points. Right: share of the neurons of a "
        f"point's class that are active on it. d = {CLUSTERS_D:,}; band: seeds.",
        (
            Lines(horizontal, Axis("√d |∇f| / margin", log=True), lines("steepness")),
            Lines(horizontal, Axis("share of own-class neurons active"), lines("active")),
        ),
    )


@claim(
    "averaged-gradient-norm", "At equal margin the average is steeper", theme="Exact robustness",
    source="Talks at iTCS and CSML 2024, intuition for the non-robustness theorem",
    measured="|∇f| over the margin at fresh points, trained averaged networks over the robust solution, "
    "against k",
    minutes=0.05, shares="radii at any d",
    statements=(
        "itcs-intuition-gradient", "csml-intuition-gradient", "summary-failure-signatures",
    ),
)  # fmt: skip
def gradient_norm(
    run: Context, clusters: tuple[int, ...] = CLUSTERS, points: int = 200
) -> Evidence:
    """In an averaged solution most neurons of a class are active on a point, so its gradient is much
    larger than a robust solution's of the same margin.
    """
    table = slopes(run, clusters, points)
    averaged, biased = (table.sel(network=network) for network in NETWORKS)
    ratio = averaged["steepness"] / biased["steepness"]
    in_k = exponents(ratio)
    return Evidence(
        Check("exponent in k of |∇f| at equal margin, averaged over robust solution", in_k, "within",
              (0.4, 0.6), role="main"),
        Check(f"the same ratio at k = {clusters[-1]}", ratio[-1], ">=", 1.25),
        Check("share of own-class neurons active on a point, averaged", averaged["active"].min(), ">=", 0.99,
              note="most same-class neurons are activated"),
        figure=figure(table), numbers=table,
        finding="At equal margin the averaged network is steeper by a factor that grows like "
        f"k<sup>{np.mean(in_k):.2f}</sup>: {ratio[0].mean():.2f} at k = {clusters[0]}, "
        f"{ratio[-1].mean():.2f} at k = {clusters[-1]} (below 1 for few clusters, "
        "since biases cost the robust solution half of its margin).",
    )  # fmt: skip


@claim(
    "robust-one-neuron", "In the robust solution each input activates one neuron", theme="Exact robustness",
    source="Talks at iTCS and CSML 2024, robust solution exists",
    measured="which neurons of the construction are active on fresh points, for k from 4 to 20",
    minutes=0.01, shares="radii at any d",
    statements=("itcs-robust-exists", "csml-robust-exists", "csml-robust-picture"),
)  # fmt: skip
def one_neuron(run: Context, clusters: tuple[int, ...] = CLUSTERS, points: int = 200) -> Evidence:
    """A point of cluster j activates the j-th neuron of the robust solution and no other."""
    table = slopes(run, clusters, points)
    alone = float(table["one_neuron"].sel(network="biased").min(skipna=False))
    active = float(table["active"].sel(network="averaged").min())
    return Evidence(
        Check("share of points that activate their own neuron and no other", alone, ">=", 0.99),
        figure=figure(table), numbers=table,
        finding=f"In the robust solution {alone:.1%} of the fresh points switch on the neuron of their cluster "
        f"and no other, for k from {clusters[0]} to {clusters[-1]}; in the averaged network every point "
        f"switches on {active:.0%} of the neurons of its class.",
    )  # fmt: skip
