"""What a claim is: a statement of the documents, as a program that ends in a verdict.

A claim belongs to a theme, a file such as `paper/lemmas.py` that `registry.MODULES` lists; that
file holds functions `ClaimSettings -> Evidence` and one tuple `CLAIMS`. A complete example:

>>> from featavg.figures.figure import Axis, Figure, Lines, Series
>>> def halves(settings: ClaimSettings) -> Evidence:
...     errors = []
...     for i, seed in enumerate(settings.seeds):
...         settings.progress(i / len(settings.seeds), f"seed {seed}")
...         errors.append(abs(0.5 - 1 / 2))
...     figure = Figure("error", "Error against d", "Both stay at zero.", (Lines(
...         Axis("d", log=True), Axis("error"),
...         (Series("averaged", [1e3, 1e6], [0.0, max(errors)], "averaged"),)),))
...     return Evidence(
...         checks=(Check("relative error", relation="<=", bound=1e-9, values=errors),
...                 Check("errors counted", 0, "within", (0, 3), role="note")),
...         figures=(figure,), numbers={"errors": errors},
...         finding="The halves agree to round-off on every seed.",
...         headlines=(Headline("0.5", "what a half is", "averaged"),))
>>> CLAIMS = (Claim(
...     id="lemma-0-halves", title="A half is a half", theme="Lemmas",
...     statement="1/2 equals 0.5.", source="Lecture notes, Lemma 0",
...     measured="the largest |1/2 - 0.5| over all seeds", run=halves, minutes=0.01),)
>>> CLAIMS[0].run(ClaimSettings(seeds=(0, 1))).verdict.value
'holds'

Tolerances are written before the claim is run for the first time, and stay. A claim that cannot
be run here (no torch, no data) raises `NotRun("what is missing and how to get it")`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from featavg.errors import InputError, one_of
from featavg.figures.figure import Figure
from featavg.figures.marks import ROLES, Number, Role
from featavg.paper.engine.check import Check, CheckStatus
from featavg.progress import Progress, silent

__all__ = ["Check", "Claim", "ClaimSettings", "Evidence", "Headline", "NotRun", "Verdict"]

# To a type checker at run time only a tuple: it would read an item to check it, and seeds that were
# read count as run (`result.SeedsRead`).
if TYPE_CHECKING:
    Seeds = tuple[int, ...]
else:
    Seeds = tuple


class Verdict(Enum):
    """How a claim came out. The rule is mechanical, so that nobody can tune it.

    The claim's own statement is its main check, and the other essential ones if it says several
    things; by-products are notes and change nothing.

    - every essential check passes: **holds**;
    - the main check passes and another essential one fails: **holds in part**;
    - the main check fails: **fails**;
    - a check straddles its tolerance, and the verdict depends on it: **undecided**;
    - the claim could not be run: **not run**, with the reason.
    """

    HOLDS = "holds"
    IN_PART = "holds in part"
    UNDECIDED = "undecided"
    FAILS = "fails"
    NOT_RUN = "not run"

    @property
    def sentence(self) -> str:
        """What the verdict means, for a reader."""
        return _SENTENCES[self]

    @property
    def symbol(self) -> str:
        """A sign that tells the verdicts apart without colour."""
        return _SYMBOLS[self]


_SENTENCES = {
    Verdict.HOLDS: "Every essential check is within its tolerance.",
    Verdict.IN_PART: "The main check is within its tolerance, another essential one is not.",
    Verdict.UNDECIDED: "A check has a part of its interval on each side of its tolerance.",
    Verdict.FAILS: "The main check is outside its tolerance.",
    Verdict.NOT_RUN: "The claim was not run; the reason is given.",
}
_SYMBOLS = dict(zip(Verdict, "✓◐?✗–", strict=True))


class NotRun(Exception):  # noqa: N818 (an outcome, not a fault)
    """Raised by a claim that cannot be run here, with the reason and the remedy in one sentence."""


@dataclass(frozen=True)
class Headline:
    """A number for the report's overview: how it is written, what it is, and whose it is."""

    value: str
    label: str
    role: Role

    def __post_init__(self) -> None:
        one_of("role", self.role, ROLES)


