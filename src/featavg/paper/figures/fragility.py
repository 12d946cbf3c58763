"""Why averages are fragile: no biases save them, many neurons are active on a point, and slopes are steep."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import xarray as xr

from featavg.data.clusters import MultiCluster
from featavg.figures.figure import Axis, Figure, Heatmap, Lines, Series
from featavg.figures.marks import Role
from featavg.measures.accuracy import decisions
from featavg.nets.two_layer import biased_robust, feature_averaging
from featavg.paper.engine.claim import Check, Context, Evidence, claim
from featavg.paper.engine.tables import exponents, line, tabulate
from featavg.paper.figures.networks import CLUSTERS, CLUSTERS_D, K, flow_case, fresh, networks
from featavg.robustness.radii import radii

D = 10**6  # of the average with biases
# With thresholds u and v, 0 <= u, v < 1, a point is flipped by taking 1 - u of the signal from its own
# sum and adding v to the other one, a step of sqrt((1 - u)^2 + v^2) sqrt(2 d / k): at most 2 sqrt(d/k).
RADIUS = 2.2  # in units of sqrt(d/k)
NETWORKS: dict[str, tuple[str, Role]] = {
    "averaged": ("averaged, trained", "averaged"),
    "biased": ("robust solution", "decoupled"),
}


@claim(
    "average-any-bias", "The average stays fragile whatever its biases", theme="Exact robustness",
    source="Talks at iTCS and CSML 2024, average features are non-robust features",
    measured="exact robust accuracy of f<sub>FA</sub> over a grid of biases, d = 10⁶, k = 10",
    minutes=0.01, seeds=1, runs=0, statements=("itcs-theorem-nonrobust", "csml-theorem-nonrobust"),
)  # fmt: skip
def any_bias(
    run: Context, thresholds: tuple[float, ...] = (-4.0, -1.0, 0.0, 0.3, 0.6, 0.9, 1.5), points: int = 40
) -> Evidence:
    """With the weights of a feature-averaging solution, for any choice of biases, the robust
    accuracy at δ = ω(√(d/k)) is nearly zero.
    """
    task = MultiCluster(k=K, d=D)
    net, sample = feature_averaging(task), fresh(task, points, run.seeds[0])
    x, reach = sample.coordinates(net.dimension), np.array([RADIUS * math.sqrt(D / K)])

    def measure(u: float, v: float, seed: int) -> dict[str, float]:
        # In units of the signal d; a negative threshold keeps a neuron on always.
        biased = replace(net, biases=-D * np.array([u, v]))
        return {
            "clean": float(np.mean(decisions(biased, x) == sample.y)),
            "robust": radii(biased, sample).robust_accuracy(reach)[1][0],
        }

    table = tabulate(measure, run.seeds, run.progress, u=thresholds, v=thresholds).isel(seed=0)
    anything = float(table["robust"].max())
    useful = float(table["robust"].where(table["clean"] >= 0.99, 0.0).max())
    return Evidence(
        Check(f"robust accuracy at {RADIUS} √(d/k), best biases with clean accuracy 0.99", useful, "<=", 0.01,
              role="main"),
        Check(f"robust accuracy at {RADIUS} √(d/k), best biases of all", anything, "<=", 0.01,
              note="the statement to the letter"),
        figure=bias_figure(table), numbers=table,
        finding=f"To the letter it is false: biases that make f<sub>FA</sub> constant keep {anything:.0%} of the "
        "points at any radius. True is: with biases b<sub>±</sub> for which clean points are decided "
        f"rightly, nothing is left at {RADIUS} √(d/k); the nearest flip is √((1−u)² + v²) √(2d/k) away "
        "for thresholds u, v in [0, 1), at most 2 √(d/k).",
    )  # fmt: skip


def bias_figure(table: xr.Dataset) -> Figure:
    """Clean and robust accuracy as matrices."""
    names = tuple(f"{threshold:g}" for threshold in table["u"].values)
    titles = {"clean": "clean", "robust": f"at {RADIUS} √(d/k)"}
    panels = tuple(
        Heatmap(table[name].values, names, names, label="accuracy", title=title, limit=1.0)
        for name, title in titles.items()
    )
    return Figure(
        "biases",
        "No biases save the average, but a constant keeps half",
        "Accuracy of f<sub>FA</sub> with biases −u d and −v d (rows u, columns v) on fresh points, "
        f"clean and at the radius {RADIUS} √(d/k).",
        panels,
    )


def slopes(run: Context, clusters: tuple[int, ...], points: int) -> xr.Dataset:
    """Steepness and activity of averaged trained networks and of the robust solution at fresh points."""

    def measure(k: int, network: str, seed: int) -> dict[str, float]:
        case = flow_case("coarse", CLUSTERS_D, k)
        robust = network == "biased"
        net = biased_robust(case.task) if robust else networks(case, run.seeds)[run.seeds.index(seed)]
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


def slope_figure(table: xr.Dataset) -> Figure:
    """Steepness and activity against k."""
    horizontal = Axis("clusters k", log=True, ticks=table["k"].values)

    def lines(name: str) -> tuple[Series, ...]:
        return tuple(line(label, table[name].sel(network=n), role) for n, (label, role) in NETWORKS.items())

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
    "averaged-gradient-norm",
    "At equal margin the average is steeper",
    theme="Exact robustness",
    source="Talks at iTCS and CSML 2024, intuition for the non-robustness theorem",
    measured="|∇f| over the margin at fresh points, trained averaged networks over the robust solution, against k",
    minutes=0.03,
    shares="radii at any d",
    statements=("itcs-intuition-gradient", "csml-intuition-gradient", "summary-failure-signatures"),
)
def gradient_norm(run: Context, clusters: tuple[int, ...] = CLUSTERS, points: int = 200) -> Evidence:
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
        figure=slope_figure(table), numbers=table,
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
        figure=slope_figure(table),
        numbers=table,
        finding=f"In the robust solution {alone:.1%} of the fresh points switch on the neuron of their cluster "
        f"and no other, for k from {clusters[0]} to {clusters[-1]}; in the averaged network every point "
        f"switches on {active:.0%} of the neurons of its class.",
    )
