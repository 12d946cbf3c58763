"""The talks' initialisation, sigma_w^2 = 1/d and sigma_b^2 = 1/d^2, and smaller ones: who averages?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.data.clusters import MultiCluster
from featavg.data.compress import draw
from featavg.figures.figure import Axis, Figure, Lines, Rule, Series
from featavg.figures.result import Result
from featavg.measures.averaging import averaging_index
from featavg.measures.decomposition import Coefficients
from featavg.measures.dynamics import own_clusters
from featavg.progress import Progress, silent
from featavg.training.train import Recipe, train

K, START_D, N_TRAIN, START_STEPS, START_LONG_STEPS = 10, 3072, 1000, 100, 1000
# sigma_w in units of the talks' 1/sqrt(d); the paper's 1e-5 is 5.5e-4 of it.
SCALES = (1.0, 0.3, 0.1, 0.03, 0.01, 1e-5 * math.sqrt(START_D))
# The long run is for the talks' start only, and for one seed: it takes ten times as long.
LONG_SEEDS = 1


@dataclass(frozen=True, eq=False, repr=False)
class StartSweep(Result):
    """What training from starts of different size ends in, one column for each seed.

    Attributes:
        scales: sigma_w sqrt(d), 1 for the talks.
        within: largest ratio of a neuron's coefficients inside its class, worst neuron; infinite
            where one of them is not positive.
        across: largest |coefficient| on the other class over the mean one on the own, worst neuron.
        index, evenness: averaging index of the network, and its first factor.
        long_within, long_across: the first two after LONG_STEPS from the talks' start.

    Returned by `fa.start_sweep`, which has an example.
    """

    scales: tuple[float, ...]
    within: Float[ndarray, "v s"]
    across: Float[ndarray, "v s"]
    index: Float[ndarray, "v s"]
    evenness: Float[ndarray, "v s"]
    long_within: Float[ndarray, " q"]
    long_across: Float[ndarray, " q"]

    def begins(self, level: float = 0.9) -> float:
        """The largest start, sigma_w sqrt(d), below which the median index is at least `level`."""
        good = np.median(self.index, axis=1) >= level
        smaller = [i for i in range(len(good)) if good[i:].all()]
        return self.scales[smaller[0]] if smaller else 0.0

    def figure(self) -> Figure:
        """Index and ratios against the size of the start."""
        drawn = np.where(np.isfinite(self.within), self.within, np.nan)
        ratios = Series(
            "ratio inside a class",
            self.scales,
            np.median(drawn, axis=1),
            "averaged",
            "line+markers",
        )
        across = Series.over_seeds(
            "|λ across| / λ", self.scales, self.across.T, "neutral", "line+markers"
        )
        size = Axis("σ<sub>w</sub> √d (1: the talks)", log=True)
        return Figure(
            "start",
            "Averaging begins where the start is small",
            f"Averaging index, and ratios of coefficients, after {START_STEPS} steps at the paper's setting "
            "against the size of the initial weights; a ratio is left out where a coefficient is not "
            "positive.",
            (
                Lines(
                    size,
                    Axis("averaging index", range=(-0.05, 1.05)),
                    (Series.over_seeds("index", self.scales, self.index.T, "averaged"),),
                ),
                Lines(size, Axis("ratio", log=True), (ratios, across), rules=(Rule(1.0),)),
            ),
        )

    def to_json(self) -> dict[str, Any]:
        """Every number."""
        names = ("within", "across", "index", "evenness", "long_within", "long_across")
        return {"scales": list(self.scales)} | {n: getattr(self, n).tolist() for n in names}

    def summary(self) -> str:
        """One line for each start."""
        lines = [
            f"  σ_w √d = {scale:7.2g}: index {np.median(i):.3f}, ratio inside a class "
            f"{np.median(w):.3g}, across {np.median(a):.3g}"
            for scale, i, w, a in zip(
                self.scales, self.index, self.within, self.across, strict=True
            )
        ]
        return "\n".join(
            [f"After {START_STEPS} steps, k = {K}, d = {START_D}, n = {N_TRAIN}", *lines]
        )


def _ended(watched: Coefficients, scale: float, steps: int) -> tuple[float, float, float, float]:
    """Ratio inside, ratio across (worst neurons), index and evenness after training on one sample."""
    data = watched.data
    recipe = Recipe(sigma_w=scale / math.sqrt(START_D), sigma_b=scale / START_D, steps=steps)
    net = train(data, recipe, recorders=(watched,)).net
    own = own_clusters(net, data).T
    low = np.where(own, watched.feature, np.inf).min(axis=-1)
    high = np.where(own, watched.feature, -np.inf).max(axis=-1)
    mean = np.where(own, watched.feature, 0.0).sum(axis=-1) / own.sum(axis=-1)
    other = np.where(own, 0.0, np.abs(watched.feature)).max(axis=-1)
    within = np.divide(high, low, out=np.full_like(high, np.inf), where=low > 0)
    across = np.divide(other, mean, out=np.full_like(other, np.inf), where=mean > 0)
    index = averaging_index(net, data.task)
    return float(within.max()), float(across.max()), index.value, index.evenness


def start_sweep(
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4), progress: Progress = silent
) -> StartSweep:
    """Train from starts of falling size at the paper's setting, the talks' first.

    Args:
        seeds: one network and one sample for each.
        progress: called with the share done and a note.

    >>> import featavg as fa  # long
    >>> fa.start_sweep(seeds=(0,))
    After 100 steps, k = 10, d = 3072, n = 1000
    ...
    """
    task = MultiCluster(k=K, d=START_D)
    ends, long_ends = [], []
    for i, seed in enumerate(seeds):
        # One sample for every start; by itself it stays in a core's cache, which five would not.
        watched = Coefficients(draw(task, N_TRAIN, Recipe().neurons(K), seed), rebuild=False)
        for j, scale in enumerate(SCALES):
            note = f"seed {seed}, σ_w √d = {scale:.2g}"
            progress((i + j / len(SCALES)) / len(seeds), note)
            ends.append(_ended(watched, scale, START_STEPS))
        if i < LONG_SEEDS:
            long_ends.append(_ended(watched, SCALES[0], START_LONG_STEPS))
    shape = len(seeds), len(SCALES)
    within, across, index, even = (np.reshape(row, shape).T for row in zip(*ends, strict=True))
    long_within, long_across, *_ = map(np.array, zip(*long_ends, strict=True))
    return StartSweep(SCALES, within, across, index, even, long_within, long_across)
