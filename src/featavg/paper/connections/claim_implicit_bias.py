"""Implicit biases that the talks name beside averaging: an early linear phase, and low rank."""

from __future__ import annotations

import numpy as np

from featavg.paper.connections.implicit_biases import implicit_bias
from featavg.paper.engine.claim import Check, Claim, ClaimSettings, Evidence


def early_claim(settings: ClaimSettings) -> Evidence:
    """Linearity early on, rank along the way."""
    result = implicit_bias(seeds=settings.seeds, progress=settings.progress)
    checks = (
        Check("coarse labels: smallest correlation with a linear function early on", relation=">=",
              bound=0.9, values=result.early),
        Check("coarse labels: effective rank at the end", relation="<=", bound=2.5,
              values=result.coarse_rank[:, -1].tolist(), note="one direction per class is 2"),
        Check("fine labels: effective rank at the end over k", relation=">=", bound=0.8,
              values=(result.fine_rank[:, -1] / result.k).tolist()),
        Check("coarse labels: effective rank at the start", float(np.mean(result.coarse_rank[:, 0])),
              ">=", 5.0, role="note"),
    )  # fmt: skip
    return Evidence(checks, (result.figure(),), result.to_json(), result.summary())


CLAIMS = (
    Claim(
        id="implicit-bias-early",
        title="Early training is like a linear model, and coarse labels end in two directions",
        theme="Connections",
        statement="Gradient descent begins like a linear model and tends to weights of low rank. "
        "(Low frequency, sharpness and grokking, also named there, are outside this package.)",
        source="Talks, 'Various implicit bias of gradient algorithms'",
        measured="the correlation of f on fresh points with the linear function that gradient descent "
        "finds first, and the effective rank of the weights, at every step of the paper's setting",
        statements=("itcs-other-biases", "csml-other-biases"),
        run=early_claim,
        minutes=0.05,
    ),
)
