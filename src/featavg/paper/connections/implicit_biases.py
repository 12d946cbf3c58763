"""Two implicit biases that the talks name beside averaging: an early linear phase, and low rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.data.clusters import MultiCluster
from featavg.data.compress import draw
from featavg.figures.figure import Axis, Figure, Lines, Rule, Series
from featavg.figures.result import Result
from featavg.progress import Progress, silent
from featavg.training.driver import SaveAt
from featavg.training.train import train

POINTS, H, M = 500, 1, 5


@dataclass(frozen=True, repr=False, eq=False)
class ImplicitBias(Result):
    """Along the training of the paper's networks, a row for each seed.

    Attributes:
        steps: when the networks were looked at.
        linearity: the correlation of f on fresh points with the linear function <sum_i y_i x_i, x>,
            what gradient descent on a linear model does first.
        loss: the training loss of the averaged network.
        coarse_rank, fine_rank: (sum s^2)^2 / sum s^4 over the singular values s of the weights.
        k: clusters.

    Returned by `fa.implicit_bias`, which has an example.
    """

    steps: Int[ndarray, " t"]
    linearity: Float[ndarray, "s t"]
    loss: Float[ndarray, "s t"]
    coarse_rank: Float[ndarray, "s t"]
    fine_rank: Float[ndarray, "s t"]
    k: int

    @property
    def early(self) -> list[float]:
        """The smallest correlation after the first step, until the loss has halved; by seed."""
        rows = []
        for line, loss in zip(self.linearity, self.loss, strict=True):
            early = (loss >= loss[0] / 2) & (self.steps >= 1)
            rows.append(float(line[early].min()) if early.any() else float(line[1]))
        return rows

    def figure(self) -> Figure:
        """Linearity and ranks along the way."""
        t = np.maximum(self.steps, 0.5)
        linear = Series.over_seeds("coarse labels", t, self.linearity, "averaged")
        ranks = (
            Series.over_seeds("coarse labels", t, self.coarse_rank, "averaged"),
            Series.over_seeds("fine labels", t, self.fine_rank, "decoupled"),
        )
        step = Axis("step", log=True)
        correlation = Axis("correlation with a linear function")
        return Figure(
            "implicit-bias",
            "An early linear phase, and low rank",
            "Left: how linear the averaged network is on fresh points. Right: the effective rank of "
            "the weights, which falls to one direction per class with coarse labels and stays at one "
            "per cluster with fine ones. (Step 0 is drawn at 0.5.)",
            (
                Lines(step, correlation, (linear,), title="Linearity"),
                Lines(step, Axis("effective rank"), ranks, title="Rank",
                      rules=(Rule(2.0), Rule(float(self.k)))),
            ),
        )  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        """Every number, by name."""
        return {
            "steps": self.steps.tolist(),
            "linearity": self.linearity.tolist(),
            "loss": self.loss.tolist(),
            "coarse_rank": self.coarse_rank.tolist(),
            "fine_rank": self.fine_rank.tolist(),
        }

    def summary(self) -> str:
        """Early linearity, and the ranks at the beginning and the end."""
        return (
            f"After the first step, until the loss has halved, the averaged network correlates with a "
            f"linear function by {min(self.early):.3f} or more ({self.linearity[:, -1].min():.3f} at the "
            f"end). The effective rank of its weights goes from {self.coarse_rank[:, 0].mean():.1f} to "
            f"{self.coarse_rank[:, -1].mean():.2f}, that of the decoupled network from "
            f"{self.fine_rank[:, 0].mean():.1f} to {self.fine_rank[:, -1].mean():.2f}."
        )


def implicit_bias(
    k: int = 10,
    d: int = 3072,
    n: int = 1000,
    *,
    seeds: Sequence[int] = (0,),
    progress: Progress = silent,
) -> ImplicitBias:
    """Linearity and rank along the training of the paper's networks.

    Args:
        k, d, n: clusters, dimension, training points.
        seeds: of data and weights.
        progress: called with the share done and a note.

    >>> import featavg as fa
    >>> fa.implicit_bias()
    After the first step, until the loss has halved, the averaged ...
    """
    task = MultiCluster(k=k, d=d)
    rows = []
    for i, seed in enumerate(seeds):
        progress(i / len(seeds), f"seed {seed}")
        data = draw(task, n, 2 * M, seed)
        coarse = train(data, labels="coarse", m=M, save_at=SaveAt(every=1))
        direction = data.y @ data.x
        fresh = task.sample(POINTS, seed).coordinates(data.x.shape[1])
        nets = [coarse.at(save) for save in range(len(coarse.steps))]
        linear = fresh @ direction
        linearity = [float(np.corrcoef(net(fresh)[:, 0], linear)[0, 1]) for net in nets]
        fine = train(task, labels="fine", n=n, h=H, seed=seed, save_at=SaveAt(every=1))
        ranks = [effective_rank(fine.at(save).weights) for save in range(len(fine.steps))]
        rows.append(
            (linearity, np.exp(coarse.log_loss), [effective_rank(n.weights) for n in nets], ranks)
        )
    lines, loss, coarse_rank, fine_rank = (np.array(column) for column in zip(*rows, strict=True))
    return ImplicitBias(np.asarray(coarse.steps), lines, loss, coarse_rank, fine_rank, k)


def effective_rank(weights: Float[ndarray, "M N"]) -> float:
    """(sum s^2)^2 / sum s^4 over singular values: how many directions carry the weights.

    >>> effective_rank(np.eye(4)), effective_rank(np.ones((4, 4)))
    (4.0, 1.0)
    """
    squares = np.linalg.svd(weights, compute_uv=False) ** 2
    return round(float(squares.sum() ** 2 / (squares**2).sum()), 12)
