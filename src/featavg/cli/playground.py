"""`featavg playground`: two networks train in the browser, in one file without a server."""

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("playground")(_playground)


def _playground(
    out: Annotated[
        Path | None,
        typer.Option(help="The HTML file, or a folder for it.", show_default="featavg-results"),
    ] = None,
    opens: Annotated[bool, typer.Option("--open/--no-open", help="Open it in the browser.")] = True,
) -> None:
    """Write the playground, one HTML file that trains two networks live, and open it."""
    from featavg.playground.page import NAME, playground
    from featavg.storage.places import results_folder

    written = playground(out if out is not None else results_folder(NAME), open_browser=opens)
    print(f"The playground is {written}: it opens by double click and needs no server.")
