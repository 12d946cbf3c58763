"""One palette for print and screen, light and dark.

Roles lie on the blue-orange axis, which every common kind of colour vision tells apart; verdicts
also have a symbol and a word. Contrast of text and lines with their ground is at least 4.5 to 1
for verdicts and ink, 3 to 1 for lines.
"""

from __future__ import annotations

from featavg.figures.marks import Number

LIGHT: dict[str, str] = {
    "paper": "#ffffff",
    "ground": "#f6f5f1",
    "raised": "#fbfaf8",
    "ink": "#1c1f24",
    "soft": "#5a616b",
    "faint": "#737b85",
    "line": "#dedbd3",
    "grid": "#ebe9e3",
    "averaged": "#c2510a",
    "decoupled": "#0a66ad",
    "published": "#8a3f96",
    "reference": "#666d77",
    "neutral": "#2f4858",
    "holds": "#0b6b5d",
    "in-part": "#8a5a00",
    "undecided": "#5a4fa8",
    "fails": "#b0214f",
    "not-run": "#5f6670",
    "low": "#8c510a",
    "low-mid": "#dfc27d",
    "zero": "#f7f6f3",
    "high-mid": "#7cc5ba",
    "high": "#01665e",
}

DARK: dict[str, str] = {
    "paper": "#191c21",
    "ground": "#121418",
    "raised": "#1f2329",
    "ink": "#e9e7e2",
    "soft": "#aab0b9",
    "faint": "#8d949e",
    "line": "#343942",
    "grid": "#2a2f37",
    "averaged": "#f0914a",
    "decoupled": "#5fb0f0",
    "published": "#cf9bd9",
    "reference": "#98a0ab",
    "neutral": "#b9c6d1",
    "holds": "#4fc3ae",
    "in-part": "#e0b050",
    "undecided": "#b4a8f5",
    "fails": "#f27a9c",
    "not-run": "#9aa1ab",
    "low": "#e0a95a",
    "low-mid": "#7a5a2a",
    "zero": "#23272e",
    "high-mid": "#22685f",
    "high": "#5fd0c0",
}

DIVERGING = ("low", "low-mid", "zero", "high-mid", "high")


def mix(colour: str, ground: str, share: Number) -> str:
    """`share` of `colour` and the rest of `ground`, both "#rrggbb".

    >>> mix("#000000", "#ffffff", 0.5)
    '#808080'
    """
    part = float(share)
    pairs = [(int(colour[i : i + 2], 16), int(ground[i : i + 2], 16)) for i in (1, 3, 5)]
    return "#" + "".join(f"{round(a * part + b * (1 - part)):02x}" for a, b in pairs)


def strength(shade: Number) -> float:
    """How much of its colour a series of this shade has: even the palest is seen.

    >>> strength(0), strength(1)
    (0.35, 1.0)
    """
    return 0.35 + 0.65 * float(shade)


def css() -> str:
    """The palette as CSS variables: light, dark by the system's wish, either by the toggle."""
    light, dark = (";".join(f"--{n}:{c}" for n, c in p.items()) for p in (LIGHT, DARK))
    return (
        f":root{{{light};color-scheme:light}}\n"
        f"@media screen and (prefers-color-scheme:dark){{:root{{{dark};color-scheme:dark}}}}\n"
        f"@media screen{{:root[data-theme=light]{{{light};color-scheme:light}}\n"
        f":root[data-theme=dark]{{{dark};color-scheme:dark}}}}\n"
    )
