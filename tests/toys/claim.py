"""A claim that holds."""

from featavg.paper.engine.claim import Check, Claim, ClaimSettings, Evidence


def toy(settings: ClaimSettings) -> Evidence:
    """Two is more than one."""
    return Evidence(checks=(Check("two", 2.0, ">=", 1.0),), finding="Two is more than one.")


CLAIMS = (
    Claim(
        id="toy-claim",
        title="Two is more than one",
        theme="Toys",
        statement="2 > 1.",
        source="Peano",
        measured="two",
        run=toy,
    ),
)
