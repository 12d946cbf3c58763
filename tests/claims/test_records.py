"""Recorded results say what was really run: which claim, seeds, time, version and commit."""

import re

import pytest

from featavg.claims.ledger import Verdict
from featavg.claims.registry import all_claims
from featavg.claims.store import RESULTS, recorded_result

FULL = {claim.id for claim in all_claims() if claim.tier == "full"}
IDS = sorted(path.stem for path in RESULTS.glob("*.json"))
# Recorded while other files of the work tree had changes; to be recorded again when they are next run.
MARKED = {"figure-2-cifar10", "figure-2-cifar10-radii", "theorem-1-scale"}


@pytest.mark.parametrize("name", IDS)
def test_a_record_has_all_that_it_takes_to_repeat_it(name):
    record = recorded_result(name)
    assert record is not None
    assert record.id == name
    assert name in FULL
    assert record.evidence is not None
    assert record.verdict is record.evidence.verdict is not Verdict.NOT_RUN
    assert record.seeds
    assert record.seconds > 0
    assert record.version
    assert f"--only {name}" in record.command
    mark = "( with uncommitted changes)?" if name in MARKED else ""
    assert re.fullmatch(r"[0-9a-f]{10}" + mark, record.commit), record.commit


def test_every_record_has_a_claim():
    assert set(IDS) <= FULL
    assert set(IDS) >= MARKED
