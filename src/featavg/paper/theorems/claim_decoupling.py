"""Lemmas 6, 7, 9, 11, 12 and the proof of Theorem 5; and neurons that never learn their cluster."""

from __future__ import annotations

import math

import numpy as np

from featavg.figures.figure import Axis, Figure, Lines, Series
from featavg.paper.engine.claim import Check, Context, Evidence, claim
from featavg.paper.theorems.dead_neurons import dead_neurons_study
from featavg.paper.theorems.decoupling_proof import (
    REGIME_CONSTANT,
    DecouplingLemmas,
    decoupling_lemmas,
    epsilon_exponent,
    epsilon_in_regime,
)
from featavg.paper.theorems.theorem_sweeps import clusters_of_tier

# The runs are as long as those of Theorem 4, and the bounds are far from tight: two seeds.
SEEDS = 2
# Measured over allowed: the lemmas have explicit constants, so the bound of every ratio is 1.
ALLOWED = 1.0


def _lemmas(settings: Context) -> DecouplingLemmas:
    clusters = clusters_of_tier(settings.full)
    return decoupling_lemmas(settings.seeds[:SEEDS], clusters, settings.progress)


def _worst(study: DecouplingLemmas, name: str) -> float:
    return float(study.table(name).max())


@claim(
    "lemma-6-7-9-bounds",
    "Inner products, off-class coefficients and noise are small",
    theme="Theorem 4: decoupling",
    source="Lecture notes on arXiv 2410.10322, Lemmas 6, 7 and 9",
    measured="each over its bound, d = 100 k¹⁰, n = k⁷, ηT = k⁸, by gradient flow",
    minutes=0.2,
    statements=("notes-lemma-6", "notes-lemma-7", "notes-lemma-9", "itcs-theorem-5.5"),
    shares="theorem-5 runs",
)
def inner_products(settings: Context) -> Evidence:
    """|⟨w<sub>s,r</sub>, μ<sub>j</sub>⟩ − λ<sub>s,r,j</sub>| ≤ ε/6; for samples of other clusters
    |λ| ≤ ε and |σ| ≤ 2ε; for fresh noise |⟨w<sub>s,r</sub>, ξ⟩| ≤ ε/6.
    """
    study = _lemmas(settings)
    names = {
        "lemma 6": "Lemma 6: |⟨w, μ<sub>j</sub>⟩ − λ<sub>j</sub>| over ε/6",
        "lemma 7, features": "Lemma 7: |λ| of another cluster over ε",
        "lemma 7, noise": "Lemma 7: |σ<sub>i</sub>| of another cluster's sample over 2ε",
        "lemma 9": "Lemma 9: |⟨w, ξ⟩| of fresh noise, once in a million, over ε/6",
    }
    checks = [Check(text, _worst(study, name), "<=", ALLOWED) for name, text in names.items()]
    # |w| = lambda / sqrt(d): a hundred times fewer dimensions make it ten times as long.
    unaided = math.sqrt(REGIME_CONSTANT) * float(study.table("lemma 9")[-1].max())
    return Evidence(
        *tuple(checks),
        figure=study.figure(),
        numbers=study.to_json(),
        finding=f"At d = {REGIME_CONSTANT} k¹⁰ the tightest bound is reached to "
        f"{max(_worst(study, name) for name in names):.0%}. Lemma 9 is the one that needs the constant: "
        f"|w| = λ/√d, so that at d = k¹⁰ itself it would be at {unaided:.1f} times its bound for "
        f"k = {study.clusters[-1]}.",
    )


