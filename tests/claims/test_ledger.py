"""Checks, the mechanical rule of verdicts, and outcomes."""

import itertools
import json
import math
from dataclasses import asdict, replace

import numpy as np
import pytest
from scipy import stats
from tests.claims.synthetic import BROKEN, CLAIMS, claim

from featavg.errors import InputError
from featavg.paper.engine import result as outcomes
from featavg.paper.engine.claim import Check, Claim, Context, Evidence, Verdict
from featavg.paper.engine.result import ClaimResult, command_for, judge
from featavg.storage.places import install_command
from featavg.storage.provenance import commit

NAN, INF = math.nan, math.inf
GOOD, BAD = Check("good", 0, "<=", 1), Check("bad", 2, "<=", 1)
BY_GOOD = Check("good", 0, "<=", 1, role="note")
BY_BAD = Check("bad", 2, "<=", 1, role="note")


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
    ("relation", "bound"), [("<=", (0, 1)), ("within", 1), ("<=", NAN), ("within", (1, 0)), ("within", (NAN, 1))]
)
def test_impossible_bounds_are_refused(relation, bound):
    with pytest.raises(InputError, match="bound"):
        Check("c", 0, relation, bound)


OPEN = Check("open", [0.5, 1.5], "<=", 1)
MAIN_BAD = Check("bad", 2, "<=", 1, role="main")


@pytest.mark.parametrize(
    ("checks", "verdict", "decided"),
    [
        ([GOOD], "holds", 0),
        ([GOOD, BY_GOOD], "holds", 0),
        ([GOOD, BY_BAD], "holds", 0),
        ([BY_BAD, GOOD], "holds", 1),
        ([GOOD, BAD], "holds in part", 1),
        ([GOOD, GOOD, BAD, BY_BAD], "holds in part", 2),
        ([GOOD, OPEN, BAD], "holds in part", 2),
        ([GOOD, OPEN], "undecided", 1),
        ([OPEN, GOOD], "undecided", 0),
        ([OPEN, BAD], "undecided", 0),
        ([BAD], "fails", 0),
        ([BAD, GOOD, GOOD, GOOD], "fails", 0),
        ([GOOD, MAIN_BAD], "fails", 1),
        ([BAD, OPEN], "fails", 0),
        ([BAD, BY_GOOD], "fails", 0),
        ([BAD, BY_BAD], "fails", 0),
    ],
)
def test_the_rule_of_verdicts(checks, verdict, decided):
    evidence = Evidence(*tuple(checks))
    assert evidence.verdict is Verdict(verdict)
    assert evidence.key_check is evidence.checks[decided]
    assert Verdict(verdict).sentence


def outcome_by_hand(statuses):
    """The slow twin: a verdict stands if every way to settle the undecided checks leads to it."""
    ways = [("passed", "failed") if s == "undecided" else (s,) for s in statuses]

    def settled(main, *others):
        if main == "failed":
            return Verdict.FAILS
        return Verdict.IN_PART if "failed" in others else Verdict.HOLDS

    reached = {settled(*way) for way in itertools.product(*ways)}
    return reached.pop() if len(reached) == 1 else Verdict.UNDECIDED


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_verdict_is_what_every_way_to_settle_the_undecided_leads_to(count):
    made = {"passed": GOOD, "failed": BAD, "undecided": OPEN}
    for statuses in itertools.product(made, repeat=count):
        evidence = Evidence(*tuple(made[status] for status in statuses))
        assert evidence.verdict is outcome_by_hand(statuses), statuses


def test_notes_never_change_a_verdict():
    for essential in itertools.product((GOOD, BAD, OPEN), repeat=2):
        alone = Evidence(*essential).verdict
        for note in (GOOD, BAD, OPEN):
            noted = Check(note.name, note.values or note.measured, note.relation, note.bound, role="note")
            assert Evidence(noted, *essential, noted).verdict is alone


@pytest.mark.parametrize(
    ("values", "status"),
    [
        ([0.9], "within"),
        ([1.1], "outside"),
        ([0.5, 0.6], "within"),
        ([0.8, 1.1], "undecided"),
        ([1.4, 1.5], "outside"),
        ([0.5, NAN], "outside"),
        ([NAN, 0.5], "outside"),
        ([0.5, -INF], "within"),
        ([0.5, INF], "undecided"),
        ([INF, INF], "outside"),
    ],
)
def test_seeds_are_judged_by_mean_and_deviation(values, status):
    assert Check("c", values, "<=", 1).status.value == status


@pytest.mark.parametrize(("mean", "status"), [(0.2, "within"), (1.0, "undecided"), (1.8, "outside")])
def test_repeating_the_same_seeds_does_not_change_a_check(mean, status):
    spread = 0.3 * np.array([-1.0, 1.0])
    # Population deviation 0.3; the sample's is larger for two seeds than for twenty.
    for copies in (1, 2, 10):
        check = Check("c", list(np.tile(mean + spread, copies)), "<=", 1)
        assert check.status.value == status
        assert check.span == pytest.approx(
            (mean - np.tile(spread, copies).std(ddof=1), mean + np.tile(spread, copies).std(ddof=1))
        )


