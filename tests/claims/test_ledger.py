"""Checks, the mechanical rule of verdicts, and outcomes."""

import json
import math

import pytest
from tests.claims.synthetic import BROKEN, CLAIMS, claim

from featavg.claims import result as outcomes
from featavg.claims.ledger import Check, Claim, ClaimSettings, Evidence, NotRun, Verdict
from featavg.claims.result import ClaimResult, command_for, judge
from featavg.errors import InputError

NAN, INF = math.nan, math.inf
GOOD, BAD = Check("good", 0, "<=", 1), Check("bad", 2, "<=", 1)
BY_GOOD = Check("good", 0, "<=", 1, essential=False)
BY_BAD = Check("bad", 2, "<=", 1, essential=False)


@pytest.mark.parametrize(
    ("measured", "relation", "bound", "passed"),
    [
        (1, "<=", 1, True),
        (1.0000001, "<=", 1, False),
        (1, ">=", 1, True),
        (0.5, "within", (0, 1), True),
        (1, "within", (0, 1), True),
        (1.5, "within", (0, 1), False),
        (NAN, "<=", 1, False),
        (NAN, ">=", 1, False),
        (NAN, "within", (0, 1), False),
        (INF, ">=", 1, True),
        (-INF, "<=", 1, True),
        (INF, "<=", 1, False),
    ],
)
def test_checks(measured, relation, bound, passed):
    assert Check("c", measured, relation, bound).passed is passed


@pytest.mark.parametrize(
    ("relation", "bound"),
    [("<=", (0, 1)), ("within", 1), ("<=", NAN), ("within", (1, 0)), ("within", (NAN, 1))],
)
def test_impossible_bounds_are_refused(relation, bound):
    with pytest.raises(InputError, match="bound"):
        Check("c", 0, relation, bound)


@pytest.mark.parametrize(
    ("checks", "verdict"),
    [
        ([GOOD], "holds"),
        ([GOOD, BY_GOOD], "holds"),
        ([GOOD, BY_BAD], "holds in part"),
        ([GOOD, BAD], "holds in part"),
        ([BAD], "fails"),
        ([BAD, BY_GOOD], "fails"),
        ([BAD, BY_BAD], "fails"),
    ],
)
def test_the_rule_of_verdicts(checks, verdict):
    assert Evidence(tuple(checks)).verdict is Verdict(verdict)
    assert Verdict(verdict).sentence


def test_the_key_check_is_the_essential_failure():
    assert Evidence((GOOD, BY_BAD, BAD)).key_check is BAD
    assert Evidence((BY_BAD, GOOD)).key_check is GOOD


def test_evidence_needs_something_essential():
    with pytest.raises(InputError, match="essential"):
        Evidence((BY_GOOD,))


@pytest.mark.parametrize("bad", [{"id": "Bad Id"}, {"id": "a--b"}, {"minutes": 0}])
def test_claims_are_checked(bad):
    with pytest.raises(InputError):
        Claim(**{**vars(CLAIMS[0]), **bad})


VERDICTS = ["holds", "holds in part", "fails", "not run", "holds"]


@pytest.mark.parametrize(
    ("one", "verdict"), [*zip(CLAIMS, VERDICTS, strict=True)], ids=lambda v: getattr(v, "id", v)
)
def test_outcomes_and_their_json(one, verdict):
    outcome = judge(one, ClaimSettings(seeds=(0, 1)))
    assert outcome.verdict is Verdict(verdict)
    assert not outcome.error
    text = json.dumps(outcome.to_json(), allow_nan=False)
    again = ClaimResult.from_json(json.loads(text))
    assert json.dumps(again.to_json(), allow_nan=False) == text
    assert again.verdict is outcome.verdict
    if again.evidence is not None:
        assert again.evidence.verdict is outcome.verdict


def test_a_broken_program_is_an_outcome_that_says_so():
    outcome = judge(BROKEN, ClaimSettings())
    assert outcome.verdict is Verdict.NOT_RUN
    assert outcome.error
    assert outcome.reason == "Its program stopped: ZeroDivisionError: a <program> broke"


def test_a_missing_package_is_named_before_anything_runs(monkeypatch):
    monkeypatch.setitem(outcomes.PACKAGES, "torch", "no_such_package")
    one = claim("needs-torch", pytest.fail, needs=("torch",))
    assert judge(one, ClaimSettings()).reason == "It needs torch: pip install 'featavg[torch]'."


def test_not_run_keeps_its_reason():
    def run(settings):
        raise NotRun("No data here.")

    assert judge(claim("no-data", run), ClaimSettings()).reason == "No data here."


@pytest.mark.parametrize(
    ("tier", "full", "seeds", "command"),
    [
        ("quick", False, 5, "featavg reproduce --only a"),
        ("quick", False, 3, "featavg reproduce --only a --seeds 3"),
        ("quick", True, 5, "featavg reproduce --only a --full"),
        ("full", True, 1, "featavg reproduce --only a --full --seeds 1"),
    ],
)
def test_the_command_repeats_the_claim(tier, full, seeds, command):
    settings = ClaimSettings(seeds=tuple(range(seeds)), full=full)
    assert command_for(claim("a", pytest.fail, tier=tier), settings) == command


@pytest.mark.parametrize("broken", [{}, {"verdict": "maybe"}, {"verdict": "holds", "seeds": []}])
def test_damaged_outcomes_are_refused(broken):
    with pytest.raises(InputError, match="outcome cannot be read"):
        ClaimResult.from_json(broken)
