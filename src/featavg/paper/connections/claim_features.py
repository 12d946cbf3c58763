"""Ilyas et al. (2019): are single features robust, and is their average not?"""

from __future__ import annotations

from featavg.paper.connections.feature_usefulness import (
    FEATURE_NAMES,
    FEATURE_SHARE,
    useful_features,
)
from featavg.paper.engine.claim import Check, Context, Evidence, claim


@claim(
    "connections-robust-features",
    "Single features are robust features, their average is not",
    theme="Connections",
    source="Talk (CSML 2024), 'Connection to nonrobust features'; Ilyas et al. 2019, section 2",
    measured="ρ = E[y f] and γ = E[inf<sub>|u|≤ε</sub> y f(x+u)] of features normalised to mean 0 "
    "and variance 1, for the weight vectors that training with coarse and with fine labels "
    "learns (as detectors, and on the points that carry them), and for ⟨μ<sub>j</sub>,x⟩ and "
    "the average to the letter; k = 10, d = 3072, ε = 0.4 √d",
    minutes=0.02,
    statements=("itcs-features", "csml-features", "itcs-robust-features"),
)
def useful(settings: Context) -> Evidence:
    """By the definitions of Ilyas et al., each ⟨μ<sub>j</sub>,x⟩ is useful and robustly useful, and
    the average of the features, which gradient descent learns, is useful but not robustly useful,
    under l2 perturbations longer than √(d/k).
    """
    result = useful_features(seeds=settings.seeds, progress=settings.progress)
    where = f"ε = {FEATURE_SHARE:g} √d"
    checks = (
        Check(
            f"learnt average, as a detector: largest γ/ρ at {where}",
            max(result.learnt_robust("average")),
            "<=",
            0.0,
        ),
        Check(
            f"learnt single feature, as a detector: smallest γ/ρ at {where}",
            min(result.learnt_robust("single")),
            ">=",
            0.9,
        ),
        Check(
            f"learnt single feature, on the points that carry it: smallest share left at {where}",
            min(result.left["single"]),
            ">=",
            0.5,
        ),
        Check(
            f"learnt average, on the same points: largest share left at {where}",
            max(result.left["average"]),
            "<=",
            0.0,
        ),
        Check(
            f"best single ⟨μ<sub>j</sub>,x⟩, to the letter: γ at {where}",
            max(result.every_single),
            ">=",
            0.0,
            note="arithmetic, nothing is trained: the adversary may move every point",
        ),
        Check(
            f"average, to the letter: γ at {where}",
            result.robust("average, linear"),
            "<=",
            0.0,
            note="arithmetic too",
        ),
        Check(
            "every feature is useful: smallest ρ",
            min(map(result.usefulness, FEATURE_NAMES)),
            ">=",
            0.1,
            role="note",
        ),
        Check(
            "closed form against a sample, in standard errors (an identity)",
            result.surprise,
            "<=",
            5.0,
            role="note",
        ),
    )
    return Evidence(
        *checks,
        finding=result.summary(),
        numbers=result.to_json(),
        figure=result.figure(),
    )
