"""Remembers what was computed, whoever watched."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Hashable
from typing import ParamSpec, TypeVar

# Results that a process keeps of each function that remembers.
REMEMBERED = 256

Given = ParamSpec("Given")
Answer = TypeVar("Answer")


def remembered(function: Callable[Given, Answer]) -> Callable[Given, Answer]:
    """The function, computed once for the same arguments, whatever `progress` is.

    `functools.cache` would take another `progress` for another question, and a default that is
    written out too.

    >>> from featavg.progress import Progress, silent
    >>> @remembered
    ... def slow(k: int = 3, progress: Progress = silent) -> int:
    ...     progress(0.0, "computes")
    ...     return k
    >>> slow(progress=lambda share, note: print(note)), slow(3)
    computes
    (3, 3)
    """
    signature, kept = inspect.signature(function), dict[Hashable, Answer]()

    @functools.wraps(function)
    def answer(*arguments: Given.args, **named: Given.kwargs) -> Answer:
        bound = signature.bind(*arguments, **named)
        bound.apply_defaults()
        key = tuple(value for name, value in bound.arguments.items() if name != "progress")
        if key not in kept:
            if len(kept) >= REMEMBERED:
                kept.pop(next(iter(kept)))
            kept[key] = function(*arguments, **named)
        return kept[key]

    answer.cache_clear = kept.clear  # type: ignore[attr-defined]
    return answer
