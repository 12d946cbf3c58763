"""How objects show themselves in a notebook: a small table, and a line for what has a course.

Shared ground, and therefore plain HTML and SVG: stages to the left of the figures use it too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

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
