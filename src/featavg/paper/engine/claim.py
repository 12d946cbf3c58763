"""What a claim is: a statement of the documents, as a program that ends in a verdict.

A claim is a function under `@claim` in a file of its theme, listed in `registry.MODULES`. The function
runs the experiment and returns its checks, figures and numbers; its docstring is the statement. Keyword
arguments with defaults can be changed by `featavg run ID --set NAME=VALUE`. A complete example:

>>> @claim("lemma-0-halves", "A half is a half", theme="Lemmas", source="Lecture notes, Lemma 0",
...        measured="the largest |1/2 - 0.5| over all seeds", minutes=0.01)
... def halves(run: Context, denominator: int = 2) -> Evidence:
...     '''1/2 equals 0.5.'''
...     errors = [abs(0.5 - 1 / denominator) for seed in run.seeds]
...     return Evidence(
...         Check("relative error", errors, "<=", 1e-9),
...         numbers={"errors": errors}, finding="The halves agree to round-off on every seed.")
>>> halves.run(Context(seeds=(0, 1))).verdict.value
'holds'
>>> halves.run(Context(seeds=(0, 1)), denominator=3).verdict.value
'fails'

Tolerances are written before the claim is run for the first time, and stay. A claim that cannot
be run here (no torch, no data) raises `NotRun("what is missing and how to get it")`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Literal

from featavg.errors import InputError, one_of
from featavg.figures.figure import Figure
from featavg.figures.marks import ROLES, Number, Role
from featavg.paper.engine.check import Check, CheckStatus
from featavg.progress import Progress, silent

__all__ = ["Check", "Claim", "Context", "Evidence", "Headline", "NotRun", "Verdict", "claim"]


class Verdict(Enum):
    """How a claim came out, by a mechanical rule.

    The claim's own statement is its main check, and the other essential ones if it says several
    things; by-products are notes and change nothing.

    - every essential check passes: **holds**;
    - the main check passes and another essential one fails: **holds in part**;
    - the main check fails: **fails**;
    - a check straddles its tolerance, and the verdict depends on it: **undecided**;
    - it rests on one or two trainings (`result.settled`): **undecided**;
    - the claim could not be run: **not run**, with the reason.
    """

    HOLDS = "holds", "✓", "Every essential check is within its tolerance."
    IN_PART = "holds in part", "◐", "The main check is within its tolerance, another essential one is not."
    UNDECIDED = "undecided", "?", "A check has a part of its interval on each side of its tolerance."
    FAILS = "fails", "✗", "The main check is outside its tolerance."
    NOT_RUN = "not run", "–", "The claim was not run; the reason is given."

    symbol: str  # distinguishes them without colour
    sentence: str

    def __new__(cls, value: str, symbol: str = "", sentence: str = "") -> Verdict:
        """A member that is found by its value."""
        made = object.__new__(cls)
        made._value_, made.symbol, made.sentence = value, symbol, sentence
        return made


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


@dataclass(frozen=True, init=False)
class Evidence:
    """What a claim's program returns: checks, figures, numbers for machines, one finding.

    Args:
        checks: at least one essential; the first essential one becomes the main one if none is.
        figures: what to draw; `figure` for a single one.
        numbers: everything worth keeping, for machines: an xarray Dataset, or a mapping of plain
            values, arrays, dataclasses and Datasets.
        finding: one sentence on what was found.
        headlines: numbers for the report's overview.
        seeds: those that were really run, if they are not the first of those that were asked for.
        seconds: how long the work really took, if that is not how long this run took.

    >>> good, bad = Check("a", 1.0, "<=", 2.0), Check("b", 3.0, "<=", 2.0)
    >>> Evidence(good, bad).verdict
    <Verdict.IN_PART: 'holds in part'>
    >>> Evidence(good, bad).key_check.name
    'b'
    """

    checks: tuple[Check, ...]
    figures: tuple[Figure, ...]
    numbers: Mapping[str, Any]
    finding: str
    headlines: tuple[Headline, ...]
    seeds: tuple[int, ...] | None
    seconds: float | None

    def __init__(
        self,
        *checks: Check,
        figure: Figure | None = None,
        figures: Iterable[Figure] = (),
        numbers: Any = None,
        finding: str = "",
        headlines: Iterable[Headline] = (),
        seeds: tuple[int, ...] | None = None,
        seconds: float | None = None,
    ) -> None:
        drawn = (*(() if figure is None else (figure,)), *figures)
        names = [each.name for each in drawn]
        if len(set(names)) < len(names):
            raise InputError("figures", f"share a name ({', '.join(names)})", "make names differ")
        # The class is frozen for everybody else.
        self.__dict__.update(
            checks=_with_main(checks),
            figures=drawn,
            numbers={} if numbers is None else numbers,
            finding=finding,
            headlines=tuple(headlines),
            seeds=seeds,
            seconds=seconds,
        )

    @property
    def main(self) -> Check:
        """The check that is the statement itself."""
        return next(check for check in self.checks if check.role == "main")

    @property
    def key_check(self) -> Check:
        """The check that decided: the main one, or one that fails or straddles where the main one passes.

        A failure decides before a check that straddles: whatever the latter would turn out to be, the
        claim no longer holds whole.
        """
        if self.main.passed:
            for status in (CheckStatus.FAILED, CheckStatus.UNDECIDED):
                for check in self.checks:
                    if check.essential and check.status is status:
                        return check
        return self.main

    @property
    def verdict(self) -> Verdict:
        """The mechanical rule of `Verdict`."""
        key = self.key_check
        if key.passed:
            return Verdict.HOLDS
        if key.status is CheckStatus.UNDECIDED:
            return Verdict.UNDECIDED
        return Verdict.FAILS if key is self.main else Verdict.IN_PART


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
    main = copy(checks[first])
    main.__dict__["role"] = "main"
    return (*checks[:first], main, *checks[first + 1 :])


@dataclass(frozen=True)
class Context:
    """What a claim's program receives: seeds, whether the full tier is asked for, data, progress."""

    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    full: bool = False
    data_dir: Path | None = None
    progress: Progress = silent


