"""One measured number against a tolerance that was fixed before the run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from statistics import fmean, stdev
from typing import Any, Literal

import numpy as np
from scipy.special import stdtrit

from featavg.errors import InputError, one_of
from featavg.figures.typeset import number

CheckRole = Literal["main", "essential", "note"]
CheckOf = Literal["seed", "mean"]


class CheckStatus(Enum):
    """How a check came out; "undecided" if its interval has a part on each side of the bound."""

    PASSED = "within", "✓"
    UNDECIDED = "undecided", "?"
    FAILED = "outside", "✗"

    symbol: str  # distinguishes them without colour

    def __new__(cls, value: str, symbol: str = "") -> CheckStatus:
        """A member that is found by its value."""
        made = object.__new__(cls)
        made._value_, made.symbol = value, symbol
        return made


@dataclass(frozen=True, init=False)
class Check:
    """A number, or one for each seed, against a tolerance fixed in the code. NaN never passes.

    >>> Check("error", 3e-13, "<=", 1e-9).status
    <CheckStatus.PASSED: 'within'>
    >>> Check("cosine", [0.44, 0.45, 0.43], "within", (0.39, 0.49)).status
    <CheckStatus.PASSED: 'within'>
    >>> Check("slope", [0.45, 0.58], ">=", 0.5).status
    <CheckStatus.UNDECIDED: 'undecided'>

    Args:
        name: what is measured.
        measured: a number, or an array with the number of every seed (NumPy or xarray). The check is
            then about their mean, plus or minus one standard deviation of the seeds: the interval that
            papers print, whose width does not depend on the number of seeds. None with an `interval`.
        relation: "<=" or ">=" (`bound` is a number) or "within" (`bound` is a pair, ends included).
        bound: the tolerance.
        note: a sentence for the reader.
        role: "main" is the statement itself, "essential" is part of it, "note" is a by-product
            that is shown and changes no verdict. The first essential check of an `Evidence` is the
            main one unless another says so.
        interval: what the number may be, where it is not known from seeds (a bracket, a bootstrap).
        of: "seed" (what one more seed would give) or "mean": the check is then about the mean over all
            seeds, with its 95% interval (Student), which more seeds narrow. For claims about an average
            that varies by as much as its tolerance from seed to seed.
    """

    name: str
    measured: float
    relation: Literal["<=", ">=", "within"]
    bound: float | tuple[float, float]
    note: str
    role: CheckRole
    values: tuple[float, ...]
    interval: tuple[float, float] | None
    of: CheckOf

    def __init__(
        self,
        name: str,
        measured: Any,
        relation: str,
        bound: Any,
        note: str = "",
        role: CheckRole = "essential",
        interval: tuple[Any, Any] | None = None,
        of: CheckOf = "seed",
    ) -> None:
        one_of("relation", relation, ("<=", ">=", "within"))
        one_of("role", role, ("main", "essential", "note"))
        one_of("of", of, ("seed", "mean"))
        given = np.asarray(math.nan if measured is None else measured, dtype=float)
        values = tuple(given.ravel().tolist()) if given.ndim else ()
        if values:
            interval = _interval(values, of)
        elif interval is not None:  # a missing number makes an end NaN, and then the check fails
            interval = _ordered("interval", interval)
        if (relation == "within") != isinstance(bound, tuple):
            remedy = "give a pair for 'within' and one number otherwise"
            raise InputError("bound", f"is {bound!r} for {relation!r}", remedy)
        if np.isnan(bound).any():
            raise InputError("bound", "is NaN", "give a number")
        single = fmean(values) if values else float(given)
        if math.isnan(single) and interval is not None and not values:
            single = (interval[0] + interval[1]) / 2
        bound = _ordered("bound", bound) if isinstance(bound, tuple) else float(bound)
        # The class is frozen for everybody else.
        self.__dict__.update(name=name, measured=single, relation=relation, bound=bound, note=note, role=role,
                             values=values, interval=interval, of=of)  # fmt: skip

    @property
    def essential(self) -> bool:
        """Whether the check can change the verdict."""
        return self.role != "note"

    @property
    def ends(self) -> tuple[float, float]:
        """The interval of values that pass."""
        if isinstance(self.bound, tuple):
            return self.bound
        return (-math.inf, self.bound) if self.relation == "<=" else (self.bound, math.inf)

    @property
    def span(self) -> tuple[float, float]:
        """The interval that is held against the tolerance; a point for a single number."""
        return self.interval or (self.measured, self.measured)

    @property
    def status(self) -> CheckStatus:
        """Within the tolerance, outside, or with a part on each side."""
        (low, high), (least, most) = self.span, self.ends
        if math.isnan(low) or math.isnan(high):
            return CheckStatus.FAILED
        if least <= low and high <= most:
            return CheckStatus.PASSED
        if low <= most and high >= least:
            return CheckStatus.UNDECIDED
        return CheckStatus.FAILED

    @property
    def passed(self) -> bool:
        """Whether all of the interval is within the tolerance."""
        return self.status is CheckStatus.PASSED

    @staticmethod
    def from_json(given: Mapping[str, Any]) -> Check:
        """A check of a recorded result."""
        values = [float(value) for value in given.get("values", ())]
        bound, interval = given["bound"], given.get("interval")
        return Check(
            given["name"],
            values or float(given["measured"]),
            given["relation"],
            tuple(map(float, bound)) if isinstance(bound, list) else float(bound),
            given["note"],
            given.get("role", "essential" if given["essential"] else "note"),
            None if values else interval,
            given.get("of", "seed"),
        )


def _ordered(name: str, pair: Any) -> tuple[float, float]:
    low, high = map(float, pair)
    if low > high:
        raise InputError(name, f"is {pair!r}", "give numbers, the smaller one first")
    return low, high


def measured_text(check: Check) -> str:
    """The measured number, with enough digits to look neither exact nor like the bound it missed.

    >>> measured_text(Check("accuracy", 0.98996, ">=", 0.99))
    '0.98996'
    >>> measured_text(Check("ratio", 1.0025, "<=", 2))
    '1.002'
    >>> measured_text(Check("cosine", [0.44, 0.46], ">=", 0.4))
    '0.45 ± 0.014'
    """
    text = _with_digits(check)
    if check.interval is None:
        return text
    low, high = check.span
    if check.values and math.isfinite(low) and math.isfinite(high):
        return f"{text} ± {number((high - low) / 2, 2)}" if high > low else text
    return f"{text} ({number(low)} to {number(high)})"


def tolerance_text(check: Check) -> str:
    """What the check asks for.

    >>> tolerance_text(Check("error", 0, "<=", 1e-9))
    '≤ 10⁻⁹'
    >>> tolerance_text(Check("cosine", 0, "within", (0, 0.5)))
    '0 to 0.5'
    """
    low, high = (number(end, 6) for end in check.ends)
    return {"<=": f"≤ {high}", ">=": f"≥ {low}", "within": f"{low} to {high}"}[check.relation]


def decision_text(check: Check) -> str:
    """What a check says, in one sentence.

    >>> print(decision_text(Check("ratio at d = 3072", 1.12, "<=", 1.05)))
    ratio at d = 3072 is 1.12 and should be ≤ 1.05.
    """
    end = {
        CheckStatus.PASSED: f", as it should be ({tolerance_text(check)})",
        CheckStatus.UNDECIDED: f", with a part on each side of {tolerance_text(check)}",
        CheckStatus.FAILED: f" and should be {tolerance_text(check)}",
    }[check.status]
    return f"{check.name} is {measured_text(check)}{end}."


def _interval(values: tuple[float, ...], of: CheckOf) -> tuple[float, float]:
    """Mean minus and plus the deviation of the seeds or of the mean; the range where that is not finite."""
    if not all(map(math.isfinite, values)):
        # A comparison with NaN is false, so that `min` and `max` would depend on the order.
        broken = any(map(math.isnan, values))
        return (math.nan, math.nan) if broken else (min(values), max(values))
    count, mean = len(values), fmean(values)
    width = stdev(values) if count > 1 else 0.0
    if of == "mean" and count > 1:
        width *= float(stdtrit(count - 1, 0.975)) / math.sqrt(count)
    return mean - width, mean + width


def _with_digits(check: Check) -> str:
    low, high = check.ends
    value = float(check.measured)
    for digits in range(3, 17):
        text = number(value, digits)
        looks_exact = digits < 6 and not value.is_integer() and text.lstrip("−").isdigit()
        looks_passed = not check.passed and text in (number(low, digits), number(high, digits))
        if not looks_exact and not looks_passed:
            return text
    return repr(value)