@claim(
    "theorem-5-inequalities",
    "The inequalities of the robustness proof",
    theme="Theorem 4: decoupling",
    source="Lecture notes on arXiv 2410.10322, proof of Theorem 5, and Lemma 11, first line",
    measured="each over its bound for the worst ρ at 1000 fresh points, d = 100 k¹⁰, n = k⁷, ηT = k⁸",
    minutes=0.02,
    statements=("notes-theorem-5", "notes-lemma-11"),
    shares="theorem-5 runs",
)
def common_coefficient(settings: Context) -> Evidence:
    """For |ρ| ≤ √d/10: ⟨w<sub>j,r</sub>, x+ρ⟩ ≥ 3λ/4 and ⟨w<sub>s,r</sub>, x+ρ⟩ ≤ 3λ/4 − ln k for s
    ≠ j; √d|w| ≤ 2λ; |λ − λ<sub>j,r,j</sub>| ≤ 204 k²ελ.
    """
    study = _lemmas(settings)
    names = {
        "theorem 5, own": "(3λ/4) over the smallest ⟨w<sub>j</sub>, x+ρ⟩ of the own neuron",
        "theorem 5, other": "largest ⟨w<sub>s</sub>, x+ρ⟩ of another one over 3λ/4 − ln k",
        "theorem 5, norm": "√d |w| over 2λ",
        "lemma 11": "Lemma 11: |λ − λ<sub>j,r,j</sub>|/λ over 204 k²ε",
    }
    checks = [Check(text, _worst(study, name), "<=", ALLOWED) for name, text in names.items()]
    bare = _worst(study, "lemma 11, without its constant")
    loose = min(
        204 * k**2 * epsilon for k, epsilon in zip(study.clusters, study.epsilons, strict=True)
    )
    checks.append(
        Check(
            "|λ − λ<sub>j,r,j</sub>|/λ over ε",
            bare,
            "<=",
            ALLOWED,
            role="note",
            note="204 k² left out",
        )
    )
    return Evidence(
        *tuple(checks),
        figure=study.figure(),
        numbers=study.to_json(),
        finding=f"At the worst of all fresh points and all |ρ| ≤ √d/10, 3λ/4 is "
        f"{_worst(study, 'theorem 5, own'):.0%} of what the own neuron keeps, and the others reach "
        f"{_worst(study, 'theorem 5, other'):.0%} of 3λ/4 − ln k. Lemma 11's 204 k²ε is {loose:.0f} or "
        f"more here, so it says nothing; measured, the coefficients are within {bare:.3f} ε of λ.",
    )


@claim(
    "lemma-12-epsilon",
    "How small ε is",
    theme="Theorem 4: decoupling",
    source="Lecture notes on arXiv 2410.10322, Lemma 12",
    measured="ε itself (arithmetic) and its exponent in k",
    minutes=0.01,
    statements=("notes-lemma-12",),
)
def size_of_epsilon(settings: Context) -> Evidence:
    """ε = o(k<sup>−2.5</sup>) when d = Ω(k¹⁰) and n = Ω(k⁷)."""
    exponent = epsilon_exponent()
    clusters = [2.0, 3.0, 4.0, 10.0, 100.0, 1e3, 1e4]
    scaled = [epsilon_in_regime(k) * k**2.5 for k in clusters]
    line = Series("ε k<sup>2.5</sup>", clusters, scaled, "decoupled", "line+markers")
    figure = Figure(
        "epsilon",
        "ε is o(k⁻²·⁵), slowly",
        "Lemma 12's ε times k²·⁵ for d = k¹⁰, n = k⁷.",
        (Lines(Axis("clusters k", log=True), Axis("ε k<sup>2.5</sup>", log=True), (line,)),),
    )
    return Evidence(
        Check("exponent of ε in k, k = 10⁸ to 10¹²", exponent, "<=", -2.5, role="main"),
        Check("ε k²·⁵ at k = 10⁴ over that at k = 2", scaled[-1] / scaled[0], "<=", 1.0),
        figure=figure,
        numbers={"clusters": clusters, "scaled": scaled, "exponent": exponent},
        finding=f"Arithmetic: ε ~ 12 ln(k)/k³, exponent {exponent:.2f}. But it is o(1) late: ε is "
        f"{epsilon_in_regime(3):.2f} at k = 3 and {epsilon_in_regime(10):.3f} at k = 10, so bounds in "
        "multiples of k²ε say nothing for any k that can be run.",
    )


@claim(
    "decoupling-dead-neurons",
    "A neuron may never see its cluster",
    theme="Theorem 4: decoupling",
    source="Found while checking Theorem 4 outside its regime",
    measured="neurons that start off on their whole cluster, over many draws, and their cosines "
    "after training",
    minutes=0.1,
    statements=("notes-theorem-4",),
)
def dead_neurons(settings: Context) -> Evidence:
    """With one neuron for each cluster, a neuron starts inactive on all of its cluster with
    probability 1/(n/k + 1), and then it never learns it.
    """
    study = dead_neurons_study(settings.seeds[0], settings.progress)
    final = float(np.median(study.final_cosines)) if len(study.final_cosines) else np.nan
    live = float(np.median(study.live_cosines)) if len(study.live_cosines) else np.nan
    return Evidence(
        Check(
            "counted against Σ 1/(n<sub>j</sub>+1), standard deviations", study.distance, "<=", 4.0
        ),
        Check("median cosine with the own feature after training, dead", final, "<=", 0.5),
        Check("the same, all others", live, ">=", 0.5),
        figure=study.figure(),
        numbers=study.to_json(),
        finding=f"With h = 1 a neuron starts off on its whole cluster with probability 1/(n/k + 1): "
        f"{study.dead[0]} of {study.neurons} at n = {study.sizes[0]}. It never learns its feature "
        f"(cosine {final:.2f} against {live:.2f}), which is where decoupling loses clean accuracy "
        "when samples are few. In the theorem's regime this is one neuron in k⁶.",
    )
