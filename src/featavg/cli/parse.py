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
