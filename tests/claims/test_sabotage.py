"""Every claim can fail: under a mutation of the simulated truth it no longer holds."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path

import pytest
from tests.claims.sabotage import Sabotage, forget_results

from featavg.claims.ledger import ClaimSettings, Verdict
from featavg.claims.registry import MODULES, all_claims, find_claims

# Better first. A claim that could not be run has no place here.
ORDER = (Verdict.HOLDS, Verdict.IN_PART, Verdict.UNDECIDED, Verdict.FAILS)
THEMES = sorted(path.stem for path in Path(__file__).parent.glob("sabotage_*.py"))
ROWS: tuple[Sabotage, ...] = tuple(
    row for theme in THEMES for row in import_module(f"tests.claims.{theme}").ROWS
)


def verdict(row: Sabotage) -> Verdict:
    forget_results()
    (claim,) = [one for one in find_claims(row.claim) if one.id == row.claim]
    return claim.run(ClaimSettings(seeds=row.seeds)).verdict


@pytest.mark.skipif(
    "FEATAVG_SABOTAGE" not in os.environ,
    reason="the whole table takes about ten minutes: FEATAVG_SABOTAGE=1 runs it",
)
@pytest.mark.parametrize("row", ROWS, ids=repr)
def test_a_broken_truth_breaks_the_claim(row: Sabotage, monkeypatch: pytest.MonkeyPatch) -> None:
    row.small(monkeypatch)
    honest = verdict(row)
    row.mutate(monkeypatch)
    broken = verdict(row)
    forget_results()
    if row.improves:
        assert ORDER.index(broken) < ORDER.index(honest)
    else:
        assert ORDER.index(broken) > ORDER.index(honest), f"{honest} -> {broken}"


def test_every_quick_claim_of_a_theme_with_a_table_has_a_row() -> None:
    covered = {row.claim for row in ROWS}
    known = {claim.id for claim in all_claims()}
    assert covered <= known
    folders = {theme.removeprefix("sabotage_") for theme in THEMES}
    for module in MODULES:
        if module.split(".")[0] in folders:
            for claim in import_module(f"featavg.claims.{module}").CLAIMS:
                assert claim.tier == "full" or claim.id in covered, claim.id
