"""Running one claim: whatever happens, it ends in a `ClaimResult` with a verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from functools import cache
from importlib.util import find_spec
from time import perf_counter
from typing import Any

import featavg
from featavg.errors import InputError
from featavg.figures.figure import Figure
from featavg.paper.engine.claim import Check, Claim, Context, Evidence, Headline, NotRun, Verdict
from featavg.progress import duration
from featavg.storage.cache import counting_saved
from featavg.storage.files import strict_json
from featavg.storage.places import install_command, typed
from featavg.storage.provenance import commit

# Needs that are Python packages; other needs are data, and the claim itself says what is missing.
PACKAGES = ("torch", "foolbox", "onnx")
# What a result takes over from its claim.
TEXTS = ("title", "theme", "statement", "source", "statements")
# Fewer independent trainings than this decide nothing.
LEAST_RUNS = 3


@dataclass(frozen=True)
class ClaimResult:
    """A claim's texts, its verdict, the evidence or the reason, and all it takes to repeat it.

    `seeds` are those that the program really ran, `seconds` what the work really took, whenever
    that was, and `commit` is the package's. `error` marks a program that broke, which `reproduce`
    ends with exit code 1; `recorded` marks a result that was made earlier and ships with the
    package.
    """

    id: str
    title: str
    theme: str
    statement: str
    source: str
    measured: str
    tier: str
    verdict: Verdict
    evidence: Evidence | None
    reason: str
    seconds: float
    seeds: tuple[int, ...]
    version: str
    when: str
    command: str
    recorded: bool = False
    error: bool = False
    commit: str = ""
    statements: tuple[str, ...] = ()
    runs: int = 0

    def to_json(self) -> dict[str, Any]:
        """A dictionary of strictly valid JSON: NaN and infinities become strings."""
        described = {name: value for name, value in vars(self).items() if name != "evidence"}
        evidence = None
        if self.evidence is not None:
            evidence = {
                "finding": self.evidence.finding,
                "checks": [
                    asdict(each) | {"essential": each.essential, "passed": each.passed, "status": each.status.value}
                    for each in self.evidence.checks
                ],
                "numbers": self.evidence.numbers,
                "headlines": [asdict(headline) for headline in self.evidence.headlines],
                "figures": [figure.to_json() for figure in self.evidence.figures],
            }
        plain = strict_json(described | {"verdict": self.verdict.value, "evidence": evidence})
        assert isinstance(plain, dict)
        return plain

    @classmethod
    def from_json(cls, described: Mapping[str, Any]) -> ClaimResult:
        """The inverse of `to_json`, with an error that names the trouble."""
        try:
            given = dict(described)
            given["verdict"] = Verdict(given["verdict"])
            given["seeds"] = tuple(given["seeds"])
            given["statements"] = tuple(given.get("statements", ()))
            if given["evidence"] is not None:
                found = given["evidence"]
                given["evidence"] = Evidence(
                    *map(Check.from_json, found["checks"]),
                    figures=map(Figure.from_json, found["figures"]),
                    numbers=found["numbers"],
                    finding=found["finding"],
                    headlines=(Headline(**headline) for headline in found["headlines"]),
                )
                # A verdict is the rule applied to the checks, also to checks of long ago.
                given["verdict"] = given["evidence"].verdict
            given.setdefault("runs", len(given["seeds"]))
            return settled(cls(**given))
        except (KeyError, TypeError, ValueError) as error:
            remedy = "delete the file or record the claim again"
            raise InputError("outcome", f"cannot be read ({error!r})", remedy) from error


def settled(result: ClaimResult) -> ClaimResult:
    """The result, undecided if it rests on one or two trainings: one run is no verdict."""
    if result.evidence is None or not 0 < result.runs < LEAST_RUNS:
        return result
    runs = "one run" if result.runs == 1 else "two runs"
    by_checks = result.evidence.verdict.value
    reason = f'It rests on {runs}, and a verdict takes three; by its checks alone: "{by_checks}".'
    return replace(result, verdict=Verdict.UNDECIDED, reason=reason)


def judge(claim: Claim, settings: Context, **values: Any) -> ClaimResult:
    """Run `claim`. An error in its program is caught and shown; the other claims still run."""
    started = perf_counter()
    missing = [need for need in claim.needs if need in PACKAGES and not find_spec(need)]
    if missing:
        remedy = install_command(missing[0])
        return not_run(claim, settings, f"It needs {' and '.join(missing)}: {remedy}.")
    used = replace(settings, seeds=claim.seeds_used(settings.seeds))
    saved: list[float] = []
    try:
        with counting_saved() as saved:
            evidence = claim.run(used, **values)
    except NotRun as missing_here:
        outcome = not_run(claim, settings, str(missing_here))
    except Exception as error:  # one broken claim must not hide the others
        told = f"Its program stopped: {type(error).__name__}: {error}"
        outcome = replace(not_run(claim, settings, told), error=True)
    else:
        outcome = _outcome(claim, settings, evidence.verdict, evidence, "")
        seeds = used.seeds if evidence.seeds is None else evidence.seeds
        runs = len(seeds) if claim.runs is None else claim.runs
        outcome = settled(replace(outcome, seeds=seeds, runs=runs))
        if evidence.seconds is not None:
            return replace(outcome, seconds=evidence.seconds)
    # Parts that an earlier run had finished cost what they cost then.
    return replace(outcome, seconds=perf_counter() - started + sum(saved))


def not_run(claim: Claim, settings: Context, reason: str) -> ClaimResult:
    """The outcome of a claim that is left out, with the reason."""
    return _outcome(claim, settings, Verdict.NOT_RUN, None, reason)


def too_long(claim: Claim, settings: Context) -> ClaimResult:
    """The outcome of a full-tier claim in a quick run."""
    command = command_for(claim, replace(settings, full=True))
    time = duration(float(claim.minutes) * 60)
    reason = f"It belongs to the full tier and takes about {time}: run `{typed(command)}`."
    return not_run(claim, settings, reason)


def command_for(claim: Claim, settings: Context) -> str:
    """The exact command that repeats the claim.

    Only a number of seeds can be given on the command line, counted from 0.
    """
    full = " --full" if settings.full or claim.tier == "full" else ""
    seeds = f" --seeds {len(settings.seeds)}" if len(settings.seeds) != 5 else ""
    return f"featavg reproduce --only {claim.id}{full}{seeds}"


@cache
def _commit() -> str:
    """Asked once: a run of many claims would start git for each."""
    return commit()


def _outcome(claim: Claim, settings: Context, verdict: Verdict, evidence: Evidence | None, reason: str) -> ClaimResult:
    return ClaimResult(
        **{name: getattr(claim, name) for name in ("id", *TEXTS, "measured", "tier")},
        verdict=verdict,
        evidence=evidence,
        reason=reason,
        seconds=0.0,
        seeds=settings.seeds,
        version=featavg.__version__,
        when=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        command=command_for(claim, settings),
        commit=_commit(),
    )
