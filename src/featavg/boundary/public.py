"""The decorator of public functions: validates arguments, names unknown ones, shows progress.

A public function says so with `@public`. Its annotations say what it takes: `Float[ndarray, "n d"]` takes
whatever converts to such an array, `Count` and `Seed` are whole numbers with a least value, and two axes
of one name have one length. What an annotation cannot say, the function checks itself.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, get_args, get_type_hints

from featavg.boundary.coerce import converted
from featavg.errors import InputError
from featavg.storage.files import check_file_name

# Seconds after which a call shows how far it is.
_PATIENCE = 5.0

Given = ParamSpec("Given")
Answer = TypeVar("Answer")


def public(function: Callable[Given, Answer]) -> Callable[Given, Answer]:
    """`function` with its arguments validated and converted.

    >>> from featavg.boundary.kinds import Count
    >>> @public
    ... def doubled(n: Count) -> int:
    ...     return 2 * n
    >>> doubled(3.0)
    6
    >>> doubled(m=3)
    Traceback (most recent call last):
        ...
    featavg.errors.InputError: m is no argument of doubled: it takes n.
    """
    signature = inspect.signature(function)

    @functools.wraps(function)
    def checked(*arguments: Given.args, **named: Given.kwargs) -> Answer:
        bound = _checked(function, signature, arguments, named)
        with _enough_memory(function.__name__), _bar(signature, bound):
            return function(*bound.args, **bound.kwargs)

    return checked


def check_fields(record: Any) -> None:
    """Converts and validates the fields of a frozen dataclass; for its `__post_init__`.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Budget:
    ...     rounds: int = 1
    ...     def __post_init__(self):
    ...         check_fields(self)
    >>> Budget("three")
    Traceback (most recent call last):
        ...
    featavg.errors.InputError: rounds is 'three': give a whole number.
    """
    wanted: dict[str, Any] = hints(record.__class__)
    for field in fields(record):
        value = getattr(record, field.name)
        if value is not field.default:
            fitted = converted(field.name, wanted[field.name], value)
            if fitted is not value:
                object.__setattr__(record, field.name, fitted)


@functools.cache
def hints(function: Callable[..., Any]) -> dict[str, Any]:
    """The annotations of a function or class, resolved once."""
    if isinstance(function, type):
        return get_type_hints(function, include_extras=True)
    # On Python 3.10 `get_type_hints` wraps what has the default None, and hides what is `Annotated`.
    return inspect.get_annotations(function, eval_str=True)


def _checked(
    function: Callable[..., Any], signature: inspect.Signature, arguments: tuple[Any, ...], named: dict[str, Any]
) -> inspect.BoundArguments:
    try:
        bound = signature.bind(*arguments, **named)
    except TypeError as error:
        raise _bad_call(function.__name__, signature, arguments, named, error) from None
    wanted = hints(function)
    for name, value in bound.arguments.items():
        about = signature.parameters[name]
        if about.kind in (about.VAR_KEYWORD, about.VAR_POSITIONAL) or value is about.default:
            continue
        fitted = bound.arguments[name] = converted(name, wanted.get(name, Any), value)
        shape = getattr(fitted, "shape", ())
        # An empty list of rows is possible, a row without columns is a mistake.
        if isinstance(shape, tuple) and 0 in shape[1:]:
            raise InputError(name, f"has shape {shape}", "give an array without an empty axis")
        if isinstance(value, (str, os.PathLike)) and _is_path(wanted.get(name)):
            check_file_name(name, value)
        if isinstance(value, str) and not value:
            raise InputError(name, "is empty", "give a value, or leave it out")
    _check_lengths({name: (wanted.get(name), v) for name, v in bound.arguments.items()})
    return bound


def _is_path(annotation: Any) -> bool:
    return Path in (annotation, *get_args(annotation))


@contextmanager
def _enough_memory(name: str) -> Iterator[None]:
    try:
        yield
    except MemoryError as error:
        raise InputError(name, "needs more memory than there is", "ask for less") from error


@contextmanager
def _bar(signature: inspect.Signature, bound: inspect.BoundArguments) -> Iterator[None]:
    """Adds a progress bar to a function that takes one, on a terminal or in a notebook."""
    from featavg.progress import ProgressBar, is_watched

    if "progress" not in signature.parameters or "progress" in bound.arguments or not is_watched():
        yield
        return
    with ProgressBar(patience=_PATIENCE) as bar:
        bound.arguments["progress"] = bar
        yield


def _check_lengths(arguments: dict[str, tuple[Any, Any]]) -> None:
    """Refuse arrays whose axes have one name in the annotations and two lengths."""
    lengths: dict[str, tuple[int, str, tuple[int, ...]]] = {}
    for argument, (annotation, value) in arguments.items():
        shape = getattr(value, "shape", None)
        if not isinstance(shape, tuple):
            continue
        for name, length in _named_lengths(annotation, shape):
            known, other, its_shape = lengths.setdefault(name, (length, argument, shape))
            if known == length:
                continue
            if other == argument:
                raise InputError(argument, f"has shape {shape}", f"both axes {name} are one length")
            problem = f"has shape {shape} beside {other} of shape {its_shape}"
            raise InputError(argument, problem, f"give both the same {name}")


def _named_lengths(annotation: Any, shape: tuple[int, ...]) -> list[tuple[str, int]]:
    """The axes that have a name and a place: those behind a `*s` are counted from the end."""
    options = [a for a in (annotation, *get_args(annotation)) if hasattr(a, "dim_str")]
    if len(options) != 1:
        return []
    names = options[0].dim_str.split()
    free = [i for i, name in enumerate(names) if name.startswith(("*", "..."))]
    if len(names) - len(free) > len(shape) or len(free) > 1:
        return []
    if not free and len(names) != len(shape):
        return []
    front = free[0] if free else len(names)
    behind = names[front + 1 :]
    pairs = list(zip(names[:front], shape, strict=False))
    pairs += zip(behind, shape[len(shape) - len(behind) :], strict=True)
    return [(name, length) for name, length in pairs if name.isidentifier()]


def _bad_call(
    name: str, signature: inspect.Signature, arguments: tuple[Any, ...], named: dict[str, Any], error: TypeError
) -> InputError:
    known = list(signature.parameters)
    for given in named:
        if given not in known:
            near = difflib.get_close_matches(given, known, 1)
            remedy = f"did you mean {near[0]}" if near else f"it takes {', '.join(known)}"
            return InputError(given, f"is no argument of {name}", remedy)
    for parameter in list(signature.parameters.values())[len(arguments) :]:
        several = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        if parameter.default is parameter.empty and not several and parameter.name not in named:
            return InputError(parameter.name, "is missing", f"give it to {name}")
    return InputError(name, f"was called with the wrong arguments ({error})", f"see help({name})")
