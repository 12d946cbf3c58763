"""Homogeneous networks trained far beyond the fit: does the margin save deeper ones? (Open question 2)

Gradient descent on the exponential loss with a loss-based rate, from a small generic start. Descent
steps over kinks of inner layers, to which a flow would stick. Points are divided by sqrt(d), which
changes the speed and no direction.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import xarray as xr
from jaxtyping import Float
from numpy import ndarray

from featavg.data.clusters import MultiCluster
from featavg.data.compress import draw_many
from featavg.data.streams import stream
from featavg.figures.figure import Axis, Figure, Lines, Rule
from featavg.measures.averaging import gradient_index
from featavg.measures.margin import kkt
from featavg.nets.deep import Deep
from featavg.paper.engine.claim import Check, Context, Evidence, claim
from featavg.paper.engine.tables import line
from featavg.paper.questions.depth_networks import COMMON, RADIUS, SOURCE, TEST, TESTED, D, K, kept_cell, median_radius
from featavg.storage.places import results_folder
from featavg.training.controllers import LossBased
from featavg.training.driver import Stop
from featavg.training.driver import run as descend
from featavg.training.losses import Exponential
from featavg.training.objectives import DeepObjective
from featavg.training.steppers import GradientDescent

DEPTHS = (2, 3, 4)
NEURONS, N_TRAIN, POINTS = 10, 100, 6
# The first layer starts small, as in the theory; steps end here whatever the loss is.
START, STEPS = 1e-2, 20_000
# The usual growth of the rate jumps from basin to basin within a few steps; this follows the flow.
RATE, GROW, SHRINK = 0.02, 1.002, 1.5
# log losses at which networks are looked at.
STAGES = (-2.0, -10.0, -40.0)


@claim(
    "question-depth-margin", "The margin does not save deeper networks",
    source=SOURCE + "; margin half: Theorem 4.2 of the talk at iTCS 2024 for two layers",
    measured="exact l2 radii of fresh points and KKT residuals at a loss of e⁻⁴⁰ for 2, 3 and 4 layers",
    minutes=2, statements=("summary-open-2", "summary-check-2"), **COMMON,
)  # fmt: skip
def margin(run: Context) -> Evidence:
    """Deep homogeneous networks trained on class labels towards the largest margin keep a radius of
    √(d/k).
    """
    table = measured(run)
    last = table.isel(stage=-1)
    radius, residual = last["radius"], last["stationarity"]
    return Evidence(
        *(
            Check(f"median radius / √(d/k), {depth} layers, loss e⁻⁴⁰", radius.sel(depth=depth), "within", RADIUS)
            for depth in DEPTHS[1:]
        ),
        *(
            Check(
                f"stationarity of the KKT conditions, {depth} layers", residual.sel(depth=depth), "<=", 0.1, role="note"
            )
            for depth in DEPTHS
        ),
        figure=figure(table),
        numbers=table,
        finding="Trained to a loss of e⁻⁴⁰, all layers, without biases, homogeneous networks have a median "
        "radius of "
        + ", ".join(f"{radius.sel(depth=d).mean():.2f} √(d/k) with {d} layers" for d in DEPTHS)
        + f"; KKT residual at most {residual.max():.2f}.",
    )


def measured(run: Context) -> xr.Dataset:
    """Networks of every depth at every loss, by seed: `stationarity` is the KKT residual
    |theta - sum lambda_i h_i| / |theta|, the rest is as in `depth_networks.learned`.
    """
    seeds, cells = tuple(run.seeds), []
    for i, depth in enumerate(DEPTHS):
        run.progress(i / len(DEPTHS), f"{depth} layers")
        about = ["margin", depth, list(STAGES), list(seeds)]
        about += [START, STEPS, RATE, GROW, SHRINK, POINTS]
        compute = partial(_stages, depth, seeds)
        cells.append(kept_cell(results_folder("depth"), about, compute)["stages"])
    names, dims = ([name for name in cells[0][0] if name not in ("depth", "target")], "depth stage seed")
    columns = {name: np.array([[row[name] for row in rows] for rows in cells]) for name in names}
    coords = {"depth": list(DEPTHS), "stage": list(STAGES), "seed": list(seeds)}
    table = xr.Dataset({name: (dims.split(), array) for name, array in columns.items()}, coords)
    return table.assign(radius=(table["certified"] + table["attack"]) / 2)


def _stages(depth: int, seeds: tuple[int, ...]) -> dict[str, Any]:
    """One depth at all losses, as plain values."""
    task = MultiCluster(k=K, d=D)
    data = draw_many(task, N_TRAIN, NEURONS, seeds)
    x = data.x / math.sqrt(D)
    net, stages = _start(data.unit_weights, depth, seeds), []
    for target in STAGES:
        net, log_loss = _trained(net, x, data.y, target)
        rows = [_measures(net[i], task, x[i], data.y[i], seed) for i, seed in enumerate(seeds)]
        columns = {name: [row[name] for row in rows] for name in rows[0]}
        stages.append({"depth": depth, "target": target, "log_loss": log_loss.tolist()} | columns)
    return {"stages": stages}


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
    ran = descend(
        objective,
        objective.params_of(net),
        stepper=GradientDescent(),
        controller=LossBased(rate=RATE, grow=GROW, shrink=SHRINK),
        stop=Stop(steps=STEPS, log_loss=target),
    )
    trained = ran.net
    assert isinstance(trained, Deep)
    return trained, np.asarray(ran.log_loss)[-1]


def _measures(net: Deep, task: MultiCluster, x: ndarray, y: ndarray, seed: int) -> dict[str, float]:
    test = task.sample(TESTED, TEST + seed)
    points = test.coordinates(net.dimension)
    certified, attack = median_radius(net, task, points[:POINTS], test.y[:POINTS])
    fitted = bool(np.all(y * net(x)[:, 0] > 0))
    return {
        "certified": certified,
        "attack": attack,
        "index": float(gradient_index(net, task, test).value),
        # Before the fit there is no margin, and nothing is stationary about it.
        "stationarity": float(kkt(net, x, y).stationarity) if fitted else 1.0,
    }


def figure(table: xr.Dataset) -> Figure:
    """Radius against the loss, a line for each depth."""
    series = []
    for i, depth in enumerate(table["depth"].values):
        rows = table.sel(depth=depth).assign_coords(stage=-table["stage"])
        ends = rows["certified"], rows["attack"]
        series.append(line(f"{depth} layers", rows["radius"], "averaged", "line+markers", "mean", ends, 1 - 0.25 * i))
    rules = (Rule(1.0, label="theory"),)
    axes = Axis("log(1/loss)", log=True), Axis("radius / √(d/k)")
    return Figure(
        "depth-margin",
        "Towards the largest margin",
        "Median exact radius over √(d/k) of homogeneous networks without biases, all layers trained "
        "on class labels, against log(1/loss). Bands span the seeds.",
        (Lines(*axes, tuple(series), rules=rules),),
    )
