"""`featavg doctor`: what is installed, what this machine has, which data are found."""

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("doctor")(_doctor)


def _doctor(
    data_dir: Annotated[
        Path | None, typer.Option(envvar="FEATAVG_DATA", help="Folder with data sets.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder that results would go to.")] = Path("."),
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say what is installed, what this machine has and which data are found."""
    from featavg.cli.installation import doctor

    installation = doctor(data_dir, out)
    if json:
        from json import dumps

        typer.echo(dumps(installation.to_json(), indent=1))
    else:
        from rich.markup import escape

        from featavg.cli.tables import console, table

        rows = table("", "found")
        for name, text in installation.rows().items():
            rows.add_row(name, escape(text))
        console().print(rows)
        console().print("Ready." if installation.ready else "Not ready: see above.", style="bold")
    raise typer.Exit(0 if installation.ready else 1)
