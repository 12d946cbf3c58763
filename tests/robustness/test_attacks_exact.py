"""The attack end against exact radii on the paper's networks, for every read-out."""

from __future__ import annotations

import numpy as np
import pytest

from featavg.data.clusters import MultiCluster
from featavg.robustness.attacks.attack import FeatureDirections
from featavg.robustness.attacks.suite import attack_suite
from featavg.robustness.models.model import network_model
from featavg.robustness.radii import radii
from featavg.training.train import train
from featavg.training.trajectory import Trajectory

TASK = MultiCluster(k=10, d=3072)
# The network, its read-out, and how far apart the two ends of its own bracket may be.
ROWS = [("coarse", "sum", 0.0), ("fine", "sum", 0.0), ("fine", "max", 0.0), ("fine", "probability", 0.01)]


@pytest.fixture(scope="module")
def runs() -> dict[str, Trajectory]:
    return {labels: train(TASK, labels=labels, n=1000, seed=0) for labels in ("coarse", "fine")}


@pytest.mark.parametrize(("labels", "readout", "bracket"), ROWS)
def test_within_half_a_percent(runs: dict[str, Trajectory], labels: str, readout: str, bracket: float) -> None:
    net = runs[labels].net
    points = TASK.sample(20 if bracket else 100, seed=1)
    positive = TASK.positive_clusters if net.outputs > 1 else None
    exact = radii(net, points, readout=readout, gap=bracket or 0.01, jobs=1)
    model = network_model(net, positive, readout)
    found = attack_suite(model, points.coordinates(net.dimension), points.y)
    right = exact.attack > 0
    assert np.all(found.radii[right] >= exact.certified[right] * (1 - 1e-9))
    # Against the exact engine's own witness, so that a bracket's width is not held against it.
    excess = found.radii[right] / exact.attack[right] - 1
    assert np.median(excess) <= 0.005
    assert np.quantile(excess, 0.99) <= 0.02
    assert found.gradients <= 200


@pytest.mark.parametrize("readout", ["sum", "max"])
def test_the_theory_names_the_directions(runs: dict[str, Trajectory], readout: str) -> None:
    net = runs["fine"].net
    points = TASK.sample(50, seed=1)
    features = FeatureDirections(TASK.features_in(net.dimension), TASK.positive_clusters.astype(int))
    model = network_model(net, TASK.positive_clusters, readout)
    x = points.coordinates(net.dimension)
    found = attack_suite(model, x, points.y, attacks=["directions"], features=features)
    exact = radii(net, points, readout=readout, jobs=1)
    assert np.median(found.radii / exact.attack) < 1.05


def test_gradients_alone_miss_what_dead_neurons_hide(runs: dict[str, Trajectory]) -> None:
    """The read-out finding: on `sum`, descent from the point stays far above the truth."""
    net = runs["fine"].net
    points = TASK.sample(50, seed=1)
    model = network_model(net, TASK.positive_clusters, "sum")
    x = points.coordinates(net.dimension)
    descent = attack_suite(model, x, points.y, attacks=["ddn"])
    whole = attack_suite(model, x, points.y)
    assert np.median(descent.radii) > 1.05 * np.median(whole.radii)
