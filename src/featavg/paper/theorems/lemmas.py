"""Lemmas 1 to 5 and Step 3: decomposition, activity, updates of lambda, and equal pulls inside a class."""

from __future__ import annotations

from functools import cache

import numpy as np
import xarray as xr
from jaxtyping import Float
from numpy import ndarray

from featavg.data.clusters import MultiCluster
from featavg.data.compress import draw_many
from featavg.figures.figure import Axis, Figure, Lines, Rule, Series
from featavg.figures.typeset import number
from featavg.paper.engine.claim import Check, Context, Evidence, claim
from featavg.paper.engine.tables import exponents, line
from featavg.paper.theorems.recorders import Activations, Coefficients, UngatedUpdates
from featavg.paper.theorems.runs import against_d, against_n, in_regime, panels, regime, sweep, theorem_run
from featavg.progress import part
from featavg.training.recipe import Recipe
from featavg.training.train import train

K, D, N_TRAIN, STEPS = 10, 3072, 1000, 100


@cache
def paper_run(labels: str, seeds: tuple[int, ...], n: int = N_TRAIN, steps: int = STEPS) -> xr.Dataset:
    """Training at the paper's setting, with what the lemmas are about before and after each step."""
    task, recipe = MultiCluster(k=K, d=D), Recipe(labels=labels, steps=steps)
    data = draw_many(task, n, recipe.neurons(K), seeds)
    watched, active, ungated = Coefficients(data), Activations(data), UngatedUpdates(data)
    train(data, recipe, recorders=(watched, active, ungated))
    untouched = np.zeros((1, len(seeds)))
    series = {
        # |rebuilt - w| / |w|, worst neuron (Lemmas 1 and 2); nothing to rebuild before the first step.
        "rebuild_error": np.concatenate([untouched, watched.errors]),
        "own_active": active["own"],  # share of active pairs (Lemma 3)
        "other_active": active["other"],
        "ungated_own": ungated["own"],  # error of the update without its indicator (Lemma 4)
        "ungated_other": ungated["other"],
    }
    named = {name: (("step", "seed"), values) for name, values in series.items()}
    return xr.Dataset(named, {"step": np.arange(steps + 1), "seed": list(seeds)})


@claim(
    "lemma-1-2-decomposition", "Weights are features plus noise", theme="Lemmas",
    source="Lecture notes on arXiv 2410.10322, Lemmas 1 and 2; both talks, weight decomposition",
    measured="relative error of the rebuilt weights at each step, binary and grouped network (an "
    "identity: it tests the code)",
    minutes=0.07, shares="theorem-1 runs",
    statements=("notes-lemma-1", "notes-lemma-2", "itcs-decomposition", "csml-decomposition"),
)  # fmt: skip
def rebuild(run: Context, n: int = N_TRAIN, steps: int = STEPS) -> Evidence:
    """At every step, w<sub>s,r</sub>(t) = w<sub>s,r</sub>(0) + Σ<sub>j</sub> λ<sub>s,r,j</sub>(t)
    μ<sub>j</sub>/|μ<sub>j</sub>|² + Σ<sub>i</sub> σ<sub>s,r,i</sub>(t)
    ξ<sub>i</sub>/|ξ<sub>i</sub>|², with coefficients that follow a recursion of their own.
    """
    errors = {labels: paper_run(labels, run.seeds, n, steps)["rebuild_error"][1:] for labels in ("coarse", "fine")}
    worst = {labels: float(error.max()) for labels, error in errors.items()}
    lines = (
        line("binary network", errors["coarse"], "averaged", "solid"),
        line("grouped network", errors["fine"], "decoupled", "solid"),
    )
    vertical = Axis("|rebuilt − w| / |w|", log=True, range=(1e-17, 1e-8))
    figure = Figure(
        "rebuild-error",
        "Features and noise rebuild the weights",
        "Relative distance between the weights and what the coefficients λ and σ rebuild, after "
        "each of the paper's steps: round-off, ten million times below the tolerance.",
        (Lines(Axis("step"), vertical, lines, rules=(Rule(1e-9, label="tolerance"),)),),
    )
    return Evidence(
        Check("largest relative error, binary", worst["coarse"], "<=", 1e-9),
        Check("largest relative error, grouped", worst["fine"], "<=", 1e-9),
        figure=figure,
        numbers={"worst": worst},
        finding="An identity, and a test of the code: the recursion rebuilds the weights to round-off "
        f"({number(max(worst.values()))}) with the squared norms as factors; the lecture notes print "
        "them as divisors, with which it would not.",
    )


