r"""What competition costs: accuracy with few samples, neurons that never win, steps to the same loss.

A point pulls one neuron of its class instead of all, so a cluster has to be seen often enough by the
one that wins it; the others stay where they started. The tolerances were written before any run; the
radii of eight networks had been seen (see `competition`).
"""

from __future__ import annotations

import math

import numpy as np

from featavg.data.clusters import MultiCluster
from featavg.figures.figure import Axis, Figure, Lines, Series
from featavg.measures.accuracy import decisions
from featavg.nets.two_layer import TwoLayer
from featavg.paper.engine.claim import Check, Context, Evidence, claim
from featavg.paper.engine.tables import tabulate
from featavg.paper.questions.competition import BASE, SOURCE, TIME
from featavg.training.train import train

TARGET = math.log(0.01)
TEST = 2000
NOISY = 3.0


def costs(n: int, pooling: str, sigma: float, seed: int, m: int, steps: int) -> dict[str, float]:
    """Accuracy, share of neurons that win no training point, and steps until the loss is 0.01.

    The mean over m neurons learns m times slower than their sum, so it has m times the rate.
    """
    task = MultiCluster(k=int(BASE["k"]), d=int(BASE["d"]), sigma=sigma)
    rate = TIME / task.d * (m if pooling == "mean" else 1)
    run = train(
        task, n=n, m=m, pooling=pooling, seed=seed, sigma_w=BASE["sigma_w"], lr=rate,
        steps=steps, target_log_loss=TARGET,
    )  # fmt: skip
    assert isinstance(run.net, TwoLayer)
    fresh, positive = task.sample(TEST, seed=10**6 + seed), np.arange(2 * m) < m
    x = fresh.coordinates(run.net.dimension)
    right = decisions(run.net, x, None if pooling == "mean" else positive, pooling) == fresh.y
    outputs = run.net.preactivations(x)
    winners = [np.where(side, outputs, -np.inf).argmax(axis=1)[fresh.y == sign]
               for side, sign in ((positive, 1), (~positive, -1))]  # fmt: skip
    wins = np.bincount(np.concatenate(winners), minlength=2 * m)
    return {
        "accuracy": float(np.mean(right)),
        "idle": float(np.mean(wins == 0)),
        "steps": float(run.steps[-1] if run.log_loss[-1] <= TARGET else np.nan),
    }


@claim(
    "competition-cost", "What competition costs", theme="Open questions", source=SOURCE,
    measured="accuracy on fresh points, neurons that never win and steps to the loss 0.01, for the maximum "
    "and the sum over twenty neurons a class, against n",
    tier="full", minutes=2,
    statements=("summary-tradeoffs",),
)  # fmt: skip
def competition_cost(
    run: Context, sizes: tuple[int, ...] = (30, 50, 100, 200, 500), m: int = 20, steps: int = 3000
) -> Evidence:
    """With ten samples a cluster or more, competition costs less than a point of clean accuracy and at
    most three times the steps; most neurons stay idle.
    """
    both = tabulate(
        lambda n, pooling, sigma, seed: costs(n, pooling, sigma, seed, m, steps),
        run.seeds, run.progress, n=sizes, pooling=("mean", "max"), sigma=(1.0, NOISY),
    )  # fmt: skip
    table, other = both.sel(sigma=1.0), both["accuracy"].sel(sigma=NOISY)
    noisy = (other.sel(pooling="mean") - other.sel(pooling="max")).mean("seed").values
    loss = table["accuracy"].sel(pooling="mean") - table["accuracy"].sel(pooling="max")
    slower = table["steps"].sel(pooling="max") / table["steps"].sel(pooling="mean")
    enough = [i for i, n in enumerate(sizes) if n >= 10 * BASE["k"]]
    few = float(loss[0].mean())
    worst = max(enough, key=lambda i: float(loss[i].mean()))
    slowest = max(enough, key=lambda i: float(slower[i].mean()))
    idle = table["idle"].sel(pooling="max")
    means = 100 * table["accuracy"].mean("seed")
    lines = (
        Series("sum", sizes, means.sel(pooling="mean").values, "averaged", "line+markers"),
        Series("max", sizes, means.sel(pooling="max").values, "decoupled", "line+markers"),
    )
    return Evidence(
        Check("accuracy lost, n ≥ 10k, worst n", loss[worst].values, "<=", 0.01, role="main"),
        Check(
            "steps to the loss 0.01 over the sum's, n ≥ 10k, worst n",
            slower[slowest].values,
            "<=",
            3.0,
        ),
        Check(
            f"share of neurons that win no fresh point, n = {sizes[-1]}",
            idle[-1].values,
            ">=",
            0.5,
            role="note",
        ),
        Check(f"accuracy lost, n = {sizes[0]}", loss[0].values, "<=", 0.05, role="note"),
        figure=Figure(
            "competition-cost",
            "What competition costs",
            "Accuracy on fresh points against the number of training points, k = 10, d = 500, σ = 1.",
            (Lines(Axis("samples n", log=True), Axis("accuracy, %"), lines),),
        ),
        numbers={name: both[name].values for name in both} | {"sizes": sizes},
        finding=f"At n = {sizes[0]} the maximum loses {100 * few:.1f} points of accuracy, from "
        f"n = {10 * int(BASE['k'])} on at most {100 * float(loss[worst].mean()):.2f}; it takes "
        f"{float(slower[slowest].mean()):.2f} times the steps, and "
        f"{100 * float(idle[-1].mean()):.0f}% of its neurons win nothing. With noise of σ = {NOISY:g} it loses "
        + ", ".join(f"{100 * float(v):.1f} (n = {n})" for n, v in zip(sizes, noisy, strict=True))
        + " points.",
    )
