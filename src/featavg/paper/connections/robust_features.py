r"""Ilyas et al. (2019): which features survive an adversary, written down and as training learns them.

A feature is a function f of x, shifted and scaled to mean 0 and variance 1. It is

- rho-useful if E[y f(x)] >= rho,
- gamma-robustly useful under l2 perturbations of length eps if E[inf_{|u| <= eps} y f(x + u)] >= gamma.

Everything here is a feature of one direction w = sum_j a_j mu_j, and either *linear*, <w, x>, or a
*detector*, 1[<w, x> >= t]. The worst perturbation is then -y eps w / |w| for every point at once,
so both numbers are closed forms of the Gaussian mixture.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.stats import norm

from featavg.data.clusters import MultiCluster
from featavg.errors import InputError
from featavg.figures.figure import Axis, Figure, Lines, Rule, Series
from featavg.figures.marks import Role
from featavg.nets.two_layer import TwoLayer
from featavg.paper.engine.claim import Check, Context, Evidence, claim
from featavg.training.train import train

# Between sqrt(d/k) = 0.316 sqrt(d), where the average must break, and sqrt(d) / 2.
SHARE = 0.4
NAMES = ("single, linear", "average, linear", "single, detector", "average, detector")
ROLES: dict[str, Role] = {"single": "decoupled", "average": "averaged"}


@dataclass(frozen=True, eq=False)
class UsefulFeature:
    """A direction w = sum_j coefficients_j mu_j, plus a part that is orthogonal to all features.

    Args:
        coefficients: a_j; a unit vector is a single feature, the cluster labels are the average.
        threshold: t of a detector, in the units of <w, x>; None for a linear feature.
        outside: the length of the orthogonal part, which sees noise only.
    """

    task: MultiCluster
    coefficients: Float[ndarray, " k"]
    threshold: float | None = None
    outside: float = 0.0

    @classmethod
    def of_weights(
        cls, task: MultiCluster, weights: Float[ndarray, " N"], threshold: float | None = None
    ) -> UsefulFeature:
        """The feature that a neuron with these weights (in compressed coordinates) computes."""
        features = task.features_in(len(weights))
        coefficients = np.linalg.solve(task.gram_matrix, features @ weights)
        rest = weights - coefficients @ features
        return cls(task, coefficients, threshold, float(np.linalg.norm(rest)))

    def __post_init__(self) -> None:
        if self.coefficients.shape != (self.task.k,):
            shape = self.coefficients.shape
            raise InputError("coefficients", f"have shape {shape}", f"give {self.task.k}")
        if not self.length > 0:
            raise InputError("coefficients", "give the zero vector", "point somewhere")

    @property
    def length(self) -> float:
        """The length |w|."""
        gram = self.task.gram_matrix
        return float(np.sqrt(self.coefficients @ gram @ self.coefficients + self.outside**2))

    @property
    def weights(self) -> Float[ndarray, " N"]:
        """w in coordinates: the features' span first, then the direction of the rest."""
        return np.append(self.coefficients @ self.task.features, self.outside)

    @property
    def means(self) -> Float[ndarray, " k"]:
        """E[<w, x>] on each cluster."""
        return np.asarray(self.task.alpha * self.task.gram_matrix @ self.coefficients)

    @property
    def spread(self) -> float:
        """The standard deviation of <w, x> inside a cluster."""
        return self.task.sigma * self.length

    def values(self, z: Float[ndarray, " n"]) -> Float[ndarray, " n"]:
        """f before it is normalised, from z = <w, x>."""
        return z if self.threshold is None else (z >= self.threshold).astype(float)


