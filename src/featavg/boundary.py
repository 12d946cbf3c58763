"""The boundary in front of the public surface: what comes in through `featavg.X` is looked at once.

Arguments are held against the annotations of the function. What clearly means the right thing is
converted (a list where an array is wanted, 3.0 where a whole number is, a `Trajectory` where its
network is); what clearly does not is refused in one sentence that names the argument. Inside the
package nobody passes here: the check costs microseconds a call and is not part of any loop.

Annotations that cannot be resolved, or say nothing (`Any`), are not checked: the boundary refuses
only what it is sure of, and the functions still check what the numbers mean.
"""

from __future__ import annotations

import collections.abc
import difflib
import functools
import inspect
import math
import os
import sys
import types
import typing
from collections.abc import Callable
from enum import Enum
from numbers import Integral, Real
from typing import Any, Literal, Union

from featavg.errors import InputError
from featavg.ranges import check_number, check_shapes

MAY_BE_NAN = "NaN says that nothing was measured"  # as in Annotated[float, MAY_BE_NAN]

_REFUSED = object()
# Modules between a caller and a constructor: `dataclasses.replace`, and the shape checker of tests.
_BETWEEN = ("dataclasses", "jaxtyping", "beartype", "functools", "copy")


def guarded(public: Any) -> Any:
    """`public` with its arguments checked; anything that takes none, as it is."""
    if inspect.isfunction(public) or hasattr(public, "cache_info"):  # remembered by lru_cache
        return _guard_function(public)
    if inspect.isclass(public) and _has_own_constructor(public):
        _guard_constructor(public)
    return public


