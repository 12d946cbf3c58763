"""Homogeneous networks of depth 1 to 4 under gradient flow, down to losses of 1e-900."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray

from featavg.data.clusters import MultiCluster
from featavg.figures.figure import Axis, Figure, Lines, Series
from featavg.figures.result import Result
from featavg.measures.margin import Margins, deepest_fall, margins, parameter_norm
from featavg.nets.deep import Deep, two_sided
from featavg.progress import Progress, remembered, silent
from featavg.training.controllers.error import ErrorControl
from featavg.training.driver import SaveAt, Stop, run
from featavg.training.losses.exponential import Exponential
from featavg.training.objectives.deep import DeepObjective
from featavg.training.steppers.flow import GradientFlow

NETWORK_DEPTHS = (1, 2, 3, 4)
CLUSTERS, DIMENSION, POINTS, WIDTH = 4, 20, 16, 10
# The published run ended at a loss of 10^-881.51.
TARGET = -881.51 * math.log(10)
# Rates are asymptotic: they are fitted over the last four fifths of log t, some 700 decades of t.
FITTED_FROM = 0.2
# A turn (in radians) below this is round-off of the two directions.
_STILL = 1e-7


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
    loglog = np.log(log_time[late])
    slopes = (
        np.polyfit(loglog, column[late], 1)[0] for column in (np.log(norm), -log_loss - log_time)
    )
    first, second = (float(slope) for slope in slopes)
    return first, second


def class_data(seed: int) -> tuple[Float[ndarray, "n N"], Int[ndarray, " n"]]:
    """Clusters whose features agree within a class and oppose the other class."""
    sign = np.repeat([1.0, -1.0], CLUSTERS // 2)
    gram = np.where(np.equal.outer(sign, sign), 0.3, -0.25)
    np.fill_diagonal(gram, 1.0)
    task = MultiCluster(k=CLUSTERS, d=DIMENSION, sigma=0.3, gram=DIMENSION * gram)
    sample = task.sample(POINTS, seed)
    return sample.x / math.sqrt(DIMENSION), sample.y


@dataclass(frozen=True, repr=False, eq=False)
class HomogeneousFlow(Result):
    """One depth, all seeds, after every step: the first axis is the step, the second the seed.

    Attributes:
        depth: L, the number of layers and the order of homogeneity.
        log_times, log_loss: log t and log of the mean loss.
        margins: normalized and smoothed margins.
        fitted: from the step on that has a total loss below one, for ever after.
        weights: of every layer.
        x, y: the data of each seed.

    >>> import featavg as fa
    >>> flow = fa.homogeneous_flow(2, seeds=(0,))
    >>> flow.depth, len(flow.weights)
    (2, 2)
    """

    depth: int
    log_times: Float[ndarray, "t s"]
    log_loss: Float[ndarray, "t s"]
    margins: Margins
    fitted: Bool[ndarray, "t s"]
    weights: tuple[ndarray, ...]
    x: Float[ndarray, "s n N"]
    y: Int[ndarray, "s n"]

    @property
    def fall(self) -> float:
        """The deepest fall of the smoothed margin after the fit, relative to its last value."""
        return deepest_fall(self.margins.smoothed, self.fitted)

    @property
    def sandwich_gap(self) -> float:
        """How far the smoothed margin ever is outside its bounds, relative to the margin."""
        return float(np.max(self.margins.sandwich_gap()[self.fitted]))

    def exponents(self, seed: int) -> tuple[float, float]:
        """Fitted exponents of log t in the norm and in 1/(t loss), over the last 4/5 of log t."""
        columns = self.log_times[:, seed], self.log_loss[:, seed], self.margins.norm[:, seed]
        return rate_exponents(*columns)

    def turning(self) -> float:
        r"""The smallest  d log(smoothed) d log|theta| / (L |d direction|^2)  of any step after the fit.

        Lyu and Li (2020, Lemma 5.1) have  d/dt log smoothed >= L |d direction/dt|^2 / (d/dt log|theta|),
        so by Cauchy and Schwarz the ratio is at least one over steps of any length: whenever the
        direction moves, the smoothed margin grows. Steps that turn by less than round-off are
        left out.
        """
        worst = math.inf
        for seed in range(self.log_loss.shape[1]):
            rows = self.fitted[:, seed]
            parts = [w[rows, seed].reshape(int(rows.sum()), -1) for w in self.weights]
            theta = np.concatenate(parts, axis=1)
            norm = np.linalg.norm(theta, axis=1)
            turn = np.linalg.norm(np.diff(theta / norm[:, None], axis=0), axis=1)
            growth = np.diff(np.log(self.margins.smoothed[rows, seed]))
            moved = turn > _STILL
            if moved.any():
                product = (growth * np.diff(np.log(norm)))[moved]
                worst = min(worst, float((product / (self.depth * turn[moved] ** 2)).min()))
        return worst

    def figure(self) -> Figure:
        """The smoothed margin against the loss, relative to its last value."""
        caption = "After the data is fitted, relative to its last value; the first seed."
        axes = (
            Axis("log<sub>10</sub>(1/loss)", log=True),
            Axis("smoothed margin, relative to the last"),
        )
        title = f"The smoothed normalized margin only grows, L = {self.depth}"
        return Figure("growth", title, caption, (Lines(*axes, (self.growth_series(),)),))

    def growth_series(self, shade: float = 1.0) -> Series:
        """The curve of `figure`, thinned."""
        line = self.fitted[:, 0]
        pick = np.flatnonzero(line)[:: max(1, int(line.sum()) // 200)]
        relative = self.margins.smoothed[pick, 0] / self.margins.smoothed[-1, 0]
        depth = -self.log_loss[pick, 0] / math.log(10)
        return Series(f"L = {self.depth}", depth, relative, "averaged", shade=shade)

    def to_json(self) -> dict[str, Any]:
        """Falls, exponents and the loss at the end."""
        pairs = [self.exponents(seed) for seed in range(self.log_loss.shape[1])]
        return {
            "depth": self.depth,
            "fall": self.fall,
            "sandwich_gap": self.sandwich_gap,
            "turning": self.turning(),
            "norm_exponents": [norm for norm, _ in pairs],
            "loss_exponents": [loss for _, loss in pairs],
            "log10_loss": (self.log_loss[-1] / math.log(10)).tolist(),
        }

    def summary(self) -> str:
        """The same in a sentence."""
        norm, loss = self.exponents(0)
        return (
            f"L = {self.depth}: the smoothed margin falls by at most {self.fall:.0e} of itself down to "
            f"a loss of 10^{self.log_loss[-1].max() / math.log(10):.0f}; exponents of log t: norm "
            f"{norm:.3f} (1/L = {1 / self.depth:.3f}), 1/(t loss) {loss:.3f} (2 - 2/L = "
            f"{2 - 2 / self.depth:.3f})"
        )


@remembered
def homogeneous_flow(
    depth: int = 2,
    seeds: tuple[int, ...] = (0,),
    scale: float = 0.5,
    target: float = TARGET,
    progress: Progress = silent,
) -> HomogeneousFlow:
    """Gradient flow of the exponential loss, for which the sandwich is exact, to a loss of 10^-881.51.

    The start has one path for each class, so that no neuron of a deep network meets its kink: an
    integrator that cannot slide there stops for good (two layers can: see `kkt_run`).

    Args:
        depth: L, 1 to 4.
        seeds: of data and weights.
        scale: of the initial weights.
        target: log of the mean loss at which to end.
        progress: called with the share done and a note.

    >>> import featavg as fa
    >>> fa.homogeneous_flow(2, target=-50.0).fall
    0.0
    """
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
        progress=progress,
    )
    weights = tuple(ran.parameters[name] for name in objective.trainable)
    steps = len(weights[0])
    # Every saved network at once, on its own copy (a view) of the data.
    targets = np.broadcast_to(y, (steps, *y.shape))
    points = np.broadcast_to(x, (steps, *x.shape))
    evaluated = DeepObjective(points, targets, Deep(weights), Exponential()).evaluate(weights)
    margin = margins(
        evaluated.preactivations[-1],
        targets,
        evaluated.loss.log_losses,
        parameter_norm(weights, 2),
        depth,
    )
    log_total = evaluated.log_loss + math.log(POINTS)
    # Lyu and Li's t_0: from here on the total loss is below one.
    fitted = np.logical_and.accumulate((log_total < 0.0)[::-1], axis=0)[::-1]
    return HomogeneousFlow(depth, ran.log_times, evaluated.log_loss, margin, fitted, weights, x, y)
