"""Converts a value to what an annotation asks for, or refuses it in a sentence.

A list becomes an array, 3.0 a whole number, a `Trajectory` its network. `Any` takes everything.
"""

from __future__ import annotations

import collections.abc
import contextlib
import inspect
import itertools
import math
import os
import types
import typing
from collections.abc import Iterable
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Literal, Union

from featavg.boundary.kinds import MOST, AtLeast, Gaps
from featavg.errors import InputError

# Floats below this are whole numbers without a doubt; generators of more items are not waited for.
_EXACT, _MOST_ITEMS = 2.0**53, 100_000
_BYTES = (str, bytes, bytearray, memoryview)


class _Refused(Exception):  # noqa: N818 (caught in this file)
    """The value is not what the annotation asks for."""


def converted(argument: str, annotation: Any, value: Any) -> Any:
    """`value` as `annotation` wants it; refused in one sentence otherwise.

    >>> from featavg.boundary.kinds import Count
    >>> converted("rounds", Count, 0)
    Traceback (most recent call last):
        ...
    featavg.errors.InputError: rounds is 0: give 1 or more.
    """
    import numpy as np

    gaps = any(isinstance(one, Gaps) for one in getattr(annotation, "__metadata__", ()))
    if np.ma.is_masked(value):
        remedy = "give NaN where a value is not known" if gaps else "leave out what is masked"
        raise InputError(argument, "is a masked array", remedy)
    try:
        fitted = fit(annotation, value)
    except _Refused:
        raise InputError(argument, f"is {short(value)}", f"give {words(annotation)}") from None
    measured = isinstance(fitted, np.ndarray) and fitted.dtype.kind == "f"
    if measured and not gaps and not np.isfinite(fitted).all():
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
    """`value` as `annotation` wants it."""
    if annotation in (Any, inspect.Parameter.empty, object):
        return value
    origin, options = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return fit(options[0], value)
    if origin in (Union, types.UnionType):
        return _fit_any(options, value)
    if hasattr(annotation, "dim_str") or getattr(annotation, "__name__", "") == "ndarray":
        return _fit_array(annotation, value)
    if annotation in (None, type(None)):
        return _if(value is None, value)
    if origin is Literal:
        return _if(isinstance(value, str) and value in options, value)
    if annotation in (int, float):
        return _fit_number(annotation, value)
    if annotation is bool:
        return _if(type(value).__name__ in ("bool", "bool_"), value)
    if annotation is str:
        return _if(isinstance(value, str), value)
    if annotation is Path:
        return Path(_if(isinstance(value, (str, os.PathLike)), value))
    if origin in (collections.abc.Callable, type):
        return _if(callable(value), value)
    if origin is None:
        return _fit_class(annotation, value)
    if issubclass(origin, collections.abc.Mapping):
        items = _if(isinstance(value, collections.abc.Mapping), value).values()
        _fit_each(options[1:], items)
        return value
    return _fit_list(origin, options, value)


def _if(fits: bool, value: Any) -> Any:
    """The value, if it fits."""
    if not fits:
        raise _Refused
    return value


def _fit_any(options: tuple[Any, ...], value: Any) -> Any:
    """The option that takes the value as it is before one that has to convert it."""
    fitted = []
    for option in options:
        with contextlib.suppress(_Refused):
            fitted.append(fit(option, value))
    same = [each for each in fitted if each is value]
    return _if(bool(fitted), (same or fitted or [None])[0])


def _fit_array(annotation: Any, value: Any) -> Any:
    shaped, was_array = hasattr(annotation, "dim_str"), hasattr(value, "dtype")
    strange = isinstance(value, (*_BYTES, dict, set, frozenset)) or callable(value)
    array = None if value is None or strange else plain_array(value)
    # A number is no array.
    if array is None or (array.ndim == 0 and not was_array and not shaped):
        raise _Refused
    array = _as_kind(str(getattr(annotation, "dtypes", "")), array)
    dims = getattr(annotation, "dims", None)
    if not isinstance(dims, tuple):
        return array
    if getattr(annotation, "index_variadic", None) is not None:
        return _if(array.ndim >= len(dims) - 1, array)
    return _if(array.ndim == len(dims), array)