def robust_usefulness(feature: UsefulFeature, eps: float = 0.0) -> float:
    r"""gamma at `eps` in closed form; `eps` = 0 gives the plain usefulness rho.

    With m_j, s the mean and deviation of <w, x> on cluster j, p_j its probability, y_j its label,

        linear:    gamma = (sum_j p_j y_j m_j - mean * E[y] - eps |w|) / std,
        detector:  the same with m_j replaced by P(z >= t + y_j eps |w|), z ~ N(m_j, s^2).

    >>> task = MultiCluster(k=10, d=1000, sigma=0.0)
    >>> average = UsefulFeature(task, task.cluster_labels.astype(float))
    >>> round(robust_usefulness(average), 6), round(robust_usefulness(average, 5.0), 6)
    (1.0, 0.5)
    """
    task, y, p = feature.task, feature.task.cluster_labels, feature.task.cluster_probabilities
    if eps < 0:
        raise InputError("eps", f"is {eps}", "give the length of a perturbation, 0 or more")
    moved = eps * feature.length
    if feature.threshold is None:
        mean = float(p @ feature.means)
        second = float(p @ (feature.means**2 + feature.spread**2))
        attacked = feature.means - y * moved
    else:
        clean, attacked = (_above(feature.threshold + shift, feature) for shift in (np.zeros(task.k), y * moved))
        mean = second = float(p @ clean)
    deviation = np.sqrt(second - mean**2)
    return float((p * y) @ (attacked - mean) / deviation)


def _above(threshold: Float[ndarray, " k"], feature: UsefulFeature) -> Float[ndarray, " k"]:
    """P(<w, x> >= threshold) on each cluster."""
    if feature.spread == 0:
        return (feature.means >= threshold).astype(float)
    return np.asarray(norm.sf(threshold, feature.means, feature.spread))


def measured_usefulness(
    feature: UsefulFeature, eps: Float[ndarray, " q"], n: int, seed: int
) -> tuple[Float[ndarray, " q"], Float[ndarray, " q"]]:
    """gamma on a sample: move every point by -y eps w / |w|, evaluate, normalise; and its error.

    The feature is normalised by its own mean and deviation on the clean sample. They are estimates
    too, so the standard errors are those of the whole expression, by its influence function.
    """
    points = feature.task.sample(n, seed)
    weights = feature.weights
    unit = weights / feature.length
    x, y = points.coordinates(len(weights)), points.y
    clean = feature.values(x @ weights)
    mean, deviation = clean.mean(), clean.std()
    scores = (clean - mean) / deviation
    gammas, errors = [], []
    for length in eps:
        worst = x - (length * y)[:, None] * unit
        attacked = y * (feature.values(worst @ weights) - mean) / deviation
        gamma = attacked.mean()
        influence = attacked - gamma - y.mean() * scores - gamma / 2 * (scores**2 - 1)
        gammas.append(gamma)
        errors.append(influence.std() / np.sqrt(n))
    return np.array(gammas), np.array(errors)


def vanishing_radius(feature: UsefulFeature, most: float, steps: int = 60) -> float:
    """The eps up to which gamma stays positive, by bisection; `most` if it is positive there.

    >>> task = MultiCluster(k=10, d=1000, sigma=0.0)
    >>> single = UsefulFeature(task, np.eye(10)[0])
    >>> round(vanishing_radius(single, 100.0) / 1000**0.5, 6)
    0.1
    """
    if robust_usefulness(feature, most) > 0:
        return most
    low, high = 0.0, most
    for _ in range(steps):
        middle = (low + high) / 2
        low, high = (middle, high) if robust_usefulness(feature, middle) > 0 else (low, middle)
    return low


def share_left(feature: UsefulFeature, eps: float, seed: int, n: int = 2000) -> float:
    """The mean of <w, x + u> / <w, x> over fresh points of cluster 0, u the worst of length `eps`."""
    points = feature.task.sample(n, seed)
    z = points.coordinates(len(feature.weights))[points.clusters == 0] @ feature.weights
    return float(np.mean((z - eps * feature.length) / np.mean(z)))


