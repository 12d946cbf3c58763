"""Lemmas 1, 2, 3 and 5: the decomposition, who is active, and how evenly the loss pulls."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.claims.ledger import Check, Claim, ClaimSettings, Evidence
from featavg.data.clusters import MultiCluster
from featavg.data.compress import draw_many
from featavg.experiments.paper.theorem_runs import scaled_run, theorem_run
from featavg.figures.figure import Axis, Figure, Lines, Rule, Series
from featavg.figures.marks import Role
from featavg.figures.number_format import number
from featavg.measures.decomposition import Coefficients
from featavg.measures.dynamics import Activations
from featavg.training.train import Recipe, train

DIMENSIONS = tuple(10**power for power in range(3, 10))
# Below the smallest dimension, so that features and noise stay linearly independent there.
SAMPLES = 900


def rebuild(settings: ClaimSettings) -> Evidence:
    """Track the coefficients by their recursion and rebuild the weights at every step."""
    task, worst, series = MultiCluster(k=10, d=3072), {}, []
    for i, labels in enumerate(("coarse", "fine")):
        settings.progress(i / 2, f"{labels} labels")
        recipe = Recipe(labels=labels)
        data = draw_many(task, 1000, recipe.neurons(task.k), settings.seeds)
        coefficients = Coefficients(data)
        train(data, recipe, recorders=(coefficients,))
        errors = coefficients.errors
        worst[labels] = float(errors.max())
        name = "binary network" if labels == "coarse" else "grouped network"
        role: Role = "averaged" if labels == "coarse" else "decoupled"
        steps = np.arange(1, len(errors) + 1)
        series.append(Series.over_seeds(name, steps, errors.T, role))
    figure = Figure(
        "rebuild-error",
        "Features and noise rebuild the weights",
        "Relative distance between the weights and what the coefficients λ and σ rebuild, after "
        "each of the paper's 100 steps: round-off, ten million times below the tolerance.",
        (
            Lines(
                Axis("step"),
                Axis("|rebuilt − w| / |w|", log=True, range=(1e-17, 1e-8)),
                tuple(series),
                rules=(Rule(1e-9, label="tolerance"),),
            ),
        ),
    )
    return Evidence(
        checks=(
            Check("largest relative error, binary", worst["coarse"], "<=", 1e-9),
            Check("largest relative error, grouped", worst["fine"], "<=", 1e-9),
        ),
        figures=(figure,),
        numbers={"worst": worst},
        finding=(
            "The recursion rebuilds the weights to round-off "
            f"({number(max(worst.values()))}) with the squared norms as factors; the lecture notes print "
            "them as divisors, with which it would not."
        ),
    )


def activity(settings: ClaimSettings) -> Evidence:
    """Count active pairs of neuron and own-class sample along the paper's run."""
    task, recipe = MultiCluster(k=10, d=3072), Recipe()
    settings.progress(0.0, "paper's setting")
    data = draw_many(task, 1000, recipe.neurons(task.k), settings.seeds)
    active = Activations(data)
    train(data, recipe, recorders=(active,))
    own, other = active["own"], active["other"]
    settings.progress(0.6, "theorem's regime")
    regime = [theorem_run("coarse", 3, seed).active for seed in settings.seeds]
    settled = _settled(own)
    steps = np.arange(len(own))
    figure = Figure(
        "activity",
        "Which neurons are active on which samples",
        "Share of active pairs (neuron, sample) along training. Every neuron ends up active on "
        "every sample of its class, but it begins with half of them.",
        (
            Lines(
                Axis("step"),
                Axis("share of active pairs", range=(-0.03, 1.05)),
                (
                    Series.over_seeds("own class", steps, own.T, "averaged"),
                    Series.over_seeds("other class", steps, other.T, "neutral"),
                ),
                rules=(Rule(1.0, label="Lemma 3"),),
            ),
        ),
    )
    return Evidence(
        checks=(
            Check("smallest own-class share at initialisation", own[0].min(), ">=", 1.0),
            Check("smallest own-class share after the first step", own[1].min(), ">=", 1.0),
            Check("smallest own-class share after the last step", own[-1].min(), ">=", 1.0),
            Check(
                "the same in the theorem's regime, k = 3, at the end",
                min(end for _, _, end in regime),
                ">=",
                1.0,
            ),
        ),
        figures=(figure,),
        numbers={"settled_after_steps": settled.tolist(), "theorem_regime": regime},
        finding=(
            f"Not from the first step on: a random neuron is active on {own[0].mean():.0%} of its "
            f"class at first and on {own[1].mean():.1%} after one step. From step "
            f"{int(settled.max())} on (worst seed) every neuron is active on all of it, as the proof needs."
        ),
    )


def _settled(own: Float[ndarray, "t s"]) -> Float[ndarray, " s"]:
    """The first step from which all own-class pairs stay active."""
    broken = own < 1.0
    last = len(own) - 1 - np.argmax(broken[::-1], axis=0)
    return np.where(broken.any(axis=0), last + 1, 0).astype(float)