def _as_kind(wanted: str, array: Any) -> Any:
    """Whole numbers where labels are wanted, float64 where measurements are."""
    import numpy as np

    if "float" in wanted and "int" not in wanted and array.dtype != float:
        return array.astype(float)
    if "int" in wanted and "float" not in wanted and array.dtype.kind == "f":
        whole = np.all(np.isfinite(array)) and np.all(array == np.rint(array))
        return _if(bool(whole and np.all(np.abs(array) < _EXACT)), array).astype(np.int64)
    return array


def _fit_list(origin: Any, options: tuple[Any, ...], value: Any) -> Any:
    """A list, a tuple or a set, or what can be one."""
    no_list = isinstance(value, (*_BYTES, collections.abc.Mapping))
    no_order = isinstance(value, (set, frozenset))
    if no_list or (no_order and issubclass(origin, collections.abc.Sequence)):
        raise _Refused
    _if(isinstance(value, collections.abc.Iterable), value)
    if not isinstance(value, collections.abc.Collection):  # a generator, if it ends
        value = list(itertools.islice(value, _MOST_ITEMS + 1))
        _if(len(value) <= _MOST_ITEMS, value)
    if issubclass(origin, tuple) and options and options[-1] is not Ellipsis:
        _if(len(value) == len(options), value)  # one value for each option, each of its own kind
        return tuple(fit(option, item) for option, item in zip(options, value, strict=True))
    if hasattr(value, "dtype") and options and options[0] is not str:
        array = plain_array(value)  # where a list is as good: one axis of numbers of this kind
        plain = options[0] in (int, float, bool)
        if array is None or (plain and array.ndim != 1):
            raise _Refused
        return _as_kind("int", array) if options[0] is int else array
    if no_order:
        _fit_each(options[:1], value)
        return value
    if isinstance(value, (list, tuple, range)) and len(value) <= 1000:
        items = _fit_each(options[:1], value)
        if any(item is not given for item, given in zip(items, value, strict=True)):
            value = tuple(items) if isinstance(value, tuple) else items
    return tuple(value) if issubclass(origin, tuple) and isinstance(value, list) else value


def _fit_each(options: tuple[Any, ...], values: Iterable[Any]) -> list[Any]:
    """The values as the first option wants them; as they are if there is none."""
    return [fit(options[0], value) if options else value for value in values]


def _fit_class(annotation: Any, value: Any) -> Any:
    if not inspect.isclass(annotation):
        return value
    try:
        # The network of a Trajectory counts as one.
        for each in (value, getattr(value, "net", None)):
            if each is not None and _is_a(annotation, each):
                return each
    except Exception as error:  # a class that does not say what its instances are, a run without a net
        raise _Refused from error
    raise _Refused


def _is_a(kind: type, value: Any) -> bool:
    """Whether it is one; what a protocol asks for is asked of the class, which evaluates nothing."""
    if not getattr(kind, "_is_protocol", False):
        return isinstance(value, kind)
    members = {name for base in kind.__mro__ if base.__module__ != "typing" for name in vars(base)}
    wanted = [name for name in members if name == "__call__" or not name.startswith("_")]
    return all(hasattr(type(value), name) or hasattr(value, name) for name in wanted)


def _fit_number(kind: type, value: Any) -> Any:
    """A number, also that of an array or a tensor without axes."""
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
        value = value.item()
    _if(_is_number(value), value)
    try:
        number = float(value)
    except (OverflowError, ValueError):  # 10**400
        return _if(kind is int and isinstance(value, Integral), value)
    if kind is float:
        return _if(not math.isnan(number), value)
    if isinstance(value, Integral):
        return value
    return int(_if(number.is_integer(), number))


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