def _ideal(task: MultiCluster) -> dict[str, UsefulFeature]:
    """A detector of a single feature fires half-way to it, that of the average at zero.

    So do a neuron of the biased robust network and the sign of the averaged network.
    """
    single, average = np.eye(task.k)[0], task.cluster_labels.astype(float)
    half = task.alpha * float(task.gram_matrix[0, 0]) / 2
    kinds = ((single, None), (average, None), (single, half), (average, 0.0))
    return {name: UsefulFeature(task, row, threshold) for name, (row, threshold) in zip(NAMES, kinds, strict=True)}


def _learnt(task: MultiCluster, seed: int) -> dict[str, UsefulFeature]:
    """Detectors with the thresholds of `_ideal`, in the units of the learnt weights.

    The single feature is the first group's weight vector after training with fine labels, the average
    the difference of the two classes' mean weight vectors after training with coarse labels.
    """
    coarse, fine = (train(task, labels=labels, seed=seed).net for labels in ("coarse", "fine"))
    single = np.asarray(fine.weights[fine.head[0] > 0].mean(axis=0))
    half = task.alpha * float(task.features_in(len(single))[0] @ single) / 2
    return {
        "single": UsefulFeature.of_weights(task, single, half),
        "average": UsefulFeature.of_weights(task, _signed_mean(coarse), 0.0),
    }


def _signed_mean(net: TwoLayer) -> Float[ndarray, " N"]:
    """The mean weight vector of the positive neurons minus that of the negative ones."""
    head = net.head[0]
    return np.asarray(net.weights[head > 0].mean(axis=0) - net.weights[head < 0].mean(axis=0))


@claim(
    "connections-robust-features", "Single features are robust features, their average is not",
    theme="Connections",
    source="Talk (CSML 2024), 'Connection to nonrobust features'; Ilyas et al. 2019, section 2",
    measured="ρ = E[y f] and γ = E[inf<sub>|u|≤ε</sub> y f(x+u)] of features normalised to mean 0 "
    "and variance 1, for the weight vectors that training with coarse and with fine labels "
    "learns (as detectors, and on the points that carry them), and for ⟨μ<sub>j</sub>,x⟩ and "
    "the average to the letter; k = 10, d = 3072, ε = 0.4 √d",
    minutes=0.05, statements=("itcs-features", "csml-features", "itcs-robust-features"),
)  # fmt: skip
def robust_features(run: Context, k: int = 10, d: int = 3072, n: int = 20_000) -> Evidence:
    """By the definitions of Ilyas et al., each ⟨μ<sub>j</sub>,x⟩ is useful and robustly useful, and
    the average of the features, which gradient descent learns, is useful but not robustly useful,
    under l2 perturbations longer than √(d/k).
    """
    task, root = MultiCluster(k=k, d=d), math.sqrt(d)
    ideal, shares = _ideal(task), np.linspace(0.0, 0.7, 15)
    samples: dict[str, list[ndarray]] = {name: [] for name in NAMES}
    kept: dict[str, list[float]] = {name: [] for name in ROLES}
    left: dict[str, list[float]] = {name: [] for name in ROLES}
    surprise = 0.0
    for i, seed in enumerate(run.seeds):
        run.progress(i / len(run.seeds), f"seed {seed}")
        for name, feature in ideal.items():
            gamma, error = measured_usefulness(feature, shares * root, n, seed)
            closed = [robust_usefulness(feature, share * root) for share in shares]
            # A detector that no sample point contradicts has no sampling error at all.
            surprise = max(surprise, float((np.abs(gamma - closed) / np.maximum(error, 1 / n)).max()))
            samples[name].append(gamma)
        for name, feature in _learnt(task, seed).items():
            whole = robust_usefulness(feature)
            kept[name].append(robust_usefulness(feature, SHARE * root) / whole)
            left[name].append(share_left(feature, SHARE * root, seed))
    useful = {name: robust_usefulness(feature) for name, feature in ideal.items()}
    robust = {name: robust_usefulness(feature, SHARE * root) for name, feature in ideal.items()}
    rows = task.cluster_labels[:, None] * np.eye(k)
    every = [robust_usefulness(UsefulFeature(task, row), SHARE * root) for row in rows]
    vanish = {name: vanishing_radius(feature, 2 * root) / root for name, feature in ideal.items()}
    order = "reversed" if vanish[NAMES[0]] < vanish[NAMES[1]] else "kept"
    where = f"ε = {SHARE:g} √d"
    return Evidence(
        Check(f"learnt average, as a detector: largest γ/ρ at {where}", max(kept["average"]), "<=", 0.0),
        Check(f"learnt single feature, as a detector: smallest γ/ρ at {where}", min(kept["single"]), ">=", 0.9),
        Check(f"learnt single feature, on the points that carry it: smallest share left at {where}",
              min(left["single"]), ">=", 0.5),
        Check(f"learnt average, on the same points: largest share left at {where}",
              max(left["average"]), "<=", 0.0),
        Check(f"best single ⟨μ<sub>j</sub>,x⟩, to the letter: γ at {where}", max(every), ">=", 0.0,
              note="arithmetic, nothing is trained: the adversary may move every point"),
        Check(f"average, to the letter: γ at {where}", robust["average, linear"], "<=", 0.0,
              note="arithmetic too"),
        Check("every feature is useful: smallest ρ", min(useful.values()), ">=", 0.1, role="note"),
        Check("closed form against a sample, in standard errors (an identity)", surprise, "<=", 5.0,
              role="note"),
        finding=f"At {where} a learnt single feature keeps {min(left['single']):.0%} of its value on the "
        f"points that carry it, the learnt average {max(left['average']):.0%}; as detectors they keep "
        f"{min(kept['single']):.0%} and {max(kept['average']):.0%} of their usefulness. To the letter of "
        f"the definition the order is {order}: ⟨μ<sub>j</sub>,x⟩ stops being robustly useful at "
        f"{vanish[NAMES[0]]:.2f} √d and the average at {vanish[NAMES[1]]:.2f} √d, because {k - 1} of {k} "
        "points do not carry the feature and can be pushed along it; a detector with a threshold ignores "
        f"them and lasts to {vanish[NAMES[2]]:.2f} √d.",
        numbers={"rho": useful, "gamma": robust, "gamma_of_every_single": every,
                 "eps_over_sqrt_d": SHARE, "vanishing_radius_over_sqrt_d": vanish,
                 "largest_surprise_in_standard_errors": surprise,
                 "learnt_gamma_over_rho": kept, "learnt_share_left": left},
        figure=figure(ideal, shares, samples),
    )  # fmt: skip