@dataclass(frozen=True)
class Evidence:
    """What a claim's program returns: checks, figures, numbers for machines, one finding.

    Args:
        checks: at least one essential; the first essential one becomes the main one if none is.
        figures: what to draw.
        numbers: everything worth keeping, for machines.
        finding: one sentence on what was found.
        headlines: numbers for the report's overview.
        seeds: the seeds that were really run, if the program did not take them from its settings
            (`judge` notes those that it did take).
        seconds: how long the work really took, if that is not how long this run took.

    >>> import featavg as fa
    >>> good, bad = fa.Check("a", 1.0, "<=", 2.0), fa.Check("b", 3.0, "<=", 2.0)
    >>> fa.Evidence((good, bad)).verdict
    <Verdict.IN_PART: 'holds in part'>
    >>> fa.Evidence((good, bad)).key_check.name
    'b'
    """

    checks: tuple[Check, ...]
    figures: tuple[Figure, ...] = ()
    numbers: Mapping[str, Any] = field(default_factory=dict)
    finding: str = ""
    headlines: tuple[Headline, ...] = ()
    seeds: tuple[int, ...] | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        for name in ("checks", "figures", "headlines"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        object.__setattr__(self, "checks", _with_main(self.checks))
        names = [figure.name for figure in self.figures]
        if len(set(names)) < len(names):
            raise InputError("figures", f"share a name ({', '.join(names)})", "make names differ")

    @property
    def main(self) -> Check:
        """The check that is the statement itself."""
        return next(check for check in self.checks if check.role == "main")

    @property
    def verdict(self) -> Verdict:
        """The mechanical rule of `Verdict`."""
        return _VERDICT_OF[self._deciding[0]]

    @property
    def key_check(self) -> Check:
        """The check that decided."""
        return self._deciding[1]

    @property
    def _deciding(self) -> tuple[tuple[CheckStatus, CheckStatus], Check]:
        """The status of the main check and the worst one of all essential checks, and whose it is.

        A main check that did not pass decides alone. Otherwise a failure decides before a check
        that straddles: whatever the latter would turn out to be, the claim no longer holds whole.
        """
        main, statuses = self.main, (CheckStatus.FAILED, CheckStatus.UNDECIDED)
        if main.passed:
            for status in statuses:
                for check in self.checks:
                    if check.essential and check.status is status:
                        return (main.status, status), check
        return (main.status, main.status), main


_VERDICT_OF = {
    (CheckStatus.PASSED, CheckStatus.PASSED): Verdict.HOLDS,
    (CheckStatus.PASSED, CheckStatus.FAILED): Verdict.IN_PART,
    (CheckStatus.PASSED, CheckStatus.UNDECIDED): Verdict.UNDECIDED,
    (CheckStatus.UNDECIDED, CheckStatus.UNDECIDED): Verdict.UNDECIDED,
    (CheckStatus.FAILED, CheckStatus.FAILED): Verdict.FAILS,
}


def _with_main(checks: tuple[Check, ...]) -> tuple[Check, ...]:
    """The checks with one main check among them: the first essential one, if none says so."""
    mains = [check.name for check in checks if check.role == "main"]
    if len(mains) > 1:
        raise InputError("checks", f"has {len(mains)} main ones", "make all but one essential")
    if mains:
        return checks
    first = next((i for i, check in enumerate(checks) if check.essential), None)
    if first is None:
        raise InputError("checks", "has nothing essential", "give at least one essential check")
    return (*checks[:first], replace(checks[first], role="main"), *checks[first + 1 :])


@dataclass(frozen=True)
class ClaimSettings:
    """What a claim is told: seeds, whether the full tier is asked for, data, and whom to tell.

    >>> import featavg as fa
    >>> fa.ClaimSettings(seeds=(0, 1)).full
    False
    """

    seeds: Seeds = (0, 1, 2, 3, 4)
    full: bool = False
    data_dir: Path | None = None
    progress: Progress = silent


@dataclass(frozen=True)
class Claim:
    """A statement in our words, where it comes from, what is measured, and the program.

    `tier` "full" is for claims of hours (their results are committed, see `store`); `minutes` is an
    estimate on two cores for five seeds; `needs` names packages such as "torch" and data sets such
    as "mnist"; `statements` are the ids of the numbered statements of the documents that it checks,
    such as "notes-theorem-1"; claims with the same `shares` look at the same runs, which are computed
    once because these claims are run in one process. Texts may use `<sub>`, `<sup>`, `<i>`, `<b>` and
    Unicode.

    >>> import featavg as fa
    >>> def run(settings):
    ...     return fa.Evidence((fa.Check("error", 1e-12, "<=", 1e-9),), finding="It is zero.")
    >>> claim = fa.Claim("toy", "A toy", "toys", "Zero is zero.", "nowhere", "the error", run)
    >>> claim.run(fa.ClaimSettings()).verdict
    <Verdict.HOLDS: 'holds'>
    """

    id: str
    title: str
    theme: str
    statement: str
    source: str
    measured: str
    run: Callable[[ClaimSettings], Evidence]
    tier: Literal["quick", "full"] = "quick"
    minutes: Number = 0.1
    needs: tuple[str, ...] = ()
    statements: tuple[str, ...] = ()
    shares: str = ""

    def __post_init__(self) -> None:
        one_of("tier", self.tier, ("quick", "full"))
        for argument, name in (("id", self.id), *(("statements", s) for s in self.statements)):
            if not re.fullmatch(r"[a-z0-9]+([-.][a-z0-9]+)*", name):
                remedy = "use small letters, digits and single hyphens"
                raise InputError(argument, f"is {name!r}", remedy)
        if not self.minutes > 0:
            raise InputError("minutes", f"is {self.minutes}", "estimate more than no time at all")