def _settled(own: Float[ndarray, "t s"]) -> Float[ndarray, " s"]:
    """The first step from which all own-class pairs stay active."""
    broken = own < 1.0
    last = len(own) - 1 - np.argmax(broken[::-1], axis=0)
    return np.where(broken.any(axis=0), last + 1, 0).astype(float)


@claim(
    "lemma-3-activation",
    "Every neuron is active on its whole class",
    theme="Lemmas",
    source="Lecture notes on arXiv 2410.10322, Lemma 3",
    measured="share of active (neuron, own-class sample) pairs: at all times ηT ≥ 1 in the theorem's "
    "regime, and from the first step on at the paper's setting",
    minutes=0.01,
    shares="theorem-1 runs",
    statements=("notes-lemma-3", "notes-assumption-3-discussion"),
)
def activity(run: Context, k: int = 0, n: int = N_TRAIN, steps: int = STEPS) -> Evidence:
    """For all t up to T<sub>0</sub>, every neuron of a class is active on every training sample of
    that class.
    """
    paper = paper_run("coarse", run.seeds, n, steps)
    # The proof uses the lemma at all times of the theorem, eta T >= 1.
    by_k = in_regime("coarse", run.seeds, regime(k, run.full), run.progress)
    whole, begins = by_k["least_active"], by_k["all_active_from"].max("seed")
    own, settled = paper["own_active"].values, _settled(paper["own_active"].values)
    last = int(settled.max())
    if last < len(own):
        said = f"From step {last} on (worst seed) every neuron is active on all of it."
    else:
        said = "On some seed a neuron is still off on a sample of its class at the last step."
    times = ", ".join(f"{float(one):.0e} at k = {int(one['k'])}" for one in begins)
    lines = (
        line("own class", paper["own_active"], "averaged", "solid"),
        line("other class", paper["other_active"], "neutral", "solid"),
    )
    vertical = Axis("share of active pairs", range=(-0.03, 1.05))
    figure = Figure(
        "activity",
        "Which neurons are active on which samples",
        "Share of active pairs (neuron, sample) along training. Every neuron ends up active on "
        "every sample of its class, but it begins with half of them.",
        (Lines(Axis("step"), vertical, lines, rules=(Rule(1.0, label="Lemma 3"),)),),
    )
    return Evidence(
        Check(f"smallest own-class share at any time ηT ≥ 1, theorem's regime, k = 2 to {int(by_k['k'][-1])}",
              whole.min(), ">=", 1.0, role="main"),
        Check("smallest own-class share after the first step", own[1].min(), ">=", 1.0),
        Check("smallest own-class share after the last step", own[-1].min(), ">=", 1.0),
        Check("own-class share at initialisation", own[0].min(), ">=", 1.0, role="note"),
        figure=figure,
        numbers={"settled_after_steps": settled, "regime": by_k[["least_active", "all_active_from"]]},
        finding=f"A random neuron is active on {own[0].mean():.0%} of its class at first and on "
        f"{own[1].mean():.1%} after one step of the paper. {said} In the theorem's regime the smallest "
        f"share at any time from 1/η on is {whole.min():.1%}; all are active, and stay so, from about "
        f"ηT = {times} on.",
    )  # fmt: skip


