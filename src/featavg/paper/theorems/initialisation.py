"""The talks' initialisation, sigma_w^2 = 1/d and sigma_b^2 = 1/d^2, and smaller ones: which average?"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from featavg.data.clusters import MultiCluster
from featavg.data.compress import draw
from featavg.figures.figure import Axis, Figure, Lines, Rule, Series
from featavg.measures.averaging import averaging_index
from featavg.paper.engine.claim import Check, Context, Evidence, claim
from featavg.paper.engine.tables import tabulate
from featavg.paper.theorems.recorders import Coefficients, own_clusters
from featavg.training.recipe import Recipe
from featavg.training.train import train

if TYPE_CHECKING:
    import xarray as xr

K, D, STEPS, LONG_STEPS = 10, 3072, 100, 1000
# sigma_w in units of the talks' 1/sqrt(d); the paper's 1e-5 is 5.5e-4 of it.
SCALES = (1.0, 0.3, 0.1, 0.03, 0.01, 1e-5 * math.sqrt(D))


def ended(watched: Coefficients, scale: float, steps: int) -> dict[str, float]:
    """Ratios of coefficients (worst neurons), index and evenness after training on one sample.

    `within` is the largest ratio inside a class, infinite where a coefficient is not positive; `across`
    the largest |coefficient| on the other class over the mean one on the own.
    """
    data = watched.data
    recipe = Recipe(sigma_w=scale / math.sqrt(D), sigma_b=scale / D, steps=steps)
    net = train(data, recipe, recorders=(watched,)).net
    own = own_clusters(net, data).T
    low = np.where(own, watched.feature, np.inf).min(axis=-1)
    high = np.where(own, watched.feature, -np.inf).max(axis=-1)
    mean = np.where(own, watched.feature, 0.0).sum(axis=-1) / own.sum(axis=-1)
    other = np.where(own, 0.0, np.abs(watched.feature)).max(axis=-1)
    within = np.divide(high, low, out=np.full_like(high, np.inf), where=low > 0)
    across = np.divide(other, mean, out=np.full_like(other, np.inf), where=mean > 0)
    index = averaging_index(net, data.task)
    return {
        "within": float(within.max()),
        "across": float(across.max()),
        "index": index.value,
        "evenness": index.evenness,
    }


def begins(index: xr.DataArray, level: float = 0.9) -> float:
    """The largest start, sigma_w sqrt(d), from which down the median index is at least `level`."""
    good = index.median("seed").values >= level
    below = [i for i in range(len(good)) if good[i:].all()]
    return float(index["scale"][below[0]]) if below else 0.0


def figure(table: xr.Dataset, steps: int) -> Figure:
    """Index and ratios against the size of the start."""
    scales = table["scale"].values
    drawn = np.median(np.where(np.isfinite(table["within"]), table["within"], np.nan), axis=1)
    index = Series.over_seeds("index", scales, table["index"].values.T, "averaged")
    ratios = (
        Series("ratio inside a class", scales, drawn, "averaged", "line+markers"),
        Series.over_seeds("|λ across| / λ", scales, table["across"].values.T, "neutral", "line+markers"),
    )
    size = Axis("σ<sub>w</sub> √d (1: the talks)", log=True)
    return Figure(
        "start",
        "Averaging begins where the start is small",
        f"Averaging index, and ratios of coefficients, after {steps} steps at the paper's setting "
        "against the size of the initial weights; a ratio is left out where a coefficient is not "
        "positive.",
        (
            Lines(size, Axis("averaging index", range=(-0.05, 1.05)), (index,)),
            Lines(size, Axis("ratio", log=True), ratios, rules=(Rule(1.0),)),
        ),
    )


@claim(
    "talk-initialisation",
    "The talks' larger initialisation averages too",
    theme="Theorem 1: averaging",
    source="Talks at iTCS and CSML 2024, initialisation and theorem on feature averaging",
    measured=f"coefficients after {STEPS} and {LONG_STEPS} steps at d = {D}, n = 1000, and for smaller starts",
    minutes=0.3,
    statements=("itcs-initialisation", "csml-initialisation", "itcs-theorem-averaging-2", "summary-limitations"),
)
def talk_start(
    run: Context, scales: tuple[float, ...] = SCALES, n: int = 1000, steps: int = STEPS, long_steps: int = LONG_STEPS
) -> Evidence:
    """From σ<sub>w</sub>² = 1/d, σ<sub>b</sub>² = 1/d², gradient descent ends with coefficients that
    are of one size inside a class and small across classes.
    """
    task = MultiCluster(k=K, d=D)
    # One sample for every start.
    samples = {seed: Coefficients(draw(task, n, Recipe().neurons(K), seed), rebuild=False) for seed in run.seeds}

    def measure(scale: float, seed: int) -> dict[str, float]:
        return ended(samples[seed], scale, steps)

    table = tabulate(measure, run.seeds, run.progress, scale=scales)
    talks = table.isel(scale=0)
    # One seed: it takes ten times as long.
    long = ended(samples[run.seeds[0]], scales[0], long_steps)
    from_scale = begins(table["index"])
    # "No coefficient is much larger than others": a factor of two would already be generous; "small
    # for the other class": half of the own ones.
    return Evidence(
        Check(f"ratio inside a class after {steps} steps, worst neuron, smallest seed",
              talks["within"].min(), "<=", 2.0, role="main"),
        Check(f"|λ| across classes over λ after {steps} steps, worst neuron, smallest seed",
              talks["across"].min(), "<=", 0.5),
        Check(f"ratio inside a class after {long_steps} steps, smallest seed", long["within"], "<=", 2.0),
        Check("averaging index from the paper's start, smallest seed", table["index"][-1].min(), ">=", 0.9,
              role="note"),
        Check("largest σ<sub>w</sub>√d from which the index is at least 0.9", from_scale, "<=", 0.1,
              note="the talks have 1, the paper 0.00055", role="note"),
        figure=figure(table, steps), numbers={"starts": table, "long": long},
        finding=f"From the talks' start, at d = {D}, the coefficients that the worst neuron has inside its "
        f"class differ by a factor of {talks['within'].median():.0f} after {steps} steps (median "
        f"over seeds) and of {long['within']:.0f} after {long_steps} (one seed), and "
        f"those across classes are {talks['across'].median():.1f} times as large as the mean inside. "
        f"Averaging begins where the start is small: the index passes 0.9 at σ<sub>w</sub>√d = {from_scale:.2g}, "
        "when the initial weights are shorter than what is learned.",
    )  # fmt: skip
