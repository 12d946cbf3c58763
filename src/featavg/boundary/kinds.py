"""Annotations that state a range: whole numbers and numbers with a least value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

# Beyond this nothing can be counted.
MOST = 10**18


@dataclass(frozen=True)
class AtLeast:
    """The least value that an argument may have; `endless` allows infinity and any size."""

    least: int | float
    endless: bool = False


@dataclass(frozen=True)
class Gaps:
    """NaN is allowed: it says that a value is not known."""


Count: TypeAlias = Annotated[int, AtLeast(1)]
Size: TypeAlias = Annotated[int, AtLeast(0)]
Seed: TypeAlias = Annotated[int, AtLeast(0, endless=True)]
NotNegative: TypeAlias = Annotated[float, AtLeast(0)]
Time: TypeAlias = Annotated[float, AtLeast(0, endless=True)]
AnyNumber: TypeAlias = Annotated[float, AtLeast(float("-inf"), endless=True)]
PartlyKnown: TypeAlias = Annotated[Any, Gaps()]
