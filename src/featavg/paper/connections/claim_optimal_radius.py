"""Min and Vidal (2025): the largest radius that any classifier can have, and who comes close."""

from __future__ import annotations

import math

from featavg.paper.connections.bayes_radius import CLASSIFIER_ROLES, OptimalRadius, optimal_radius
from featavg.paper.connections.min_vidal import attacked, power_relu_run
from featavg.paper.engine.claim import Check, Context, Evidence, claim
from featavg.progress import part

COARSE, FINE = "trained, coarse labels", "trained, fine labels"
# Their Figure 2: 12 and 8 clusters in R^2000, 200 neurons. The noise of Figures 5 and 6: its own is
# not printed.
PRINTED = {"k": 20, "positive": 12, "d": 2000}
PRINTED_NOISE, PRINTED_WIDTH = 0.1, 200


@claim(
    "connections-optimal-radius",
    "No classifier is robust beyond √(d/2); fine labels and the Bayes rule come close",
    theme="Connections",
    source="Min and Vidal 2025, Propositions 1 and 2",
    measured="exact radii of f<sub>FA</sub>, f<sub>FD</sub>, the network with biases and trained "
    "networks, and certified radii of the Bayes rule, on points of all clusters that share their "
    "noise; k = 10, d = 3072, and the printed 12 + 8 clusters in R<sup>2000</sup> with 200 relu³ "
    "neurons (noise 0.1, not printed)",
    minutes=0.2,
)
def limit_claim(settings: Context) -> Evidence:
    """At radius √(d/2) every classifier has robust error of at least
    min(K<sub>1</sub>,K<sub>2</sub>)/K; the Bayes rule is robust at (√2−ν)/2 √d with probability
    at least 1 − 2K exp(−dν²/(64σ²)). (Beyond the documents; fine labels are held against it.)
    """
    seeds = settings.seeds[:3]
    ours = optimal_radius(seeds=seeds, progress=part(settings.progress, 0.0, 0.4))
    printed = optimal_radius(
        **PRINTED, sigma=PRINTED_NOISE, seeds=seeds[:1], progress=part(settings.progress, 0.4, 0.8)
    )
    cubic = power_relu_run(
        3.0,
        PRINTED_NOISE,
        seeds[0],
        **PRINTED,
        width=PRINTED_WIDTH,
        progress=part(settings.progress, 0.8, 1.0),
    )
    prelu = attacked(cubic) / math.sqrt(0.5)
    checks = (
        *_propositions(ours, "5 + 5 clusters"),
        Check(
            "trained, fine labels: median radius over √(d/2)",
            ours.median(FINE),
            ">=",
            0.9,
            note="close to the limit",
        ),
        Check(
            "trained, coarse labels: median radius over √(d/2)",
            ours.median(COARSE),
            "<=",
            0.6,
            role="note",
            note="√(2/k) = 0.447 for averages",
        ),
        *_propositions(printed, "12 + 8 clusters"),
        Check(
            "12 + 8 clusters, relu³ trained: median attacked radius over √(d/2)",
            prelu,
            ">=",
            0.9,
            note="published: about the limit",
        ),
        Check(
            "12 + 8 clusters, coarse labels: median radius over √(d/2)",
            printed.median(COARSE),
            "<=",
            0.6,
            note="published: ReLU fails",
        ),
    )
    finding = (
        f"{ours.summary()} With 12 + 8 clusters in R<sup>2000</sup> and noise {PRINTED_NOISE:g}: "
        f"coarse labels {printed.median(COARSE):.3f}, fine labels {printed.median(FINE):.3f}, relu³ "
        f"{prelu:.3f} (attacked), Bayes rule {printed.median('Bayes rule'):.3f}."
    )
    numbers = ours.to_json() | {"printed": printed.to_json() | {"relu3_attacked": prelu}}
    return Evidence(
        *checks,
        finding=finding,
        numbers=numbers,
        figure=ours.figure(),
        seeds=seeds,
    )


def _propositions(result: OptimalRadius, clusters: str) -> tuple[Check, Check]:
    best = max(result.robust_accuracy(name) for name in CLASSIFIER_ROLES)
    return (
        Check(
            f"{clusters}: largest robust accuracy of any classifier at √(d/2)",
            best,
            "<=",
            result.limit,
            note="Proposition 1; on points that share their noise no classifier can pass it, "
            "so that this tests the radii",
        ),
        Check(
            f"{clusters}, Bayes rule: smallest share of robust points minus its bound, over all ν",
            result.bayes_excess(),
            ">=",
            0.0,
            note="Proposition 2",
        ),
    )