def balance(settings: ClaimSettings) -> Evidence:
    """The ratio of loss derivatives inside a label against d."""
    ratios = {"coarse": np.zeros((len(settings.seeds), len(DIMENSIONS)))}
    ratios["fine"] = ratios["coarse"].copy()
    sizes = np.zeros(len(settings.seeds))
    for j, d in enumerate(DIMENSIONS):
        settings.progress(j / len(DIMENSIONS), f"d = {d:.0e}")
        for i, seed in enumerate(settings.seeds):
            for labels, table in ratios.items():
                table[i, j] = scaled_run(labels, d, SAMPLES, seed).balance
            sizes[i] = scaled_run("coarse", d, SAMPLES, seed).cluster_ratio
    regime = [theorem_run("coarse", 3, seed).balance for seed in settings.seeds]
    last = {labels: float(table[:, -1].max()) for labels, table in ratios.items()}
    figure = Figure(
        "loss-balance",
        "Samples of one label pull ever more equally, up to cluster sizes",
        "Largest ratio of loss derivatives between two samples of one label, at any time of the "
        f"run (n = {SAMPLES}, k = 10). With cluster labels it tends to 1; with class labels it tends "
        "to a constant below the ratio of the largest to the smallest cluster.",
        (
            Lines(
                Axis("dimension d", log=True),
                Axis("largest ratio of derivatives"),
                (
                    Series.over_seeds("class labels", DIMENSIONS, ratios["coarse"], "averaged"),
                    Series.over_seeds("cluster labels", DIMENSIONS, ratios["fine"], "decoupled"),
                ),
                rules=(
                    Rule(1.0, label="Lemma 5"),
                    Rule(float(np.median(sizes)), label="median ratio of cluster sizes"),
                ),
            ),
        ),
    )
    return Evidence(
        checks=(
            Check("largest ratio at d = 10⁹, class labels", last["coarse"], "<=", 1.1),
            Check("largest ratio at d = 10⁹, cluster labels", last["fine"], "<=", 1.1),
            Check(
                "it falls with d on every seed (ratio at 10⁹ over ratio at 10³)",
                float((ratios["coarse"][:, -1] / ratios["coarse"][:, 0]).max()),
                "<=",
                1.0,
            ),
            Check("largest ratio in the theorem's regime, k = 3", max(regime), "<=", 1.1),
        ),
        figures=(figure,),
        numbers={
            "dimensions": list(DIMENSIONS),
            "coarse": ratios["coarse"].tolist(),
            "fine": ratios["fine"].tolist(),
            "cluster_size_ratio": sizes.tolist(),
            "theorem_regime_k3": regime,
        },
        finding=(
            f"A large d is not enough: at d = 10⁹ class labels still leave a ratio of up to "
            f"{last['coarse']:.2f}, because clusters differ in size (by up to {sizes.max():.2f} here) "
            f"and a larger cluster is fitted sooner. Inside one cluster the ratio is {last['fine']:.3f}."
        ),
    )


CLAIMS = (
    Claim(
        id="lemma-1-2-decomposition",
        title="Weights are features plus noise",
        theme="Lemmas",
        statement=(
            "At every step, w<sub>s,r</sub>(t) = w<sub>s,r</sub>(0) + Σ<sub>j</sub> λ<sub>s,r,j</sub>"
            "(t) μ<sub>j</sub>/|μ<sub>j</sub>|² + Σ<sub>i</sub> σ<sub>s,r,i</sub>(t) ξ<sub>i</sub>/"
            "|ξ<sub>i</sub>|², with coefficients that follow a recursion of their own."
        ),
        source="Lecture on arXiv 2410.10322, Lemmas 1 and 2",
        measured="relative error of the rebuilt weights at each step, binary and grouped network",
        run=rebuild,
        minutes=0.1,
    ),
    Claim(
        id="lemma-3-activation",
        title="Every neuron is active on its whole class",
        theme="Lemmas",
        statement=(
            "For all t up to T<sub>0</sub>, every neuron of a class is active on every training "
            "sample of that class."
        ),
        source="Lecture on arXiv 2410.10322, Lemma 3",
        measured="share of active (neuron, own-class sample) pairs before, during and after training",
        run=activity,
        minutes=0.1,
    ),
    Claim(
        id="lemma-5-balance",
        title="Samples of one label pull equally",
        theme="Lemmas",
        statement=(
            "For samples i, i′ of the same label, ℓ′<sub>i</sub>(t)/ℓ′<sub>i′</sub>(t) = 1 ± o(1) "
            "throughout training."
        ),
        source="Lecture on arXiv 2410.10322, Lemma 5",
        measured="largest ratio of loss derivatives inside a label, for d from 10³ to 10⁹",
        run=balance,
        minutes=0.4,
    ),
)
