"""A self-contained HTML report; makes no requests.

What a reader meets, in this order: the question, what averaging and decoupling look like, how many
claims hold, a table of all claims, then each claim with its evidence. Figures are drawn as they
scroll into view; on paper and without scripts their matplotlib twins take their place.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from featavg.figures.html import Picture, environment, look, render_all
from featavg.figures.typeset import number, without_tags
from featavg.paper.engine.check import decision_text, measured_text, tolerance_text
from featavg.paper.engine.claim import Headline, Verdict
from featavg.paper.engine.registry import StatementRow, statements_table
from featavg.paper.engine.result import ClaimResult
from featavg.paper.engine.stability import in_words
from featavg.playground.page import playground
from featavg.storage.files import strict_json, write

if TYPE_CHECKING:
    from jinja2 import Environment

# What readers also type: the other spelling, and the words of neighbouring fields.
SPELLINGS = (("isation", "ization"), ("our", "or"), ("ise", "ize"))
SYNONYMS = {
    "radi": "distance", "attack": "adversarial perturbation", "fine": "subclass", "coarse": "superclass",
    "decoupled": "disentangled", "averag": "mean", "sample": "data points", "certif": "verification verified",
    "noise": "snr", "start": "initialisation initialization", "robust": "adversarial",
}  # fmt: skip
HERE = Path(__file__).parent
NAME, PLAYGROUND = "report.html", "playground.html"


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


def write_report(
    outcomes: Sequence[ClaimResult], folder: Path, about: Mapping[str, str] | None = None, pdf: bool = False
) -> Path:
    """Write `folder/report.html`, the playground beside it, tables and figures; the page's path.

    A PDF takes longer than all else of a figure, most of it to embed the fonts: only if it is asked for.
    """
    drawn = {
        f"{outcome.id}--{figure.name}": (outcome.id, figure)
        for outcome in outcomes
        if outcome.evidence is not None
        for figure in outcome.evidence.figures
    }
    formats = ("png", "svg", "csv", *(("pdf",) if pdf else ()))
    pictures: dict[str, list[Picture]] = {}
    for made, files in render_all({key: figure for key, (_, figure) in drawn.items()}, formats):
        for extension, content in files.items():
            write(folder / "figures" / f"{made.key}.{extension}", content)
        pictures.setdefault(drawn[made.key][0], []).append(made)
    write(folder / "verdicts.md", markdown(outcomes))
    write(folder / "verdicts.tex", latex(outcomes))
    playground(folder / PLAYGROUND)
    return write(folder / NAME, page(outcomes, pictures, about or {}))


def page(outcomes: Sequence[ClaimResult], pictures: Mapping[str, list[Picture]], about: Mapping[str, str]) -> str:
    """The whole page as text; the playground is expected beside it."""
    from markupsafe import Markup

    headlines, top = _overview(outcomes, pictures)
    tables = {"md": markdown(outcomes), "tex": latex(outcomes)}
    return (
        _environment()
        .get_template("report.html.j2")
        .render(
            themes=by_theme(outcomes),
            outcomes=outcomes,
            pictures=pictures,
            verdicts=list(Verdict),
            counts=Counter(outcome.verdict for outcome in outcomes),
            headlines=headlines,
            top=top,
            about=about,
            seeds=_seeds(outcomes),
            scalars=_scalars,
            tables={name: Markup(json.dumps(text).replace("<", "\\u003c")) for name, text in tables.items()},
            playground=PLAYGROUND,
            statements=_statements(outcomes),
            **look(bool(pictures)),
        )
    )


def _statements(outcomes: Sequence[ClaimResult]) -> tuple[StatementRow, ...]:
    """The table of statements, where any of these claims checks one of them."""
    rows = statements_table(outcomes)
    shown = {outcome.id for outcome in outcomes}
    return rows if any(row.claim in shown for row in rows) else ()


def _environment() -> Environment:
    made = environment(HERE / "templates")
    made.filters |= {
        "measured": measured_text,
        "tolerance": tolerance_text,
        "decision": decision_text,
        "other_seeds": lambda outcome: in_words(outcome.id, outcome.verdict.value),
        "searchable": _searchable,
        "slug": lambda verdict: verdict.value.replace("holds in part", "in-part").replace(" ", "-"),
    }
    return made


def by_theme(outcomes: Sequence[ClaimResult]) -> list[tuple[str, list[ClaimResult]]]:
    """The outcomes of each theme; a theme comes where its first claim comes."""
    themes: dict[str, list[ClaimResult]] = {}
    for outcome in outcomes:
        themes.setdefault(outcome.theme, []).append(outcome)
    return list(themes.items())


def _overview(
    outcomes: Sequence[ClaimResult], pictures: Mapping[str, list[Picture]]
) -> tuple[dict[str, list[tuple[Headline, str]]], list[tuple[Picture, str]]]:
    """Numbers for the overview by role, with the claim they come from, and at most two pictures."""
    headlines: dict[str, list[tuple[Headline, str]]] = {}
    for outcome in outcomes:
        for headline in outcome.evidence.headlines if outcome.evidence is not None else ():
            headlines.setdefault(headline.role, []).append((headline, outcome.id))
    chosen = [(p, name) for name, drawn in pictures.items() for p in drawn if p.figure.headline]
    return headlines, chosen[:2]


def _searchable(outcome: ClaimResult) -> str:
    """What the search looks at."""
    texts = (outcome.id, outcome.theme, outcome.verdict.value, outcome.title, outcome.source)
    statements = " ".join(outcome.statements)
    text = without_tags(" ".join((*texts, outcome.statement, statements))).lower()
    respelled = text
    for british, american in SPELLINGS:
        respelled = respelled.replace(british, american)
    other = sorted(set(respelled.split()) - set(text.split()))
    return " ".join([text, *other, *(also for word, also in SYNONYMS.items() if word in text)])


def _seeds(outcomes: Sequence[ClaimResult]) -> str:
    """The seeds of the run in words."""
    known = sorted({seed for outcome in outcomes if not outcome.recorded for seed in outcome.seeds})
    if not known:
        return "none"
    return f"{known[0]} to {known[-1]}" if len(known) > 2 else ", ".join(map(str, known))


def _scalars(outcome: ClaimResult) -> dict[str, str]:
    """The claim's numbers that fit on a line; all of them are in the JSON file."""
    assert outcome.evidence is not None
    shown: dict[str, str] = {}
    numbers = strict_json(outcome.evidence.numbers)
    assert isinstance(numbers, dict)
    for name, value in numbers.items():
        if isinstance(value, (bool, str)):
            shown[name] = str(value)
        elif isinstance(value, (int, float)):
            shown[name] = number(value, 4)
    return shown


