"""Ilyas et al. (2019): which features survive an adversary, written down and as training learns them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.data.clusters import MultiCluster
from featavg.figures.figure import Axis, Figure, Lines, Rule, Series
from featavg.figures.marks import Role
from featavg.figures.result import Result
from featavg.nets.two_layer import TwoLayer
from featavg.paper.connections.usefulness import (
    UsefulFeature,
    measured_usefulness,
    robust_usefulness,
    vanishing_radius,
)
from featavg.progress import Progress, silent
from featavg.training.train import train

# Between sqrt(d/k) = 0.316 sqrt(d), where the average must break, and sqrt(d) / 2.
FEATURE_SHARE = 0.4
FEATURE_NAMES = ("single, linear", "average, linear", "single, detector", "average, detector")
ROLES: dict[str, Role] = {"single": "decoupled", "average": "averaged"}


@dataclass(frozen=True, repr=False, eq=False)
class UsefulFeatures(Result):
    """Usefulness and robust usefulness of single features and of their average.

    Attributes:
        task: the clusters.
        eps: lengths of the perturbation at which a sample was measured, in units of sqrt(d).
        ideal: the features of the distribution, by name (`NAMES`).
        measured: their robust usefulness on fresh points, a row for each seed.
        errors: its standard errors.
        learnt: the same features as trained networks have them, an entry for each seed.
        left: the mean share of <w, x> that is left at `SHARE` sqrt(d) on the points that carry the
            learnt feature, by "single" and "average", an entry for each seed.

    Returned by `fa.useful_features`, which has an example.
    """

    task: MultiCluster
    eps: Float[ndarray, " q"]
    ideal: dict[str, UsefulFeature]
    measured: dict[str, Float[ndarray, "s q"]]
    errors: dict[str, Float[ndarray, "s q"]]
    learnt: dict[str, tuple[UsefulFeature, ...]]
    left: dict[str, Float[ndarray, " s"]]

    def usefulness(self, name: str) -> float:
        """rho of an ideal feature."""
        return robust_usefulness(self.ideal[name])

    def robust(self, name: str, share: float = FEATURE_SHARE) -> float:
        """gamma of an ideal feature at `share` sqrt(d)."""
        return robust_usefulness(self.ideal[name], share * math.sqrt(self.task.d))

    def learnt_robust(self, name: str, share: float = FEATURE_SHARE) -> list[float]:
        """gamma / rho of a learnt feature at `share` sqrt(d), for each seed."""
        eps = share * math.sqrt(self.task.d)
        return [robust_usefulness(f, eps) / robust_usefulness(f) for f in self.learnt[name]]

    @property
    def every_single(self) -> list[float]:
        """gamma of each linear feature <mu_j, x>, signed by its class."""
        eps = FEATURE_SHARE * math.sqrt(self.task.d)
        rows = self.task.cluster_labels[:, None] * np.eye(self.task.k)
        return [robust_usefulness(UsefulFeature(self.task, row), eps) for row in rows]

    @property
    def vanishing(self) -> dict[str, float]:
        """The perturbation at which each stops being robustly useful, in units of sqrt(d)."""
        root = math.sqrt(self.task.d)
        return {name: vanishing_radius(f, 2 * root) / root for name, f in self.ideal.items()}

    @property
    def surprise(self) -> float:
        """The largest difference between sample and closed form, in standard errors."""
        worst = 0.0
        for name in FEATURE_NAMES:
            closed = [self.robust(name, share) for share in self.eps]
            worst = max(
                worst, float((np.abs(self.measured[name] - closed) / self.errors[name]).max())
            )
        return worst

    def figure(self) -> Figure:
        """gamma against the length of the perturbation: closed form, and on fresh points."""
        fine = np.linspace(0.0, 0.7, 141)
        titles = {"linear": "Linear: ⟨w,x⟩", "detector": "Detector: is ⟨w,x⟩ large?"}
        panels = []
        for kind, title in titles.items():
            series = []
            for name, role in ROLES.items():
                key = f"{name}, {kind}"
                closed = [self.robust(key, share) for share in fine]
                middle = np.median(self.measured[key], axis=0)
                series += [
                    Series(f"{name}, closed form", fine, closed, role),
                    Series(f"{name}, measured", self.eps, middle, role, "markers"),
                ]
            rules = (Rule(0.0), Rule(self.task.k**-0.5, "x", "√(d/k)"))
            gamma = Axis("robust usefulness γ", range=(-1.6, 1.1))
            panels.append(Lines(Axis("ε / √d"), gamma, tuple(series), title=title, rules=rules))
        return Figure(
            "usefulness",
            "Which features survive an adversary?",
            "Robust usefulness E[inf y f] of a single feature and of the average against the length "
            "of the perturbation. As linear functions the average outlives the single feature; as "
            "detectors with a threshold the single feature outlives the average.",
            tuple(panels),
        )

    def to_json(self) -> dict[str, Any]:
        """Every number, by name."""
        return {
            "rho": {name: self.usefulness(name) for name in FEATURE_NAMES},
            "gamma": {name: self.robust(name) for name in FEATURE_NAMES},
            "gamma_of_every_single": self.every_single,
            "eps_over_sqrt_d": FEATURE_SHARE,
            "vanishing_radius_over_sqrt_d": self.vanishing,
            "largest_surprise_in_standard_errors": self.surprise,
            "learnt_gamma_over_rho": {n: self.learnt_robust(n) for n in self.learnt},
            "learnt_share_left": {name: left.tolist() for name, left in self.left.items()},
        }

    def summary(self) -> str:
        """What outlives what."""
        vanish, k = self.vanishing, self.task.k
        order = vanish["single, linear"] < vanish["average, linear"]
        return (
            f"At ε = {FEATURE_SHARE:g} √d a learnt single feature keeps "
            f"{min(self.left['single']):.0%} of its "
            f"value on the points that carry it, the learnt average "
            f"{max(self.left['average']):.0%}; as detectors they keep "
            f"{min(self.learnt_robust('single')):.0%} and {max(self.learnt_robust('average')):.0%} of "
            f"their usefulness. To the letter of the definition the order is "
            f"{'reversed' if order else 'kept'}: ⟨μ<sub>j</sub>,x⟩ stops being robustly useful at "
            f"{vanish['single, linear']:.2f} √d and the average at {vanish['average, linear']:.2f} √d, "
            f"because {k - 1} of {k} points do not carry the feature and can be pushed along it; a "
            f"detector with a threshold ignores them and lasts to {vanish['single, detector']:.2f} √d."
        )


def useful_features(
    k: int = 10,
    d: int = 3072,
    n: int = 20_000,
    *,
    seeds: Sequence[int] = (0,),
    progress: Progress = silent,
) -> UsefulFeatures:
    """Robust usefulness in closed form, on a sample, and of what training learns.

    A detector of a single feature fires half-way to it, like a neuron of the biased robust network;
    the average's fires at zero, like the sign of the averaged network. The learnt single feature is
    the first group's weight vector after training with fine labels, the learnt average the
    difference of the two classes' mean weight vectors after training with coarse labels.

    Args:
        k, d: clusters and dimension.
        n: fresh points to measure on, for each seed.
        seeds: of the sample and the trained networks.
        progress: called with the share done and a note.

    >>> import featavg as fa
    >>> fa.useful_features(k=4, d=100, n=1000)
    At ε = 0.4 √d a learnt single feature keeps 60% of its value on the points that ...
    """
    task = MultiCluster(k=k, d=d)
    ideal = _ideal(task)
    eps = np.linspace(0.0, 0.7, 15)
    measured: dict[str, list[ndarray]] = {name: [] for name in FEATURE_NAMES}
    errors: dict[str, list[ndarray]] = {name: [] for name in FEATURE_NAMES}
    learnt: dict[str, list[UsefulFeature]] = {name: [] for name in ROLES}
    left: dict[str, list[float]] = {name: [] for name in ROLES}
    for i, seed in enumerate(seeds):
        progress(i / len(seeds), f"seed {seed}")
        for name, feature in ideal.items():
            gamma, error = measured_usefulness(feature, eps * math.sqrt(d), n, seed)
            measured[name].append(gamma)
            # A detector that no sample point contradicts has no sampling error at all.
            errors[name].append(np.maximum(error, 1 / n))
        for name, feature in _learnt(task, seed).items():
            learnt[name].append(feature)
            left[name].append(share_left(feature, FEATURE_SHARE * math.sqrt(d), seed))
    return UsefulFeatures(
        task,
        eps,
        ideal,
        {name: np.array(rows) for name, rows in measured.items()},
        {name: np.array(rows) for name, rows in errors.items()},
        {name: tuple(rows) for name, rows in learnt.items()},
        {name: np.array(rows) for name, rows in left.items()},
    )


def share_left(feature: UsefulFeature, eps: float, seed: int, n: int = 2000) -> float:
    """The mean of <w, x + u> / <w, x> over fresh points of cluster 0, u the worst of length `eps`."""
    points = feature.task.sample(n, seed)
    z = points.coordinates(len(feature.weights))[points.clusters == 0] @ feature.weights
    return float(np.mean((z - eps * feature.length) / np.mean(z)))


def _ideal(task: MultiCluster) -> dict[str, UsefulFeature]:
    single, average = np.eye(task.k)[0], task.cluster_labels.astype(float)
    half = task.alpha * float(task.gram_matrix[0, 0]) / 2
    kinds = (UsefulFeature(task, single), UsefulFeature(task, average), UsefulFeature(task, single, half),
             UsefulFeature(task, average, 0.0))  # fmt: skip
    return dict(zip(FEATURE_NAMES, kinds, strict=True))


def _learnt(task: MultiCluster, seed: int) -> dict[str, UsefulFeature]:
    """Detectors: their thresholds are those of `_ideal`, in the units of the learnt weights."""
    coarse, fine = (train(task, labels=labels, seed=seed).net for labels in ("coarse", "fine"))
    single = np.asarray(fine.weights[fine.head[0] > 0].mean(axis=0))
    half = task.alpha * float(task.features_in(len(single))[0] @ single) / 2
    average = signed_mean(coarse)
    return {
        "single": UsefulFeature.of_weights(task, single, half),
        "average": UsefulFeature.of_weights(task, average, 0.0),
    }


def signed_mean(net: TwoLayer) -> Float[ndarray, " N"]:
    """The mean weight vector of the positive neurons minus that of the negative ones."""
    head = net.head[0]
    return np.asarray(net.weights[head > 0].mean(axis=0) - net.weights[head < 0].mean(axis=0))
