"""Runs to a KKT point on multi-cluster data, summed up for several claims.

The networks of the theory (first layer trained, head +-1/m) follow the gradient flow, sliding on
kinks where it does, from a small start to a loss of e^-500. Data is scaled by 1/sqrt(d), which
changes the speed of the flow and nothing else; lengths are given in the units of the data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.data.clusters import MultiCluster
from featavg.data.compress import draw
from featavg.experiments.margins.homogeneous_flow import decrease
from featavg.measures.kkt import kkt
from featavg.nets.deep import Deep
from featavg.nets.two_layer import TwoLayer, binary_head
from featavg.training.controllers.error import ErrorControl
from featavg.training.deep_objective import DeepObjective
from featavg.training.driver import SaveAt, Stop, run
from featavg.training.losses.exponential import Exponential
from featavg.training.sliding_flow import SlidingFlow

D, M = 3072, 5
CLUSTERS = (4, 6, 10)
POINTS_A_CLUSTER = 10
# Depths log(1/loss) at which the network is looked at.
DEPTHS = (2.0, 10.0, 50.0, 200.0, 500.0)


@dataclass(frozen=True, eq=False)
class Reached:
    """One run: networks at `DEPTHS` (in the data's own units) and the smoothed margin on the way."""

    task: MultiCluster
    nets: tuple[TwoLayer, ...]
    stationarity: Float[ndarray, " t"]
    complementarity: float
    support: int
    kinks: int
    fall: float


@cache
def reached(k: int, seed: int) -> Reached:
    """Follow the flow on n = 10k points of k clusters."""
    task = MultiCluster(k=k, d=D)
    data = draw(task, POINTS_A_CLUSTER * k, 2 * M, seed)
    x = data.x / math.sqrt(D)
    start = Deep((1e-3 * data.unit_weights / math.sqrt(D), binary_head(M)))
    ran = run(
        DeepObjective(x, data.y, start, Exponential()),
        start.weights,
        stepper=SlidingFlow(x, tolerance=1e-5, layers="first"),
        # Landing on a kink may ask for a step that is very much shorter.
        controller=ErrorControl(least=1e-4),
        stop=Stop(steps=5000, log_loss=-DEPTHS[-1]),
        save_at=SaveAt(every=1),
    )
    depth = -ran.log_loss
    steps = [int(np.argmax(depth >= value)) for value in DEPTHS]
    seen = [ran.at(step) for step in steps]
    residuals = [kkt(net, x, data.y, layers="first") for net in seen]
    norm = np.linalg.norm(ran.parameters["weights1"], axis=(1, 2))
    total = -depth + math.log(len(x))
    smoothed = (-total / norm)[:, None]
    nets = tuple(TwoLayer(net.weights[0], np.zeros(2 * M), binary_head(M)) for net in seen)
    last = residuals[-1]
    return Reached(
        task,
        nets,
        np.array([one.stationarity for one in residuals]),
        last.complementarity,
        last.support,
        last.kinks,
        decrease(smoothed, (total < 0.0)[:, None]),
    )
