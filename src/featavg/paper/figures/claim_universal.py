"""One vector for all points: how long it must be, against f_FA itself and against trained networks."""

from __future__ import annotations

import numpy as np

from featavg.paper.engine.claim import Check, Context, Evidence, claim
from featavg.paper.figures.universal import REMARK_SETTINGS, remark_lengths, universal_vector


@claim(
    "remark-attack-vector",
    "The averaged features themselves are the attack",
    theme="Exact robustness",
    source="Lecture notes on arXiv 2410.10322, remark to Definition 1.1",
    measured="shortest ρ that fools half of the fresh points and 99% of them, over d, k and partitions",
    minutes=0.02,
    statements=("notes-remark-1.1", "notes-why-averaging"),
)
def attack_vector(settings: Context) -> Evidence:
    """ρ along −Σ<sub>J₊</sub>μ<sub>j</sub> + Σ<sub>J₋</sub>μ<sub>j</sub> with |ρ| = Ω(√(d/k)) flips
    f<sub>FA</sub>, because f<sub>FA</sub> is linear in it.
    """
    study = remark_lengths(settings.seeds)
    # Against f_FA the vector takes (|rho| sqrt(k/d)) d from the margin d: exactly sqrt(d/k) at a centre,
    # for any partition. Noise moves the margin by sqrt(k/d): 0.1% of it at d = 10^7, k = 10.
    large = [
        i for i, (_, d, _) in enumerate(REMARK_SETTINGS) if d == max(s[1] for s in REMARK_SETTINGS)
    ]
    return Evidence(
        Check(
            "|ρ| / √(d/k) that fools 99%, largest d, worst k and partition",
            float(study.almost[large].max()),
            "<=",
            1.05,
            role="main",
        ),
        Check(
            "|ρ| / √(d/k) that fools half, smallest over all",
            float(study.half.min()),
            ">=",
            0.95,
            note="how long it must be: no shorter one does",
        ),
        Check(
            "|ρ| / √(d/k) that fools half, largest over all d, k and partitions",
            float(study.half.max()),
            "<=",
            1.05,
        ),
        figure=study.figure(),
        numbers=study.to_json(),
        finding=f"The vector flips f<sub>FA</sub> on half of the points at {study.half.mean():.3f} √(d/k) for "
        f"every d, k and partition tried, and on 99% at {study.almost[large].max():.3f} √(d/k) for large "
        "d: it must be √(d/k) long and that is enough. (The documents print "
        "sgn f(x+ρ) = sgn f(x) for success; ≠ is meant.)",
    )


@claim(
    "universal-vector",
    "One vector fools almost all points",
    theme="Exact robustness",
    source="Talk at iTCS 2024, Theorem 4.2 (Frei et al.; for KKT points: see margin-kkt-radius); lecture "
    "notes on arXiv 2410.10322, remark to Definition 1.1",
    measured="the share of fresh points fooled against |z|, and the shortest |z| for 99%: networks at "
    "the paper's time, and with both layers and biases trained to a loss of e⁻⁵⁰",
    minutes=0.1,
    statements=("itcs-theorem-4.2", "notes-remark-1.1"),
    shares="radii at any d",
)
def against_trained(settings: Context) -> Evidence:
    """For trained networks too there is one z along Σ y<sub>j</sub>μ<sub>j</sub> with |z| =
    O(√(d/k)) such that x − y z is decided otherwise than x for almost all points.
    """
    study = universal_vector(settings.seeds, settings.progress)
    worst = {name: max(study.length(name)) for name in ("averaged", "deep")}
    unharmed = max(study.at("decoupled", 1.25))
    return Evidence(
        Check(
            "averaged, paper's time: length that fools 99% / √(d/k), worst seed",
            worst["averaged"],
            "<=",
            1.5,
            role="main",
        ),
        Check("averaged: share fooled at 1.25 √(d/k)", study.at("averaged", 1.25), ">=", 0.95),
        Check(
            "both layers and biases trained to e⁻⁵⁰: length that fools 99% / √(d/k), worst seed",
            worst["deep"],
            "<=",
            2.0,
            note="Theorem 4.2 allows O(√(d/c²k)), c = 1/2, at KKT points",
        ),
        Check(
            "decoupled: share fooled by the same vector at 1.25 √(d/k)",
            unharmed,
            "<=",
            0.01,
            role="note",
        ),
        figure=study.figure(),
        numbers=study.to_json(),
        finding=f"A vector of length {worst['averaged']:.2f} √(d/k) fools 99% of the points of every averaged "
        f"network at the paper's time, and {worst['deep']:.2f} √(d/k) after both layers and the biases "
        f"were trained to a loss of e⁻⁵⁰; at 1.25 √(d/k) it fools {unharmed:.1%} of the decoupled "
        f"network's. Against f<sub>FA</sub> {np.max(study.length('f_FA')):.2f} √(d/k) is enough.",
    )
