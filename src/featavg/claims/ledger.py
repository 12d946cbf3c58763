"""What a claim is: a statement of the documents, as a program that ends in a verdict.

A claim belongs to one file a theme in this folder (`lemmas.py`, `theorem1.py`, ...), listed in
`registry.MODULES`; that file holds functions `ClaimSettings -> Evidence` and one tuple `CLAIMS`.
A complete example:

>>> from featavg.figures.figure import Axis, Figure, Lines, Series
>>> def halves(settings: ClaimSettings) -> Evidence:
...     worst = 0.0
...     for i, seed in enumerate(settings.seeds):
...         settings.progress(i / len(settings.seeds), f"seed {seed}")
...         worst = max(worst, abs(0.5 - 1 / 2))
...     figure = Figure("error", "Error against d", "Both stay at zero.", (Lines(
...         Axis("d", log=True), Axis("error"),
...         (Series("averaged", [1e3, 1e6], [0.0, worst], "averaged"),)),))
...     return Evidence(
...         checks=(Check("largest relative error", worst, "<=", 1e-9),
...                 Check("errors counted", 0, "within", (0, 3), essential=False)),
...         figures=(figure,), numbers={"worst": worst},
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

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Literal

from featavg.errors import InputError, one_of
from featavg.figures.figure import Figure
from featavg.figures.marks import ROLES, Number, Pair, Role
from featavg.progress import Progress, silent


class Verdict(Enum):
    """How a claim came out. The rule is mechanical, so that nobody can tune it:

    - every check passes: **holds**;
    - no essential check passes: **fails**;
    - anything else: **holds in part**;
    - the claim could not be run: **not run**, with the reason.
    """

    HOLDS = "holds"
    IN_PART = "holds in part"
    FAILS = "fails"
    NOT_RUN = "not run"

    @property
    def sentence(self) -> str:
        """What the verdict means, for a reader."""
        return _SENTENCES[self]

    @property
    def symbol(self) -> str:
        """A sign that tells the verdicts apart without colour."""
        return {"holds": "✓", "holds in part": "◐", "fails": "✗", "not run": "–"}[self.value]


_SENTENCES = {
    Verdict.HOLDS: "Every check is within its tolerance.",
    Verdict.IN_PART: "Some checks are within their tolerance and some are not.",
    Verdict.FAILS: "No essential check is within its tolerance.",
    Verdict.NOT_RUN: "The claim was not run; the reason is given.",
}


class NotRun(Exception):  # noqa: N818 (an outcome, not a fault)
    """Raised by a claim that cannot be run here, with the reason and the remedy in one sentence."""


@dataclass(frozen=True)
class Check:
    """One measured number against a tolerance fixed in the code. NaN never passes.

    `relation` is "<=" or ">=" (`bound` a number) or "within" (`bound` a pair, ends included).
    A check that is not `essential` is a by-product: it can spoil "holds" but not save from "fails".

    >>> Check("error", 3e-13, "<=", 1e-9).passed
    True
    >>> Check("cosine", 0.5, "within", (0.39, 0.49)).passed
    False
    """

    name: str
    measured: Number
    relation: Literal["<=", ">=", "within"]
    bound: Number | Pair
    note: str = ""
    essential: bool = True

    def __post_init__(self) -> None:
        one_of("relation", self.relation, ("<=", ">=", "within"))
        object.__setattr__(self, "measured", float(self.measured))
        if (self.relation == "within") != isinstance(self.bound, (tuple, list)):
            remedy = "give a pair for 'within' and one number otherwise"
            raise InputError("bound", f"is {self.bound!r} for {self.relation!r}", remedy)
        ends = self.ends
        if any(math.isnan(end) for end in ends) or ends[0] > ends[1]:
            raise InputError("bound", f"is {self.bound!r}", "give numbers, the smaller one first")
        if self.relation == "within":
            object.__setattr__(self, "bound", ends)

    @property
    def ends(self) -> tuple[float, float]:
        """The interval of values that pass."""
        if isinstance(self.bound, (tuple, list)):
            low, high = self.bound
            return float(low), float(high)
        bound = float(self.bound)
        return (-math.inf, bound) if self.relation == "<=" else (bound, math.inf)

    @property
    def passed(self) -> bool:
        """Whether the measured number is within the tolerance."""
        low, high = self.ends
        return low <= float(self.measured) <= high


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
    """What a claim's program returns: checks, figures, numbers for machines, one finding."""

    checks: tuple[Check, ...]
    figures: tuple[Figure, ...] = ()
    numbers: Mapping[str, Any] = field(default_factory=dict)
    finding: str = ""
    headlines: tuple[Headline, ...] = ()

    def __post_init__(self) -> None:
        for name in ("checks", "figures", "headlines"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if not any(check.essential for check in self.checks):
            raise InputError("checks", "has nothing essential", "give at least one essential check")
        names = [figure.name for figure in self.figures]
        if len(set(names)) < len(names):
            raise InputError("figures", f"share a name ({', '.join(names)})", "make names differ")

    @property
    def verdict(self) -> Verdict:
        """The mechanical rule of `Verdict`."""
        if all(check.passed for check in self.checks):
            return Verdict.HOLDS
        if not any(check.passed for check in self.checks if check.essential):
            return Verdict.FAILS
        return Verdict.IN_PART

    @property
    def key_check(self) -> Check:
        """The check that tells most: the first essential one that failed, else the first one."""
        essential = [check for check in self.checks if check.essential]
        return next((check for check in essential if not check.passed), essential[0])


@dataclass(frozen=True)
class ClaimSettings:
    """What a claim is told: seeds, whether the full tier is asked for, data, and whom to tell."""

    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    full: bool = False
    data_dir: Path | None = None
    progress: Progress = silent


@dataclass(frozen=True)
class Claim:
    """A statement in our words, where it comes from, what is measured, and the program.

    `tier` "full" is for claims of hours (their results are committed, see `store`); `minutes` is an
    estimate on two cores for five seeds; `needs` names packages such as "torch" and data sets such
    as "mnist". Texts may use `<sub>`, `<sup>`, `<i>`, `<b>` and Unicode.
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

    def __post_init__(self) -> None:
        one_of("tier", self.tier, ("quick", "full"))
        if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", self.id):
            remedy = "use small letters, digits and single hyphens"
            raise InputError("id", f"is {self.id!r}", remedy)
        if not self.minutes > 0:
            raise InputError("minutes", f"is {self.minutes}", "estimate more than no time at all")
