"""Min and Vidal (2025): no classifier is robust beyond sqrt(d/2), and the Bayes rule comes close.

Points mu_i + xi and mu_j + xi of clusters with different labels have their midpoint sqrt(d/2) away
from both, and a classifier is wrong there for one of them. So at radius sqrt(d/2) every classifier
has robust error of at least min(K1, K2)/K (Proposition 1). All clusters share their noise here,
which makes the limit exact on every draw of it, not only on average.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.data.clusters import MultiCluster
from featavg.figures.figure import Axis, Figure, Lines, Rule, Series
from featavg.figures.marks import Role
from featavg.figures.result import Result
from featavg.nets.ideal import biased_robust, feature_averaging, feature_decoupling
from featavg.nets.two_layer import TwoLayer
from featavg.progress import Progress, silent
from featavg.robustness.radii import radii
from featavg.training.train import train

DRAWS, BAYES_POINTS = 2, 2000
GRID = tuple(float(v) for v in np.linspace(0.0, 1.2, 25))
CLASSIFIER_ROLES: dict[str, Role] = {
    "f<sub>FA</sub>": "averaged",
    "f<sub>FD</sub>, sum": "reference",
    "with biases": "neutral",
    "trained, coarse labels": "averaged",
    "trained, fine labels": "decoupled",
    "Bayes rule": "published",
}


@dataclass(frozen=True, repr=False, eq=False)
class OptimalRadius(Result):
    """Radii of our networks and of the Bayes rule, in units of sqrt(d/2), on shared noise.

    Attributes:
        task: the clusters.
        radii: of each classifier (`CLASSIFIER_ROLES`) on mu_j + xi, every j; never rounded up.
        bayes: certified radii of the Bayes rule on fresh points.

    Returned by `fa.optimal_radius`, which has an example.
    """

    task: MultiCluster
    radii: dict[str, Float[ndarray, " n"]]
    bayes: Float[ndarray, " m"]

    @property
    def limit(self) -> float:
        """The largest robust accuracy at sqrt(d/2) that any classifier can have: 1 - min(K1, K2)/K."""
        smaller = min(len(self.task.class_clusters(label)) for label in (1, -1))
        return 1.0 - smaller / self.task.k

    def robust_accuracy(self, name: str, radius: float = 1.0) -> float:
        """The share of points with a larger radius, in units of sqrt(d/2)."""
        return float(np.mean(self.radii[name] > radius))

    def median(self, name: str) -> float:
        """The median radius, in units of sqrt(d/2)."""
        return float(np.median(self.radii[name]))

    def bayes_excess(self) -> float:
        """The smallest (share robust at (sqrt(2) - nu)/2 minus Proposition 2's bound) over nu."""
        k, d, sigma = self.task.k, self.task.d, self.task.sigma
        worst = math.inf
        for nu in np.linspace(2 * math.sqrt(2) * sigma**2 * math.log(k) / d, math.sqrt(2), 200):
            share = float(np.mean(self.bayes >= (math.sqrt(2) - nu) / math.sqrt(2)))
            bound = 1 - 2 * k * math.exp(-d * nu**2 / (64 * sigma**2))
            worst = min(worst, share - bound)
        return worst

    def figure(self) -> Figure:
        """Robust accuracy of every classifier, and the limit."""
        series = tuple(
            Series(name, GRID, [self.robust_accuracy(name, r) for r in GRID], role,
                   "dashed" if "trained" in name else "solid")
            for name, role in CLASSIFIER_ROLES.items()
        )  # fmt: skip
        axes = Axis("radius / √(d/2)"), Axis("robust accuracy", range=(-0.03, 1.03))
        rules = (Rule(1.0, "x", "√(d/2)"), Rule(self.limit, label="the most beyond it"))
        caption = (
            "Robust accuracy on points that share their noise, one per cluster. Beyond √(d/2) nobody "
            "has more than the dashed share; the Bayes rule and fine labels come close to that border."
        )
        return Figure("optimal", "How robust can a classifier be?", caption,
                      (Lines(*axes, series, rules=rules),))  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        """Medians, accuracies at the limit, and the excess of the Bayes rule over its bound."""
        return {
            "median_over_sqrt_d_2": {name: self.median(name) for name in self.radii},
            "robust_accuracy_at_sqrt_d_2": {n: self.robust_accuracy(n) for n in self.radii},
            "bayes_excess": self.bayes_excess(),
        }

    def summary(self) -> str:
        """Who comes how close."""
        medians = ", ".join(f"{name} {self.median(name):.3f}" for name in self.radii)
        best = max(self.robust_accuracy(name) for name in self.radii)
        return (
            f"Median radii in units of √(d/2): {medians}. At √(d/2) nobody keeps more than {best:.2f} of "
            f"the points (the limit is {self.limit:.2f})."
        )


def optimal_radius(
    k: int = 10,
    d: int = 3072,
    *,
    positive: int | None = None,
    sigma: float = 1.0,
    seeds: Sequence[int] = (0,),
    progress: Progress = silent,
) -> OptimalRadius:
    """Exact radii of ideal and trained networks on shared noise, and certified ones of the Bayes rule.

    Args:
        k, d: clusters and dimension.
        positive: clusters with label +1; by default half of them.
        sigma: deviation of the noise per coordinate.
        seeds: of points and trained networks.
        progress: called with the share done and a note.

    >>> import featavg as fa
    >>> fa.optimal_radius(k=4, d=100)
    Median radii in units of √(d/2): f<sub>FA</sub> ...
    """
    task = MultiCluster(k=k, d=d, sigma=sigma, positive=positive)
    rows: dict[str, list[ndarray]] = {name: [] for name in CLASSIFIER_ROLES}
    bayes = []
    for i, seed in enumerate(seeds):
        progress(i / len(seeds), f"seed {seed}")
        coarse, fine = (train(task, labels=labels, seed=seed).net for labels in ("coarse", "fine"))
        dimension = max(coarse.dimension, fine.dimension)
        x, y = shared_noise_points(task, DRAWS, dimension, seed)
        nets = (feature_averaging(task), feature_decoupling(task), biased_robust(task), coarse)
        names = list(CLASSIFIER_ROLES)
        for name, net in zip(names[:4], nets, strict=True):
            rows[name].append(_radii(net, x, y, task))
        rows[names[4]].append(_radii(fine, x, y, task))
        rows[names[5]].append(bayes_radii(task, x, y))
        fresh = task.sample(BAYES_POINTS, seed)
        bayes.append(bayes_radii(task, fresh.coordinates(k), fresh.y))
    unit = math.sqrt(d / 2)
    joined = {name: np.concatenate(parts) / unit for name, parts in rows.items()}
    return OptimalRadius(task, joined, np.concatenate(bayes) / unit)


def _radii(
    net: TwoLayer, x: Float[ndarray, "n N"], y: Int[ndarray, " n"], task: MultiCluster
) -> Float[ndarray, " n"]:
    positive = task.positive_clusters if net.outputs > 1 else None
    points = x[:, : net.dimension]
    if net.outputs > 1:
        return radii(net, points, y, readout="max", positive=positive, jobs=1).certified
    return radii(net, points, y, jobs=1).certified


def shared_noise_points(
    task: MultiCluster, draws: int, dimension: int, seed: int
) -> tuple[Float[ndarray, "n N"], Int[ndarray, " n"]]:
    """mu_j + xi for every cluster j and each of `draws` noises xi."""
    sample = task.sample(draws, seed)
    centres = task.alpha * task.features_in(dimension)
    noise = sample.coordinates(dimension) - centres[sample.clusters]
    x = (noise[:, None, :] + centres[None, :, :]).reshape(draws * task.k, dimension)
    return x, np.tile(task.cluster_labels, draws)


def bayes_radii(
    task: MultiCluster, x: Float[ndarray, "n N"], y: Int[ndarray, " n"]
) -> Float[ndarray, " n"]:
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
