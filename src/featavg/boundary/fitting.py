"""A value as an annotation wants it: taken, converted where it clearly means the right thing, or refused.

A list is an array, 3.0 a whole number, a `Trajectory` its network. Annotations that say nothing
(`Any`) refuse nothing: what is refused here is what cannot be meant.
"""

from __future__ import annotations

import collections.abc
import inspect
import itertools
import math
import os
import types
import typing
from collections.abc import Callable
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Literal, Union

from featavg.boundary.arrays import plain_array
from featavg.boundary.words import short, words
from featavg.errors import InputError

MAY_BE_NAN = "NaN says that nothing was measured"  # as in Annotated[float, MAY_BE_NAN]

_REFUSED = object()
# Floats below this are whole numbers without a doubt; generators of more items are not waited for.
_EXACT, _MOST_ITEMS = 2.0**53, 100_000
_ENDLESS = ("bounds", "log_losses")  # -inf is the logarithm of a loss of zero
_NO_ARRAYS = (str, bytes, bytearray, memoryview, dict, set, frozenset)


def converted(argument: str, annotation: Any, value: Any, nan: bool) -> Any:
    """`value` as `annotation` wants it; refused in one sentence where it cannot be meant."""
    fitted = fit(annotation, value, nan)
    if fitted is _REFUSED:
        raise InputError(argument, f"is {short(value)}", f"give {words(annotation)}")
    shape = getattr(fitted, "shape", ())
    if (
        not nan and isinstance(shape, tuple) and 0 in shape[1:]
    ):  # no rows may be meant, no columns not
        raise InputError(argument, f"has shape {shape}", "give an array without an empty axis")
    if not nan and not _is_finite(fitted, argument in _ENDLESS):
        raise InputError(argument, "holds a number that is not finite", "give finite numbers")
    return fitted


def fit(annotation: Any, value: Any, nan: bool = False) -> Any:
    """`value` as `annotation` wants it, or `_REFUSED`; NaN is a number where `nan` says so."""
    if annotation is Any or annotation is inspect.Parameter.empty or annotation is object:
        return value
    if annotation is None or annotation is type(None):
        return value if value is None else _REFUSED
    origin = typing.get_origin(annotation)
    if MAY_BE_NAN in getattr(annotation, "__metadata__", ()):
        return fit(typing.get_args(annotation)[0], value, nan=True)
    if origin in (Union, types.UnionType):
        return _fit_any(typing.get_args(annotation), value, nan)
    if origin is Literal:
        named = isinstance(value, str) and value in typing.get_args(annotation)
        return value if named else _REFUSED
    if hasattr(annotation, "dim_str") or getattr(annotation, "__name__", "") == "ndarray":
        return _fit_array(annotation, value)
    if nan and annotation is float and isinstance(value, Real) and math.isnan(value):
        return value
    if annotation in _PLAIN:
        return _PLAIN[annotation](value)
    if origin is not None:
        return _fit_container(origin, typing.get_args(annotation), value, nan)
    return _fit_class(annotation, value)


def _fit_any(options: tuple[Any, ...], value: Any, nan: bool) -> Any:
    """The option that takes the value as it is before one that has to convert it."""
    fitted = [each for each in (fit(o, value, nan) for o in options) if each is not _REFUSED]
    same = [each for each in fitted if each is value]
    return (same or fitted or [_REFUSED])[0]


def _fit_array(annotation: Any, value: Any) -> Any:
    if value is None or isinstance(value, _NO_ARRAYS) or callable(value):
        return _REFUSED
    was_array = hasattr(value, "dtype")
    value = plain_array(value)
    if value is None or (value.ndim == 0 and not was_array and not hasattr(annotation, "dim_str")):
        return _REFUSED  # a number is no array
    value = _as_kind(str(getattr(annotation, "dtypes", "")), value)
    if value is _REFUSED:
        return _REFUSED
    dims = getattr(annotation, "dims", None)
    if not isinstance(dims, tuple):
        return value
    if getattr(annotation, "index_variadic", None) is not None:
        return value if value.ndim >= len(dims) - 1 else _REFUSED
    return value if value.ndim == len(dims) else _REFUSED


def _as_kind(wanted: str, value: Any) -> Any:
    """Whole numbers where labels are wanted, float64 where measurements are."""
    import numpy as np

    if "float" in wanted and "int" not in wanted and value.dtype != float:
        return value.astype(float)
    if "int" in wanted and "float" not in wanted and value.dtype.kind == "f":
        whole = np.all(np.isfinite(value)) and np.all(value == np.rint(value))
        return value.astype(np.int64) if whole and np.all(np.abs(value) < _EXACT) else _REFUSED
    return value