@claim(
    "lemma-4-updates", "The update without its indicator", theme="Lemmas",
    source="Lecture notes on arXiv 2410.10322, Lemma 4",
    measured="relative error of the update without indicator, own class and other class, paper's "
    "setting",
    minutes=0.01, shares="theorem-1 runs", statements=("notes-lemma-4",),
)  # fmt: skip
def updates(run: Context, n: int = N_TRAIN, steps: int = STEPS) -> Evidence:
    """For every neuron and every cluster j, λ<sub>s,r,j</sub> is updated by the sum of
    ℓ′<sub>i</sub> over the whole cluster, with no indicator of who is active.
    """
    paper = paper_run("coarse", run.seeds, n, steps)
    # If they never settle, the last step is measured.
    settled = min(int(_settled(paper["own_active"].values).max()), steps)
    own, other = paper["ungated_own"], paper["ungated_other"]
    least = float(other[settled:].min())
    lines = (
        line("clusters of the own class", own, "averaged", "solid"),
        line("of the other class", other, "neutral", "solid"),
    )
    figure = Figure(
        "updates",
        "Where the indicator may be left out",
        "Relative error of the update of λ without its indicator, the worst pair of neuron and "
        "cluster: zero for the own class once all are active, large for the other class throughout.",
        (Lines(Axis("step"), Axis("relative error", range=(-0.03, 1.3)), lines),),
    )
    return Evidence(
        Check("own class: relative error of the update without indicator, once all are active",
              own[settled:].max(), "<=", 1e-9, role="main"),
        Check("other class: the same, smallest over the steps", least, "<=", 0.1,
              note="as printed, for every cluster j in [k]"),
        figure=figure, numbers=paper[["ungated_own", "ungated_other"]],
        finding=f"From step {settled} on the indicator can be left out for the clusters of the neuron's own "
        "class, which is all that the proof uses. As printed, for every cluster, the lemma is "
        f"false: on the other class the neuron is off, and leaving the indicator out is wrong by "
        f"{least:.0%} or more. Correct: Δλ<sub>s,r,j</sub> = −(sη/nm) |μ<sub>j</sub>|² Σ "
        "ℓ′<sub>i</sub> for j in J<sub>s</sub>, and with the indicator for all others.",
    )  # fmt: skip


@claim(
    "lemma-5-balance", "Samples of one label pull equally", theme="Lemmas",
    source="Lecture notes on arXiv 2410.10322, Lemma 5 and Step 3 (A)",
    measured="largest ratio of loss derivatives inside a label and pull of each cluster, in the "
    "theorem's regime at k = 2, 3 (4), and against d and n",
    minutes=0.02, shares="theorem-1 runs", statements=("notes-lemma-5", "notes-step-3a"),
)  # fmt: skip
def balance(run: Context, k: int = 0) -> Evidence:
    """For samples i, i′ of the same label, ℓ′<sub>i</sub>(t)/ℓ′<sub>i′</sub>(t) = 1 ± o(1)
    throughout training; so each cluster of class s pulls with (n/k) ℓ′<sub>s</sub> (1 ± o(1)).
    """
    tables = sweep("coarse", run.seeds, regime(k, run.full), run.progress)
    inside = against_d("fine", run.seeds, only_largest=True)["worst_balance"][-1] - 1.0
    excess = {axis: table["worst_balance"] - 1.0 for axis, table in tables.items()}
    by_k, by_d = excess["k"].values, excess["d"].values
    sums, k = tables["k"]["worst_cluster_balance"].values, int(tables["k"]["k"][-1])
    # Both are driven by noise that falls like sqrt(k |J_s| / n): 0.42 from k = 2 to 3 where n = k^7.
    # A ratio of derivatives is an exponential of it, so 0.7 is asked for; the sums are linear in it.
    return Evidence(
        Check(f"largest ratio − 1 in the theorem's regime: k = {k} over k = 2",
              by_k[-1] / np.median(by_k[0]), "<=", 0.7, role="main",
              note="1 ± o(1): the excess falls as k grows; one run apart at k = 4 has a ratio of 1.28"),
        Check(f"pull of a cluster over n/k of its class's: distance from 1, k = {k}", sums[-1], "<=", 0.1,
              note="second half of the lemma, all times ηT ≥ 1"),
        Check(f"the same: k = {k} over k = 2", np.median(sums[-1]) / np.median(sums[0]), "<=", 1.0),
        Check("cluster labels: largest ratio − 1 at d = 10⁹", inside, "<=", 0.1, role="note"),
        Check("class labels: largest ratio − 1 at d = 10⁹ over d = 10³", by_d[-1] / by_d[0], "<=", 1.0,
              role="note"),
        figure=Figure(
            "loss-balance", "Samples of one label pull ever more equally",
            "Largest ratio of loss derivatives between two samples of one class at any time, minus "
            "one: against d, against n, and in the theorem's regime.",
            panels(excess, "coarse", "largest ratio − 1")),
        numbers={"regime": tables["k"][["worst_balance", "worst_cluster_balance"]],
                 "against_d": tables["d"][["worst_balance", "size_ratio"]]},
        finding=f"In the theorem's regime the largest ratio falls from {by_k[0].min() + 1:.1f}–"
        f"{by_k[0].max() + 1:.1f} at k = 2 to {by_k[-1].min() + 1:.2f}–{by_k[-1].max() + 1:.2f} at k = "
        f"{k}, and the pull of a cluster is n/k of its class's up to {np.median(sums[-1]):.1%}. A large "
        f"d alone is not enough: at d = 10⁹ and n = 900 the ratio is {np.median(by_d[-1]) + 1:.2f}, "
        "because clusters differ in size.",
    )  # fmt: skip


