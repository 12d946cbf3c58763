"""Min and Vidal (2025): the largest radius that any classifier can have, and who comes close."""

from __future__ import annotations

from featavg.claims.ledger import Check, Claim, ClaimSettings, Evidence
from featavg.experiments.connections import CLASSIFIER_ROLES, optimal_radius


def limit_claim(settings: ClaimSettings) -> Evidence:
    """Propositions 1 and 2, and our networks against the limit."""
    result = optimal_radius(seeds=settings.seeds[:3], progress=settings.progress)
    best = max(result.robust_accuracy(name) for name in CLASSIFIER_ROLES)
    checks = (
        Check("largest robust accuracy of any classifier at √(d/2)", best, "<=", result.limit,
              note="Proposition 1, exact on paired points"),
        Check("Bayes rule: smallest share of robust points minus its bound, over all ν",
              result.bayes_excess(), ">=", 0.0, note="Proposition 2"),
        Check("trained, fine labels: median radius over √(d/2)",
              result.median("trained, fine labels"), ">=", 0.9, note="close to the limit"),
        Check("trained, coarse labels: median radius over √(d/2)",
              result.median("trained, coarse labels"), "<=", 0.6, role="note",
              note="√(2/k) = 0.447 for averages"),
    )  # fmt: skip
    return Evidence(checks, (result.figure(),), result.to_json(), result.summary(),
                    seeds=settings.seeds[:3])  # fmt: skip


CLAIMS = (
    Claim(
        id="connections-optimal-radius",
        title="No classifier is robust beyond √(d/2); fine labels and the Bayes rule come close",
        theme="Connections",
        statement="At radius √(d/2) every classifier has robust error of at least "
        "min(K<sub>1</sub>,K<sub>2</sub>)/K; the Bayes rule is robust at (√2−ν)/2 √d with probability "
        "at least 1 − 2K exp(−dν²/(64σ²)). (Beyond the documents; fine labels are held against it.)",
        source="Min and Vidal 2025, Propositions 1 and 2",
        measured="exact radii of f<sub>FA</sub>, f<sub>FD</sub>, the network with biases and trained "
        "networks, and certified radii of the Bayes rule, on pairs of points that share their noise; "
        "k = 10, d = 3072",
        run=limit_claim,
        minutes=0.1,
    ),
)
