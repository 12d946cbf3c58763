r"""Useful and robustly useful features, by the definitions of Ilyas et al. (2019).

A feature is a function f of x, shifted and scaled to mean 0 and variance 1. It is

- rho-useful if E[y f(x)] >= rho,
- gamma-robustly useful under l2 perturbations of length eps if E[inf_{|u| <= eps} y f(x + u)] >= gamma.

Everything here is a feature of one direction w = sum_j a_j mu_j, and either *linear*, <w, x>, or a
*detector*, 1[<w, x> >= t]. The worst perturbation is then -y eps w / |w| for every point at once,
so both numbers are closed forms of the Gaussian mixture.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.stats import norm

from featavg.data.clusters import MultiCluster
from featavg.errors import InputError


@dataclass(frozen=True, eq=False)
class UsefulFeature:
    """A direction w = sum_j coefficients_j mu_j, plus a part that is orthogonal to all features.

    Attributes:
        coefficients: a_j; a unit vector is a single feature, the cluster labels are the average.
        threshold: t of a detector, in the units of <w, x>; None for a linear feature.
        outside: the length of the orthogonal part, which sees noise only.

    >>> import featavg as fa
    >>> task = fa.MultiCluster(k=4, d=100)
    >>> average = fa.UsefulFeature(task, task.cluster_labels.astype(float))
    >>> fa.robust_usefulness(average, 1.0)
    0.7844645405527362
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
            raise InputError(
                "coefficients", f"have shape {self.coefficients.shape}", f"give {self.task.k}"
            )
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

    Args:
        feature: a direction, linear or with a threshold.
        eps: length of the perturbation, l2.

    >>> import featavg as fa
    >>> task = fa.MultiCluster(k=10, d=1000, sigma=0.0)
    >>> average = fa.UsefulFeature(task, task.cluster_labels.astype(float))
    >>> round(fa.robust_usefulness(average), 6), round(fa.robust_usefulness(average, 5.0), 6)
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
        clean, attacked = (
            _above(feature.threshold + shift, feature) for shift in (np.zeros(task.k), y * moved)
        )
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
    task = feature.task
    points = task.sample(n, seed)
    weights = feature.weights
    unit = weights / feature.length
    x, y = points.coordinates(len(weights)), points.y
    clean = feature.values(x @ weights)
    mean, deviation = clean.mean(), clean.std()
    scores = (clean - mean) / deviation
    useful = []
    for length in eps:
        worst = x - (length * y)[:, None] * unit
        attacked = y * (feature.values(worst @ weights) - mean) / deviation
        gamma = attacked.mean()
        influence = attacked - gamma - y.mean() * scores - gamma / 2 * (scores**2 - 1)
        useful.append((gamma, influence.std() / np.sqrt(n)))
    return np.array([g for g, _ in useful]), np.array([e for _, e in useful])


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
