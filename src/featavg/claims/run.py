"""Run claims one after the other: outcomes in, outcomes out, and what was finished is kept."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from featavg.claims import store, terminal
from featavg.claims.ledger import Claim, ClaimSettings, Verdict
from featavg.claims.result import ClaimResult, judge, too_long


def run_claims(
    chosen: Sequence[Claim],
    settings: ClaimSettings,
    folder: Path,
    earlier: dict[str, ClaimResult | None],
    resume: bool,
    quiet: bool,
) -> list[ClaimResult]:
    """The outcome of every claim of `chosen`, in that order.

    Args:
        chosen: the claims.
        settings: seeds, tier and data.
        folder: where finished outcomes are kept, so that a killed run can go on.
        earlier: the recorded outcomes of full-tier claims.
        resume: take over what an earlier run into `folder` has finished.
        quiet: print nothing.
    """
    outcomes: dict[str, ClaimResult] = {}
    waiting: list[Claim] = []
    taken_over = 0
    for claim in chosen:
        done = store.kept(folder, claim.id, settings.seeds, settings.full) if resume else None
        if done is not None:
            outcomes[claim.id] = done
            taken_over += 1
        elif claim.tier == "full" and not settings.full:
            outcomes[claim.id] = earlier[claim.id] or too_long(claim, settings)
        else:
            waiting.append(claim)
    if taken_over and not quiet:
        print(f"{taken_over} claims were finished by an earlier run and are taken over.")
    with terminal.Watch(waiting, quiet=quiet) as watch:
        for claim in waiting:
            watch.start(claim)
            outcome = judge(claim, replace(settings, progress=watch.update))
            store.keep(folder, outcome, settings.seeds, settings.full)
            watch.finish(outcome)
            logging.getLogger(__name__).info("%s: %s", claim.id, outcome.verdict.value)
            outcomes[claim.id] = _or_recorded(outcome, earlier.get(claim.id))
    return [outcomes[claim.id] for claim in chosen]


def _or_recorded(outcome: ClaimResult, earlier: ClaimResult | None) -> ClaimResult:
    """A claim that cannot be run here shows its recorded result, and says why it is an old one."""
    if outcome.verdict is Verdict.NOT_RUN and not outcome.error and earlier is not None:
        return replace(earlier, reason=f"Not run here: {outcome.reason}")
    return outcome
