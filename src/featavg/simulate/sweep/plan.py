"""What a sweep varies: axes over the fields of a Setting, as a grid or as random points."""

from __future__ import annotations

import difflib
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from featavg.data.streams import stream
from featavg.errors import InputError, one_of
from featavg.fields import kinds_of
from featavg.simulate.setting import FIELDS, Setting

WAYS = ("grid", "random", "sobol")
# Decided by the sweep itself, or not a number of the theory.
_NOT_VARIED = ("seeds", "data", "save_every")


@dataclass(frozen=True)
class SweepAxis:
    """One field and the values it takes; a range for random points has two ends.

    >>> SweepAxis.parse("cosine=0:0.9:4").values
    (0.0, 0.3, 0.6, 0.9)
    >>> SweepAxis.parse("stepper=gd,adam").values, SweepAxis.parse("d=1e3:1e6:4:log").values
    (('gd', 'adam'), (1000, 10000, 100000, 1000000))
    """

    field: str
    values: tuple[Any, ...]
    log: bool = False

    @staticmethod
    def of(name: str, values: Any) -> SweepAxis:
        """The values of a field, or a text as `parse` takes it behind the `=`."""
        known_field(name)
        if isinstance(values, str):
            return SweepAxis.parse(f"{name}={values}")
        try:
            return SweepAxis(name, tuple(values))
        except TypeError:
            problem = f"has {values!r:.60} for {name}"
            raise InputError("vary", problem, "give a list of values") from None

    @staticmethod
    def parse(text: str) -> SweepAxis:
        """`field=a,b,c` or `field=low:high:count[:log]`."""
        name, equals, given = text.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or not given.strip():
            raise InputError("vary", f"is {text!r}", "write field=a,b,c or field=low:high:count")
        known_field(name)
        if ":" not in given:
            return SweepAxis(name, tuple(_value(name, part) for part in given.split(",")))
        ends = given.split(":")
        log = len(ends) == 4 and ends[3] == "log"
        if len(ends) not in (3, 4) or (len(ends) == 4 and not log):
            raise InputError("vary", f"is {text!r}", "write field=low:high:count or ...:log")
        try:
            low, high, count = float(ends[0]), float(ends[1]), int(ends[2])
        except ValueError:
            raise InputError("vary", f"is {text!r}", "give numbers for a range") from None
        return SweepAxis(name, _range(name, low, high, count, log), log)


def known_field(name: str) -> str:
    """`name`, if it is a field of Setting that may be varied; else the nearest one is named."""
    fields = [field for field in FIELDS if field not in _NOT_VARIED]
    if name in fields:
        return name
    if name == "seeds":
        raise InputError("vary", "names seeds", "say how many with --seeds")
    near = difflib.get_close_matches(name, fields, n=3, cutoff=0.5)
    remedy = f"did you mean {', '.join(near)}?" if near else f"choose among {', '.join(fields)}"
    raise InputError("vary", f"names no field of a setting ({name!r})", remedy)


def _range(name: str, low: float, high: float, count: int, log: bool) -> tuple[Any, ...]:
    if not (math.isfinite(low) and math.isfinite(high) and low <= high):
        problem = f"has {name} from {low:g} to {high:g}"
        raise InputError("vary", problem, "give the smaller end first")
    if not 1 <= count <= 10**6:
        raise InputError("vary", f"has {count} values of {name}", "give 1 to 10^6")
    if log and low <= 0:
        raise InputError("vary", f"has {name} from {low:g} on a log scale", "start above zero")
    points = np.geomspace(low, high, count) if log else np.linspace(low, high, count)
    values = [_value(name, f"{round(float(point), 12):.12g}") for point in points]
    return tuple(dict.fromkeys(values))


def _value(name: str, text: str) -> Any:
    """Text as the field's type: a number where one is wanted, otherwise the text itself."""
    text = text.strip()
    try:
        number = float(text)
    except ValueError:
        return None if text == "none" else text
    whole = "int" in kinds_of(FIELDS[name]) and math.isfinite(number)  # the setting refuses nan
    return round(number) if whole else number


@dataclass(frozen=True)
class Plan:
    """All settings of a sweep, in order: a base, the axes, and the seeds of each.

    Attributes:
        base: fields that stay; what is not said is the paper's.
        axes: fields that vary.
        seeds: seeds of every setting, one batched computation.
        way: "grid" (all combinations), "random" or "sobol" (points between the ends of the axes).
        samples: how many points, unless it is a grid.
    """

    base: Mapping[str, Any]
    axes: tuple[SweepAxis, ...]
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    way: str = "grid"
    samples: int = 0

    def __post_init__(self) -> None:
        one_of("way", self.way, WAYS)
        names = [axis.field for axis in self.axes]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise InputError("vary", f"names {twice[0]} twice", "give every field one axis")
        both = sorted(set(names) & set(self.base))
        if both:
            raise InputError(both[0], "is given and varied", "leave one of the two out")
        if any(not axis.values for axis in self.axes):
            raise InputError("vary", "has an axis without values", "give at least one value")
        if not self.seeds or len(set(self.seeds)) < len(self.seeds) or min(self.seeds) < 0:
            raise InputError("seeds", f"are {self.seeds}", "give different numbers, zero or more")
        if self.way != "grid" and self.samples < 1:
            raise InputError("samples", f"is {self.samples}", "say how many random points")
        if self.way == "grid" and self.samples:
            remedy = "leave it out, or choose random or sobol points"
            raise InputError("samples", f"is {self.samples} beside a grid", remedy)

    def __len__(self) -> int:
        if self.way != "grid":
            return self.samples
        return math.prod(len(axis.values) for axis in self.axes)

    def points(self) -> Iterator[dict[str, Any]]:
        """The values of the axes at each setting, in order."""
        names = [axis.field for axis in self.axes]
        if self.way == "grid":
            for values in itertools.product(*(axis.values for axis in self.axes)):
                yield dict(zip(names, values, strict=True))
            return
        if self.way == "random":
            shares = stream(0, "sweep").random((self.samples, len(self.axes)))
        else:
            from scipy.stats import qmc

            # A Sobol sequence is balanced at powers of two: draw the next one, keep the first.
            sampler = qmc.Sobol(len(self.axes), scramble=True, rng=stream(0, "sweep"))
            shares = sampler.random_base2(math.ceil(math.log2(max(self.samples, 2))))
        for row in shares[: self.samples].tolist():
            yield {axis.field: _between(axis, u) for axis, u in zip(self.axes, row, strict=True)}

    def setting(self, point: Mapping[str, Any]) -> Setting:
        """The setting at a point, with one seed: seeds are the sweep's."""
        return Setting(**{**self.base, **point})


def _between(axis: SweepAxis, share: float) -> Any:
    """The value at `share` of an axis: between its ends if they are numbers, else one of them."""
    values: Sequence[Any] = axis.values
    if not all(isinstance(value, int | float) for value in values) or len(values) == 1:
        return values[min(int(share * len(values)), len(values) - 1)]
    low, high = float(min(values)), float(max(values))
    number = low * (high / low) ** share if axis.log else low + share * (high - low)
    return round(number) if all(isinstance(value, int) for value in values) else number