def _guard_function(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def checked(*arguments: Any, **named: Any) -> Any:
        arguments, named = _checked(function, arguments, named)
        return function(*arguments, **named)

    if hasattr(function, "cache_clear"):
        checked.cache_clear = function.cache_clear  # type: ignore[attr-defined]
    # Another process finds it under its public name, where it is the same object.
    checked.__module__, checked.__qualname__ = "featavg", function.__name__
    return checked


def _has_own_constructor(public: type) -> bool:
    init = public.__dict__.get("__init__")
    skipped = issubclass(public, (Enum, BaseException)) or hasattr(public, "model_fields")
    return inspect.isfunction(init) and not skipped and not hasattr(init, "__guarded__")


def _guard_constructor(public: Any) -> None:
    """Classes stay what they are; their constructor looks at what comes from outside the package.

    A record (a class without checks of its own) holds what was measured, which may be NaN.
    """
    init = public.__init__
    record = not hasattr(public, "__post_init__") or hasattr(public, "_repr_html_")

    @functools.wraps(init)
    def checked(self: Any, *arguments: Any, **named: Any) -> None:
        if not _called_from_inside():
            (_, *rest), named = _checked(init, (self, *arguments), named, public.__name__, record)
            arguments = tuple(rest)
        init(self, *arguments, **named)

    checked.__guarded__ = True  # type: ignore[attr-defined]
    public.__init__ = checked


def _called_from_inside() -> bool:
    """Whether the caller of the constructor that asks is a module of the package."""
    frame = sys._getframe(2)
    while frame.f_back and frame.f_globals.get("__name__", "").startswith(_BETWEEN):
        frame = frame.f_back
    return bool(frame.f_globals.get("__name__", "").startswith("featavg."))


def _checked(
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    named: dict[str, Any],
    name: str = "",
    nan: bool = False,
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    name = name or function.__name__
    signature, annotations = resolved_annotations(function)
    try:
        bound = signature.bind_partial(*arguments, **named)
    except TypeError as error:
        raise _bad_call(name, signature, named, error) from None
    for parameter, value in bound.arguments.items():
        kind = signature.parameters[parameter].kind
        if kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
            continue
        annotation = annotations.get(parameter, Any)
        bound.arguments[parameter] = _converted(parameter, annotation, value, nan)
        if not nan:
            default = signature.parameters[parameter].default
            check_number(parameter, bound.arguments[parameter], default)
            if isinstance(value, str) and not value and default != "":
                raise InputError(parameter, "is empty", "give a value, or leave it out")
    if not nan:
        check_shapes({n: (annotations.get(n, Any), v) for n, v in bound.arguments.items()})
    for parameter, about in signature.parameters.items():
        if about.default is inspect.Parameter.empty and parameter not in bound.arguments:
            if about.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
                continue
            raise InputError(parameter, "is missing", f"give it to {name}")
    return bound.args, bound.kwargs


@functools.cache
def resolved_annotations(function: Callable[..., Any]) -> tuple[inspect.Signature, dict[str, Any]]:
    """The signature, and those annotations that can be resolved at run time."""
    signature = inspect.signature(function)
    names = getattr(inspect.unwrap(function), "__globals__", {})
    resolved = {}
    for name, parameter in signature.parameters.items():
        annotation = parameter.annotation
        if isinstance(annotation, str):
            try:
                annotation = eval(annotation, names)  # our own source, as typing.get_type_hints
            except Exception:  # a name for type checkers only
                annotation = Any
        if parameter.default is None:
            annotation = Union[annotation, None] if annotation is not Any else Any  # noqa: UP007
        resolved[name] = annotation
    return signature, resolved


def _bad_call(
    name: str, signature: inspect.Signature, named: dict[str, Any], error: TypeError
) -> InputError:
    known = [each for each in signature.parameters if each != "self"]
    for given in named:
        if given not in known:
            near = difflib.get_close_matches(given, known, 1)
            remedy = f"did you mean {near[0]}?" if near else f"it takes {', '.join(known)}"
            return InputError(given, f"is no argument of {name}", remedy.rstrip("?"))
    return InputError(name, f"was called with the wrong arguments ({error})", f"see help({name})")


def _converted(argument: str, annotation: Any, value: Any, nan: bool) -> Any:
    converted = _fit(annotation, value, nan)
    if converted is _REFUSED:
        told = f"is {_short(value)}"
        raise InputError(argument, told, f"give {_words(annotation)}")
    if argument in ("x", "features", "gradients") and not _is_finite(converted):
        raise InputError(argument, "holds a number that is not finite", "give finite numbers")
    return converted


def _fit(annotation: Any, value: Any, nan: bool = False) -> Any:
    """`value` as `annotation` wants it, or `_REFUSED`; NaN is a number where `nan` says so."""
    if annotation is Any or annotation is inspect.Parameter.empty or annotation is object:
        return value
    if annotation is None or annotation is type(None):
        return value if value is None else _REFUSED
    origin = typing.get_origin(annotation)
    if MAY_BE_NAN in getattr(annotation, "__metadata__", ()):
        return _fit(typing.get_args(annotation)[0], value, nan=True)
    if origin in (Union, types.UnionType):
        return _fit_any(typing.get_args(annotation), value, nan)
    if origin is Literal:
        return value if value in typing.get_args(annotation) else _REFUSED
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
    fits = [fit for fit in (_fit(option, value, nan) for option in options) if fit is not _REFUSED]
    same = [fit for fit in fits if fit is value]
    return (same or fits or [_REFUSED])[0]


def _fit_array(annotation: Any, value: Any) -> Any:
    import numpy as np

    if value is None or isinstance(value, (str, bytes, dict, set)) or callable(value):
        return _REFUSED
    if not isinstance(value, np.ndarray):
        try:
            value = np.asarray(value)
        except (ValueError, TypeError):
            return _REFUSED
        if value.ndim == 0 and not hasattr(annotation, "dim_str"):  # a number is no array
            return _REFUSED
    if value.dtype.kind not in "biuf":
        return _REFUSED
    wanted = str(getattr(annotation, "dtypes", ""))
    if "float" in wanted and "int" not in wanted and value.dtype.kind in "iu":
        value = value.astype(float)
    dims = getattr(annotation, "dims", None)
    fixed = dims is not None and getattr(annotation, "index_variadic", None) is None
    return _REFUSED if fixed and isinstance(dims, tuple) and len(dims) != value.ndim else value


def _fit_container(origin: Any, options: tuple[Any, ...], value: Any, nan: bool) -> Any:
    if origin in (collections.abc.Callable, type):
        return value if callable(value) else _REFUSED
    if issubclass(origin, collections.abc.Mapping):
        return value if isinstance(value, collections.abc.Mapping) else _REFUSED
    if isinstance(value, (str, bytes, collections.abc.Mapping)):
        return _REFUSED
    if not isinstance(value, collections.abc.Iterable):
        return _REFUSED
    if issubclass(origin, tuple) and len(options) == 2 and options[1] is not Ellipsis:
        return value if len(tuple(value)) == 2 else _REFUSED
    kind, axes = getattr(getattr(value, "dtype", None), "kind", "f"), getattr(value, "ndim", 1)
    if options and options[0] is not str and kind not in "biuf":
        return _REFUSED
    if options and options[0] in (int, float, bool) and axes != 1:
        return _REFUSED
    if isinstance(value, (list, tuple, range)) and options and len(value) <= 1000:
        items = [_fit(options[0], item, nan) for item in value]
        if any(item is _REFUSED for item in items):
            return _REFUSED
    return tuple(value) if issubclass(origin, tuple) and isinstance(value, list) else value


def _fit_class(annotation: Any, value: Any) -> Any:
    if not inspect.isclass(annotation) or getattr(annotation, "_is_protocol", False):
        return value
    try:
        if isinstance(value, annotation):
            return value
        inner = getattr(value, "net", None)  # the network of a Trajectory
        return inner if isinstance(inner, annotation) else _REFUSED
    except Exception:  # a class that does not say what its instances are, or a run without a net
        return _REFUSED


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, Real):
        return _REFUSED
    return _REFUSED if math.isnan(float(value)) else value


def _whole(value: Any) -> Any:
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
    from pathlib import Path

    return Path(value) if isinstance(value, (str, os.PathLike)) else _REFUSED


def _paths() -> dict[Any, Callable[[Any], Any]]:
    from pathlib import Path

    return {Path: _path}


_PLAIN: dict[Any, Callable[[Any], Any]] = {
    int: _whole,
    float: _number,
    bool: _truth,
    str: _text,
    **_paths(),
}
_NAMES = {int: "a whole number", float: "a number", bool: "True or False", str: "text"}


def _words(annotation: Any) -> str:
    """What is wanted, for a person."""
    origin = typing.get_origin(annotation)
    if origin in (Union, types.UnionType):
        options = [_words(option) for option in typing.get_args(annotation)]
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
    return known.get(name) or ("a list of values" if name in lists else f"a {name}")


def _short(value: Any) -> str:
    text = repr(value)
    kind = type(value).__name__
    if isinstance(value, (bool, int, float, str, type(None))) and len(text) <= 40:
        return text
    shape = getattr(value, "shape", None)
    return f"a {kind} of shape {tuple(shape)}" if isinstance(shape, tuple) else f"a {kind}"


def _is_finite(value: Any) -> bool:
    import numpy as np

    if not isinstance(value, np.ndarray) or value.dtype.kind != "f":
        return True
    return bool(np.isfinite(value).all())
