"""Bad calls: for every argument of every public function, and of every class that takes settings."""

from __future__ import annotations

import collections.abc
import inspect
import types
import typing
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from functools import partial
from pathlib import Path
from typing import Any, Union

import numpy as np
from jaxtyping import Float
from tests.bad_inputs.case import Case
from tests.bad_inputs.odd_values import (
    NO_ARRAYS,
    NO_LISTS,
    NO_OBJECTS,
    NO_PATHS,
    NO_WORDS,
    Named,
    made,
    odd_numbers,
    spoiled,
)
from tests.public_calls import CALLS

import featavg as fa
from featavg.simulate.setting import FIELDS

THING = object()
NAN = float("nan")
# Words where a name of a fixed list is wanted.
CHOICES = {
    "labels", "readout", "norm", "coordinates", "kind", "layers", "start", "network", "device", "way",
    "engine", "orientation", "preset", "head", "precision", "loss", "stepper", "controller",
    "activation", "groups", "measures", "attacks", "layer",
}  # fmt: skip
FREE = {("compare_attacks", "network"), ("Images", "pixels")}  # a title; numbers of any kind
FREE |= {("margins", "log_losses")}
WORDS_TOO = {("audit", "coarse"), ("audit", "fine")}  # labels may be words
FREE_KINDS = ("with half a number", "with inf at its end", "with -inf at its end")
# Counts: zero is as bad as -1. Others may be zero, and none may be negative.
COUNTS = {
    "k", "d", "n", "m", "h", "neurons", "points", "images", "radii", "gradients", "budget", "width",
    "batch", "epochs", "rounds", "starts", "restarts", "nodes", "jobs", "workers", "permutations",
    "resamples", "threads", "depth", "n_test", "every", "per_decade", "iterations", "r",
}  # fmt: skip
NEVER_NEGATIVE = COUNTS | {
    "seed", "steps", "sigma", "sigma_w", "sigma_b", "lr", "rate", "time", "tolerance", "warmup",
    "samples", "noise", "scale", "eps", "momentum", "decay", "crop", "small", "order", "seconds",
    "checkpoint_seconds", "target_loss", "gap", "confidence", "overshoot", "epsilon", "kink",
}  # fmt: skip
NEVER_INFINITE = NEVER_NEGATIVE - {"seconds", "time"}


def cases() -> Iterator[Case]:
    """All of them."""
    for name in fa.__all__:
        public = getattr(fa, name)
        original = _original(public)
        if original is None:
            continue
        signature = inspect.signature(original)
        annotations = _annotations(original)
        base = CALLS.get(name)
        for parameter, about in signature.parameters.items():
            several = about.kind in (about.VAR_POSITIONAL, about.VAR_KEYWORD)
            if parameter == "progress" or several:
                continue
            annotation = annotations[parameter]
            whole = base is not None and (name, parameter) not in FREE
            for value in bad_values(parameter, annotation, whole):
                yield _case(name, public, base, parameter, value)
        if base is not None:
            yield from _spoiled_cases(name, public, base, annotations)
        settings = inspect.isclass(original)  # Python itself names what a class does not take
        if not settings and not any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values()):
            yield _case(name, public, base, "no_such_argument", 1)
    for field in FIELDS:
        for value in (THING, {}, [THING], NAN, -1.5, "no such thing"):
            if field not in ("data",) or value is not NAN:
                yield _case("simulate", fa.simulate, CALLS["simulate"], field, value)
    for field, annotation in _annotations(fa.Recipe).items():
        for value in bad_values(field, annotation, whole=True):
            yield _case("train", fa.train, CALLS["train"], field, value)


def _original(public: Any) -> Callable[..., Any] | None:
    """The function whose annotations say what is wanted; None for what a user does not call."""
    if hasattr(public, "__wrapped__") and not inspect.isclass(public):
        return inspect.unwrap(public)
    return public if is_dataclass(public) and public.__name__ in CALLS else None


def _annotations(original: Callable[..., Any]) -> dict[str, Any]:
    # What fields of tasks and recipes import for type checkers only.
    late = {"Float": Float, "ndarray": np.ndarray, "Activation": fa.activations.Activation}
    late |= {"Controller": fa.controllers.Controller, "Loss": fa.losses.Loss, "Labels": fa.Labels}
    late |= {"Stepper": fa.steppers.Stepper, "Sequence": collections.abc.Sequence}
    return typing.get_type_hints(original, localns=late, include_extras=True)


def _case(
    name: str,
    public: Any,
    base: Callable[[], dict[str, Any]] | None,
    parameter: str,
    value: Any,
    beside: tuple[str, ...] = (),
) -> Case:
    def call() -> Any:
        given = base() if base is not None else {}
        return public(**(given | {parameter: made(value)}))

    text = f"featavg.{name}({parameter}={shown(value)})"
    names = (parameter, parameter.replace("_", "-"), parameter.rstrip("s"), *beside)
    names += (value,) if isinstance(value, str) and value else ()
    return Case(text, names, call, is_command=False)


