"""A self-contained HTML report; makes no requests.

What a reader meets, in this order: the question, what averaging and decoupling look like, how many
claims hold, a table of all claims, then each claim with its evidence. Figures are drawn as they
scroll into view; on paper and without scripts their matplotlib twins take their place.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from featavg.figures.html import Picture, environment, look, render_all
from featavg.figures.typeset import number, without_tags
from featavg.paper.engine.check import decision_text, measured_text, tolerance_text
from featavg.paper.engine.claim import Headline, Verdict
from featavg.paper.engine.result import ClaimResult
from featavg.paper.engine.stability import in_words
from featavg.paper.engine.statements import StatementRow, statements_table
from featavg.paper.report.verdict_table import latex, markdown
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
            themes=_themes(outcomes),
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
    return rows if any(row.claim and row.claim.id in shown for row in rows) else ()


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


def _themes(outcomes: Sequence[ClaimResult]) -> list[tuple[str, list[ClaimResult]]]:
    """The outcomes by theme; a theme comes where its first claim comes."""
    order = list(dict.fromkeys(outcome.theme for outcome in outcomes))
    ranked = sorted(outcomes, key=lambda outcome: order.index(outcome.theme))
    return [(theme, list(group)) for theme, group in groupby(ranked, key=lambda o: o.theme)]


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
