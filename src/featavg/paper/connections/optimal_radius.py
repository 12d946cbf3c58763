"""Min and Vidal (2025): no classifier is robust beyond sqrt(d/2), and who comes close.

Points mu_i + xi and mu_j + xi of clusters with different labels have their midpoint sqrt(d/2) away
from both, and a classifier is wrong there for one of them. So at radius sqrt(d/2) every classifier
has robust error of at least min(K1, K2)/K (Proposition 1). All clusters share their noise here,
which makes the limit exact on every draw of it, not only on average.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import xarray as xr
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.data.clusters import MultiCluster
from featavg.figures.figure import Axis, Figure, Lines, Rule, Series
from featavg.figures.marks import Role, Style
from featavg.nets.two_layer import TwoLayer, biased_robust, feature_averaging, feature_decoupling
from featavg.paper.connections.limits import attacked, power_relu_run
from featavg.paper.engine.claim import Check, Context, Evidence, claim
from featavg.progress import Progress, part
from featavg.robustness.radii import radii
from featavg.training.train import train

COARSE, FINE, BAYES = "trained, coarse labels", "trained, fine labels", "Bayes rule"
ROLES: dict[str, Role] = {
    "f<sub>FA</sub>": "averaged",
    "f<sub>FD</sub>, sum": "reference",
    "with biases": "neutral",
    COARSE: "averaged",
    FINE: "decoupled",
    BAYES: "published",
}
DRAWS, BAYES_POINTS = 2, 2000
# Their Figure 2: 12 and 8 clusters in R^2000, 200 neurons. The noise of Figures 5 and 6: its own is
# not printed.
PRINTED = {"k": 20, "positive": 12, "d": 2000}
PRINTED_NOISE, PRINTED_WIDTH = 0.1, 200


def radii_on_shared_noise(task: MultiCluster, seeds: Sequence[int], progress: Progress) -> xr.Dataset:
    """Radii of every classifier on mu_j + xi, never rounded up, in units of sqrt(d/2).

    `bayes_fresh` are certified radii of the Bayes rule on fresh points.
    """
    rows: dict[str, list[ndarray]] = {name: [] for name in ROLES}
    fresh_radii = []
    for i, seed in enumerate(seeds):
        progress(i / len(seeds), f"seed {seed}")
        coarse, fine = (train(task, labels=labels, seed=seed).net for labels in ("coarse", "fine"))
        x, y = shared_noise_points(task, DRAWS, max(coarse.dimension, fine.dimension), seed)
        ideal = feature_averaging(task), feature_decoupling(task), biased_robust(task)
        for name, net in zip(rows, (*ideal, coarse, fine), strict=False):
            rows[name].append(_radii(net, x, y, task))
        rows[BAYES].append(bayes_radii(task, x, y))
        fresh = task.sample(BAYES_POINTS, seed)
        fresh_radii.append(bayes_radii(task, fresh.coordinates(task.k), fresh.y))
    unit = math.sqrt(task.d / 2)
    joined = np.array([np.concatenate(parts) for parts in rows.values()]) / unit
    variables = {
        "radius": (("classifier", "point"), joined),
        "bayes_fresh": ("fresh", np.concatenate(fresh_radii) / unit),
    }
    return xr.Dataset(variables, {"classifier": list(ROLES)})


def _radii(net: TwoLayer, x: Float[ndarray, "n N"], y: Int[ndarray, " n"], task: MultiCluster) -> Float[ndarray, " n"]:
    points = x[:, : net.dimension]
    if net.outputs == 1:
        return radii(net, points, y, jobs=1).certified
    positive = task.positive_clusters
    return radii(net, points, y, readout="max", positive=positive, jobs=1).certified


def shared_noise_points(
    task: MultiCluster, draws: int, dimension: int, seed: int
) -> tuple[Float[ndarray, "n N"], Int[ndarray, " n"]]:
    """mu_j + xi for every cluster j and each of `draws` noises xi."""
    sample = task.sample(draws, seed)
    centres = task.alpha * task.features_in(dimension)
    noise = sample.coordinates(dimension) - centres[sample.clusters]
    x = (noise[:, None, :] + centres[None, :, :]).reshape(draws * task.k, dimension)
    return x, np.tile(task.cluster_labels, draws)


def bayes_radii(task: MultiCluster, x: Float[ndarray, "n N"], y: Int[ndarray, " n"]) -> Float[ndarray, " n"]:
    r"""A certified radius of f*(x) = sum_+ exp(<x, mu>/sigma^2) - sum_- exp(<x, mu>/sigma^2).

    With own the best own-class cluster, f* flips only where log sum_rivals exp reaches <., mu_own>,
    so where some rival has <x + u, mu_own - mu_rival> <= sigma^2 log K_rivals: u is at least
    (<x, mu_own - mu_rival> - sigma^2 log K_rivals) / |mu_own - mu_rival| long.
    """
    features = task.features_in(x.shape[1])
    scores = x @ features.T
    mine = task.cluster_labels[None, :] == y[:, None]
    own = np.where(mine, scores, -np.inf).argmax(axis=1)
    gaps = scores[np.arange(len(x)), own][:, None] - scores
    distances = np.linalg.norm(features[own][:, None, :] - features[None, :, :], axis=2)
    rivals = (~mine).sum(axis=1)[:, None]
    ways = (gaps - task.sigma**2 * np.log(rivals)) / np.where(mine, 1.0, distances)
    return np.maximum(np.where(mine, np.inf, ways).min(axis=1), 0.0)


def limit(task: MultiCluster) -> float:
    """The largest robust accuracy at sqrt(d/2) that any classifier can have: 1 - min(K1, K2)/K."""
    return 1.0 - min(len(task.class_clusters(label)) for label in (1, -1)) / task.k


def _bayes_excess(task: MultiCluster, radius: Float[ndarray, " n"]) -> float:
    """The smallest (share robust at (sqrt(2) - nu)/2 minus Proposition 2's bound) over nu."""
    k, d, sigma = task.k, task.d, task.sigma
    worst = math.inf
    for nu in np.linspace(2 * math.sqrt(2) * sigma**2 * math.log(k) / d, math.sqrt(2), 200):
        share = float(np.mean(radius >= (math.sqrt(2) - nu) / math.sqrt(2)))
        worst = min(worst, share - (1 - 2 * k * math.exp(-d * nu**2 / (64 * sigma**2))))
    return worst


def _propositions(task: MultiCluster, table: xr.Dataset) -> tuple[Check, Check]:
    clusters = f"{task.positive_count} + {task.k - task.positive_count} clusters"
    best = (table["radius"] > 1.0).mean("point").max()
    excess = _bayes_excess(task, table["bayes_fresh"].values)
    return (
        Check(f"{clusters}: largest robust accuracy of any classifier at √(d/2)", best, "<=", limit(task),
              note="Proposition 1; on points that share their noise no classifier can pass it, so that "
              "this tests the radii"),
        Check(f"{clusters}, Bayes rule: smallest share of robust points minus its bound, over all ν",
              excess, ">=", 0.0, note="Proposition 2"),
    )  # fmt: skip


@claim(
    "connections-optimal-radius",
    "No classifier is robust beyond √(d/2); fine labels and the Bayes rule come close",
    theme="Connections", source="Min and Vidal 2025, Propositions 1 and 2",
    measured="exact radii of f<sub>FA</sub>, f<sub>FD</sub>, the network with biases and trained "
    "networks, and certified radii of the Bayes rule, on points of all clusters that share their "
    "noise; k = 10, d = 3072, and the printed 12 + 8 clusters in R<sup>2000</sup> with 200 relu³ "
    "neurons (noise 0.1, not printed)",
    minutes=0.07, seeds=3,
    statements=("itcs-robust-exists", "csml-robust-exists", "summary-key-results",),
)  # fmt: skip
def optimal_radius(run: Context, k: int = 10, d: int = 3072, sigma: float = 1.0) -> Evidence:
    """At radius √(d/2) every classifier has robust error of at least
    min(K<sub>1</sub>,K<sub>2</sub>)/K; the Bayes rule is robust at (√2−ν)/2 √d with probability
    at least 1 − 2K exp(−dν²/(64σ²)). (Beyond the documents; fine labels are held against it.)
    """
    task = MultiCluster(k=k, d=d, sigma=sigma)
    other = MultiCluster(**PRINTED, sigma=PRINTED_NOISE)  # type: ignore[arg-type]
    ours = radii_on_shared_noise(task, run.seeds, part(run.progress, 0.0, 0.4))
    printed = radii_on_shared_noise(other, run.seeds, part(run.progress, 0.4, 0.8))
    last = part(run.progress, 0.8, 1.0)
    cubic = [
        power_relu_run(3.0, PRINTED_NOISE, seed, **PRINTED, width=PRINTED_WIDTH, progress=last) for seed in run.seeds
    ]
    prelu = np.array([attacked(one) for one in cubic]) / math.sqrt(0.5)
    medians, theirs = (
        dict(zip(ROLES, np.median(table["radius"], axis=1).tolist(), strict=True)) for table in (ours, printed)
    )
    listed = ", ".join(f"{name} {value:.3f}" for name, value in medians.items())
    first, second = _propositions(task, ours)
    third, fourth = _propositions(other, printed)
    return Evidence(
        first, second,
        Check("trained, fine labels: median radius over √(d/2)", medians[FINE], ">=", 0.9,
              note="close to the limit"),
        Check("trained, coarse labels: median radius over √(d/2)", medians[COARSE], "<=", 0.6, role="note",
              note="√(2/k) = 0.447 for averages"),
        third, fourth,
        Check("12 + 8 clusters, relu³ trained: median attacked radius over √(d/2)", prelu, ">=", 0.9,
              note="published: about the limit"),
        Check("12 + 8 clusters, coarse labels: median radius over √(d/2)", theirs[COARSE], "<=", 0.6,
              note="published: ReLU fails"),
        finding=f"Median radii in units of √(d/2): {listed}. At √(d/2) nobody keeps more than "
        f"{first.measured:.2f} of the points (the limit is {limit(task):.2f}). With 12 + 8 clusters in "
        f"R<sup>2000</sup> and noise {PRINTED_NOISE:g}: coarse labels {theirs[COARSE]:.3f}, fine labels "
        f"{theirs[FINE]:.3f}, relu³ {prelu.mean():.3f} (attacked), Bayes rule {theirs[BAYES]:.3f}.",
        numbers={"median_over_sqrt_d_2": medians, "bayes_excess": second.measured,
                 "robust_accuracy_at_sqrt_d_2": _shares(ours, 1.0),
                 "printed": {"median_over_sqrt_d_2": theirs, "bayes_excess": fourth.measured,
                             "robust_accuracy_at_sqrt_d_2": _shares(printed, 1.0),
                             "relu3_attacked": prelu}},
        figure=figure(task, ours),
    )  # fmt: skip


def _shares(table: xr.Dataset, radius: float) -> dict[str, float]:
    """Robust accuracy of every classifier at a radius, in units of sqrt(d/2)."""
    return dict(zip(ROLES, (table["radius"] > radius).mean("point").values.tolist(), strict=True))


def figure(task: MultiCluster, table: xr.Dataset) -> Figure:
    """Robust accuracy of every classifier, and the limit."""
    grid = np.linspace(0.0, 1.2, 25)
    shares = [_shares(table, radius) for radius in grid]
    series = []
    for name, role in ROLES.items():
        style: Style = "dashed" if "trained" in name else "solid"
        series.append(Series(name, grid, [at[name] for at in shares], role, style))
    axes = Axis("radius / √(d/2)"), Axis("robust accuracy", range=(-0.03, 1.03))
    rules = (Rule(1.0, "x", "√(d/2)"), Rule(limit(task), label="the most beyond it"))
    caption = (
        "Robust accuracy on points that share their noise, one per cluster. Beyond √(d/2) no "
        "classifier has more than the dashed share; the Bayes rule and fine labels come close to that border."
    )
    panels = (Lines(*axes, tuple(series), rules=rules),)
    return Figure("optimal", "How robust can a classifier be?", caption, panels)
