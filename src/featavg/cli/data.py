"""`featavg data`: which image data are here, and how to get them."""

from pathlib import Path
from typing import Annotated

import typer

from featavg.data.image_sets.registry import named

Dir = Annotated[
    Path | None, typer.Option("--data-dir", envvar="FEATAVG_DATA", help="Folder with data sets.")
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("data")(_data)


def _data(
    action: Annotated[str, typer.Argument(help="list, or get to download.")] = "list",
    name: Annotated[str, typer.Argument(help=f"One of {named(downloads=True)}.")] = "",
    data_dir: Dir = None,
) -> None:
    """List image data sets and whether each file is whole, or `get` one and check it by its hash."""
    from featavg.errors import one_of

    if one_of("action", action, ("list", "get")) == "get":
        _get(name, data_dir)
    else:
        _list(data_dir)


def _list(data_dir: Path | None) -> None:
    from rich.markup import escape

    from featavg.cli.output import console, table
    from featavg.data.image_sets.archives import state
    from featavg.data.image_sets.loading import data_folder
    from featavg.data.image_sets.registry import image_sets

    folder = data_folder(data_dir)
    rows = table("data", "state", "where")
    for name, image_set in image_sets().items():
        if image_set.md5:
            rows.add_row(name, state(image_set, folder), escape(str(folder / image_set.folder)))
        else:
            rows.add_row(name, "here", "comes with a package, no download")
    console().print(rows)
    console().print(
        "`featavg data get NAME` downloads one; --data-dir or $FEATAVG_DATA says where."
    )


def _get(name: str, data_dir: Path | None) -> None:
    from featavg.data.image_sets.archives import download
    from featavg.data.image_sets.loading import data_folder

    for path in download(name, data_folder(data_dir)):
        typer.echo(f"{path}: whole")
