"""`featavg report`: the page again, without running anything."""

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("report")(_report)


def _report(
    folder: Annotated[
        Path | None,
        typer.Argument(
            help="What `featavg reproduce` wrote.", show_default="featavg-results/report"
        ),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(help="A claim, or the beginning of its id; may be repeated.", metavar="ID"),
    ] = None,
    slides: Annotated[
        bool, typer.Option("--slides", help="Write slides.pdf too, a figure a page.")
    ] = False,
) -> None:
    """Write the report and the tables of verdicts from results that are there."""
    from featavg.paper.report.reproduction import rebuild

    rebuild(folder, ",".join(only) if only else None, slides=slides)
