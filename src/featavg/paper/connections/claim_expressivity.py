"""Li et al. (2022): a line is right and never robust, a robust classifier exists but is huge."""

from __future__ import annotations

from featavg.paper.connections.cost_of_robustness import expressivity
from featavg.paper.engine.claim import Check, Context, Evidence, claim


@claim(
    "connections-expressivity",
    "A line with perfect clean and zero robust accuracy, where robustness costs exponentially",
    theme="Connections",
    source="Talks, 'Connection to lower bound examples'; Li et al. 2022",
    measured="the fewest random ReLU neurons whose head (a linear program) reproduces arbitrary "
    "labels on the 2<sup>d−1</sup> vertices, d = 4 to 8, as every classifier robust at ε must; "
    "exact radii of networks trained on 20 points of each of 4, 8 and 12 clusters. That the "
    "line is right and not robust is so by construction and is shown as a note",
    minutes=0.05,
    statements=("itcs-expressivity", "csml-expressivity"),
)
def capacity(settings: Context) -> Evidence:
    """There is a task on which a linear classifier is right everywhere and robust nowhere, and a
    robust classifier exists, but only in families whose size is exponential in the dimension;
    feature averaging, in contrast, happens with polynomially many samples.
    """
    result = expressivity(seeds=settings.seeds, progress=settings.progress)
    low, high = float(result.exponents.min()), float(result.exponents.max())
    checks = (
        Check(
            "neurons ~ vertices<sup>a</sup>: smallest a",
            low,
            "within",
            (0.8, 1.2),
            note="1: as many as a share of all 2<sup>d−1</sup> vertices",
        ),
        Check("neurons ~ vertices<sup>a</sup>: largest a", high, "within", (0.8, 1.2)),
        Check(
            "few points of k clusters, coarse labels: largest radius over √(d/k)",
            float(result.coarse.max()),
            "<=",
            1.3,
            note="averaging needs no exponential sample",
        ),
        Check(
            "few points of k clusters, fine labels: smallest radius over √(d/2)",
            float(result.fine.min()),
            ">=",
            0.8,
            note="nor does robustness",
        ),
        Check(
            "line: smallest clean accuracy (by construction)",
            float(result.clean.min()),
            ">=",
            1.0,
            role="note",
        ),
        Check(
            f"line: largest robust accuracy at ε = {result.eps:g} (by construction)",
            float(result.robust.max()),
            "<=",
            0.0,
            role="note",
        ),
        Check(
            "nearest vertex: smallest radius (by construction)",
            float(result.vertex_radius.min()),
            ">=",
            0.5,
            role="note",
        ),
        Check(
            "exact radius of the line minus the gap",
            abs(result.line_radius - result.gap),
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