@dataclass(frozen=True)
class Claim:
    """A statement in our words, where it comes from, what is measured, and the program.

    Attributes:
        tier: "full" is for claims of hours, whose results are committed (see `store`).
        minutes: an estimate on two cores for five seeds.
        needs: packages such as "torch" and data sets such as "mnist".
        statements: ids of the statements of the documents that it checks, such as "notes-theorem-1".
        shares: claims with the same word use the same runs, computed once in one process.
        seeds: how many of the seeds that are asked for the program uses at most; 0 if nothing is random.
        runs: independent trainings behind the verdict, if they are not one a seed; 0 if none is.
        times: seeds that the program uses for each one asked for, where five decide nothing.

    Texts may use `<sub>`, `<sup>`, `<i>`, `<b>` and Unicode.
    """

    id: str
    title: str
    theme: str
    statement: str
    source: str
    measured: str
    run: Callable[..., Evidence]
    tier: Literal["quick", "full"] = "quick"
    minutes: Number = 0.1
    needs: tuple[str, ...] = ()
    statements: tuple[str, ...] = ()
    shares: str = ""
    seeds: int | None = None
    runs: int | None = None
    times: int = 1

    def __post_init__(self) -> None:
        one_of("tier", self.tier, ("quick", "full"))
        for argument, name in (("id", self.id), *(("statements", s) for s in self.statements)):
            if not re.fullmatch(r"[a-z0-9]+([-.][a-z0-9]+)*", name):
                remedy = "use small letters, digits and single hyphens"
                raise InputError(argument, f"is {name!r}", remedy)
        if not self.minutes > 0:
            raise InputError("minutes", f"is {self.minutes}", "estimate more than no time at all")

    def seeds_used(self, asked: tuple[int, ...]) -> tuple[int, ...]:
        """The seeds that the program gets: the first `seeds`, and `times` as many, counting on.

        >>> tripled = Claim("a", "A", "", "", "", "", lambda run: Evidence(), times=3)
        >>> tripled.seeds_used((1000, 1001))
        (1000, 1001, 1002, 1003, 1004, 1005)
        """
        first = asked[: self.seeds]
        return tuple(seed + i * len(first) for i in range(self.times) for seed in first)

    @property
    def parameters(self) -> dict[str, Any]:
        """The keyword arguments of the program that can be changed, with their defaults."""
        known = inspect.signature(self.run).parameters.values()
        return {each.name: each.default for each in known if each.default is not each.empty}

    def values_of(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """`given` as arguments of the program; a text becomes what its default is."""
        known = self.parameters
        for name in given:
            if name not in known:
                remedy = f"choose among {', '.join(known)}" if known else "it has none"
                raise InputError("set", f"names no parameter of {self.id} ({name!r})", remedy)
        return {name: _like(known[name], name, value) for name, value in given.items()}


def _like(default: Any, name: str, value: Any) -> Any:
    """A text as a value of the default's kind; commas separate the items of a tuple."""
    if not isinstance(value, str) or isinstance(default, str):
        return value
    if isinstance(default, tuple):
        like = default[0] if default else ""
        return tuple(_like(like, name, part) for part in value.split(","))
    try:
        if isinstance(default, bool):
            return {"true": True, "false": False}[value.lower()]
        if isinstance(default, int):
            number = float(value)
            if not number.is_integer():
                raise ValueError
            return int(number)
        return float(value)
    except (KeyError, ValueError, OverflowError):
        raise InputError("set", f"gives {name} as {value!r}", f"give it as {default!r}") from None


def claim(id: str, title: str, *, statement: str = "", **about: Any) -> Callable[[Callable[..., Evidence]], Claim]:
    """Makes a `Claim` of a function; its docstring is the statement unless one is given.

    Args:
        about: the other attributes of `Claim`.
    """

    def made(run: Callable[..., Evidence]) -> Claim:
        said = " ".join((statement or run.__doc__ or "").split())
        return Claim(id, title, statement=said, run=run, **about)

    return made
