"""Gradient flow to a KKT point of the max-margin problem on multi-cluster data.

Two-layer networks follow the gradient flow of the exponential loss, sliding on kinks where it does,
to losses like e^-500. Data is scaled by 1/sqrt(d), which changes the speed of the flow and nothing
else; lengths are given in the units of the data. A bias is a weight of a coordinate that is one at
every point, so that it counts in |theta| as in Theorem 4.2 of Frei et al.

Where both sides of a kink <w_r, x_i> = 0 push towards it, the flow slides along the kink: the ReLU's
derivative there is the c in [0, 1] that keeps the pre-activation at zero (a Clarke gradient). An
integrator that knows only 0 and 1 jumps to and fro instead, with steps that shrink with its
tolerance, and its limit is off by the size of the jumps. Here such pairs are held on their kink
until c leaves [0, 1].
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import daqp
import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.data.clusters import MultiCluster
from featavg.data.compress import draw
from featavg.errors import InputError, one_of
from featavg.measures.margin import KKT, deepest_fall, kkt
from featavg.measures.svm import angle
from featavg.nets.deep import Deep
from featavg.nets.two_layer import TwoLayer, binary_head
from featavg.paper.engine.remembered import remembered
from featavg.training.controllers._rules import ErrorControl
from featavg.training.driver import SaveAt, Stop, run
from featavg.training.losses._binary import Exponential
from featavg.training.objectives import DeepEvaluation, DeepObjective
from featavg.training.parts import Evaluation, Objective, Params, Proposal, Start, Stepper
from featavg.training.steppers.flow import step

OFF, ON, SLIDING = 0.0, 1.0, 2.0
# A crossing shallower than this is rounding.
_ROUNDING = 1e-13


class Kink(NamedTuple):
    """The points whose kink a neuron slides on, the inverse of their Gram matrix, and its rows."""

    held: Int[ndarray, " e"]
    fix: Float[ndarray, "e e"]
    rows: Float[ndarray, "e n"]


@dataclass(frozen=True, eq=False)
class SlidingFlow(Stepper):
    """d theta/ds = -(dL/dtheta)/L by the Bogacki-Shampine pair, sliding on kinks (Filippov).

    One network at a time: seeds slide on different kinks. The memory is the state of every pair
    (point, neuron): off, on or sliding.

    Args:
        x: the points of the objective.
        tolerance: local error allowed, relative to the size of each parameter array; also how deep
            a step may cross a kink that holds it, relative to |w_r| |x_i|.
        layers: train the "first" layer only, or "both".
    """

    x: Float[ndarray, "n N"]
    tolerance: float = 1e-6
    layers: str = "both"
    name: ClassVar[str] = "sliding-flow"
    estimates_error: ClassVar[bool] = True

    @cached_property
    def gram(self) -> Float[ndarray, "n n"]:
        """The inner products <x_i, x_j>."""
        return self.x @ self.x.T

    @cached_property
    def lengths(self) -> Float[ndarray, " n"]:
        """The lengths |x_i|."""
        return np.sqrt(np.diag(self.gram))

    def init(self, params: Params, evaluation: Evaluation) -> Params:
        """Every pair is on its side."""
        if len(params) != 2 or params[0].ndim != 2:
            raise InputError("params", "are no single two-layer network", "give weights and head")
        return (np.where(self.x @ params[0].T >= 0.0, ON, OFF),)

    def propose(self, objective: Objective, start: Start) -> Proposal:
        """One step on the present kinks, then onto those that it reached."""
        params, evaluation = start.params, start.evaluation
        h = np.exp(start.log_rate + evaluation.log_loss)
        pattern = self.settle(params, evaluation, start.memory[0])

        def velocity(params: Params, evaluation: Evaluation) -> Params:
            return self.velocity(params, evaluation, pattern)

        taken = step(objective, params, evaluation, velocity, h)
        error = max(
            float(np.linalg.norm(defect)) / (self.tolerance * float(np.linalg.norm(p)) + 1e-300)
            for p, defect in zip(params, taken.defects, strict=True)
        )
        landed, after, overshoot = self.land(params, taken.params, taken.evaluation, pattern)
        final = taken.evaluation if landed is taken.params else objective.evaluate(landed)
        worst = np.asarray(max(error, overshoot))
        return Proposal(landed, final, (after,), taken.log_elapsed, worst)

    def pushes(self, params: Params, evaluation: Evaluation) -> Float[ndarray, "n M"]:
        """u_ri: a point on the active side moves w_r by u_ri x_i."""
        assert isinstance(evaluation, DeepEvaluation)
        return -evaluation.loss.slopes * params[1]

    def velocity(self, params: Params, evaluation: Evaluation, pattern: Float[ndarray, "n M"]) -> Params:
        """-(dL/dtheta)/L, with the derivative on kinks that keeps them."""
        assert isinstance(evaluation, DeepEvaluation)
        moves = np.where(pattern == ON, self.pushes(params, evaluation), 0.0)
        for r, kink in self.kinks(pattern):
            moves[kink.held, r] = -kink.fix @ (kink.rows @ moves[:, r])
        active = np.where(pattern == ON, evaluation.preactivations[0], 0.0)
        head = -(evaluation.loss.slopes.T @ active)
        return moves.T @ self.x, head if self.layers == "both" else np.zeros_like(head)

    def kinks(self, pattern: Float[ndarray, "n M"]) -> list[tuple[int, Kink]]:
        """The neurons that slide, with what holds them; kept, because patterns seldom change."""
        key = pattern.tobytes()
        if key not in self._known:
            self._known.clear()
            self._known[key] = [
                (int(r), self._kink(np.flatnonzero(pattern[:, r] == SLIDING)))
                for r in np.flatnonzero((pattern == SLIDING).any(axis=0))
            ]
        return self._known[key]

    def _kink(self, held: Int[ndarray, " e"]) -> Kink:
        key = held.tobytes()
        if key not in self._kinks:
            self._kinks[key] = Kink(held, np.linalg.inv(self.gram[np.ix_(held, held)]), self.gram[held])
        return self._kinks[key]

    @cached_property
    def _known(self) -> dict[bytes, list[tuple[int, Kink]]]:
        return {}

    @cached_property
    def _kinks(self) -> dict[bytes, Kink]:
        """By the points that are held: a pattern changes in one neuron at a time."""
        return {}

    def settle(self, params: Params, evaluation: Evaluation, pattern: Float[ndarray, "n M"]) -> Float[ndarray, "n M"]:
        """Release pairs whose kink no longer holds them.

        The shares c minimise the speed of w_r over c in [0, 1]: where c ends inside, the kink is
        kept; at 0 the point leaves to the inactive side and at 1 to the active one.
        """
        u = self.pushes(params, evaluation)
        settled = pattern
        for r, (held, fix, rows) in self.kinks(pattern):
            drift = rows @ np.where(pattern[:, r] == ON, u[:, r], 0.0)
            with np.errstate(divide="ignore", invalid="ignore"):
                c = (-fix @ drift) / u[held, r]
            if np.all((c > 0.0) & (c < 1.0)):
                continue
            c = _shares(self.gram[np.ix_(held, held)], u[held, r], drift)
            settled = settled.copy() if settled is pattern else settled
            settled[held[c <= 0.0], r] = OFF
            settled[held[c >= 1.0], r] = ON
        return settled

    def land(
        self, before: Params, end: Params, last: Evaluation, pattern: Float[ndarray, "n M"]
    ) -> tuple[Params, ndarray, float]:
        """Put the pairs that crossed onto their kink or their new side; say how deep they were.

        A point that pulls the neuron down (u < 0) may be held by its kink; one that pulls it up
        never is. The depth comes back as an error, such that the next attempt lands on the kink.
        """
        z = self.x @ end[0].T
        scale = self.lengths[:, None] * np.linalg.norm(end[0], axis=1)
        down = (pattern == ON) & (z < -_ROUNDING * scale)
        up = (pattern == OFF) & (z > _ROUNDING * scale)
        crossed = down | up
        after = pattern.copy()
        if not crossed.any() and not (pattern == SLIDING).any():
            return end, after, 0.0
        pulled = self.pushes(end, last) < 0.0
        after[down & ~pulled], after[up & ~pulled] = OFF, ON
        caught = crossed & pulled
        after[caught] = SLIDING
        depth = np.abs(z) / scale
        weights = self._onto_kinks(end[0], z, after)
        overshoot = 0.0
        if np.any(deep := crossed & (depth > self.tolerance)):
            start = np.abs(self.x @ before[0].T) / scale
            share = np.min((start[deep] + self.tolerance / 2) / (start[deep] + depth[deep]))
            # ErrorControl multiplies the step by 0.9 error^(-1/3).
            overshoot = float(max((0.9 / share) ** 3, 1.0 + 1e-9))
        return (weights, end[1]), after, overshoot

    def _onto_kinks(
        self, weights: Float[ndarray, "M N"], z: Float[ndarray, "n M"], pattern: ndarray
    ) -> Float[ndarray, "M N"]:
        """The nearest weights whose sliding pairs have a pre-activation of zero."""
        moved = weights.copy()
        for r, (held, fix, _) in self.kinks(pattern):
            moved[r] -= (fix @ z[held, r]) @ self.x[held]
        return moved


def _shares(gram: Float[ndarray, "e e"], u: Float[ndarray, " e"], drift: Float[ndarray, " e"]) -> Float[ndarray, " e"]:
    """argmin over c in [0, 1] of |v + sum_i c_i u_i x_i|^2 / 2, <x_i, v> = drift_i."""
    size = len(u)
    scale = np.sqrt(np.diag(gram)) * np.abs(u)
    scale[scale == 0.0] = 1.0
    q = gram * np.outer(u, u)
    low, high = np.zeros(size), np.ones(size)
    # In units of the pushes the matrix has a unit diagonal, which the solver needs.
    solution, *_ = daqp.solve(
        q / np.outer(scale, scale),
        u * drift / scale / scale.max(),
        np.empty((0, size)),
        high * scale / scale.max(),
        low,
        np.zeros(size, dtype=np.int32),
    )
    c = np.asarray(solution) * scale.max() / scale
    return np.where(c < 1e-9, 0.0, np.where(c > 1.0 - 1e-9, 1.0, c))


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

    Trains the "first" layer with head +-1/m and no biases (the theory's network), or "both" layers and
    biases (the network of Theorem 4.2 of Frei et al.), from "small" (1e-3) or "large" (1) initial weights.
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
