"""Constant against loss-based learning rate on the network of the margin table: full tier."""

from __future__ import annotations

from featavg.claims.ledger import Check, Claim, ClaimSettings, Evidence
from featavg.claims.requirements import torch_needed


def rate_claim(settings: ClaimSettings) -> Evidence:
    """The loss after as many passes under both rules."""
    torch_needed()
    from featavg.experiments.margins import compare_rates

    result = compare_rates(seed=settings.seeds[0], progress=settings.progress)
    late = len(result.constant) // 2
    checks = (
        Check("powers of ten between the losses at the end", result.decades, ">=", 3.0),
        Check("constant rate: powers of ten in the second half of the passes",
              result.constant[late] - result.constant[-1], "<=", 1.0, note="very slow, like 1/t"),
        Check("normalized margin, loss-based over constant", result.margins[1] / result.margins[0],
              ">=", 1.0, role="note"),
    )  # fmt: skip
    return Evidence(checks, (result.figure(),), result.to_json(), result.summary(),
                    seeds=settings.seeds[:1])  # fmt: skip


CLAIMS = (
    Claim(
        id="margin-rate",
        title="A constant rate hardly lowers a tiny loss, a loss-based rate goes on",
        theme="Margins",
        statement="With a constant learning rate the gradient vanishes with the loss and training "
        "stands nearly still; dividing the rate by the loss lets the loss fall on.",
        source="Talks, experiments on the MNIST network (Lyu and Li 2020)",
        measured="the training loss after 150 passes that count under SGD with a constant rate of 0.1 "
        "and with the loss-based rule, the network of the margin table with 8 and 16 channels and "
        "64 hidden neurons on scikit-learn's 8 x 8 digits (published: MNIST)",
        statements=("itcs-loss-based-rate", "csml-loss-based-rate"),
        run=rate_claim,
        tier="full",
        minutes=1,
        needs=("torch",),
    ),
)
