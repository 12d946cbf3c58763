"""Fields of settings: name, type, default, range and help are stated once, in a dataclass.

`MultiCluster`, `Recipe` and `Setting` share such fields. `fit_fields` converts what Python or
TOML gives and refuses values out of range, and `featavg.cli.flags` makes flags of them.
Nothing here imports NumPy, so that `featavg --help` answers at once.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import Field, dataclass, field, fields
from functools import partial
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

from featavg.boundary.kinds import MOST
from featavg.errors import InputError, finite, one_of, whole

if TYPE_CHECKING:
    from jaxtyping import Float
    from numpy import ndarray

_REMEDIES = {"int": "give a whole number", "float": "give a finite number", "str": "give a text"}


def about(
    default: Any,
    text: str,
    section: str = "",
    *,
    least: float | None = None,
    most: float | None = None,
    above: float | None = None,
    below: float | None = None,
    choices: Iterable[str] = (),
    remedy: str = "",
    unset: str = "",
    file: bool = False,
) -> Any:
    """A field of a dataclass with all that is known about it.

    Args:
        default: its value if nothing is given.
        text: what it is, for the help of its flag.
        section: its heading in the help and in TOML.
        least, most, above, below: its range.
        choices: the names that it takes; a `Registry` checks its names, with their options, itself.
        remedy: what to say about a value out of range, instead of the range.
        unset: what holds if the default is None.
        file: whether a flag takes the name of a file.
    """
    limits = {"least": least, "most": most, "above": above, "below": below}
    limits = {name: limit for name, limit in limits.items() if limit is not None}
    known = {"text": text, "section": section, "limits": limits, "choices": choices}
    return field(default=default, metadata=known | {"remedy": remedy, "unset": unset, "file": file})


ORIENTATIONS = ("axes", "random")
_task = partial(about, section="The task")
_TWO = "give at least two clusters, one for each class"


@dataclass(frozen=True, eq=False)
class TaskFields:
    """What decides a task; `MultiCluster` says what each field means."""

    k: int = _task(10, "Clusters", least=2, remedy=_TWO)
    d: int = _task(3072, "Dimension", least=1)
    # Squares of lengths beyond 1e100 overflow.
    alpha: float = _task(1.0, "Signal", least=0, most=1e100)
    sigma: float = _task(1.0, "Noise", least=0, most=1e100)
    positive: int | Sequence[int] | Sequence[bool] | ndarray | None = _task(
        None, "How many clusters are positive, or which: 0,2", unset="the first half"
    )
    cosine: float = _task(0.0, "Cosine between any two features")
    norms: float | Sequence[float] | None = _task(None, "Length of the features, one or k of them", unset="√d")
    probabilities: Sequence[float] | None = _task(None, "Shares of the clusters, such as 0.3,0.7", unset="equal")
    gram: Sequence[Sequence[float]] | Float[ndarray, "k k"] | None = _task(
        None, "Gram matrix of the features: CSV, JSON or npy file", file=True
    )
    orientation: str = _task("axes", "Features along", choices=ORIENTATIONS)


@functools.cache
def kinds_of(one: Field[Any]) -> list[str]:
    """The types that a field takes, as its annotation spells them."""
    return [kind.strip() for kind in str(one.type).split(" | ")]


def fit_fields(holder: Any) -> None:
    """Converts the fields of a frozen dataclass to their types, and refuses what is out of range.

    Parts of a `Registry` are built where they are needed.

    >>> from featavg.training.recipe import Recipe
    >>> Recipe(steps=20.0).steps
    20
    >>> Recipe(depth=1)
    Traceback (most recent call last):
        ...
    featavg.errors.InputError: depth is 1: give a whole number, 2 or more.
    """
    for one in fields(holder):
        value = getattr(holder, one.name)
        if value is one.default or hasattr(one.metadata["choices"], "build"):
            continue
        fitted = _fitted(one, value)
        _check_range(one, fitted)
        holder.__dict__[one.name] = fitted  # frozen to others


def _check_range(one: Field[Any], value: Any) -> None:
    known, limits = one.metadata, one.metadata["limits"]
    if known["choices"] and isinstance(value, str):
        one_of(one.name, value, known["choices"])
    if not limits or value is None or value == one.default:
        return
    if known["remedy"] and value < limits["least"]:
        raise InputError(one.name, f"is {value}", known["remedy"])
    if "int" in kinds_of(one):
        whole(one.name, value, **({"most": MOST} | limits))
    else:
        finite(one.name, value, **limits)


def _fitted(one: Field[Any], value: Any) -> Any:
    """A value as the annotation of its field wants it, lists as tuples."""
    kinds = kinds_of(one)
    if getattr(value, "shape", ()) and "ndarray" in str(one.type):
        return value
    given = value.tolist() if hasattr(value, "tolist") else value
    if (given is None and "None" in kinds) or (isinstance(given, float) and given == one.default):
        return given  # also infinity, where that is the default
    for kind in kinds:
        try:
            fitted = _as_kind(kind, given)
        except (TypeError, ValueError, OverflowError):
            continue
        if not isinstance(fitted, float) or math.isfinite(fitted):
            return fitted
    if isinstance(given, bool):
        raise InputError(one.name, f"is {str(given).lower()}", "give a number or a text")
    if one.metadata["choices"]:
        one_of(one.name, given, one.metadata["choices"])
    remedies = [_REMEDIES[kind] for kind in kinds if kind in _REMEDIES]
    several = "give a list" if any("[" in kind for kind in kinds) else "give true or false"
    raise InputError(one.name, f"is {given!r:.60}", (remedies or [several])[0])


def _as_kind(kind: str, value: Any) -> Any:
    """A value as one type; ValueError or TypeError if it is not of it."""
    if kind.startswith(("Sequence[", "tuple[")):
        if not isinstance(value, list | tuple | range):
            raise TypeError
        inner = kind[kind.index("[") + 1 : -1].removesuffix(", ...")
        return tuple(_as_kind(inner, item) for item in value)
    number = isinstance(value, Real) and not isinstance(value, bool)
    if kind == "int" and number and (isinstance(value, Integral) or float(value).is_integer()):
        return int(value)
    if kind == "float" and number:
        return float(value)
    if isinstance(value, {"bool": bool, "str": str}.get(kind, ())):
        return value
    if type(value).__name__ == kind:  # a class of ours, which is not imported here
        return value
    raise TypeError


def from_text(one: Field[Any], text: str) -> Any:
    """Numbers with commas between them, as many as the field takes.

    >>> positive = TaskFields.__dataclass_fields__["positive"]
    >>> from_text(positive, "3"), from_text(positive, "0,2"), from_text(positive, "4,")
    (3, [0, 2], [4])
    """
    kinds = kinds_of(one)
    number = int if "Sequence[int]" in kinds else float
    try:
        values = [number(part) for part in text.split(",") if part.strip()]
        return values if "," in text or kinds[0].startswith("Sequence") else values[0]
    except (ValueError, IndexError):
        example = "0,2" if number is int else "1,2.5"
        remedy = f"give numbers with commas between them, such as {example}"
        raise InputError(one.name, f"is {text!r}", remedy) from None


def in_words(names: Iterable[str]) -> str:
    """Choices in a sentence.

    >>> in_words(["max", "sum"])
    'max or sum'
    """
    *most, last = names
    return f"{', '.join(most)} or {last}" if most else last
