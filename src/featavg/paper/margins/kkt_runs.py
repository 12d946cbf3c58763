"""Runs to a KKT point of the max-margin problem on multi-cluster data, and how it is reached.

Two-layer networks follow the gradient flow of the exponential loss, sliding on kinks where it does,
to losses like e^-500. Data is scaled by 1/sqrt(d), which changes the speed of the flow and nothing
else; lengths are given in the units of the data. A bias is a weight of a coordinate that is one at
every point, so that it counts in |theta| as in Theorem 4.2 of Frei et al.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.data.clusters import MultiCluster
from featavg.data.compress import draw
from featavg.errors import one_of
from featavg.figures.figure import Axis, Figure, Lines, Series
from featavg.figures.marks import Role
from featavg.figures.result import Result
from featavg.measures.kkt import KKT, kkt
from featavg.measures.margin import deepest_fall
from featavg.measures.svm import angle
from featavg.nets.deep import Deep
from featavg.nets.two_layer import TwoLayer, binary_head
from featavg.paper.margins.homogeneous_nets import rate_exponents
from featavg.paper.margins.sliding_flow import SlidingFlow
from featavg.progress import Progress, remembered, silent
from featavg.training.controllers.error import ErrorControl
from featavg.training.driver import SaveAt, Stop, run
from featavg.training.losses.exponential import Exponential
from featavg.training.objectives.deep import DeepObjective

D, M = 3072, 5
CLUSTERS = (4, 6, 10)
POINTS_PER_CLUSTER = 10
# Depths log(1/loss) at which the network is looked at.
LOSS_DEPTHS = (2.0, 10.0, 50.0, 200.0, 500.0)
# The size of initial weights: the theory's small start, and one where every neuron is as long as a
# point, so that what it starts with is never negligible.
STARTS = {"small": 1e-3, "large": 1.0}


@dataclass(frozen=True, repr=False, eq=False)
class KKTRun(Result):
    """One flow towards a KKT point.

    Attributes:
        task: the clusters.
        layers: which were trained, "first" or "both" (with biases).
        start: "small" or "large".
        depths: log(1/loss) at which the network was looked at.
        nets: the networks there, in the units of the data.
        residuals: of the KKT conditions there.
        turns: the angle (radians) between the direction there and the last one.
        fall: how deep the smoothed margin ever fell below an earlier value, relative to its end.
        exponents: of log t in the norm and in 1/(t loss), fitted over the last 4/5 of log t.

    >>> import featavg as fa
    >>> fa.kkt_run(4).nets[-1]
    TwoLayer(neurons=10, dimension=54, outputs=1)
    """

    task: MultiCluster
    layers: str
    start: str
    depths: tuple[float, ...]
    nets: tuple[TwoLayer, ...]
    residuals: tuple[KKT, ...]
    turns: Float[ndarray, " t"]
    fall: float
    exponents: tuple[float, float]

    @property
    def stationarity(self) -> Float[ndarray, " t"]:
        """|theta - sum lambda_i h_i| / |theta| on the way."""
        return np.array([residual.stationarity for residual in self.residuals])

    @property
    def complementarity(self) -> Float[ndarray, " t"]:
        """sum lambda_i (q_i - 1) / sum lambda_i on the way."""
        return np.array([residual.complementarity for residual in self.residuals])

    def figure(self) -> Figure:
        """Both residuals and the angle to the limit along the flow."""
        roles: dict[str, Role] = {"stationarity": "averaged", "complementarity": "decoupled"}
        series = [
            Series(name, self.depths, np.maximum(getattr(self, name), 1e-16), role, "line+markers")
            for name, role in roles.items()
        ]
        series.append(
            Series(
                "angle to the end", self.depths[:-1], self.turns[:-1], "reference", "line+markers"
            )
        )
        axes = Axis("log(1/loss)", log=True), Axis("residual, radians", log=True)
        caption = (
            "Relative residuals of the KKT conditions along the flow, and the turn that is left."
        )
        return Figure("kkt", "The way to a KKT point", caption, (Lines(*axes, tuple(series)),))

    def to_json(self) -> dict[str, Any]:
        """Every number, by name."""
        last = self.residuals[-1]
        return {
            "k": self.task.k,
            "layers": self.layers,
            "start": self.start,
            "depths": list(self.depths),
            "stationarity": self.stationarity.tolist(),
            "complementarity": self.complementarity.tolist(),
            "turns": self.turns.tolist(),
            "support": last.support,
            "kinks": last.kinks,
            "fall": self.fall,
            "exponents": list(self.exponents),
        }

    def summary(self) -> str:
        """Where the flow is at its end."""
        last = self.residuals[-1]
        return (
            f"k = {self.task.k}, {self.layers} layers trained from a {self.start} start: at a loss of "
            f"e^-{self.depths[-1]:g} stationarity {last.stationarity:.1e}, complementarity "
            f"{last.complementarity:.1e}, {last.support} support vectors, {last.kinks} kinks"
        )


@remembered
def kkt_run(
    k: int = 10,
    seed: int = 0,
    *,
    layers: str = "first",
    start: str = "small",
    progress: Progress = silent,
) -> KKTRun:
    """Follow the flow on 10 k points of k clusters to a loss of e^-500.

    Args:
        k: clusters.
        seed: of data and weights.
        layers: train the "first" layer with head +-1/m and no biases (the theory's network), or
            "both" layers and biases (the network of Theorem 4.2 of Frei et al.).
        start: "small" (1e-3) or "large" (1) initial weights.
        progress: called with the share done and a note.

    >>> import featavg as fa
    >>> fa.kkt_run(4)
    k = 4, first layers trained from a small start: at a loss of e^-500 stationarity ...
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
        progress=progress,
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
    return KKTRun(
        task,
        layers,
        start,
        LOSS_DEPTHS[: len(steps)],
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