@claim(
    "step-3-contraction", "Coefficients of one class become equal", theme="Lemmas",
    source="Lecture notes on arXiv 2410.10322, Step 3 (B)",
    measured="largest difference inside a class along training, absolute and relative to λ",
    minutes=0.14, shares="theorem-1 runs", times=4, statements=("notes-step-3b",),
)  # fmt: skip
def contraction(run: Context, k: int = 0) -> Evidence:
    """The differences λ<sub>s,r,j</sub> − λ<sub>s,r,j′</sub> inside a class contract to o(1) as
    training goes on.
    """
    k = regime(k, run.full)[-1]
    # Whether the difference grows or falls depends on the run: ten of them show how much.
    last = in_regime("coarse", run.seeds[:10], (k,), part(run.progress, 0.0, 0.5)).isel(k=0)
    against_samples = against_n("coarse", run.seeds, part(run.progress, 0.5, 1.0))
    end, growth = last["difference"], last["difference"] / last["first_difference"]
    fall, in_n = growth * last["first_lam"] / last["lam"], exponents(against_samples["difference"])
    lines = []
    for i, seed in enumerate(run.seeds[:5]):
        one, shade = theorem_run("coarse", k, seed), 0.4 + 0.6 * i / 4
        times, relative = np.exp(one["log_time"].values), (one["difference"] / one["lam"]).values
        lines.append(Series(f"seed {seed}", times, relative, "averaged", shade=shade))
    vertical, rule = Axis("relative difference", log=True), Rule(1.0, axis="x", label="1/η")
    return Evidence(
        Check(f"difference at ηT = k⁸, k = {k}", end, "<=", 0.2, note="o(1)", role="main"),
        Check("exponent of the difference in n, k = 10", in_n, "within", (-0.75, -0.25),
              note="o(1): it falls with the samples", of="mean"),
        Check("difference at ηT = k⁸ over that at the first save with ηT ≥ 1", growth, "<=", 1.0,
              note="contract: does it fall over time?"),
        Check("difference over λ: at ηT = k⁸ over that at the first save with ηT ≥ 1", fall, "<=", 0.8,
              role="note"),
        figure=Figure(
            "contraction", "Inside a class the coefficients become equal",
            "Largest |λ<sub>j</sub> − λ<sub>j′</sub>| / λ inside a class along training in the theorem's "
            f"regime, k = {k}, one line for each seed.",
            (Lines(Axis("ηT", log=True), vertical, tuple(lines), rules=(rule,)),)),
        numbers={"fall": fall.values, "end": end.values, "growth": growth.values, "exponents_in_n": in_n},
        finding=f"At ηT = k⁸ the differences are {end.mean():.3f} at k = {k}, against λ = "
        f"{last['lam'].mean():.1f}. Between 1/η and k⁸/η they change by a factor of "
        f"{growth.min():.2f} to {growth.max():.2f} ({growth.mean():.2f} on average), towards the logarithm of "
        "the ratio of cluster sizes, which n makes small: in some runs they contract, in others they grow. "
        f"Relative to λ, which grows, they change by a factor of {fall.mean():.2f}.",
    )  # fmt: skip
