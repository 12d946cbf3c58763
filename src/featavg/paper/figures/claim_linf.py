"""Does averaging hurt in l_inf as well? Exact radii, with features along axes and turned at random.

The tolerances follow from the formulas in `experiments.paper.linf` and were written before the claim
was run. One trial had been seen by then: a single seed, 300 training points, d = 300, 1000 and 3072.
"""

from __future__ import annotations

import math

import numpy as np

from featavg.paper.engine.claim import Check, Context, Evidence, Headline, claim
from featavg.paper.figures.linf import LINF_CLUSTERS, LINF_DIMENSIONS, linf_study


@claim(
    "linf-averaging",
    "Averaging hurts in l_inf as well",
    theme="Exact robustness",
    source="Summary of arXiv 2410.10322: its first experiments ask for l_inf beside l2; the paper "
    "itself treats l2",
    measured="exact l_inf radii (linear programs) of fresh points at k = 10, d = 200 to 800",
    tier="full",
    minutes=1.2,
    statements=("summary-experiment-2", "summary-question-linf"),
)
def averaging_in_linf(settings: Context) -> Evidence:
    """A network that learned the average of the features of each class is flipped by smaller l_inf
    perturbations than one that learned the features apart; with features in random directions by
    the factor √(k/2), as in l2.
    """
    study = linf_study(settings.seeds, settings.progress)
    typical = {o: float(np.median(study.ratio(o)[-1])) for o in ("random", "axes")}
    return Evidence(
        Check(
            "random directions: decoupled / averaged radius, smallest over d and seeds",
            float(study.ratio("random").min()),
            ">=",
            1.5,
            note=f"theory: √(k/2) = {math.sqrt(LINF_CLUSTERS / 2):.2f}",
            role="main",
        ),
        Check(
            "along axes: decoupled / averaged radius, smallest over d and seeds",
            float(study.ratio("axes").min()),
            ">=",
            1.5,
            note="no theory: noise left in the weights decides",
        ),
        Check(
            "random directions: averaged radius / √(π/2k) at the largest d",
            study.against_theory("averaged"),
            "within",
            (0.85, 1.15),
        ),
        Check(
            "random directions: decoupled radius / (√π/2) at the largest d",
            study.against_theory("decoupled"),
            "within",
            (0.85, 1.15),
        ),
        Check(
            "random directions: exponent of the averaged radius in d",
            study.exponent,
            "within",
            (-0.1, 0.1),
            note="theory: 0",
            role="note",
        ),
        Check("share of points answered exactly", study.exact, ">=", 0.99, role="note"),
        figure=study.figure(),
        numbers=study.to_json(),
        finding=f"In l_inf too the averaged network is flipped by less: at d = {LINF_DIMENSIONS[-1]} the "
        f"decoupled one stands {typical['random']:.2f} times as much with features in random "
        f"directions (√(k/2) = {math.sqrt(LINF_CLUSTERS / 2):.2f}, as in l2) and "
        f"{typical['axes']:.2f} times "
        "as much with features along axes.",
        headlines=(
            Headline(f"{typical['random']:.1f}×", "l_inf radius gained by decoupling", "decoupled"),
        ),
    )
