"""Lists on the command line: numbers with commas between them."""

from __future__ import annotations

import math

from featavg.errors import InputError


def listed(argument: str, text: str) -> list[float]:
    """Numbers with commas between them.

    >>> listed("norms", "1, 2.5")
    [1.0, 2.5]
    """
    try:
        values = [float(part) for part in text.split(",")]
        if not all(map(math.isfinite, values)):
            raise ValueError
        return values
    except ValueError:
        remedy = "give numbers with commas between them, such as 1,2.5"
        raise InputError(argument, f"is {text!r}", remedy) from None


def one_or_list(argument: str, text: str) -> float | list[float]:
    """One number as a number, several as a list."""
    values = listed(argument, text)
    return values[0] if len(values) == 1 else values


def int_or_list(argument: str, text: str) -> int | list[int]:
    """One whole number as a number, several (or one before a comma) as a list.

    >>> int_or_list("positive", "3"), int_or_list("positive", "0,2"), int_or_list("positive", "4,")
    (3, [0, 2], [4])
    """
    try:
        values = [int(part) for part in text.split(",") if part.strip()]
        return values if "," in text else values[0]
    except (ValueError, IndexError):
        remedy = "give how many clusters, or their indices with commas: 0,2"
        raise InputError(argument, f"is {text!r}", remedy) from None
