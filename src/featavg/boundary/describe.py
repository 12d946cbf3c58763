"""Describes annotations and values in the sentences of errors."""

from __future__ import annotations

import types
import typing
from typing import Any, Literal, Union

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