def test_more_seeds_narrow_the_interval_of_a_mean():
    """Student's interval: at the bound by seeds, and decided by the mean of twenty of them."""
    rng = np.random.default_rng(0)
    values = 0.9 + 0.2 * rng.standard_normal(20)
    low, high = stats.t.interval(0.95, 19, values.mean(), stats.sem(values))
    check = Check("c", values, "<=", 1.0, of="mean")
    assert check.span == pytest.approx((low, high))
    assert check.passed
    assert Check("c", values, "<=", 1.0).status.value == "undecided"
    assert Check.from_json(json.loads(json.dumps(asdict(check) | {"essential": True}))) == check
    assert Check("c", [0.5], "<=", 1, of="mean").span == (0.5, 0.5)
    with pytest.raises(InputError, match="of"):
        Check("c", values, "<=", 1, of="median")


def test_an_interval_can_be_given():
    bracket = Check("radius", None, ">=", 1, interval=(1.1, 1.3))
    assert bracket.passed
    assert bracket.measured == pytest.approx(1.2)
    assert Check("radius", 1.2, ">=", 1, interval=(0.9, 1.3)).status.value == "undecided"
    with pytest.raises(InputError, match="interval"):
        Check("radius", 1.2, ">=", 1, interval=(1.3, 0.9))


def test_there_is_one_main_check():
    assert [check.role for check in Evidence(BY_BAD, GOOD, BAD).checks] == ["note", "main", "essential"]
    with pytest.raises(InputError, match="main"):
        Evidence(MAIN_BAD, MAIN_BAD)


def test_the_seeds_that_were_really_run_are_told():
    def run(settings):
        return Evidence(Check("c", [float(seed) for seed in settings.seeds], ">=", 0))

    def fixed(settings):
        return Evidence(GOOD, seeds=(7,), seconds=3600.0)

    assert judge(replace(claim("some", run), seeds=2), Context()).seeds == (0, 1)
    own = judge(claim("own", fixed), Context())
    assert (own.seeds, own.seconds) == ((7,), 3600.0)
    assert own.commit == commit()


def test_results_of_the_old_rule_get_the_new_verdict():
    old = judge(CLAIMS[0], Context()).to_json() | {"verdict": "holds in part"}
    for name in ("commit", "statements"):
        del old[name]
    for check in old["evidence"]["checks"]:
        for name in ("role", "values", "interval", "status"):
            del check[name]
    assert ClaimResult.from_json(old).verdict is Verdict.HOLDS


def test_evidence_needs_something_essential():
    with pytest.raises(InputError, match="essential"):
        Evidence(BY_GOOD)


@pytest.mark.parametrize("bad", [{"id": "Bad Id"}, {"id": "a--b"}, {"minutes": 0}, {"statements": ("A 1",)}])
def test_claims_are_checked(bad):
    with pytest.raises(InputError):
        Claim(**{**vars(CLAIMS[0]), **bad})


VERDICTS = ["holds", "holds in part", "fails", "not run", "holds"]


@pytest.mark.parametrize(("one", "verdict"), [*zip(CLAIMS, VERDICTS, strict=True)], ids=lambda v: getattr(v, "id", v))
def test_outcomes_and_their_json(one, verdict):
    outcome = judge(one, Context(seeds=(0, 1)))
    assert outcome.verdict is Verdict(verdict)
    assert not outcome.error
    text = json.dumps(outcome.to_json(), allow_nan=False)
    again = ClaimResult.from_json(json.loads(text))
    assert json.dumps(again.to_json(), allow_nan=False) == text
    assert again.verdict is outcome.verdict
    if again.evidence is not None:
        assert again.evidence.verdict is outcome.verdict


def test_a_broken_program_is_an_outcome_that_says_so():
    outcome = judge(BROKEN, Context())
    assert outcome.verdict is Verdict.NOT_RUN
    assert outcome.error
    assert outcome.reason == "Its program stopped: ZeroDivisionError: a <program> broke"


def test_a_missing_package_is_named_before_anything_runs(monkeypatch):
    monkeypatch.setattr(outcomes, "find_spec", lambda name: None)
    one = claim("needs-torch", pytest.fail, needs=("torch",))
    assert judge(one, Context()).reason == f"It needs torch: {install_command('torch')}."


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
    settings = Context(seeds=tuple(range(seeds)), full=full)
    assert command_for(claim("a", pytest.fail, tier=tier), settings) == command


@pytest.mark.parametrize("broken", [{}, {"verdict": "maybe"}, {"verdict": "holds", "seeds": []}])
def test_damaged_outcomes_are_refused(broken):
    with pytest.raises(InputError, match="outcome cannot be read"):
        ClaimResult.from_json(broken)


@pytest.mark.parametrize(
    ("seeds", "runs", "verdict"),
    [(1, None, "undecided"), (2, None, "undecided"), (3, None, "holds"), (1, 0, "holds"), (1, 60, "holds")],
)
def test_one_run_is_no_verdict(seeds, runs, verdict):
    """Two networks do not decide, whatever their checks say, unless nothing in the claim is trained."""

    def run(settings):
        return Evidence(Check("c", [1.0 for _ in settings.seeds], ">=", 0))

    made = replace(claim("few", run), runs=runs)
    result = judge(made, Context(seeds=tuple(range(seeds))))
    assert result.verdict.value == verdict
    assert ("It rests on" in result.reason) == (verdict == "undecided")
    again = ClaimResult.from_json(result.to_json())
    assert (again.verdict, again.reason) == (result.verdict, result.reason)
