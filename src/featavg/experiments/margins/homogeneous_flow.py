"""Homogeneous networks of depth 1 to 4 under gradient flow, down to losses of 1e-900."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.data.clusters import MultiCluster
from featavg.measures.margin import Margins, margins, parameter_norm
from featavg.nets.deep import two_sided
from featavg.training.controllers.error import ErrorControl
from featavg.training.deep_objective import DeepObjective
from featavg.training.driver import SaveAt, Stop, run
from featavg.training.losses.exponential import Exponential
from featavg.training.steppers.flow import GradientFlow

DEPTHS = (1, 2, 3, 4)
CLUSTERS, DIMENSION, POINTS, WIDTH = 4, 20, 16, 10
# The published run ended at a loss of 10^-881.51.
TARGET = -881.51 * math.log(10)


def class_data(seed: int) -> tuple[Float[ndarray, "n N"], Int[ndarray, " n"]]:
    """Clusters whose features agree within a class and oppose the other class."""
    sign = np.repeat([1.0, -1.0], CLUSTERS // 2)
    gram = np.where(np.equal.outer(sign, sign), 0.3, -0.25)
    np.fill_diagonal(gram, 1.0)
    task = MultiCluster(k=CLUSTERS, d=DIMENSION, sigma=0.3, gram=DIMENSION * gram)
    sample = task.sample(POINTS, seed)
    return sample.x / math.sqrt(DIMENSION), sample.y


@dataclass(frozen=True, eq=False)
class Flow:
    """One depth, all seeds, after every step: the first axis is the step, the second the seed."""

    log_times: Float[ndarray, "t s"]
    log_loss: Float[ndarray, "t s"]
    margins: Margins
    fitted: ndarray  # from the step on that has a total loss below one, for ever after
    weights: tuple[ndarray, ...]
    x: Float[ndarray, "s n N"]
    y: Int[ndarray, "s n"]


@cache
def flow(depth: int, seeds: tuple[int, ...], scale: float = 0.5, target: float = TARGET) -> Flow:
    """Gradient flow of the exponential loss, for which the sandwich is exact, to 10^-881.51."""
    pairs = [class_data(seed) for seed in seeds]
    x, y = (np.stack(part) for part in zip(*pairs, strict=True))
    start = two_sided(x, y, (WIDTH,) * (depth - 1) + (1,), seeds, scale)
    objective = DeepObjective(x, y, start, Exponential())
    ran = run(
        objective,
        start.weights,
        stepper=GradientFlow(tolerance=1e-6),
        controller=ErrorControl(),
        stop=Stop(steps=20_000, log_loss=target),
        save_at=SaveAt(every=1),
    )
    weights = tuple(ran.parameters[name] for name in objective.trainable)
    evaluated = objective.evaluate(weights)
    found = margins(
        evaluated.preactivations[-1],
        np.broadcast_to(y, (len(weights[0]), *y.shape)),
        evaluated.loss.log_losses,
        parameter_norm(weights, 2),
        depth,
    )
    log_total = evaluated.log_loss + math.log(POINTS)
    # Lyu and Li's t_0: from here on the total loss is below one.
    fitted = np.logical_and.accumulate((log_total < 0.0)[::-1], axis=0)[::-1]
    return Flow(ran.log_times, evaluated.log_loss, found, fitted, weights, x, y)


def decrease(values: Float[ndarray, "t s"], fitted: ndarray) -> float:
    """The deepest fall below an earlier value after the fit, relative to the last value."""
    worst = 0.0
    for seed in range(values.shape[1]):
        line = values[fitted[:, seed], seed]
        worst = max(worst, float(((np.maximum.accumulate(line) - line) / line[-1]).max()))
    return worst
