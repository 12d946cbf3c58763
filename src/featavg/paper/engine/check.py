"""One measured number against a tolerance that was fixed before the run."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from statistics import fmean, stdev
from typing import Annotated, Literal, TypeAlias

from featavg.boundary import MAY_BE_NAN
from featavg.errors import InputError, one_of
from featavg.figures.marks import Number, Numbers, Pair
from featavg.figures.number_format import number

CheckRole = Literal["main", "essential", "note"]
Measured: TypeAlias = Annotated[Number, MAY_BE_NAN]


class CheckStatus(Enum):
    """How a check came out; "undecided" if its interval has a part on each side of the bound."""

    PASSED = "within"
    UNDECIDED = "undecided"
    FAILED = "outside"

    @property
    def symbol(self) -> str:
        """A sign that tells them apart without colour."""
        return {"within": "✓", "undecided": "?", "outside": "✗"}[self.value]


@dataclass(frozen=True)
class Check:
    """A number, or one for each seed, against a tolerance fixed in the code. NaN never passes.

    >>> import featavg as fa
    >>> fa.Check("error", 3e-13, "<=", 1e-9).status
    <CheckStatus.PASSED: 'within'>
    >>> fa.Check("cosine", relation="within", bound=(0.39, 0.49), values=[0.44, 0.45, 0.43]).status
    <CheckStatus.PASSED: 'within'>
    >>> fa.Check("slope", relation=">=", bound=0.5, values=[0.45, 0.58]).status
    <CheckStatus.UNDECIDED: 'undecided'>

    Args:
        name: what is measured.
        measured: the number; with `values` their mean, with `interval` its middle, if not given.
        relation: "<=" or ">=" (`bound` is a number) or "within" (`bound` is a pair, ends included).
        bound: the tolerance.
        note: a sentence for the reader.
        essential: False is short for `role="note"`.
        role: "main" is the statement itself, "essential" is part of it, "note" is a by-product
            that is shown and changes no verdict. The first essential check of an `Evidence` is the
            main one unless another says so.
        values: the number of every seed. The check is then about their mean, give or take one
            standard deviation of the seeds. That interval is what papers print, and its width does
            not depend on how many seeds were run: two seeds and five are judged alike, where the
            range would widen and the standard error would shrink.
        interval: what the number may be, where it is not known from seeds (a bracket, a bootstrap).
    """

    name: str
    measured: Measured = math.nan
    relation: Literal["<=", ">=", "within"] = "<="
    bound: Measured | Pair = math.nan
    note: str = ""
    essential: bool = True
    role: CheckRole | None = None
    values: Annotated[Numbers, MAY_BE_NAN] = ()
    interval: tuple[Measured, Measured] | None = None

    def __post_init__(self) -> None:
        one_of("relation", self.relation, ("<=", ">=", "within"))
        self._settle_bound()
        self._settle_measurement()
        role = self.role or ("essential" if self.essential else "note")
        one_of("role", role, ("main", "essential", "note"))
        self._set(role=role, essential=role != "note")

    def _settle_bound(self) -> None:
        if (self.relation == "within") != isinstance(self.bound, (tuple, list)):
            remedy = "give a pair for 'within' and one number otherwise"
            raise InputError("bound", f"is {self.bound!r} for {self.relation!r}", remedy)
        low, high = self.ends
        if math.isnan(low) or math.isnan(high) or low > high:
            raise InputError("bound", f"is {self.bound!r}", "give numbers, the smaller one first")
        if self.relation == "within":
            self._set(bound=(low, high))

    def _settle_measurement(self) -> None:
        values = tuple(float(value) for value in self.values)
        interval, measured = self.interval, float(self.measured)
        if values:
            interval = _mean_and_deviation(values)
        if interval is not None:
            low, high = (float(end) for end in interval)
            if low > high:
                raise InputError("interval", f"is {self.interval!r}", "give the smaller end first")
            interval = (low, high)
        if math.isnan(measured) and interval is not None:
            measured = fmean(values) if values else (interval[0] + interval[1]) / 2
        self._set(values=values, interval=interval, measured=measured)

    def _set(self, **fields: object) -> None:
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    @property
    def ends(self) -> tuple[float, float]:
        """The interval of values that pass."""
        if isinstance(self.bound, (tuple, list)):
            low, high = self.bound
            return float(low), float(high)
        bound = float(self.bound)
        return (-math.inf, bound) if self.relation == "<=" else (bound, math.inf)

    @property
    def span(self) -> tuple[float, float]:
        """The interval that is held against the tolerance; a point for a single number."""
        low, high = self.interval or (self.measured, self.measured)
        return float(low), float(high)

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


def measured_text(check: Check) -> str:
    """The measured number, with enough digits to look neither exact nor like the bound it missed.

    >>> measured_text(Check("accuracy", 0.98996, ">=", 0.99))
    '0.98996'
    >>> measured_text(Check("ratio", 1.0025, "<=", 2))
    '1.002'
    >>> measured_text(Check("cosine", relation=">=", bound=0.4, values=[0.44, 0.46]))
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
    told = f"{check.name} is {measured_text(check)}"
    end = {
        CheckStatus.PASSED: f", as it should be ({tolerance_text(check)})",
        CheckStatus.UNDECIDED: f", with a part on each side of {tolerance_text(check)}",
        CheckStatus.FAILED: f" and should be {tolerance_text(check)}",
    }[check.status]
    return f"{told}{end}."


def _mean_and_deviation(values: tuple[float, ...]) -> tuple[float, float]:
    """Mean minus and plus the standard deviation; the range where that is not finite."""
    if not all(map(math.isfinite, values)):
        # A comparison with NaN is false, so that `min` and `max` would depend on the order.
        broken = any(map(math.isnan, values))
        return (math.nan, math.nan) if broken else (min(values), max(values))
    mean, deviation = fmean(values), stdev(values) if len(values) > 1 else 0.0
    return mean - deviation, mean + deviation


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
