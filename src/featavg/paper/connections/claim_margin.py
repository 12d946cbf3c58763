"""Lyu et al. (2021): a small start finds a line where a better margin exists."""

from __future__ import annotations

from featavg.paper.connections.half_margin import hinted_margin
from featavg.paper.engine.claim import Check, Context, Evidence, claim


@claim(
    "connections-simplicity-margin",
    "A small start finds a line where a better margin exists",
    theme="Connections",
    source="Talks, 'Connection to simplicity bias'; Lyu, Li, Wang and Arora 2021, section on "
    "non-symmetric data",
    measured="the angle of the neurons to the axis and the normalised margin after gradient flow "
    "to time 10<sup>12</sup>, against the best margin of a line and of any network (a linear "
    "program with its dual bound); leaky ReLU with leak 0.1, four points in the plane",
    minutes=0.02,
    statements=("itcs-local-margin", "csml-local-margin"),
)
def hinted_margins(settings: Context) -> Evidence:
    """Gradient descent on a two-layer network with small initialisation can converge to a linear
    classifier, whose margin is a local maximum only: a network with a larger normalised margin
    exists.
    """
    result = hinted_margin(seeds=settings.seeds, progress=settings.progress)
    best, line = result.best, result.line
    hinted, free = result.margins, result.margins_without_hint
    checks = (
        Check(
            "angle of the dominant neurons to the axis, degrees, worst seed",
            max(result.tilt),
            "<=",
            5.0,
            note="0 is a linear boundary",
        ),
        Check(
            "margin of the trained network over the best network's, largest seed",
            max(hinted) / best.lower,
            "<=",
            0.6,
        ),
        Check(
            "margin of the trained network over the best line's, smallest seed",
            min(hinted) / line.upper,
            ">=",
            0.9,
        ),
        Check(
            "without the hint: margin over the best network's, smallest seed",
            min(free) / best.upper,
            ">=",
            0.9,
            role="note",
        ),
        Check(
            "relative gap of the bounds on the best margin",
            best.upper / best.lower - 1,
            "<=",
            1e-6,
            role="note",
        ),
    )
    return Evidence(
        *checks,
        finding=result.summary(),
        numbers=result.to_json(),
        figure=result.figure(),
    )
