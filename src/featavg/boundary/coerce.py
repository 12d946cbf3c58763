"""Converts a value to what an annotation asks for, or refuses it.

A list becomes an array, 3.0 a whole number, a `Trajectory` its network. `Any` takes everything.
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

from featavg.boundary.kinds import MOST, AtLeast, Gaps
from featavg.errors import InputError

_REFUSED = object()
# Floats below this are whole numbers without a doubt; generators of more items are not waited for.
_EXACT, _MOST_ITEMS = 2.0**53, 100_000
_NO_ARRAYS = (str, bytes, bytearray, memoryview, dict, set, frozenset)


def converted(argument: str, annotation: Any, value: Any) -> Any:
    """`value` as `annotation` wants it; refused in one sentence otherwise.

    >>> from featavg.boundary.kinds import Count
    >>> converted("rounds", Count, 0)
    Traceback (most recent call last):
        ...
    featavg.errors.InputError: rounds is 0: give 1 or more.
    """
    fitted = fit(annotation, value)
    if fitted is _REFUSED:
        raise InputError(argument, f"is {short(value)}", f"give {words(annotation)}")
    gaps = any(isinstance(one, Gaps) for one in getattr(annotation, "__metadata__", ()))
    if not gaps and not _is_finite(fitted):
        raise InputError(argument, "holds a number that is not finite", "give finite numbers")
    _check_range(argument, _range_of(annotation), fitted)
    return fitted


def _range_of(annotation: Any) -> AtLeast | None:
    """The range that an annotation states, also inside a union or a list."""
    for stated in getattr(annotation, "__metadata__", ()):
        if isinstance(stated, AtLeast):
            return stated
    inner = (_range_of(option) for option in typing.get_args(annotation))
    return next((stated for stated in inner if stated is not None), None)


def _check_range(argument: str, stated: AtLeast | None, value: Any) -> None:
    endless = stated is not None and stated.endless
    numbers = value if isinstance(value, (list, tuple)) else (value,)
    for number in filter(_is_number, numbers):
        if stated is not None and not number >= stated.least:
            raise InputError(argument, f"is {short(number)}", f"give {stated.least:g} or more")
        if endless:
            continue
        if isinstance(number, int) and abs(number) > MOST:
            raise InputError(argument, f"is {short(number)}", f"give at most {MOST:.0e}")
        if number in (math.inf, -math.inf):  # not isinf: whole numbers have any length
            raise InputError(argument, f"is {number}", "give a finite number")


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def fit(annotation: Any, value: Any) -> Any:
    """`value` as `annotation` wants it, or `_REFUSED`."""
    if annotation in (Any, inspect.Parameter.empty, object):
        return value
    if annotation is None or annotation is type(None):
        return value if value is None else _REFUSED
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return fit(typing.get_args(annotation)[0], value)
    if origin in (Union, types.UnionType):
        return _fit_any(typing.get_args(annotation), value)
    if origin is Literal:
        named = isinstance(value, str) and value in typing.get_args(annotation)
        return value if named else _REFUSED
    if hasattr(annotation, "dim_str") or getattr(annotation, "__name__", "") == "ndarray":
        return _fit_array(annotation, value)
    if annotation in _PLAIN:
        return _PLAIN[annotation](value)
    if origin is not None:
        return _fit_container(origin, typing.get_args(annotation), value)
    return _fit_class(annotation, value)


def _fit_any(options: tuple[Any, ...], value: Any) -> Any:
    """The option that takes the value as it is before one that has to convert it."""
    fitted = [each for each in (fit(o, value) for o in options) if each is not _REFUSED]
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


def _fit_container(origin: Any, options: tuple[Any, ...], value: Any) -> Any:
    if origin in (collections.abc.Callable, type):
        return value if callable(value) else _REFUSED
    if issubclass(origin, collections.abc.Mapping):
        if not isinstance(value, collections.abc.Mapping):
            return _REFUSED
        kept = [fit(options[1], item) for item in value.values()] if options else []
        return _REFUSED if any(item is _REFUSED for item in kept) else value
    if isinstance(value, (str, bytes, bytearray, memoryview, collections.abc.Mapping)):
        return _REFUSED
    ordered = issubclass(origin, collections.abc.Sequence)
    if ordered and isinstance(value, (set, frozenset)):  # a set has no order
        return _REFUSED
    if not isinstance(value, collections.abc.Iterable):
        return _REFUSED
    if not isinstance(value, collections.abc.Collection):
        value = _listed(value)
        if value is None:
            return _REFUSED
    if issubclass(origin, tuple) and options and options[-1] is not Ellipsis:
        return _fit_record(options, tuple(value))
    if hasattr(value, "dtype") and options and options[0] is not str:
        return _fit_row(options[0], value)
    if isinstance(value, (set, frozenset)) and options:
        kept = [fit(options[0], item) for item in value]
        return _REFUSED if any(item is _REFUSED for item in kept) else value
    if isinstance(value, (list, tuple, range)) and options and len(value) <= 1000:
        items = [fit(options[0], item) for item in value]
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


def _fit_record(options: tuple[Any, ...], values: tuple[Any, ...]) -> Any:
    """So many values as there are options, each of its own kind."""
    if len(values) != len(options):
        return _REFUSED
    items = [fit(option, value) for option, value in zip(options, values, strict=True)]
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


def _is_finite(value: Any) -> bool:
    """Whether all of an array's numbers are."""
    import numpy as np

    if not isinstance(value, np.ndarray) or value.dtype.kind != "f":
        return True
    return bool(np.isfinite(value).all())