def _spoiled_cases(
    name: str, public: Any, base: Callable[[], dict[str, Any]], annotations: dict[str, Any]
) -> Iterator[Case]:
    """Each good array with one thing wrong."""
    given = base()
    arrays = {each: good for each, good in given.items() if isinstance(good, np.ndarray)}
    for parameter, good in arrays.items():
        fixed = all(_rank(o) is not None for o in _options(annotations[parameter]) or {Any})
        for what, bad in spoiled(good):
            if what == "of one axis more" and not fixed:  # a batch of networks, perhaps
                continue
            if what in FREE_KINDS and (name, parameter) in FREE:
                continue
            if what == "as text" and (name, parameter) in WORDS_TOO:
                continue
            value = Named(what, partial(np.copy, bad, subok=True))
            # Of two arrays that do not fit each other either one may be called wrong.
            beside = tuple(arrays) if what == "of one axis more" else ()
            yield _case(name, public, base, parameter, value, beside)


def shown(value: Any) -> str:
    return f"array{value.shape}" if isinstance(value, np.ndarray) else repr(value)[:60]


def bad_values(name: str, annotation: Any, whole: bool) -> Iterator[Any]:
    """Values that cannot be meant; `whole` says whether the call is complete but for this one."""
    options = _options(annotation)
    if options is None:
        return
    if type(None) not in options:
        yield None
    yield from (THING, {1: THING}, b"bytes")
    plain = {str, int, float, bool} & set(options)
    listed = any(_is_list(option) for option in options)
    array = any(hasattr(option, "dim_str") or option is np.ndarray for option in options)
    if array:
        yield from (["a", "b"], np.array(["a"]), 1j)
        if whole and any(_rank(option) is not None for option in options):
            yield np.zeros((1,) * 9)
        if whole and name in ("x", "weights", "features", "gradients", "biases", "head"):
            yield np.full((4, 4), NAN)
    if not {str, Path} & set(options) and not listed:
        yield "no such thing"
    if str in options and name in CHOICES and whole:
        yield from ("no such thing", "")
    if int in options or float in options:
        yield from (NAN, 1j)
        yield from _bad_numbers(name, options, whole)
    if listed:
        yield from (THING,) if float in options else (3.5, THING)
        if name == "seeds" and whole:
            yield from ([-1], [1.5], ["a"])
    if not plain and not array and not listed:
        yield from (3, [])
    if str in options and not ({int, float} & plain) and not listed and not array:
        yield 3
    numbers = any(typing.get_args(option)[:1] in ((int,), (float,)) for option in options)
    if numbers and not array:
        yield Named("list of lists", lambda: [[0, 1], [2]])
    yield from _odd_values(name, options, whole, listed, array)


def _odd_values(name: str, options: set[Any], whole: bool, listed: bool, array: bool) -> Iterator[Any]:
    if array:
        yield from NO_ARRAYS if not listed else NO_LISTS
    elif listed:
        yield from NO_LISTS
    elif {int, float} & options and str not in options:
        yield from odd_numbers(options, whole)
    elif Path in options:
        yield from NO_PATHS
    elif str in options and name in CHOICES and whole:
        yield from NO_WORDS
    elif not {str, int, float, bool} & options:
        yield from NO_OBJECTS


def _bad_numbers(name: str, options: set[Any], whole: bool) -> Iterator[Any]:
    if float not in options:
        yield from (1.5, float("inf"))
    if not whole:
        return
    if name in NEVER_NEGATIVE:
        yield -1
    if name in COUNTS:
        yield 0
    if float in options and name in NEVER_INFINITE:
        yield from (float("inf"), -1e308)


def _options(annotation: Any) -> set[Any] | None:
    """The types that may come; None where anything may."""
    annotation = getattr(annotation, "__origin__", annotation) if hasattr(annotation, "__metadata__") else annotation
    origin = typing.get_origin(annotation)
    if origin in (Union, types.UnionType):
        found: set[Any] = set()
        for option in typing.get_args(annotation):
            inner = _options(option)
            if inner is None:
                return None
            found |= inner
        return found
    if annotation is Any or annotation is inspect.Parameter.empty:
        return None
    if getattr(annotation, "_is_protocol", False) or origin is collections.abc.Callable:
        return None
    if isinstance(origin, type) and issubclass(origin, collections.abc.Mapping):
        return None
    return {annotation}


def _rank(option: Any) -> int | None:
    """How many axes an array has, where the annotation says it."""
    names = getattr(option, "dim_str", "*").split()
    return None if any(name.startswith(("*", "...")) for name in names) else len(names)


def _is_list(option: Any) -> bool:
    origin = typing.get_origin(option)
    return isinstance(origin, type) and issubclass(origin, collections.abc.Iterable)
