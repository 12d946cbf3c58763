"""What the talks add (their start, any biases, steepness, one active neuron), and Assumption 2."""

from __future__ import annotations

import numpy as np

from featavg.paper.engine.claim import Check, Context, Evidence, claim
from featavg.paper.theorems.biased_average import BIAS_GRID_RADIUS, bias_grid
from featavg.paper.theorems.initialisation import (
    START_D,
    START_LONG_STEPS,
    START_STEPS,
    start_sweep,
)
from featavg.paper.theorems.radius_runs import RADIUS_CLUSTERS
from featavg.paper.theorems.steepness import slopes
from featavg.paper.theorems.unequal_sizes import unequal_clusters


@claim(
    "assumption-2-unequal",
    "Unequal classes and clusters: a weighted average",
    theme="Theorem 1: averaging",
    source="Lecture notes on arXiv 2410.10322, Assumption 2; abstract of the paper (an average or a "
    "certain combination)",
    measured="evenness of every neuron for |J₊| = 2, 5, 8 of 10, and each λ<sub>j</sub> against its "
    "prediction, also for clusters that differ in size by a factor of 4",
    minutes=0.2,
    statements=("notes-assumption-2", "abstract-averaging", "notes-definition-2.1"),
)
def unequal(settings: Context) -> Evidence:
    """Classes may have different numbers of clusters, up to a constant ratio: the features of each
    class are still averaged.
    """
    study = unequal_clusters(settings.seeds, settings.progress)
    ratio = study.measured.max(axis=1) / study.measured.min(axis=1)
    return Evidence(
        Check(
            "smallest evenness of a neuron, |J₊| = 2 to 8 of 10",
            study.evenness.min(axis=0),
            ">=",
            0.8,
            role="main",
        ),
        Check(
            "largest |λ<sub>j</sub> / predicted − 1|, unequal partitions and clusters",
            float(study.error.max()),
            "<=",
            0.05,
            note="predicted: λ + e<sup>λ</sup> − 1 = (d p<sub>j</sub>/m) ηT",
        ),
        figure=study.figure(),
        numbers=study.to_json(),
        finding=f"With |J₊| from 2 to 8 of 10 clusters every neuron stays an average (evenness at least "
        f"{study.evenness.min():.2f}). Its weights are known: λ<sub>j</sub> + exp λ<sub>j</sub> = "
        f"1 + (d p<sub>j</sub>/m) ηT, to {study.error.max():.1%}; clusters that differ by a factor of "
        f"{np.mean(study.shares.max(axis=1) / study.shares.min(axis=1)):.1f} in size differ by "
        f"{ratio.mean():.2f} in weight, and by less and less as training goes on.",
    )


@claim(
    "talk-initialisation",
    "The talks' larger initialisation averages too",
    theme="Theorem 1: averaging",
    source="Talks at iTCS and CSML 2024, initialisation and theorem on feature averaging",
    measured=f"coefficients after {START_STEPS} and {START_LONG_STEPS} steps at d = {START_D}, "
    "n = 1000, and for smaller "
    "starts",
    minutes=0.3,
    statements=("itcs-initialisation", "csml-initialisation", "itcs-theorem-averaging-2"),
)
def talk_start(settings: Context) -> Evidence:
    """From σ<sub>w</sub>² = 1/d, σ<sub>b</sub>² = 1/d², gradient descent ends with coefficients that
    are of one size inside a class and small across classes.
    """
    study = start_sweep(settings.seeds, settings.progress)
    # "No coefficient is much larger than others": a factor of two would already be generous; "small
    # for the other class": half of the own ones.
    return Evidence(
        Check(
            f"ratio inside a class after {START_STEPS} steps, worst neuron, smallest seed",
            float(study.within[0].min()),
            "<=",
            2.0,
            role="main",
        ),
        Check(
            f"|λ| across classes over λ after {START_STEPS} steps, worst neuron, smallest seed",
            float(study.across[0].min()),
            "<=",
            0.5,
        ),
        Check(
            f"ratio inside a class after {START_LONG_STEPS} steps, smallest seed",
            float(study.long_within.min()),
            "<=",
            2.0,
        ),
        Check(
            "averaging index from the paper's start, smallest seed",
            float(study.index[-1].min()),
            ">=",
            0.9,
            role="note",
        ),
        Check(
            "largest σ<sub>w</sub>√d from which the index is at least 0.9",
            study.begins(),
            "<=",
            0.1,
            note="the talks have 1, the paper 0.00055",
            role="note",
        ),
        figure=study.figure(),
        numbers=study.to_json(),
        finding=f"From the talks' start, at d = {START_D}, the coefficients that the worst neuron has inside its "
        f"class differ by a factor of {np.median(study.within[0]):.0f} after {START_STEPS} steps (median "
        f"over seeds) and of {np.median(study.long_within):.0f} after {START_LONG_STEPS} (one seed), and "
        f"those across classes are {np.median(study.across[0]):.1f} times as large as the mean inside. "
        "Averaging begins where the start is small: "
        f"the index passes 0.9 at σ<sub>w</sub>√d = {study.begins():.2g}, when the initial weights are "
        "shorter than what is learned.",
    )


