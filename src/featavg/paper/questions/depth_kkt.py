"""The margin half of depth: homogeneous networks trained far beyond the fit, and their radii."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.data.clusters import MultiCluster
from featavg.data.compress import draw_many
from featavg.data.streams import stream
from featavg.figures.figure import Axis, Figure, Lines, Rule, Series
from featavg.figures.result import Result
from featavg.measures.effective_weights import gradient_index
from featavg.measures.kkt import kkt
from featavg.nets.deep import Deep
from featavg.paper.questions.depth_networks import TEST, D, K, kept_cell, median_radius
from featavg.progress import Progress, silent
from featavg.training.controllers.loss_based import LossBased
from featavg.training.driver import Stop, run
from featavg.training.losses.exponential import Exponential
from featavg.training.objectives.deep import DeepObjective
from featavg.training.steppers.gd import GradientDescent

DEPTHS = (2, 3, 4)
NEURONS, N_TRAIN, POINTS, TESTED = 10, 100, 6, 400
# The first layer starts small, as in the theory; steps end here whatever the loss is.
START, STEPS = 1e-2, 20_000
# The usual growth of the rate jumps from basin to basin within a few steps; this follows the flow.
RATE, GROW, SHRINK = 0.02, 1.002, 1.5
# log losses at which networks are looked at.
STAGES = (-2.0, -10.0, -40.0)


@dataclass(frozen=True, eq=False)
class MarginStage:
    """Networks of one depth at one loss, one number for each seed.

    Attributes:
        depth: layers.
        target: the log loss at which training stopped.
        log_loss: the log loss reached.
        certified, attack: ends of the median radius over sqrt(d/k).
        index: the averaging index of the effective weights.
        stationarity: |theta - sum lambda_i h_i| / |theta| of the KKT conditions.
    """

    depth: int
    target: float
    log_loss: Float[ndarray, " s"]
    certified: Float[ndarray, " s"]
    attack: Float[ndarray, " s"]
    index: Float[ndarray, " s"]
    stationarity: Float[ndarray, " s"]

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        arrays = ("log_loss", "certified", "attack", "index", "stationarity")
        plain = {name: getattr(self, name).tolist() for name in arrays}
        return {"depth": self.depth, "target": self.target} | plain


@dataclass(frozen=True, repr=False, eq=False)
class DepthMargin(Result):
    """Radii on the way to the largest margin, for every depth.

    Attributes:
        depths: numbers of layers.
        stages: all depths at all losses.

    Returned by `fa.depth_margin`, which has an example.
    """

    depths: tuple[int, ...]
    stages: tuple[MarginStage, ...]

    def at(self, depth: int) -> list[MarginStage]:
        """The stages of one depth, the latest last."""
        return [stage for stage in self.stages if stage.depth == depth]

    def radius(self, depth: int) -> Float[ndarray, " s"]:
        """The median radius over sqrt(d/k) at the end, the middle of its bracket."""
        last = self.at(depth)[-1]
        return np.asarray((last.certified + last.attack) / 2)

    def stationarity(self, depth: int) -> Float[ndarray, " s"]:
        """The KKT residual at the end."""
        return self.at(depth)[-1].stationarity

    def figure(self) -> Figure:
        """Radius against the loss, a line for each depth."""
        series = []
        for i, depth in enumerate(self.depths):
            stages = self.at(depth)
            middle = [float(np.mean((s.certified + s.attack) / 2)) for s in stages]
            series.append(
                Series(
                    f"{depth} layers",
                    [-s.target for s in stages],
                    middle,
                    "averaged",
                    "line+markers",
                    [float(s.certified.min()) for s in stages],
                    [float(s.attack.max()) for s in stages],
                    shade=1.0 - 0.25 * i,
                )
            )
        return Figure(
            "depth-margin",
            "Towards the largest margin",
            "Median exact radius over √(d/k) of homogeneous networks without biases, all layers trained "
            "on class labels, against log(1/loss). Bands span the seeds.",
            (
                Lines(
                    Axis("log(1/loss)", log=True),
                    Axis("radius / √(d/k)"),
                    tuple(series),
                    rules=(Rule(1.0, label="theory"),),
                ),
            ),
        )

    def to_json(self) -> dict[str, Any]:
        """Every stage."""
        return {"stages": [stage.to_json() for stage in self.stages]}

    def summary(self) -> str:
        """A line for each stage."""
        lines = ["layers, log loss: radius / sqrt(d/k), index, KKT residual"]
        for s in self.stages:
            lines.append(
                f"  {s.depth}, {s.log_loss.mean():.0f}: {s.certified.mean():.2f} to "
                f"{s.attack.mean():.2f}, {s.index.mean():.2f}, {s.stationarity.mean():.3f}"
            )
        return "\n".join(lines)


def depth_margin(
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4),
    depths: Sequence[int] = DEPTHS,
    stages: Sequence[float] = STAGES,
    progress: Progress = silent,
    keep: Path | None = None,
) -> DepthMargin:
    """Gradient descent on the exponential loss with a loss-based rate, from a small generic start.

    Descent steps over kinks of inner layers, to which a flow would stick. Points are divided by
    sqrt(d), which changes the speed and no direction.

    Args:
        seeds: of data and weights.
        depths: numbers of layers.
        stages: log losses, falling.
        progress: called with the share done and a note.
        keep: a folder for finished depths, so that a killed run goes on.

    >>> import featavg as fa
    >>> fa.depth_margin((0,), (2,), (-2.0,)).stages[0].log_loss.round(0)
    array([-2.])
    """
    rows = []
    for i, depth in enumerate(depths):
        progress(i / len(depths), f"{depth} layers")
        about = [
            "margin",
            depth,
            list(stages),
            list(seeds),
            START,
            STEPS,
            RATE,
            GROW,
            SHRINK,
            POINTS,
        ]
        cell = kept_cell(keep, about, partial(_stages, depth, tuple(stages), tuple(seeds)))
        rows += [_from_json(stage) for stage in cell["stages"]]
    return DepthMargin(tuple(depths), tuple(rows))


def _stages(depth: int, stages: tuple[float, ...], seeds: tuple[int, ...]) -> dict[str, Any]:
    """One depth at all losses, as plain values."""
    task = MultiCluster(k=K, d=D)
    data = draw_many(task, N_TRAIN, NEURONS, seeds)
    x = data.x / math.sqrt(D)
    net, rows = _start(data.unit_weights, depth, seeds), []
    for target in stages:
        net, log_loss = _trained(net, x, data.y, target)
        rows.append(_stage(net, task, x, data.y, log_loss, target, seeds).to_json())
    return {"stages": rows}


def _from_json(plain: dict[str, Any]) -> MarginStage:
    arrays = {k: np.array(v, dtype=float) for k, v in plain.items() if isinstance(v, list)}
    return MarginStage(int(plain["depth"]), float(plain["target"]), **arrays)


def _start(unit: Float[ndarray, "s M N"], depth: int, seeds: tuple[int, ...]) -> Deep:
    scale = math.sqrt(2 / NEURONS)
    weights = [START * unit / math.sqrt(D)]
    for number in range(2, depth + 1):
        shape = (1 if number == depth else NEURONS, NEURONS)
        draws = [stream(seed, f"margin layer {number}").standard_normal(shape) for seed in seeds]
        weights.append(scale * np.stack(draws))
    return Deep(tuple(weights))


def _trained(net: Deep, x: ndarray, y: ndarray, target: float) -> tuple[Deep, ndarray]:
    objective = DeepObjective(x, y, net, Exponential())
    ran = run(
        objective,
        objective.params_of(net),
        stepper=GradientDescent(),
        controller=LossBased(rate=RATE, grow=GROW, shrink=SHRINK),
        stop=Stop(steps=STEPS, log_loss=target),
    )
    trained = ran.net
    assert isinstance(trained, Deep)
    return trained, np.asarray(ran.log_loss)[-1]


def _stage(
    net: Deep,
    task: MultiCluster,
    x: ndarray,
    y: ndarray,
    log_loss: ndarray,
    target: float,
    seeds: tuple[int, ...],
) -> MarginStage:
    rows = []
    for i, seed in enumerate(seeds):
        test = task.sample(TESTED, TEST + seed)
        points = test.coordinates(net.dimension)
        ends = median_radius(net[i], task, points[:POINTS], test.y[:POINTS])
        fitted = bool(np.all(y[i] * net[i](x[i])[:, 0] > 0))
        # Before the fit there is no margin, and nothing is stationary about it.
        residual = kkt(net[i], x[i], y[i]).stationarity if fitted else 1.0
        rows.append((*ends, gradient_index(net[i], task, test).value, residual))
    columns = (np.array(column) for column in zip(*rows, strict=True))
    return MarginStage(net.depth, target, log_loss, *columns)
