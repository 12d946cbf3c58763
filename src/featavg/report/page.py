"""The report: one HTML file that opens offline and asks nobody for anything.

What a reader meets, in this order: the question, what averaging and decoupling look like, how many
claims hold, a table of all claims, then each claim with its evidence. Figures are drawn as they
scroll into view; on paper and without scripts their matplotlib twins take their place.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from featavg.claims.check import decision_text, measured_text, tolerance_text
from featavg.claims.ledger import Headline, Verdict
from featavg.claims.result import ClaimResult, strict_json
from featavg.claims.statements import StatementRow, statements_table
from featavg.cores import cores
from featavg.errors import InputError
from featavg.figures import matplotlib_figure, number_format, palette, typeset
from featavg.figures.figure import Figure
from featavg.figures.plotly_figure import LegendEntry, legend, plotly_panels
from featavg.figures.typeset import without_tags
from featavg.playground.page import playground
from featavg.progress import duration
from featavg.report.verdict_table import latex, markdown
from featavg.storage.files import write
from featavg.storage.places import typed

if TYPE_CHECKING:
    from jinja2 import Environment

HERE = Path(__file__).parent
NAME, PLAYGROUND = "report.html", "playground.html"
VENDORED: dict[str, str] = json.loads(
    (HERE / "assets" / "plotly" / "vendored.json").read_text(encoding="utf-8")
)
# Every address of another machine in plotly's code that it could ask or send somebody to.
WAYS_OUT = ("https://cloud.plotly.com/newchart", "https://cdn.plot.ly/un/", "https://plotly.com/")
PARALLEL = 12  # from so many figures on, a second process is worth its second of start-up


@dataclass(frozen=True)
class Picture:
    """A figure of a claim, ready for the page."""

    key: str
    figure: Figure
    legend: list[LegendEntry]
    panels: str
    twin: str
    csv: str
    columns: int
    alt: str


def write_report(
    outcomes: Sequence[ClaimResult], folder: Path, about: Mapping[str, str] | None = None
) -> Path:
    """Write `folder/report.html`, the playground beside it, tables and figures; the page's path."""
    drawn = [
        (outcome.id, figure)
        for outcome in outcomes
        if outcome.evidence is not None
        for figure in outcome.evidence.figures
    ]
    pictures: dict[str, list[Picture]] = {}
    for (name, figure), files in zip(drawn, _render([f for _, f in drawn]), strict=True):
        key = f"{name}--{figure.name}"
        for extension, content in files.items():
            write(folder / "figures" / f"{key}.{extension}", content)
        pictures.setdefault(name, []).append(picture(key, figure, files))
    write(folder / "verdicts.md", markdown(outcomes))
    write(folder / "verdicts.tex", latex(outcomes))
    playground(folder / PLAYGROUND)
    return write(folder / NAME, page(outcomes, pictures, about or {}))


def page(
    outcomes: Sequence[ClaimResult],
    pictures: Mapping[str, list[Picture]],
    about: Mapping[str, str],
) -> str:
    """The whole page as text; the playground is expected beside it."""
    from markupsafe import Markup

    headlines, top = _overview(outcomes, pictures)
    tables = {"md": markdown(outcomes), "tex": latex(outcomes)}
    return (
        environment()
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
            tables={
                name: Markup(json.dumps(text).replace("<", "\\u003c"))
                for name, text in tables.items()
            },
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


def look(draws: bool) -> dict[str, Any]:
    """Colours, style and scripts that every page has; plotly only where something is drawn."""
    from markupsafe import Markup

    scripts = {"head": _asset("head.js"), "close": _asset("close.js"), "page": _asset("report.js")}
    scripts |= {"plotly": plotly()} if draws else {}
    return {
        "palette": Markup(palette.css()),
        "style": Markup(_asset("report.css")),
        "scripts": {name: Markup(text) for name, text in scripts.items()},
        "policy": Markup(_policy(scripts.values())),
        "plotly_version": VENDORED["version"],
        "draws": draws,
    }


def plotly() -> str:
    """The drawing library as it was vendored, checked by its hash, and without its addresses.

    It has a button that uploads a chart and a link to its maker. The page shows neither; and with
    the addresses gone no other way in that library leads out.
    """
    path = HERE / "assets" / "plotly" / VENDORED["file"]
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != VENDORED["sha256"]:
        raise InputError(str(path), "is not the file that was vendored", "install featavg again")
    text = content.decode()
    for address in WAYS_OUT:
        text = text.replace(address, "")
    return text


def _policy(scripts: Iterable[str]) -> str:
    """Nothing may be asked for, and nothing runs but the scripts that are in the page."""
    digests = [hashlib.sha256(text.encode()).digest() for text in scripts]
    allowed = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    # Plotly sets styles on its elements; a style without addresses asks for nothing.
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def environment() -> Environment:
    """Where templates are found, and the filters they use."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    found = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {
        "rich": lambda given: Markup(typeset.html(given)),
        "plain": without_tags,
        "number": number_format.number,
        "duration": duration,
        "measured": measured_text,
        "tolerance": tolerance_text,
        "decision": decision_text,
        "typed": typed,
        "searchable": _searchable,
        "slug": lambda verdict: verdict.value.replace("holds in part", "in-part").replace(" ", "-"),
        "day": lambda when: when[:10],
    }
    return found


def _render(drawn: Sequence[Figure]) -> list[dict[str, bytes]]:
    """Every figure in every format. Matplotlib takes most of the time of a report: share it out."""
    if len(drawn) < PARALLEL or cores() < 2:
        return [matplotlib_figure.render(figure) for figure in drawn]
    from joblib import Parallel, delayed

    rendered: list[dict[str, bytes]] = Parallel(n_jobs=min(cores(), 8))(
        delayed(matplotlib_figure.render)(figure) for figure in drawn
    )
    return rendered


def picture(key: str, figure: Figure, files: Mapping[str, bytes]) -> Picture:
    """A figure, ready for the page, from what `matplotlib_figure.render` made of it."""
    panels = json.dumps(plotly_panels(figure), allow_nan=False, separators=(",", ":"))
    return Picture(
        key=key,
        figure=figure,
        legend=legend(figure),
        panels=panels.replace("<", "\\u003c"),  # no "</script>" can end the block early
        twin=base64.b64encode(_small(files["png"])).decode(),
        # Fields on a grid are large as text; the page unpacks them when they are asked for.
        csv=base64.b64encode(gzip.compress(files["csv"], mtime=0)).decode(),
        columns=min(len(figure.panels), 3),
        alt=figure.alt,
    )


def _small(png: bytes) -> bytes:
    """The picture as WebP in 255 colours, without loss beyond that: a quarter of the bytes.

    Of Pillow's methods only MAXCOVERAGE keeps every colour within a few steps of 255; the others
    make white off-white or give equal cells of a heat map unequal tints.
    """
    from PIL import Image

    buffer = io.BytesIO()
    whole = Image.open(io.BytesIO(png)).convert("RGB")
    few = whole.quantize(255, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    few.convert("RGB").save(buffer, "webp", lossless=True, quality=50, method=3)
    return buffer.getvalue()


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
    return without_tags(" ".join((*texts, outcome.statement, statements))).lower()


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
            shown[name] = number_format.number(value, 4)
    return shown


def _asset(name: str) -> str:
    return (HERE / "assets" / name).read_text(encoding="utf-8")
