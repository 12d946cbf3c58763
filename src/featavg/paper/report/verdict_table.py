"""The table of verdicts for papers and pages: Markdown and LaTeX."""

from __future__ import annotations

import re
from collections.abc import Sequence

from featavg.figures.typeset import without_tags
from featavg.paper.engine.check import decision_text, measured_text, tolerance_text
from featavg.paper.engine.claim import Verdict
from featavg.paper.engine.result import ClaimResult

_COLUMNS = ("Claim", "Verdict", "What decided")
_SPECIAL = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
_SPECIAL |= {sign: "\\" + sign for sign in "&%$#_{}"}
# What the texts of claims use; pdflatex knows none of it, and the rest is the reader's alphabet.
_GREEK = "alpha beta gamma delta varepsilon eta theta lambda mu nu xi pi rho sigma tau varphi omega"
_SIGNS = "Sigma Omega Delta nabla le ge approx surd infty times cdot propto - pm langle rangle partial in to"
_MATHS = dict(zip("αβγδεηθλμνξπρστφω", _GREEK.split(), strict=True))
_MATHS |= zip("ΣΩΔ∇≤≥≈√∞×·∝−±⟨⟩∂∈→", _SIGNS.split(), strict=True)
_RAISED = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+", strict=True))
_LOWERED = dict(zip("₀₁₂₃₄₅₆₇₈₉₋₊ⱼᵢ", "0123456789-+ji", strict=True))


def markdown(results: Sequence[ClaimResult]) -> str:
    """A table for GitHub and the documentation, a heading for each theme."""
    lines: list[str] = []
    for theme, group in by_theme(results).items():
        lines += [f"### {without_tags(theme)}", "", f"| {' | '.join(_COLUMNS)} |", "|---|---|---|"]
        for result in group:
            cells = (without_tags(result.title), f"**{result.verdict.value}**", decided(result))
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        lines.append("")
    return "\n".join(lines)


def latex(results: Sequence[ClaimResult]) -> str:
    r"""A `longtable` for a paper; it needs `\usepackage{longtable,booktabs}`."""
    head = " & ".join(_COLUMNS)
    lines = [r"\begin{longtable}{@{}p{0.36\textwidth}lp{0.44\textwidth}@{}}", r"\toprule"]
    lines += [head + r" \\", r"\midrule", r"\endhead"]
    for theme, group in by_theme(results).items():
        lines.append(rf"\multicolumn{{3}}{{@{{}}l}}{{\emph{{{_tex(theme)}}}}} \\")
        for result in group:
            cells = (_tex(result.title), result.verdict.value, _tex(decided(result, tags=True)))
            lines.append(" & ".join(cells) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{longtable}", ""])


def by_theme(results: Sequence[ClaimResult]) -> dict[str, list[ClaimResult]]:
    """The results of each theme, themes in the order in which they first appear."""
    themes: dict[str, list[ClaimResult]] = {}
    for result in results:
        themes.setdefault(result.theme, []).append(result)
    return themes


def decided(result: ClaimResult, tags: bool = False) -> str:
    """The check that decided, or why the claim was not run."""
    if result.evidence is None:
        told = result.reason
    elif result.verdict is Verdict.HOLDS:
        check = result.evidence.key_check
        told = f"{check.name}: {measured_text(check)} ({tolerance_text(check)})"
    else:
        told = decision_text(result.evidence.key_check)
    return told if tags else without_tags(told)


def _tex(text: str) -> str:
    parts = re.split(r"<(sub|sup|i|b)>(.*?)</\1>", text)
    written = []
    for plain, kind, inside in zip(parts[::3], [*parts[1::3], ""], [*parts[2::3], ""], strict=True):
        written.append(_signs(plain))
        frame = {"sub": "$_{%s}$", "sup": "$^{%s}$", "i": r"\emph{%s}", "b": r"\textbf{%s}"}
        if kind:
            maths = kind in ("sub", "sup")
            written.append(frame[kind] % _signs(inside, maths))
    return _joined("".join(written))


def _joined(text: str) -> str:
    """Neighbours in one formula: not 10$^{-}$$^{4}$ but 10$^{-4}$, and roots over what is below them."""
    for sign in ("^", "_"):
        several = rf"(?:\$\{sign}\{{[^}}]*\}}\$){{2,}}"
        text = re.sub(several, lambda found, s=sign: _in_one(found[0], s), text)  # type: ignore[misc]
    return re.sub(r"\$\\surd\$(?:\(([^()]*)\)|(\w))", _root, text)


def _in_one(several: str, sign: str) -> str:
    inside = "".join(re.findall(r"\{([^}]*)\}", several))
    return f"${sign}{{{inside}}}$"


def _root(found: re.Match[str]) -> str:
    below = (found[1] or found[2]).replace("$", "")
    return rf"$\sqrt{{{below}}}$"


def _signs(text: str, in_maths: bool = False) -> str:
    """Each sign as LaTeX writes it; signs of mathematics between dollars unless there already."""
    written = []
    for sign in text:
        if sign in _MATHS:
            command = _MATHS[sign] if _MATHS[sign] == "-" else f"\\{_MATHS[sign]} "
            written.append(command if in_maths else f"${command.strip()}$")
        elif sign in _RAISED:
            written.append(f"^{{{_RAISED[sign]}}}" if in_maths else f"$^{{{_RAISED[sign]}}}$")
        elif sign in _LOWERED:
            written.append(f"_{{{_LOWERED[sign]}}}" if in_maths else f"$_{{{_LOWERED[sign]}}}$")
        else:
            written.append(_SPECIAL.get(sign, sign))
    return "".join(written)