def markdown(results: Sequence[ClaimResult]) -> str:
    """A table for GitHub and the documentation, a heading for each theme."""
    lines: list[str] = []
    for theme, group in by_theme(results):
        lines += [f"### {without_tags(theme)}", "", f"| {' | '.join(_COLUMNS)} |", "|---|---|---|"]
        for result in group:
            cells = (without_tags(result.title), f"**{result.verdict.value}**", _decided(result))
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        lines.append("")
    return "\n".join(lines)


def latex(results: Sequence[ClaimResult]) -> str:
    r"""A `longtable` for a paper; it needs `\usepackage{longtable,booktabs}`."""
    head = " & ".join(_COLUMNS)
    lines = [r"\begin{longtable}{@{}p{0.36\textwidth}lp{0.44\textwidth}@{}}", r"\toprule"]
    lines += [head + r" \\", r"\midrule", r"\endhead"]
    for theme, group in by_theme(results):
        lines.append(rf"\multicolumn{{3}}{{@{{}}l}}{{\emph{{{_tex(theme)}}}}} \\")
        for result in group:
            cells = (_tex(result.title), result.verdict.value, _tex(_decided(result, tags=True)))
            lines.append(" & ".join(cells) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{longtable}", ""])


def _decided(result: ClaimResult, tags: bool = False) -> str:
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
