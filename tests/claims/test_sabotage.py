"""Every claim can fail: a mutation of the simulated truth breaks a check that is essential to it."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest
from tests.claims.sabotage import Sabotage, forget_results

from featavg.paper.engine.check import CheckStatus
from featavg.paper.engine.claim import Context, Evidence, Verdict
from featavg.paper.engine.registry import MODULES, all_claims, claims_in, find_claims

# Better first. A claim that could not be run has no place here.
ORDER = (Verdict.HOLDS, Verdict.IN_PART, Verdict.UNDECIDED, Verdict.FAILS)
THEMES = sorted(path.stem for path in Path(__file__).parent.glob("sabotage_*.py"))
ROWS: tuple[Sabotage, ...] = tuple(row for theme in THEMES for row in import_module(f"tests.claims.{theme}").ROWS)


def run(row: Sabotage) -> dict[str, Evidence]:
    forget_results()
    return {claim.id: claim.run(Context(seeds=row.seeds), **row.given) for claim in find_claims(row.claims)}


def lost(better: Evidence, worse: Evidence) -> list[str]:
    """The essential checks that the one passes and the other fails."""
    pairs = zip(better.checks, worse.checks, strict=True)
    return [
        before.name
        for before, after in pairs
        if before.essential and before.passed and after.status is CheckStatus.FAILED
    ]


@pytest.mark.parametrize("row", ROWS, ids=repr)
def test_a_broken_truth_breaks_the_claim(row: Sabotage, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in row.needs:
        pytest.importorskip(package)
    row.small(monkeypatch)
    before = run(row)
    row.mutate(monkeypatch)
    after = run(row)
    forget_results()
    for name, honest in before.items():
        broken = after[name]
        assert row.found in ("", honest.verdict.value), [check.name for check in honest.checks if not check.passed]
        better, worse = (broken, honest) if row.improves else (honest, broken)
        verdicts = f"{name}: {honest.verdict.value} -> {broken.verdict.value}"
        assert ORDER.index(worse.verdict) > ORDER.index(better.verdict), verdicts
        assert lost(better, worse), [name, *(f"{c.name}: {c.measured}" for c in (*better.checks, *worse.checks))]


def test_every_claim_of_a_theme_with_a_table_has_a_row() -> None:
    covered = {name for row in ROWS for name in row.claims.split(", ")}
    assert covered <= {claim.id for claim in all_claims()}
    folders = {theme.removeprefix("sabotage_") for theme in THEMES}
    assert folders >= {"paper", "margins", "connections", "images", "questions"}
    folders |= {"theorems", "figures", "remedies"}
    for module in MODULES:
        if module.split(".")[0] in folders:
            for claim in claims_in(f"featavg.paper.{module}"):
                assert claim.id in covered, claim.id
