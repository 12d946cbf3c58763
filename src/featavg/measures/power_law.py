"""The exponent of a power law: the slope of a straight line through logarithms."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Real
from numpy import ndarray

from featavg.errors import InputError


def power_law_exponent(
    x: Sequence[float] | Real[ndarray, " q"], y: Sequence[float] | Real[ndarray, " q"]
) -> float:
    """The p of y ~ x^p, by least squares of log y against log x.

    Args:
        x, y: positive numbers, at least two.

    >>> import featavg as fa
    >>> round(power_law_exponent([1, 10, 100], [3.0, 0.3, 0.03]), 9)
    -1.0
    """
    horizontal, vertical = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    for name, values in (("x", horizontal), ("y", vertical)):
        if len(values) < 2 or not np.all(values > 0):
            raise InputError(name, "has no logarithms to fit", "give two or more positive numbers")
    return float(np.polyfit(np.log(horizontal), np.log(vertical), 1)[0])
