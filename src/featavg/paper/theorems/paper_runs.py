"""One run of gradient descent at the paper's setting, watched at every step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.data.clusters import MultiCluster
from featavg.data.compress import draw_many
from featavg.figures.figure import Axis, Figure, Lines, Rule, Series
from featavg.figures.result import Result
from featavg.measures.decomposition import Coefficients
from featavg.measures.dynamics import Activations, UngatedUpdates
from featavg.progress import Progress, remembered, silent
from featavg.training.train import Recipe, train

K, D, N_TRAIN, STEPS = 10, 3072, 1000, 100


@dataclass(frozen=True, eq=False, repr=False)
class PaperRun(Result):
    """What Lemmas 1 to 4 speak of, at every step of the paper's training; a column for each seed.

    Attributes:
        labels: "coarse" or "fine".
        rebuild_errors: |rebuilt - w| / |w| after each step, worst neuron (Lemmas 1 and 2).
        own_active, other_active: share of active pairs, before the first step and after each (Lemma 3).
        ungated_own, ungated_other: error of the update without its indicator (Lemma 4).

    >>> import featavg as fa
    >>> fa.paper_run("coarse", seeds=(0,)).own_active[-1]
    array([1.])
    """

    labels: str
    rebuild_errors: Float[ndarray, "t s"]
    own_active: Float[ndarray, "T s"]
    other_active: Float[ndarray, "T s"]
    ungated_own: Float[ndarray, "T s"]
    ungated_other: Float[ndarray, "T s"]

    def figure(self) -> Figure:
        """Who is active."""
        return self.activity_figure()

    def activity_figure(self) -> Figure:
        """Lemma 3: the share of active pairs, step by step."""
        steps = np.arange(len(self.own_active))
        panel = Lines(
            Axis("step"),
            Axis("share of active pairs", range=(-0.03, 1.05)),
            (
                Series.over_seeds("own class", steps, self.own_active.T, "averaged"),
                Series.over_seeds("other class", steps, self.other_active.T, "neutral"),
            ),
            rules=(Rule(1.0, label="Lemma 3"),),
        )
        return Figure(
            "activity",
            "Which neurons are active on which samples",
            "Share of active pairs (neuron, sample) along training. Every neuron ends up active on "
            "every sample of its class, but it begins with half of them.",
            (panel,),
        )

    def update_figure(self) -> Figure:
        """Lemma 4: what an update does, step by step."""
        steps = np.arange(len(self.ungated_own))
        panel = Lines(
            Axis("step"),
            Axis("relative error", range=(-0.03, 1.3)),
            (
                Series.over_seeds(
                    "clusters of the own class", steps, self.ungated_own.T, "averaged"
                ),
                Series.over_seeds("of the other class", steps, self.ungated_other.T, "neutral"),
            ),
        )
        return Figure(
            "updates",
            "Where the indicator may be left out",
            "Relative error of the update of λ without its indicator, the worst pair of neuron and "
            "cluster: zero for the own class once all are active, large for the other class throughout.",
            (panel,),
        )

    def rebuild_figure(self, grouped: PaperRun) -> Figure:
        """Lemmas 1 and 2, beside the grouped network's run."""
        steps = np.arange(1, len(self.rebuild_errors) + 1)
        series = (
            Series.over_seeds("binary network", steps, self.rebuild_errors.T, "averaged"),
            Series.over_seeds("grouped network", steps, grouped.rebuild_errors.T, "decoupled"),
        )
        panel = Lines(
            Axis("step"),
            Axis("|rebuilt − w| / |w|", log=True, range=(1e-17, 1e-8)),
            series,
            rules=(Rule(1e-9, label="tolerance"),),
        )
        return Figure(
            "rebuild-error",
            "Features and noise rebuild the weights",
            "Relative distance between the weights and what the coefficients λ and σ rebuild, after "
            "each of the paper's steps: round-off, ten million times below the tolerance.",
            (panel,),
        )

    def to_json(self) -> dict[str, Any]:
        """Every series."""
        names = ("rebuild_errors", "own_active", "other_active", "ungated_own", "ungated_other")
        return {"labels": self.labels} | {name: getattr(self, name).tolist() for name in names}

    def summary(self) -> str:
        """Beginning and end."""
        return (
            f"{len(self.rebuild_errors)} steps at the paper's setting, {self.labels} labels: own-class "
            f"pairs active {self.own_active[0].mean():.2f} -> {self.own_active[-1].mean():.2f}, other "
            f"class {self.other_active[0].mean():.2f} -> {self.other_active[-1].mean():.2f}; weights "
            f"rebuilt to {self.rebuild_errors.max():.1e}"
        )


@remembered
def paper_run(
    labels: str = "coarse",
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4),
    progress: Progress = silent,
) -> PaperRun:
    """Train at the paper's setting and record what the lemmas are about.

    Args:
        labels: "coarse" or "fine".
        seeds: one network and one sample for each.
        progress: called with the share done and a note.

    >>> import featavg as fa
    >>> fa.paper_run("coarse", seeds=(0,))
    100 steps at the paper's setting, coarse labels: own-class pairs active ...
    """
    task, recipe = MultiCluster(k=K, d=D), Recipe(labels=labels, steps=STEPS)
    data = draw_many(task, N_TRAIN, recipe.neurons(K), seeds)
    coefficients, active, ungated = Coefficients(data), Activations(data), UngatedUpdates(data)
    train(data, recipe, recorders=(coefficients, active, ungated), progress=progress)
    return PaperRun(
        labels,
        coefficients.errors,
        active["own"],
        active["other"],
        ungated["own"],
        ungated["other"],
    )
