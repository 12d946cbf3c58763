"""Recorded results say what was really run: which claim, seeds, time, version and commit."""

import re
import subprocess
from pathlib import Path

import pytest

from featavg.paper.engine.claim import Verdict
from featavg.paper.engine.registry import all_claims
from featavg.paper.engine.result import LEAST_RUNS
from featavg.paper.engine.store import RESULTS, recorded_result

FULL = {claim.id for claim in all_claims() if claim.tier == "full"}
IDS = sorted(path.stem for path in RESULTS.glob("*.json"))
# A session's work that landed as one commit: what these records call their commit is not in the history,
# and its content is in the commit beside it.
LANDED_AS = {"774cc53fce": "4d196278"}


@pytest.mark.parametrize("name", IDS)
def test_a_record_has_all_that_it_takes_to_repeat_it(name):
    record = recorded_result(name)
    assert record is not None
    assert record.id == name
    assert name in FULL
    assert record.evidence is not None
    few = 0 < record.runs < LEAST_RUNS
    assert record.verdict is (Verdict.UNDECIDED if few else record.evidence.verdict)
    assert ("It rests on" in record.reason) == few
    assert len(record.seeds) >= max(1, *(len(check.values) for check in record.evidence.checks))
    assert record.seconds > 0
    assert record.version
    assert f"--only {name}" in record.command
    assert re.fullmatch(r"[0-9a-f]{10}", record.commit), record.commit


def test_every_record_has_a_claim():
    assert set(IDS) <= FULL


def _git(*arguments):
    command = ["git", "-C", str(Path(__file__).parent), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_commit_of_a_record_is_in_the_history():
    if _git("rev-parse", "--is-shallow-repository").stdout.strip() != "false":
        pytest.skip("needs the whole history")
    for name in IDS:
        commit = recorded_result(name).commit
        commit = LANDED_AS.get(commit, commit)
        assert _git("merge-base", "--is-ancestor", commit, "HEAD").returncode == 0, (name, commit)
