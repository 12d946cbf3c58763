"""The reproduction of the documents: every claim as a program, built on the library as a user would.

featavg.paper.all_claims()                          the claims
featavg.paper.run_claim("lemma-12-epsilon")         one claim, with parameters changed
featavg.paper.reproduce(only="theorem-1")           verdicts and a report
featavg.paper.stability("theorem-1")                verdicts of other blocks of seeds
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from featavg.paper.engine.check import Check as Check
    from featavg.paper.engine.claim import Claim as Claim
    from featavg.paper.engine.claim import Context as Context
    from featavg.paper.engine.claim import Evidence as Evidence
    from featavg.paper.engine.claim import claim as claim
    from featavg.paper.engine.registry import all_claims as all_claims
    from featavg.paper.engine.registry import all_statements as all_statements
    from featavg.paper.engine.run import run_claim as run_claim
    from featavg.paper.engine.stability import stability as stability
    from featavg.paper.report.reproduction import rebuild as rebuild
    from featavg.paper.report.reproduction import reproduce as reproduce

# Imported when they are first used: `featavg --help` needs none of them.
_HOMES = {
    "Check": "engine.check",
    "Claim": "engine.claim",
    "Context": "engine.claim",
    "Evidence": "engine.claim",
    "claim": "engine.claim",
    "all_claims": "engine.registry",
    "run_claim": "engine.run",
    "stability": "engine.stability",
    "all_statements": "engine.registry",
    "rebuild": "report.reproduction",
    "reproduce": "report.reproduction",
}
__all__ = list(_HOMES)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
