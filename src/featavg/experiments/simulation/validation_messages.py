"""What pydantic has to say about a value, in one sentence of ours."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from featavg.errors import InputError


def in_one_sentence(
    error: ValidationError, values: Mapping[str, Any], known: Iterable[str]
) -> InputError:
    """The first thing wrong with `values`, named after its key.

    Args:
        error: what pydantic found.
        values: what was given.
        known: the keys there are.
    """
    first = error.errors()[0]
    told = first.get("ctx", {}).get("error")
    if isinstance(told, InputError):
        return told
    name = str(first["loc"][0]) if first["loc"] else "setting"
    if first["type"] == "extra_forbidden":
        return _unknown_key(name, list(known))
    return InputError(name, f"is {repr(values.get(name))[:60]}", _expected(first))


def _unknown_key(name: str, known: list[str]) -> InputError:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    remedy = f"did you mean {near[0]}" if near else f"choose from {', '.join(known)}"
    return InputError(name, "is not a setting", remedy)


def _expected(error: Any) -> str:
    """What pydantic would have liked, in the words of a user."""
    kind = error["type"]
    if kind == "literal_error":
        return (
            f"choose one of {error['ctx']['expected'].replace(' or ', ', ').replace(chr(39), '')}"
        )
    for beginning, remedy in (
        ("int", "give a whole number"),
        ("float", "give a number"),
        ("tuple", "give a list"),
        ("string", "give a text"),
    ):
        if kind.startswith(beginning):
            return remedy
    return str(error["msg"]).replace("Input should be ", "give ").split(",", maxsplit=1)[0]
