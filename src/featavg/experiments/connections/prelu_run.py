"""One run of Min and Vidal's experiment: power ReLUs trained on clusters on the sphere."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.data.clusters import MultiCluster
from featavg.data.compress import draw
from featavg.experiments.connections.shallow_radii import (
    attacked_radii,
    certified_near_average,
    certified_near_decoupled,
)
from featavg.figures.figure import Series
from featavg.figures.marks import Role
from featavg.measures.sphere_distance import SphereDistance, sphere_distance
from featavg.nets.power_relu import PowerReLU, Shallow, averaged_limit, decoupled_limit
from featavg.training.prelu_objective import ShallowObjective, train_shallow

SOURCE = "Talk, 'GD learns average features'; Min and Vidal 2024, Conjecture 1 and section 5.1"


@dataclass(frozen=True, eq=False)
class Trained:
    """A network trained on K clusters on the sphere; it is measured when it is asked."""

    task: MultiCluster
    net: Shallow
    features: Float[ndarray, "k N"]
    p: float
    seed: int
    test: int

    @property
    def labels(self) -> ndarray:
        """The class of each cluster, +1 or -1."""
        return self.task.cluster_labels

    @property
    def averages(self) -> Shallow:
        """F."""
        return averaged_limit(self.features, self.labels.astype(float))

    @cached_property
    def near_average(self) -> SphereDistance:
        """The distance on the sphere to F."""
        return sphere_distance(self.net, self.averages, self.seed)

    @cached_property
    def near_decoupled(self) -> SphereDistance:
        """The distance on the sphere to F^(p)."""
        limit = decoupled_limit(self.features, self.labels.astype(float), self.p)
        return sphere_distance(self.net, limit, self.seed)

    def cosine_with(self, directions: Float[ndarray, "q N"]) -> float:
        """The mean of max cosine over the neurons that make up 99% of f, weighted by share."""
        strong = self.net.strongest()
        share = np.abs(self.net.contributions[strong])
        best = (self.net.directions[strong] @ directions.T).max(axis=1)
        return float(share @ best / share.sum())

    @property
    def average_cosine(self) -> float:
        """With the average of a class."""
        return self.cosine_with(self.averages.directions)

    @property
    def feature_cosine(self) -> float:
        """With a single feature."""
        return self.cosine_with(self.features)

    @cached_property
    def radius(self) -> float:
        """Median attack radius of fresh points (l2; features have length one)."""
        x, y = self._points()
        return float(np.median(attacked_radii(self.net, x, y, self.features, self.labels)))

    @cached_property
    def certified(self) -> float:
        """Median certified radius of the same points, by way of the limit that f is near."""
        x, y = self._points()
        if self.p == 1:
            error = self.near_average.upper
            radii = certified_near_average(x, y, self.features, self.labels, error)
        elif self.p >= 2:
            error = self.near_decoupled.upper
            radii = certified_near_decoupled(x, y, self.features, self.labels, self.p, error)
        else:
            return 0.0
        return float(np.median(radii))

    def _points(self) -> tuple[Float[ndarray, "t N"], ndarray]:
        points = self.task.sample(self.test, self.seed)
        return points.coordinates(self.features.shape[1]), points.y


def experiment(p: float, noise: float, seed: int, k: int = 10, **sizes: float) -> Trained:
    """`train` with sizes that suit k, unless told otherwise."""
    # With fewer neurons a cluster might find none that leans its way at the start.
    defaults = {"positive": round(0.6 * k), "n": max(300, 8 * k), "width": max(80, 6 * k)}
    return train(p, noise, seed, k, **(defaults | sizes))


@lru_cache(maxsize=256)
def train(
    p: float,
    noise: float,
    seed: int,
    k: int,
    positive: int,
    n: int,
    width: int,
    d: int = 1000,
    scale: float = 1e-7,
    time: float = 16_000.0,
    test: int = 40,
) -> Trained:
    """Train relu^p neurons by gradient flow on x = mu_k + noise * xi / sqrt(d), |mu_k| = 1.

    Args:
        p: the power of the activation.
        noise: Min and Vidal's alpha, the length of the noise.
        k, positive, d: clusters, how many of them are positive, and the dimension.
        n, width: training points and neurons; the published run has 20,000 and 2000.
        scale, time: of the initial weights, and of the gradient flow.
        test: fresh points whose radii are measured.
    """
    task = MultiCluster(k=k, d=d, sigma=noise / math.sqrt(d), norms=1.0, positive=positive)
    data = draw(task, n, width, seed)
    objective = ShallowObjective(data.x, data.y, PowerReLU(p))
    net, _ = train_shallow(objective, data.unit_weights, scale=scale, time=time)
    return Trained(task, net, data.features, p, seed, test)


def right_and_wrong(run: Trained, p: float) -> tuple[SphereDistance, SphereDistance]:
    """The limit that the conjecture names for p, and the other one."""
    pair = run.near_average, run.near_decoupled
    return pair if p == 1 else (pair[1], pair[0])


def band(label: str, x: tuple[float, ...], found: list[list[float]], role: Role) -> Series:
    """Medians with markers and a band over the seeds; groups may differ in their number."""
    middle = [float(np.median(v)) for v in found]
    low, high = [min(v) for v in found], [max(v) for v in found]
    return Series(label, x, middle, role, "line+markers", low, high)
