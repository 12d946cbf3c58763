"""The page of a sweep: command, figures and table in one self-contained HTML file."""

from __future__ import annotations

import base64
from html import escape
from pathlib import Path

from featavg.figures import palette
from featavg.figures.matplotlib_figure import render
from featavg.simulate.sweep.table import Sweep
from featavg.storage.files import dumps, write
from featavg.storage.provenance import provenance

NAME = "sweep.html"
_SHOWN = 200  # rows of the table on the page; the CSV has all
_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem;
  color: var(--ink); background: var(--page); }
figure { margin: 2rem 0; } img { max-width: 100%; background: #fff; border-radius: 6px; }
pre, code { background: color-mix(in srgb, var(--ink) 8%, transparent); border-radius: 4px; }
pre { padding: .75rem; overflow-x: auto; } .wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums; }
td, th { padding: .2rem .6rem; border-bottom: 1px solid color-mix(in srgb, var(--ink) 20%,
  transparent); text-align: right; white-space: nowrap; }
"""


def write_sweep(result: Sweep, out: str | Path, command: str = "") -> Path:
    """Write the table as CSV and JSON, every figure, and the page; return the page's path."""
    folder = Path(out)
    result.to_csv(folder / "table.csv")
    write(folder / "table.json", dumps(result.to_json()))
    pictures = []
    for name in result.measured:
        figure = result.figure(name)
        drawn = render(figure)
        for extension, content in drawn.items():
            write(folder / "figures" / f"{figure.name}.{extension}", content)
        shown = base64.b64encode(drawn["png"]).decode()
        pictures.append(
            f'<figure><img alt="{escape(figure.title)}" src="data:image/png;base64,{shown}">'
            f"<figcaption>{escape(figure.title)}. {escape(figure.caption)}</figcaption></figure>"
        )
    return write(folder / NAME, _page(result, command, pictures))


def _page(result: Sweep, command: str, pictures: list[str]) -> str:
    about = provenance()
    head = "".join(f"<th>{escape(name)}</th>" for name in result.columns)
    columns = [column.tolist() for column in result.columns.values()]
    rows = "".join(
        "<tr>" + "".join(f"<td>{escape(_cell(value))}</td>" for value in row) + "</tr>"
        for row in list(zip(*columns, strict=True))[:_SHOWN]
    )
    more = f"<p>The first {_SHOWN} of {len(result)} rows; table.csv has all.</p>"
    made = f"featavg {about.get('featavg', '')}".strip()
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
        "base-uri 'none'; form-action 'none'\">"
        f"<title>featavg sweep</title><style>{palette.css()}{_STYLE}</style></head><body>"
        f"<h1>Sweep</h1><pre>{escape(result.summary())}</pre>"
        + (f"<p>Made by {escape(made)} with</p><pre>{escape(command)}</pre>" if command else "")
        + "".join(pictures)
        + (more if len(result) > _SHOWN else "")
        + f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'
        "</div></body></html>\n"
    )


def _cell(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
