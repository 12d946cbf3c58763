"""Linear classifiers: gradient flow and the vanishing penalty both end in the SVM direction."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.claims.ledger import Check, Claim, ClaimSettings, Evidence, Headline
from featavg.data.streams import stream
from featavg.figures.figure import Axis, Figure, Lines, Series
from featavg.measures.svm import MaxMargin, angle, checked_max_margin
from featavg.training.linear.flow import linear_flow
from featavg.training.linear.penalty_path import penalty_path

POINTS, DIMENSION = 40, 20
# log t of the flow, and log(1/penalty) of the path.
LOG_TIMES = tuple(float(v) for v in np.logspace(1, 4, 25))
LOG_DEPTHS = tuple(float(v) for v in np.logspace(1, 7, 25))
# Where 1/log t is to be seen: beyond the first hundred e-foldings of time.
SETTLED = 100.0


def labelled_points(seed: int) -> tuple[Float[ndarray, "n N"], Int[ndarray, " n"]]:
    """Two Gaussian clouds that a plane separates, about a third of them support vectors."""
    draw = stream(seed, "margin-linear")
    y = np.repeat([1, -1], POINTS // 2)
    x = draw.standard_normal((POINTS, DIMENSION))
    x[:, 0] += 2.0 * y
    return x / math.sqrt(DIMENSION), y


@cache
def solved(seed: int) -> MaxMargin:
    """The exact answer for one seed."""
    return checked_max_margin(*labelled_points(seed))


def _angles(directions: Float[ndarray, "p N"], seed: int) -> Float[ndarray, " p"]:
    return angle(directions, np.broadcast_to(solved(seed).w, directions.shape))


def slope(x: Float[ndarray, " p"], y: Float[ndarray, " p"]) -> float:
    """The exponent of y ~ x^exponent, by least squares over logarithms."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def flow_claim(settings: ClaimSettings) -> Evidence:
    """Angle to the SVM direction along the flow."""
    times = np.asarray(LOG_TIMES)
    angles, exponents = [], []
    for i, seed in enumerate(settings.seeds):
        settings.progress(i / len(settings.seeds), f"seed {seed}")
        found = _angles(linear_flow(*labelled_points(seed), LOG_TIMES), seed)
        angles.append(found)
        late = times >= SETTLED
        exponents.append(slope(times[late], found[late]))
    worst = float(max(a[-1] for a in angles))
    gap = max(abs(solved(seed).gap) for seed in settings.seeds)
    product = [a[-1] * times[-1] for a in angles]
    figure = Figure(
        "angle",
        "The angle to the max-margin direction",
        f"Gradient flow on separable points: the angle falls like 1/log t, out to t = e^{times[-1]:g}.",
        (
            Lines(
                Axis("log t", log=True),
                Axis("angle", "radians", log=True),
                (
                    Series.over_seeds("gradient flow", times, angles, "averaged"),
                    Series(
                        "1/log t", times, float(np.median(product)) / times, "reference", "dashed"
                    ),
                ),
            ),
        ),
    )
    return Evidence(
        checks=(
            Check("largest final angle", worst, "<=", 1e-3),
            Check("smallest exponent of log t", min(exponents), "within", (-1.1, -0.9)),
            Check("largest exponent of log t", max(exponents), "within", (-1.1, -0.9)),
            Check("largest relative duality gap of the SVM", gap, "<=", 1e-9),
        ),
        figures=(figure,),
        numbers={"angles": [a.tolist() for a in angles], "log_times": times.tolist()},
        finding=f"At t = e^{times[-1]:g} the angle is at most {worst:.1e}; it falls like "
        f"(log t)^{np.mean(exponents):.3f}.",
        headlines=(Headline(f"{worst:.0e}", "angle to the SVM at t = e^10000", "neutral"),),
    )


def path_claim(settings: ClaimSettings) -> Evidence:
    """Angle to the SVM direction along the regularised path."""
    depths = np.asarray(LOG_DEPTHS)
    angles = []
    for i, seed in enumerate(settings.seeds):
        settings.progress(i / len(settings.seeds), f"seed {seed}")
        path = penalty_path(*labelled_points(seed), [-depth for depth in depths])
        angles.append(_angles(path, seed))
    worst = float(max(a[-1] for a in angles))
    figure = Figure(
        "path",
        "The regularised path ends in the max-margin direction",
        "The minimiser of logistic loss plus penalty, as the penalty vanishes.",
        (
            Lines(
                Axis("log(1/penalty)", log=True),
                Axis("angle", "radians", log=True),
                (Series.over_seeds("minimiser", depths, angles, "averaged"),),
            ),
        ),
    )
    return Evidence(
        checks=(Check("largest final angle", worst, "<=", 1e-6),),
        figures=(figure,),
        numbers={"angles": [a.tolist() for a in angles], "log_depths": depths.tolist()},
        finding=f"At a penalty of e^-{depths[-1]:.0e} the angle is at most {worst:.1e}.",
    )


CLAIMS = (
    Claim(
        id="margin-linear-flow",
        title="Gradient descent drifts to the max-margin direction",
        theme="Margins",
        statement="On separable data the direction of a linear classifier under gradient flow of the "
        "logistic loss tends to the SVM direction, with an angle of order 1/log t.",
        source="Talks, max-margin linear classifier (Soudry et al. 2017)",
        measured="the angle to the SVM direction (an exact QP with its duality gap) from "
        "log t = 10 to 10 000, and its exponent in log t beyond log t = 100",
        run=flow_claim,
        minutes=0.05,
    ),
    Claim(
        id="margin-linear-path",
        title="A vanishing penalty selects the same direction",
        theme="Margins",
        statement="The L2-regularised minimiser tends to the SVM direction as the penalty vanishes.",
        source="Talks, margin maximization (Rosset et al. 2004)",
        measured="the angle to the SVM direction at penalties down to exp(-10^7)",
        run=path_claim,
        minutes=0.03,
    ),
)
