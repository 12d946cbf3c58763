"""Linear classifiers: gradient flow and the vanishing penalty both end in the SVM direction."""

from __future__ import annotations

import numpy as np

from featavg.paper.engine.claim import Check, Context, Evidence, Headline, claim
from featavg.paper.margins.linear_classifiers import linear_limits


@claim(
    "margin-linear-flow",
    "Gradient descent drifts to the max-margin direction",
    theme="Margins",
    source="Talks, max-margin linear classifier (Soudry et al. 2017)",
    measured="the angle to the SVM direction (an exact QP with its duality gap) from "
    "log t = 10 to 10 000, and its exponent in log t beyond log t = 100",
    minutes=0.05,
    statements=("itcs-soudry", "csml-soudry"),
)
def flow_claim(settings: Context) -> Evidence:
    """On separable data the direction of a linear classifier under gradient flow of the logistic
    loss tends to the SVM direction, with an angle of order 1/log t.
    """
    result = linear_limits("flow", seeds=settings.seeds, progress=settings.progress)
    worst = float(result.angles[:, -1].max())
    return Evidence(
        Check("largest final angle", worst, "<=", 1e-3),
        Check("exponent of log t", result.exponents, "within", (-1.1, -0.9)),
        Check("largest relative duality gap of the SVM", result.gap, "<=", 1e-9, role="note"),
        figure=result.figure(),
        numbers=result.to_json(),
        finding=f"At t = e^{result.clock[-1]:g} the angle is at most {worst:.1e}; it falls like "
        f"(log t)^{np.mean(result.exponents):.3f}.",
        headlines=(Headline(f"{worst:.0e}", "angle to the SVM at t = e^10000", "neutral"),),
    )


@claim(
    "margin-linear-path",
    "A vanishing penalty selects the same direction",
    theme="Margins",
    source="Talks, margin maximization (Rosset et al. 2004)",
    measured="the angle to the SVM direction at penalties down to exp(-10^7)",
    minutes=0.03,
    statements=("itcs-regularised", "csml-regularised"),
)
def path_claim(settings: Context) -> Evidence:
    """The L2-regularised minimiser tends to the SVM direction as the penalty vanishes."""
    result = linear_limits("path", seeds=settings.seeds, progress=settings.progress)
    worst = float(result.angles[:, -1].max())
    return Evidence(
        Check("largest final angle", worst, "<=", 1e-6),
        figure=result.figure(),
        numbers=result.to_json(),
        finding=f"At a penalty of exp(-{result.clock[-1]:,.0f}) the angle is at most {worst:.1e}.",
    )