def figure(ideal: dict[str, UsefulFeature], shares: Float[ndarray, " q"], samples: dict[str, list[ndarray]]) -> Figure:
    """gamma against the length of the perturbation: closed form, and on fresh points."""
    fine, task = np.linspace(0.0, 0.7, 141), ideal[NAMES[0]].task
    titles = {"linear": "Linear: ⟨w,x⟩", "detector": "Detector: is ⟨w,x⟩ large?"}
    rules = (Rule(0.0), Rule(task.k**-0.5, "x", "√(d/k)"))
    axes = Axis("ε / √d"), Axis("robust usefulness γ", range=(-1.6, 1.1))
    panels = []
    for kind, title in titles.items():
        series = []
        for name, role in ROLES.items():
            key = f"{name}, {kind}"
            closed = [robust_usefulness(ideal[key], share * math.sqrt(task.d)) for share in fine]
            middle = np.median(samples[key], axis=0)
            series += [
                Series(f"{name}, closed form", fine, closed, role),
                Series(f"{name}, measured", shares, middle, role, "markers"),
            ]
        panels.append(Lines(*axes, tuple(series), title=title, rules=rules))
    return Figure(
        "usefulness",
        "Which features survive an adversary?",
        "Robust usefulness E[inf y f] of a single feature and of the average against the length "
        "of the perturbation. As linear functions the average outlives the single feature; as "
        "detectors with a threshold the single feature outlives the average.",
        tuple(panels),
    )
