"""Implicit biases that the talks name beside averaging: an early linear phase, and low rank."""

from __future__ import annotations

import numpy as np

from featavg.paper.connections.implicit_biases import implicit_bias
from featavg.paper.engine.claim import Check, Context, Evidence, claim


@claim(
    "implicit-bias-early",
    "Early training is like a linear model, and coarse labels end in two directions",
    theme="Connections",
    source="Talks, 'Various implicit bias of gradient algorithms'",
    measured="the correlation of f on fresh points with the linear function that gradient descent "
    "finds first, and the effective rank of the weights, at every step of the paper's setting",
    minutes=0.05,
    statements=("itcs-other-biases", "csml-other-biases"),
)
def early_claim(settings: Context) -> Evidence:
    """Gradient descent begins like a linear model and tends to weights of low rank. (Low frequency,
    sharpness and grokking, also named there, are outside this package.)
    """
    result = implicit_bias(seeds=settings.seeds, progress=settings.progress)
    checks = (
        Check(
            "coarse labels: smallest correlation with a linear function early on",
            result.early,
            ">=",
            0.9,
        ),
        Check(
            "coarse labels: effective rank at the end",
            result.coarse_rank[:, -1].tolist(),
            "<=",
            2.5,
            note="one direction per class is 2",
        ),
        Check(
            "fine labels: effective rank at the end over k",
            (result.fine_rank[:, -1] / result.k).tolist(),
            ">=",
            0.8,
        ),
        Check(
            "coarse labels: effective rank at the start",
            float(np.mean(result.coarse_rank[:, 0])),
            ">=",
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