_PLAIN: dict[Any, Callable[[Any], Any]] = {
    int: _whole,
    float: _number,
    bool: _truth,
    str: _text,
    Path: _path,
}


_NUMBERS = "biuf"  # kinds of NumPy: bool, whole, unsigned, float


def plain_array(value: Any) -> Any:
    """The numbers of `value` as a plain array in this machine's byte order; None if it has none.

    Subclasses count by their numbers: `numpy.matrix` multiplies in a way of its own. What is masked
    is missing, and does not count.

    >>> import numpy as np
    >>> plain_array([[1, 2], [3, 4]]).shape, plain_array([[1], [2, 3]]), plain_array(np.eye(2) * 1j)
    ((2, 2), None, None)
    >>> plain_array(np.ma.masked_less(np.eye(2), 0.5)) is None
    True
    """
    import numpy as np

    if type(value) is np.ndarray and value.dtype.isnative:
        return value if value.dtype.kind in _NUMBERS else None
    if np.ma.is_masked(value):
        return None
    try:
        array = np.asarray(_off_the_graph(value))
    except Exception:  # ragged, nested without end, or an object with an error of its own
        return None
    if array.dtype.kind not in _NUMBERS:
        return None
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def _off_the_graph(value: Any) -> Any:
    """A tensor of PyTorch without its gradient, and in a type that NumPy has."""
    if not (hasattr(value, "detach") and hasattr(value, "is_floating_point")):
        return value
    tensor = value.detach().cpu()
    return tensor.double() if tensor.is_floating_point() else tensor


_NAMES = {int: "a whole number", float: "a number", bool: "True or False", str: "text"}


def words(annotation: Any) -> str:
    """What is wanted, for a person."""
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return words(typing.get_args(annotation)[0])
    if origin in (Union, types.UnionType):
        options = [words(option) for option in typing.get_args(annotation)]
        return " or ".join(dict.fromkeys(options))
    if origin is Literal:
        return f"one of {', '.join(map(repr, typing.get_args(annotation)))}"
    if annotation is type(None) or annotation is None:
        return "None"
    if hasattr(annotation, "dim_str"):
        shape = f" of shape ({annotation.dim_str})" if annotation.dim_str.strip() else ""
        return f"an array of numbers{shape}"
    if annotation in _NAMES:
        return _NAMES[annotation]
    name = getattr(origin or annotation, "__name__", str(annotation))
    known = {"Path": "a path", "ndarray": "an array of numbers", "Callable": "a function"}
    lists = ("Sequence", "tuple", "list", "Iterable", "Collection")
    return known.get(name) or ("a list of values" if name in lists else _with_article(name))


def short(value: Any) -> str:
    """A value in a few characters: small ones as they are, others by their kind."""
    if isinstance(value, int) and abs(value) >= 10**40:  # Python itself refuses to print some
        return f"a number of about {value.bit_length() * 3 // 10} digits"
    if isinstance(value, (bool, int, float, str, type(None))) and len(text := repr(value)) <= 40:
        return text
    kind = _with_article(type(value).__name__)
    try:
        shape = getattr(value, "shape", None)
    except Exception:  # a nested tensor has none, and raises something of its own
        shape = None
    return f"{kind} of shape {tuple(shape)}" if isinstance(shape, tuple) else kind


def _with_article(name: str) -> str:
    """A noun with "a" or "an" before it."""
    return f"an {name}" if name[:1].lower() in "aeiou" else f"a {name}"
