"""One run of Min and Vidal's experiment: power ReLUs trained on clusters on the sphere."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.data.clusters import MultiCluster
from featavg.data.compress import draw
from featavg.figures.figure import Figure, Heatmap, Series
from featavg.figures.marks import Role
from featavg.figures.result import Result
from featavg.paper.connections.power_relu import PowerReLU, Shallow, averaged_limit, decoupled_limit
from featavg.paper.connections.power_relu_objective import ShallowObjective, train_shallow
from featavg.paper.connections.shallow_radii import (
    attacked_radii,
    certified_near_average,
    certified_near_decoupled,
)
from featavg.paper.connections.sphere_distance import SphereDistance, sphere_distance
from featavg.progress import Progress, remembered, silent

POWER_RELU_SOURCE = (
    "Talk, 'GD learns average features'; Min and Vidal 2024, Conjecture 1 and section 5.1"
)


@dataclass(frozen=True, eq=False, repr=False)
class PowerReluRun(Result):
    """A network trained on K clusters on the sphere; it is measured when it is asked.

    Attributes:
        task: the clusters, |mu_k| = 1.
        net: the trained network.
        features: the cluster centres, in the coordinates of the network.
        p: the power of its activation.
        seed: of data and start.
        test: how many fresh points radii are measured on.

    Returned by `fa.power_relu_run`, which has an example.
    """

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
        """The averaged limit F, two neurons."""
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
        error = self.limits[0].upper
        if not math.isfinite(error) or 1 < self.p < 2:
            return 0.0
        if self.p == 1:
            radii = certified_near_average(x, y, self.features, self.labels, error)
        else:
            radii = certified_near_decoupled(x, y, self.features, self.labels, self.p, error)
        return float(np.median(radii))

    @property
    def limits(self) -> tuple[SphereDistance, SphereDistance]:
        """The distance to the limit that the conjecture names for p, and to the other one."""
        pair = self.near_average, self.near_decoupled
        return pair if self.p == 1 else (pair[1], pair[0])

    def figure(self) -> Figure:
        """What the strongest neurons look at."""
        return Figure(
            "cosines",
            f"What the dominant neurons look at, p = {self.p:g}",
            "Cosine of the twelve strongest neurons with the two class averages (left) and the "
            "features.",
            (cosine_panel(self),),
        )

    def to_json(self) -> dict[str, Any]:
        """Distances to both limits, cosines and radii."""
        return {
            "p": self.p,
            "seed": self.seed,
            "to_average": self.near_average.ascent,
            "to_decoupled": self.near_decoupled.ascent,
            "nearer_certified": self.limits[0].upper,
            "wrong_over_right": self.limits[1].lower / self.limits[0].ascent,
            "average_cosine": self.average_cosine,
            "feature_cosine": self.feature_cosine,
            "radius": self.radius,
            "certified": self.certified,
        }

    def summary(self) -> str:
        """The numbers of `to_json` in a sentence."""
        numbers = self.to_json()
        return (
            f"p = {self.p:g}, seed {self.seed}: distance to the averaged limit "
            f"{numbers['to_average']:.3f}, to the decoupled one {numbers['to_decoupled']:.3f}; "
            f"cosine with averages {self.average_cosine:.3f}, with features "
            f"{self.feature_cosine:.3f}; median radius {self.radius:.3f} (l2, certified "
            f"{self.certified:.3f})"
        )

    def _points(self) -> tuple[Float[ndarray, "t N"], ndarray]:
        points = self.task.sample(self.test, self.seed)
        return points.coordinates(self.features.shape[1]), points.y


def power_relu_run(
    p: float = 3.0,
    noise: float = 0.01,
    seed: int = 0,
    k: int = 10,
    *,
    positive: int | None = None,
    n: int | None = None,
    width: int | None = None,
    d: int = 1000,
    scale: float = 1e-7,
    time: float = 16_000.0,
    test: int = 40,
    progress: Progress = silent,
) -> PowerReluRun:
    """Train relu^p neurons by gradient flow on x = mu_k + noise * xi / sqrt(d), |mu_k| = 1.

    The experiment of Min and Vidal (2024), section 5.1, in exactly compressed coordinates.

    Args:
        p: the power of the activation.
        noise: Min and Vidal's alpha, the length of the noise.
        seed: of data and start.
        k, positive, d: clusters, how many of them are positive (60%), and the dimension.
        n, width: training points and neurons; by default what suits k (the published run has
            20,000 and 2000).
        scale, time: of the initial weights, and of the gradient flow.
        test: fresh points whose radii are measured.
        progress: called with the share done and a note.

    >>> import featavg as fa
    >>> run = fa.power_relu_run(p=3.0, k=4, n=40, width=30, time=2000.0)
    >>> run.feature_cosine > 0.9 > run.average_cosine
    True
    """
    # With fewer neurons a cluster might find none that leans its way at the start.
    return _trained(
        p,
        noise,
        seed,
        k,
        round(0.6 * k) if positive is None else positive,
        max(300, 8 * k) if n is None else n,
        max(80, 6 * k) if width is None else width,
        d,
        scale,
        time,
        test,
        progress,
    )


@remembered
def _trained(
    p: float,
    noise: float,
    seed: int,
    k: int,
    positive: int,
    n: int,
    width: int,
    d: int,
    scale: float,
    time: float,
    test: int,
    progress: Progress,
) -> PowerReluRun:
    task = MultiCluster(k=k, d=d, sigma=noise / math.sqrt(d), norms=1.0, positive=positive)
    data = draw(task, n, width, seed)
    objective = ShallowObjective(data.x, data.y, PowerReLU(p))
    net, _ = train_shallow(objective, data.unit_weights, scale=scale, time=time, progress=progress)
    return PowerReluRun(task, net, data.features, p, seed, test)


def cosine_panel(run: PowerReluRun) -> Heatmap:
    """Cosines of the twelve strongest neurons with the class averages and the features."""
    strong = run.net.strongest()[:12]
    columns = np.concatenate([run.averages.directions, run.features])
    cosines = run.net.directions[strong] @ columns.T
    # Neurons in the order of what they look at, so that blocks are seen.
    order = np.lexsort((cosines[:, 2:].argmax(axis=1), -run.net.head[strong]))
    k, first = len(run.labels), int((run.labels > 0).sum())
    names = ("μ̄<sub>+</sub>", "μ̄<sub>−</sub>", *(f"μ<sub>{j + 1}</sub>" for j in range(k)))
    return Heatmap(
        cosines[order],
        tuple(f"w<sub>{i + 1}</sub>" for i in range(len(strong))),
        names,
        label="cosine",
        limit=1.0,
        printed=False,
        title=f"p = {run.p:g}",
        row_label="strongest neurons",
        column_breaks=(2, 2 + first),
        row_breaks=(int((run.net.head[strong] > 0).sum()),),
    )


def median_band(label: str, x: tuple[float, ...], found: list[list[float]], role: Role) -> Series:
    """Medians with markers and a band over the seeds; groups may differ in their number."""
    middle = [float(np.median(v)) for v in found]
    low, high = [min(v) for v in found], [max(v) for v in found]
    return Series(label, x, middle, role, "line+markers", low, high)
