"""Two implicit biases that the talks name beside averaging: an early linear phase, and low rank."""

from __future__ import annotations

import numpy as np
import xarray as xr
from jaxtyping import Float
from numpy import ndarray

from featavg.data.clusters import MultiCluster
from featavg.data.compress import draw
from featavg.figures.figure import Axis, Figure, Lines, Rule, Series
from featavg.paper.engine.claim import Check, Context, Evidence, claim
from featavg.training.driver import SaveAt
from featavg.training.train import train

POINTS, M = 500, 5


def along_training(run: Context, k: int, d: int, n: int) -> xr.Dataset:
    """Linearity, loss and ranks at every step.

    Linearity is the correlation of f on fresh points with the linear function <sum_i y_i x_i, x>, what
    gradient descent on a linear model does first.
    """
    task = MultiCluster(k=k, d=d)
    rows = []
    for i, seed in enumerate(run.seeds):
        run.progress(i / len(run.seeds), f"seed {seed}")
        data = draw(task, n, 2 * M, seed)
        coarse = train(data, labels="coarse", m=M, save_at=SaveAt(every=1))
        fine = train(task, labels="fine", n=n, h=1, seed=seed, save_at=SaveAt(every=1))
        fresh = task.sample(POINTS, seed).coordinates(data.x.shape[1])
        linear = fresh @ (data.y @ data.x)
        nets, finer = ([trajectory.at(save) for save in range(len(trajectory.steps))] for trajectory in (coarse, fine))
        correlation = [float(np.corrcoef(net(fresh)[:, 0], linear)[0, 1]) for net in nets]
        ranks = ([effective_rank(net.weights) for net in each] for each in (nets, finer))
        rows.append((correlation, np.exp(coarse.log_loss), *ranks))
    names = "linearity", "loss", "coarse_rank", "fine_rank"
    columns = (np.array(column) for column in zip(*rows, strict=True))
    variables = {name: (("seed", "step"), c) for name, c in zip(names, columns, strict=True)}
    return xr.Dataset(variables, {"seed": list(run.seeds), "step": np.asarray(coarse.steps)})


def effective_rank(weights: Float[ndarray, "M N"]) -> float:
    """(sum s^2)^2 / sum s^4 over singular values: how many directions carry the weights.

    >>> effective_rank(np.eye(4)), effective_rank(np.ones((4, 4)))
    (4.0, 1.0)
    """
    squares = np.linalg.svd(weights, compute_uv=False) ** 2
    return round(float(squares.sum() ** 2 / (squares**2).sum()), 12)


def _early(table: xr.Dataset) -> list[float]:
    """The smallest correlation after the first step, until the loss has halved; by seed."""
    steps, rows = table["step"].values, []
    for line, loss in zip(table["linearity"].values, table["loss"].values, strict=True):
        early = (loss >= loss[0] / 2) & (steps >= 1)
        rows.append(float(line[early].min()) if early.any() else float(line[1]))
    return rows


@claim(
    "implicit-bias-early", "Early training is like a linear model, and coarse labels end in two directions",
    theme="Connections", source="Talks, 'Various implicit bias of gradient algorithms'",
    measured="the correlation of f on fresh points with the linear function that gradient descent "
    "finds first, and the effective rank of the weights, at every step of the paper's setting",
    minutes=0.06, statements=("itcs-other-biases", "csml-other-biases", "summary-question-biases",),
)  # fmt: skip
def implicit_bias(run: Context, k: int = 10, d: int = 3072, n: int = 1000) -> Evidence:
    """Gradient descent begins like a linear model and tends to weights of low rank. (Low frequency,
    sharpness and grokking, also named there, are outside this package.)
    """
    table = along_training(run, k, d, n)
    early, linearity = _early(table), table["linearity"].values
    coarse, fine = table["coarse_rank"].values, table["fine_rank"].values
    return Evidence(
        Check("coarse labels: smallest correlation with a linear function early on", early, ">=", 0.9),
        Check("coarse labels: effective rank at the end", coarse[:, -1], "<=", 2.5,
              note="one direction per class is 2"),
        Check("fine labels: effective rank at the end over k", fine[:, -1] / k, ">=", 0.8),
        Check("coarse labels: effective rank at the start", coarse[:, 0].mean(), ">=", 5.0, role="note"),
        finding="After the first step, until the loss has halved, the averaged network correlates with a "
        f"linear function by {min(early):.3f} or more ({linearity[:, -1].min():.3f} at the end). The "
        f"effective rank of its weights goes from {coarse[:, 0].mean():.1f} to {coarse[:, -1].mean():.2f}, "
        f"that of the decoupled network from {fine[:, 0].mean():.1f} to {fine[:, -1].mean():.2f}.",
        numbers=table, figure=figure(table, k),
    )  # fmt: skip


def figure(table: xr.Dataset, k: int) -> Figure:
    """Linearity and ranks along the way."""
    t, step = np.maximum(table["step"].values, 0.5), Axis("step", log=True)
    linear = Series.over_seeds("coarse labels", t, table["linearity"].values, "averaged")
    ranks = (
        Series.over_seeds("coarse labels", t, table["coarse_rank"].values, "averaged"),
        Series.over_seeds("fine labels", t, table["fine_rank"].values, "decoupled"),
    )
    rules = Rule(2.0), Rule(float(k))
    return Figure(
        "implicit-bias",
        "An early linear phase, and low rank",
        "Left: how linear the averaged network is on fresh points. Right: the effective rank of "
        "the weights, which falls to one direction per class with coarse labels and stays at one "
        "per cluster with fine ones. (Step 0 is drawn at 0.5.)",
        (
            Lines(step, Axis("correlation with a linear function"), (linear,), title="Linearity"),
            Lines(step, Axis("effective rank"), ranks, title="Rank", rules=rules),
        ),
    )
