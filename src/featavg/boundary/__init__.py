"""The boundary in front of the public surface: what comes in through `featavg.X` is looked at once.

Arguments are held against the annotations of the function, constructor or method. What clearly means
the right thing is converted; what clearly does not is refused in one sentence that names the argument.
Inside the package nobody passes here: methods and constructors ask who calls, which costs less than a
microsecond. Calls that take long show a progress bar to whoever watches.

Annotations that cannot be resolved, or say nothing (`Any`), are not checked: the boundary refuses
only what it is sure of, and the functions still check what the numbers mean. Options that a function
hands on to a class are checked as that class's own: `**changes: Annotated[Any, Recipe]`.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Any, Union, get_args

from featavg.boundary.fitting import MAY_BE_NAN, converted
from featavg.boundary.names import check_file_name
from featavg.boundary.ranges import check_number, check_shapes, check_width
from featavg.errors import InputError

__all__ = ["MAY_BE_NAN", "guarded", "resolved_annotations"]

# Modules between a caller and a constructor: `dataclasses.replace`, and the shape checker of tests.
_BETWEEN = ("dataclasses", "jaxtyping", "beartype", "functools", "copy")
_SEVERAL = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)

# Seconds after which a call from Python shows how far it is.
_PATIENCE = 5.0

_guarded_classes: set[type] = set()


def guarded(public: Any) -> Any:
    """`public` with its arguments checked; anything that takes none, as it is."""
    if inspect.isfunction(public) or hasattr(public, "cache_info"):  # remembered by lru_cache
        return _guard_function(public)
    if inspect.isclass(public):
        if _has_own_constructor(public):
            _guard_constructor(public)
        _guard_methods(public)
    return public


def _guard_function(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def checked(*arguments: Any, **named: Any) -> Any:
        arguments, named = _checked(function, arguments, named)
        with _enough_memory(function.__name__), _bar(function, arguments, named) as shown:
            return _with_guarded_methods(function(*arguments, **named, **shown))

    if hasattr(function, "cache_clear"):
        checked.cache_clear = function.cache_clear  # type: ignore[attr-defined]
    # Another process finds it under its public name, where it is the same object.
    checked.__module__, checked.__qualname__ = "featavg", function.__name__
    return checked


@contextmanager
def _enough_memory(name: str) -> Iterator[None]:
    """What cannot be held is a number too large, and an answer like any other."""
    try:
        yield
    except MemoryError as error:
        raise InputError(name, "needs more memory than there is", "ask for less") from error


@contextmanager
def _bar(
    function: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """A progress bar for what takes long, where somebody watches and said nothing about it."""
    from featavg.progress import ProgressBar, is_watched

    signature, _ = resolved_annotations(function)
    said = signature.bind_partial(*arguments, **named).arguments
    if "progress" not in signature.parameters or "progress" in said or not is_watched():
        yield {}
        return
    with ProgressBar(patience=_PATIENCE) as bar:
        yield {"progress": bar}


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


def _guard_methods(public: type) -> None:
    """The same for the methods of a class of the package, and of those that it inherits from."""
    if public in _guarded_classes or not public.__module__.startswith("featavg."):
        return
    _guarded_classes.add(public)
    for base in public.__mro__[1:]:
        _guard_methods(base)
    # Torch looks at the code of modules, and enums and protocols are no ordinary classes.
    if issubclass(public, Enum) or hasattr(public, "named_modules"):
        return
    for name, function in _open_methods(public):
        setattr(public, name, _guard_method(function))


def _open_methods(public: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    if public.__dict__.get("_is_protocol", False):
        return
    for name, member in list(vars(public).items()):
        is_open = name == "__call__" or not name.startswith("_")
        if is_open and inspect.isfunction(member) and len(inspect.signature(member).parameters) > 1:
            yield name, member


def _guard_method(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def checked(self: Any, *arguments: Any, **named: Any) -> Any:
        if _called_from_inside():
            return method(self, *arguments, **named)
        (_, *rest), named = _checked(method, (self, *arguments), named)
        with _enough_memory(method.__name__):
            return _with_guarded_methods(method(self, *rest, **named))

    return checked


def _with_guarded_methods(answer: Any) -> Any:
    """What a user gets has methods, and may hold a network that has some."""
    for thing in (answer, *getattr(answer, "__dict__", {}).values()):
        _guard_methods(type(thing))
    return answer


def _called_from_inside() -> bool:
    """Whether the caller of the constructor or method that asks is a module of the package."""
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
        about, annotation = signature.parameters[parameter], annotations.get(parameter, Any)
        if about.kind is inspect.Parameter.VAR_KEYWORD:
            bound.arguments[parameter] = _checked_options(annotation, value)
        elif about.kind is not inspect.Parameter.VAR_POSITIONAL and parameter != "self":
            bound.arguments[parameter] = _checked_value(about, annotation, value, nan)
    if not nan:
        check_shapes({n: (annotations.get(n, Any), v) for n, v in bound.arguments.items()})
        check_width(bound.arguments.get("self"), bound.arguments.get("x"))
    for parameter, about in signature.parameters.items():
        needed = about.default is inspect.Parameter.empty and about.kind not in _SEVERAL
        if needed and parameter not in bound.arguments:
            raise InputError(parameter, "is missing", f"give it to {name}")
    return bound.args, bound.kwargs


def _checked_value(about: inspect.Parameter, annotation: Any, value: Any, nan: bool) -> Any:
    result = converted(about.name, annotation, value, nan)
    if Path in (annotation, *get_args(annotation)) and isinstance(value, (str, os.PathLike)):
        check_file_name(about.name, value)
    if not nan:
        check_number(about.name, result, about.default)
        if isinstance(value, str) and not value and about.default != "":
            raise InputError(about.name, "is empty", "give a value, or leave it out")
    return result


def _checked_options(annotation: Any, given: dict[str, Any]) -> dict[str, Any]:
    """Options of the class that the annotation names; what it does not know, it says itself."""
    options = dict(given)
    for target in filter(inspect.isclass, getattr(annotation, "__metadata__", ())):
        signature, annotations = resolved_annotations(inspect.unwrap(target.__init__))
        for name in options.keys() & signature.parameters.keys():
            about = signature.parameters[name]
            options[name] = _checked_value(about, annotations[name], options[name], nan=False)
    return options


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
            except NameError:  # a name for type checkers only
                annotation = _resolved_late(annotation, names)
        if parameter.default is None:
            annotation = Union[annotation, None] if annotation is not Any else Any  # noqa: UP007
        resolved[name] = annotation
    return signature, resolved


def _resolved_late(annotation: str, names: dict[str, Any]) -> Any:
    """With the public names, and with torch's if it is loaded: nobody has a module of it otherwise."""
    featavg, torch = sys.modules["featavg"], sys.modules.get("torch")
    public = {name: getattr(featavg, name) for name in featavg.__all__ if name in annotation}
    loaded = {"torch": torch, "nn": getattr(torch, "nn", None)} if torch is not None else {}
    try:
        return eval(annotation, public | loaded | names)
    except (NameError, ImportError):
        return Any


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
