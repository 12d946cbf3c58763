"""The few tags that texts may have, for matplotlib and for HTML."""

from __future__ import annotations

import re
from html import escape

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