def _fit_container(origin: Any, options: tuple[Any, ...], value: Any, nan: bool) -> Any:
    if origin in (collections.abc.Callable, type):
        return value if callable(value) else _REFUSED
    if issubclass(origin, collections.abc.Mapping):
        if not isinstance(value, collections.abc.Mapping):
            return _REFUSED
        kept = [fit(options[1], item, nan) for item in value.values()] if options else []
        return _REFUSED if any(item is _REFUSED for item in kept) else value
    if isinstance(value, (str, bytes, bytearray, memoryview, collections.abc.Mapping)):
        return _REFUSED
    ordered = issubclass(origin, collections.abc.Sequence)
    if ordered and isinstance(value, (set, frozenset)):  # which comes first, nobody can tell
        return _REFUSED
    if not isinstance(value, collections.abc.Iterable):
        return _REFUSED
    if not isinstance(value, collections.abc.Collection):
        value = _listed(value)
        if value is None:
            return _REFUSED
    if issubclass(origin, tuple) and options and options[-1] is not Ellipsis:
        return _fit_record(options, tuple(value), nan)
    if hasattr(value, "dtype") and options and options[0] is not str:
        return _fit_row(options[0], value)
    if isinstance(value, (set, frozenset)) and options:
        kept = [fit(options[0], item, nan) for item in value]
        return _REFUSED if any(item is _REFUSED for item in kept) else value
    if isinstance(value, (list, tuple, range)) and options and len(value) <= 1000:
        items = [fit(options[0], item, nan) for item in value]
        if any(item is _REFUSED for item in items):
            return _REFUSED
        if any(item is not given for item, given in zip(items, value, strict=True)):
            value = tuple(items) if isinstance(value, tuple) else items
    return tuple(value) if issubclass(origin, tuple) and isinstance(value, list) else value


def _fit_row(kind: Any, value: Any) -> Any:
    """An array where a list is as good: one axis of numbers of this kind."""
    value = plain_array(value)
    if value is None or (kind in (int, float, bool) and value.ndim != 1):
        return _REFUSED
    return _as_kind("int", value) if kind is int else value


def _fit_record(options: tuple[Any, ...], values: tuple[Any, ...], nan: bool) -> Any:
    """So many values as there are options, each of its own kind."""
    if len(values) != len(options):
        return _REFUSED
    items = [fit(option, value, nan) for option, value in zip(options, values, strict=True)]
    return _REFUSED if any(item is _REFUSED for item in items) else tuple(items)


def _listed(values: Any) -> list[Any] | None:
    """What a generator yields, if that ends."""
    items = list(itertools.islice(values, _MOST_ITEMS + 1))
    return items if len(items) <= _MOST_ITEMS else None


def _fit_class(annotation: Any, value: Any) -> Any:
    if not inspect.isclass(annotation):
        return value
    try:
        if _is_a(annotation, value):
            return value
        inner = getattr(value, "net", None)  # the network of a Trajectory
        return inner if inner is not None and _is_a(annotation, inner) else _REFUSED
    except Exception:  # a class that does not say what its instances are, or a run without a net
        return _REFUSED


def _is_a(kind: type, value: Any) -> bool:
    """Whether it is one; what a protocol asks for is asked of the class, which evaluates nothing."""
    if not getattr(kind, "_is_protocol", False):
        return isinstance(value, kind)
    members = {name for base in kind.__mro__ if base.__module__ != "typing" for name in vars(base)}
    wanted = [name for name in members if name == "__call__" or not name.startswith("_")]
    return all(hasattr(type(value), name) or hasattr(value, name) for name in wanted)


def _out_of_array(value: Any) -> Any:
    """The number in an array or a tensor without axes."""
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
        return value.item()
    return value


def _number(value: Any) -> Any:
    value = _out_of_array(value)
    if isinstance(value, bool) or not isinstance(value, Real):
        return _REFUSED
    try:
        return _REFUSED if math.isnan(float(value)) else value
    except (OverflowError, ValueError):  # 10**400
        return _REFUSED


def _whole(value: Any) -> Any:
    value = _out_of_array(value)
    if isinstance(value, bool) or not isinstance(value, Real):
        return _REFUSED
    if isinstance(value, Integral):
        return value
    number = float(value)
    return int(number) if math.isfinite(number) and number.is_integer() else _REFUSED


def _truth(value: Any) -> Any:
    return (
        value if isinstance(value, bool) or type(value).__name__ in ("bool", "bool_") else _REFUSED
    )


def _text(value: Any) -> Any:
    return value if isinstance(value, str) else _REFUSED


def _path(value: Any) -> Any:
    return Path(value) if isinstance(value, (str, os.PathLike)) else _REFUSED


def _is_finite(value: Any, endless: bool) -> bool:
    """Whether all of an array's numbers are; infinities pass where they mean something."""
    import numpy as np

    if not isinstance(value, np.ndarray) or value.dtype.kind != "f":
        return True
    return not np.isnan(value).any() if endless else bool(np.isfinite(value).all())


_PLAIN: dict[Any, Callable[[Any], Any]] = {
    int: _whole,
    float: _number,
    bool: _truth,
    str: _text,
    Path: _path,
}
