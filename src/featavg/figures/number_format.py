"""How numbers are written for people, on the terminal and in figures."""

from __future__ import annotations

import math

from featavg.figures.marks import Number

_SUPERSCRIPT = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


def number(value: Number, digits: int = 3) -> str:
    """`value` with `digits` significant digits, in powers of ten where that reads better.

    >>> number(3.14159), number(3.1e-13), number(1e-9), number(-0.25), number(10000)
    ('3.14', '3.1×10⁻¹³', '10⁻⁹', '−0.25', '10,000')
    >>> number(float("nan")), number(float("inf")), number(1048576.0), number(3072)
    ('not a number', '∞', '1,048,576', '3072')
    """
    value = float(value)
    if math.isnan(value):
        return "not a number"
    sign, size = ("−" if value < 0 else ""), abs(value)
    if math.isinf(size):
        return f"{sign}∞"
    if size == int(size) and size < 1e7:
        return f"{sign}{int(size)}" if size < 1e4 else f"{sign}{int(size):,}"
    if 1e-3 <= size < 1e4:
        # Digits before the point are never rounded away: 1234.5 stays 1234, not 1230.
        return f"{sign}{size:.{max(digits, len(str(int(size))))}g}"
    mantissa, exponent = f"{size:.{digits - 1}e}".split("e")
    mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    power = "10" + str(int(exponent)).translate(_SUPERSCRIPT)
    return f"{sign}{power}" if mantissa == "1" else f"{sign}{mantissa}×{power}"
