"""Networks and their exact radii that several claims look at, computed once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.data.clusters import MultiCluster, Sample
from featavg.nets.two_layer import TwoLayer
from featavg.paper.theorems.theorem_runs import scaled_recipe
from featavg.robustness.attacks.pgd import pgd
from featavg.robustness.exact.result import Radii
from featavg.robustness.models.model import network_model
from featavg.robustness.radii import radii
from featavg.training.train import train

K, D, N_TRAIN = 10, 3072, 1000
RADIUS_DIMENSIONS = (3_162, 10_000, 100_000, 1_000_000)
RADIUS_CLUSTERS = (4, 6, 10, 16, 20)
RADIUS_CLUSTERS_D = 100_000
RADIUS_SAMPLES = 300
# Claims on radii bear 5%, and an error of 0.4% in all weights alike changes no radius at all.
RADIUS_TOLERANCE = 1e-3
# Test points have seeds of their own, far from those of training.
TEST = 1_000_000


@dataclass(frozen=True)
class RadiusCase:
    """A network of a task: trained by the paper's recipe, or by its gradient flow at any d.

    Attributes:
        labels: "coarse" or "fine".
        k, d: of the task.
        paper: the paper's preset itself, rather than the flow scaled to d.
    """

    labels: str
    k: int = K
    d: int = D
    paper: bool = True

    @property
    def task(self) -> MultiCluster:
        """The distribution."""
        return MultiCluster(k=self.k, d=self.d)


@cache
def networks(case: RadiusCase, seeds: tuple[int, ...]) -> tuple[TwoLayer, ...]:
    """One trained network for each seed, trained as one batch."""
    if case.paper:
        net = train(case.task, labels=case.labels, n=N_TRAIN, seed=seeds).net
    else:
        recipe = scaled_recipe(case.labels, case.d, tolerance=RADIUS_TOLERANCE)
        net = train(case.task, recipe, n=RADIUS_SAMPLES, seed=seeds).net
    return tuple(net[i] for i in range(len(seeds)))


def fresh(task: MultiCluster, points: int, seed: int) -> Sample:
    """Test points that no training has seen."""
    return task.sample(points, seed=TEST + seed)


@cache
def measured_radii(
    case: RadiusCase, readout: str, seeds: tuple[int, ...], points: int, gap: float = 0.01
) -> Radii:
    """Radii of `points` fresh points for each seed, all seeds in a row."""
    return Radii.joined(
        [
            radii(net, fresh(case.task, points, seed), readout=readout, gap=gap)
            for net, seed in zip(networks(case, seeds), seeds, strict=True)
        ]
    )


def seed_medians(result: Radii, seeds: tuple[int, ...]) -> Float[ndarray, " s"]:
    """The median radius of each seed; the middle of a bracket where there is one."""
    middle = (result.certified + result.attack) / 2
    return np.median(middle.reshape(len(seeds), -1), axis=1)


@cache
def pgd_accuracy(
    case: RadiusCase, readout: str, seeds: tuple[int, ...], points: int, at: tuple[float, ...]
) -> Float[ndarray, " q"]:
    """Robust accuracy as PGD-40 on the coarse decision shows it: the same attack for every network.

    PGD moves along gradients, which lie in the span of the weights. So it runs in the coordinates of
    that span, where every iterate is the same and costs a hundredth.
    """
    shares = np.zeros(len(at))
    for net, seed in zip(networks(case, seeds), seeds, strict=True):
        test = fresh(case.task, points, seed)
        basis, _ = np.linalg.qr(net.weights.T)
        inside = TwoLayer(net.weights @ basis, net.biases, net.head)
        mask = case.task.positive_clusters if net.outputs > 1 else None
        model = network_model(inside, positive=mask, readout=readout)
        x, label = test.coordinates(net.dimension) @ basis, model.decision.labels(test.y)
        wrong = model.margins(x, label) <= 0
        for i, radius in enumerate(at):
            hit = pgd(model, x, label, np.full(points, radius), steps=40).flipped
            shares[i] += float(np.mean(~(hit | wrong)))
    return shares / len(seeds)


def crossing(at: Float[ndarray, " q"], accuracy: Float[ndarray, " q"], level: float = 0.5) -> float:
    """Where a falling curve first goes below `level`, by linear interpolation; NaN if never.

    >>> crossing(np.array([14.0, 16.0]), np.array([0.91, 0.31]), 0.61)
    15.0
    """
    below = np.flatnonzero(accuracy < level)
    if not len(below) or below[0] == 0:
        return math.nan
    i = int(below[0])
    share = (accuracy[i - 1] - level) / (accuracy[i - 1] - accuracy[i])
    return float(at[i - 1] + share * (at[i] - at[i - 1]))
