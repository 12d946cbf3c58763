"""Self-contained HTML pages: style, scripts, figures and templates that every page shares."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from featavg.errors import InputError
from featavg.figures import matplotlib_figure, palette, typeset
from featavg.figures.figure import Figure
from featavg.figures.marks import Label
from featavg.figures.plotly_figure import legend, plotly_panels
from featavg.figures.typeset import without_tags
from featavg.machine import cores
from featavg.progress import duration
from featavg.storage.places import typed

if TYPE_CHECKING:
    from jinja2 import Environment

HERE = Path(__file__).parent / "page"
VENDORED: dict[str, str] = json.loads((HERE / "assets" / "plotly" / "vendored.json").read_text(encoding="utf-8"))
# Every address of another machine in plotly's code that it could request or link to.
WAYS_OUT = ("https://cloud.plotly.com/newchart", "https://cdn.plot.ly/un/", "https://plotly.com/")
PARALLEL = 12  # the number of figures from which a second process is worth its second of start-up


@dataclass(frozen=True)
class Picture:
    """A figure of a claim, ready for the page."""

    key: str
    figure: Figure
    legend: list[Label]
    panels: str
    twin: str
    csv: str
    columns: int
    alt: str


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


def environment(templates: Path) -> Environment:
    """Templates of the folder `templates` and those that all pages share, with the filters they use."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    found = Environment(
        loader=FileSystemLoader([templates, HERE]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {
        "rich": lambda given: Markup(typeset.html(given)),
        "plain": without_tags,
        "number": typeset.number,
        "duration": duration,
        "typed": typed,
        "percent": lambda shade: round(100 * palette.strength(shade)),
        "day": lambda when: when[:10],
    }
    return found


def render_all(drawn: Mapping[str, Figure], formats: Sequence[str]) -> list[tuple[Picture, dict[str, bytes]]]:
    """Every figure by its key, for the page and in some formats.

    Matplotlib takes most of the time of a report, so processes share it: a picture is made where it is drawn.
    """
    if len(drawn) < PARALLEL or cores() < 2:
        return [_rendered(key, figure, formats) for key, figure in drawn.items()]
    from joblib import Parallel, delayed

    made: list[tuple[Picture, dict[str, bytes]]] = Parallel(n_jobs=min(cores(), 8), batch_size=1)(
        delayed(_rendered)(key, figure, formats) for key, figure in drawn.items()
    )
    return made


def _rendered(key: str, figure: Figure, formats: Sequence[str]) -> tuple[Picture, dict[str, bytes]]:
    files = matplotlib_figure.render(figure, formats)
    return picture(key, figure, files), files


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


def _asset(name: str) -> str:
    return (HERE / "assets" / name).read_text(encoding="utf-8")
