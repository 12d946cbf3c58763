"""The few tags that texts may have, for matplotlib and for HTML; numbers; how results look in a notebook."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from html import escape

from featavg.figures.marks import Number

SUBSCRIPT = str.maketrans("0123456789+-−=()", "₀₁₂₃₄₅₆₇₈₉₊₋₋₌₍₎")
SUPERSCRIPT = str.maketrans("0123456789+-−=()", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁼⁽⁾")
_SMALL = {"sub": (SUBSCRIPT, "_"), "sup": (SUPERSCRIPT, "^")}


def mathtext(text: str) -> str:
    """`<sub>` and friends for matplotlib: Unicode where it can, its own notation otherwise.

    Unicode is drawn some ten times faster than mathtext is parsed, and labels are many.

    >>> mathtext("cos(w<sub>12</sub>, μ<sub>j</sub>) at 10<sup>-9</sup> $")
    'cos(w₁₂, μ$_{\\\\mathrm{j}}$) at 10⁻⁹ \\\\$'
    """
    text = re.sub(r"<(sub|sup)>(.*?)</\1>", _small, text.replace("$", r"\$"))
    text = re.sub("<i>(.*?)</i>", r"$\\mathit{\1}$", text)
    return re.sub("<b>(.*?)</b>", r"$\\mathbf{\1}$", text)


def _small(found: re.Match[str]) -> str:
    table, sign = _SMALL[found[1]]
    if all(ord(letter) in table for letter in found[2]):
        return found[2].translate(table)
    return rf"${sign}{{\mathrm{{{found[2]}}}}}$".replace(" ", r"\ ")


def html(text: str) -> str:
    """`text` escaped, except for the tags that are allowed; `code` in backquotes.

    >>> html("w<sub>j</sub> < 1 & `run`<script>")
    'w<sub>j</sub> &lt; 1 &amp; <code>run</code>&lt;script&gt;'
    """
    safe = re.sub(r"&lt;(/?(?:sub|sup|i|b))&gt;", r"<\1>", escape(text, quote=True))
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", safe)


def without_tags(text: str) -> str:
    """`text` without its `<sub>`, `<sup>`, `<i>`, `<b>` tags, for terminals and tables.

    >>> without_tags("w<sub>j</sub> < 10<sup>-9</sup>")
    'wj < 10^-9'
    """
    return re.sub(r"</?(sub|sup|i|b)>", "", text.replace("<sup>", "^"))


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
    power = "10" + str(int(exponent)).translate(SUPERSCRIPT)
    return f"{sign}{power}" if mantissa == "1" else f"{sign}{mantissa}×{power}"


WIDTH, HEIGHT = 220, 48


def table(title: str, rows: Mapping[str, object], drawing: str = "") -> str:
    """A title, two columns, and a drawing below them if there is one.

    >>> table("Radii", {"median": 17.1})
    '<table><caption>Radii</caption><tr><th>median</th><td>17.1</td></tr></table>'
    """
    body = "".join(f"<tr><th>{escape(name)}</th><td>{escape(str(value))}</td></tr>" for name, value in rows.items())
    return f"<table><caption>{escape(title)}</caption>{body}</table>{drawing}"


def sparkline(values: Sequence[float], label: str) -> str:
    """The course of a number as a line without axes; nothing where there is nothing to draw.

    >>> sparkline([1.0, 0.5, 0.2], "loss").startswith('<svg role="img" aria-label="loss: 1 to 0.2"')
    True
    >>> sparkline([1.0], "loss")
    ''
    """
    known = [float(value) for value in values if math.isfinite(value)]
    if len(known) < 2:
        return ""
    low, high = min(known), max(known)
    across, up = (WIDTH - 4) / (len(known) - 1), (HEIGHT - 4) / (high - low or 1.0)
    points = " ".join(f"{2 + i * across:.1f},{2 + (high - v) * up:.1f}" for i, v in enumerate(known))
    words = f"{label}: {known[0]:.3g} to {known[-1]:.3g}"
    return (
        f'<svg role="img" aria-label="{escape(words)}" width="{WIDTH}" height="{HEIGHT}">'
        f"<title>{escape(words)}</title>"
        f'<polyline points="{points}" fill="none" stroke="currentColor" stroke-width="1.5"/></svg>'
    )