@claim(
    "average-any-bias",
    "No biases save the average",
    theme="Exact robustness",
    source="Talks at iTCS and CSML 2024, average features are non-robust features",
    measured="exact robust accuracy of f<sub>FA</sub> over a grid of biases, d = 10⁶, k = 10",
    minutes=0.05,
    statements=("itcs-theorem-nonrobust", "csml-theorem-nonrobust"),
)
def any_bias(settings: Context) -> Evidence:
    """With the weights of a feature-averaging solution, for any choice of biases, the robust
    accuracy at δ = ω(√(d/k)) is nearly zero.
    """
    study = bias_grid(settings.seeds[0])
    useful = study.best_robust(0.99)
    anything = study.best_robust()
    return Evidence(
        Check(
            f"robust accuracy at {BIAS_GRID_RADIUS} √(d/k), best biases with clean accuracy 0.99",
            useful,
            "<=",
            0.01,
            role="main",
        ),
        Check(
            f"robust accuracy at {BIAS_GRID_RADIUS} √(d/k), best biases of all",
            anything,
            "<=",
            0.01,
            note="the statement to the letter",
        ),
        figure=study.figure(),
        numbers=study.to_json(),
        finding=f"To the letter it is false: biases that make f<sub>FA</sub> constant keep {anything:.0%} of the "
        "points at any radius. True is: with biases b<sub>±</sub> for which clean points are decided "
        f"rightly, nothing is left at {BIAS_GRID_RADIUS} √(d/k); the nearest flip is √((1−u)² "
        "+ v²) √(2d/k) away "
        "for thresholds u, v in [0, 1), at most 2 √(d/k).",
    )


@claim(
    "averaged-gradient-norm",
    "At equal margin the average is steeper",
    theme="Exact robustness",
    source="Talks at iTCS and CSML 2024, intuition for the non-robustness theorem",
    measured="|∇f| over the margin at fresh points, trained averaged networks over the robust solution, "
    "against k",
    minutes=0.05,
    statements=("itcs-intuition-gradient", "csml-intuition-gradient"),
    shares="radii at any d",
)
def gradient_norm(settings: Context) -> Evidence:
    """In an averaged solution most neurons of a class are active on a point, so its gradient is much
    larger than a robust solution's of the same margin.
    """
    study = slopes(settings.seeds, settings.progress)
    return Evidence(
        Check(
            "exponent in k of |∇f| at equal margin, averaged over robust solution",
            study.exponents(),
            "within",
            (0.4, 0.6),
            role="main",
        ),
        Check(f"the same ratio at k = {RADIUS_CLUSTERS[-1]}", study.ratio[-1], ">=", 1.25),
        Check(
            "share of own-class neurons active on a point, averaged",
            float(study.active["averaged"].min()),
            ">=",
            0.99,
            note="most same-class neurons are activated",
        ),
        figure=study.figure(),
        numbers=study.to_json(),
        finding="At equal margin the averaged network is steeper by a factor that grows like "
        f"k<sup>{np.mean(study.exponents()):.2f}</sup>: {study.ratio[0].mean():.2f} at k = "
        f"{RADIUS_CLUSTERS[0]}, {study.ratio[-1].mean():.2f} at k = {RADIUS_CLUSTERS[-1]} "
        "(below 1 for few clusters, "
        "since biases cost the robust solution half of its margin).",
    )


@claim(
    "robust-one-neuron",
    "In the robust solution each input activates one neuron",
    theme="Exact robustness",
    source="Talks at iTCS and CSML 2024, robust solution exists",
    measured="which neurons of the construction are active on fresh points, for k from 4 to 20",
    minutes=0.01,
    statements=("itcs-robust-exists", "csml-robust-exists", "csml-robust-picture"),
    shares="radii at any d",
)
def one_neuron(settings: Context) -> Evidence:
    """A point of cluster j activates the j-th neuron of the robust solution and no other."""
    study = slopes(settings.seeds, settings.progress)
    alone = float(study.one_neuron.min())
    return Evidence(
        Check("share of points that activate their own neuron and no other", alone, ">=", 0.99),
        figure=study.figure(),
        numbers=study.to_json(),
        finding=f"In the robust solution {alone:.1%} of the fresh points switch on the neuron of their cluster "
        f"and no other, for k from {RADIUS_CLUSTERS[0]} to {RADIUS_CLUSTERS[-1]}; in the "
        "averaged network every point "
        f"switches on {study.active['averaged'].min():.0%} of the neurons of its class.",
    )
