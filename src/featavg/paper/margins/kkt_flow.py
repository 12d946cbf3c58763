"""Gradient flow to a KKT point of the max-margin problem on multi-cluster data.

Two-layer networks follow the gradient flow of the exponential loss, sliding on kinks where it does,
to losses like e^-500. Data is scaled by 1/sqrt(d), which changes the speed of the flow and nothing
else; lengths are given in the units of the data. A bias is a weight of a coordinate that is one at
every point, so that it counts in |theta| as in Theorem 4.2 of Frei et al.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.data.clusters import MultiCluster
from featavg.data.compress import draw
from featavg.errors import one_of
from featavg.measures.margin import KKT, deepest_fall, kkt
from featavg.measures.svm import angle
from featavg.nets.deep import Deep
from featavg.nets.two_layer import TwoLayer, binary_head
from featavg.paper.margins.sliding_flow import SlidingFlow
from featavg.progress import remembered
from featavg.training.controllers import ErrorControl
from featavg.training.driver import SaveAt, Stop, run
from featavg.training.losses import Exponential
from featavg.training.objectives import DeepObjective

D, M = 3072, 5
POINTS_PER_CLUSTER = 10
# Depths log(1/loss) at which the network is looked at.
LOSS_DEPTHS = (2.0, 10.0, 50.0, 200.0, 500.0)
# The size of initial weights: the theory's small start, and one where every neuron is as long as a
# point, so that what it starts with is never negligible.
STARTS = {"small": 1e-3, "large": 1.0}
# Rates are asymptotic: they are fitted over the last four fifths of log t.
FITTED_FROM = 0.2


@dataclass(frozen=True, eq=False)
class KKTFlow:
    """One flow, looked at when the loss passes each of `LOSS_DEPTHS`; networks in the data's units."""

    task: MultiCluster
    nets: tuple[TwoLayer, ...]
    residuals: tuple[KKT, ...]
    turns: Float[ndarray, " t"]  # radians between the direction there and the last one
    fall: float  # how deep the smoothed margin ever fell, relative to its end
    exponents: tuple[float, float]  # of log t in the norm and in 1/(t loss)


@remembered
def kkt_flow(k: int, seed: int, layers: str = "first", start: str = "small") -> KKTFlow:
    """The flow on 10 k points of k clusters to a loss of e^-500.

    Args:
        k: clusters.
        seed: of data and weights.
        layers: train the "first" layer with head +-1/m and no biases (the theory's network), or
            "both" layers and biases (the network of Theorem 4.2 of Frei et al.).
        start: "small" (1e-3) or "large" (1) initial weights.
    """
    one_of("layers", layers, ("first", "both"))
    one_of("start", start, STARTS)
    task = MultiCluster(k=k, d=D)
    data = draw(task, POINTS_PER_CLUSTER * k, 2 * M, seed)
    x = data.x / math.sqrt(D)
    scale = STARTS[start]
    weights, head = scale * data.unit_weights / math.sqrt(D), binary_head(M)
    if layers == "both":
        x = np.column_stack([x, np.full(len(x), 1 / math.sqrt(D))])
        weights = np.column_stack([weights, np.zeros(2 * M)])
        head = scale * np.sign(head)
    net = Deep((weights, head))
    ran = run(
        DeepObjective(x, data.y, net, Exponential()),
        net.weights,
        stepper=SlidingFlow(x, tolerance=1e-5, layers=layers),
        # Landing on a kink may ask for a step that is very much shorter.
        controller=ErrorControl(least=1e-4),
        stop=Stop(steps=8000, log_loss=-LOSS_DEPTHS[-1]),
        save_at=SaveAt(every=1),
    )
    saved = ran.parameters["weights1"], ran.parameters["weights2"]
    depth = -ran.log_loss
    steps = [int(np.argmax(depth >= value)) for value in LOSS_DEPTHS if value <= depth[-1]]
    pairs = [(saved[0][step], saved[1][step]) for step in steps]
    trained = saved if layers == "both" else saved[:1]
    theta = np.concatenate([part.reshape(len(depth), -1) for part in trained], axis=1)
    norm = np.linalg.norm(theta, axis=1)
    total = -depth + math.log(len(x))
    order = 2 if layers == "both" else 1
    smoothed = (-total / norm**order)[:, None]
    return KKTFlow(
        task,
        tuple(_in_units(w, a, layers) for w, a in pairs),
        tuple(kkt(Deep((w, a)), x, data.y, layers=layers) for w, a in pairs),
        np.array([float(angle(theta[step], theta[steps[-1]])) for step in steps]),
        deepest_fall(smoothed, (total < 0.0)[:, None]),
        rate_exponents(np.asarray(ran.log_times), np.asarray(ran.log_loss), norm),
    )


def _in_units(weights: Float[ndarray, "M N"], head: Float[ndarray, "1 M"], layers: str) -> TwoLayer:
    """The same decisions in the units of the data: points and the constant one, not over sqrt(d)."""
    if layers == "first":
        return TwoLayer(weights, np.zeros(2 * M), head)
    return TwoLayer(weights[:, :-1], weights[:, -1], head)


def rate_exponents(
    log_time: Float[ndarray, " t"], log_loss: Float[ndarray, " t"], norm: Float[ndarray, " t"]
) -> tuple[float, float]:
    """Fitted exponents of log t in the norm and in 1/(t loss), over the last 4/5 of log t.

    >>> log_time = np.linspace(1.0, 100.0, 50)
    >>> found = rate_exponents(log_time, -log_time - np.log(log_time), np.sqrt(log_time))
    >>> [round(value, 6) for value in found]
    [0.5, 1.0]
    """
    late = log_time >= FITTED_FROM * log_time[-1]
    columns = np.log(norm), -log_loss - log_time
    slopes = (np.polyfit(np.log(log_time[late]), column[late], 1)[0] for column in columns)
    first, second = (float(slope) for slope in slopes)
    return first, second
