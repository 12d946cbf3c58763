"""`featavg data`: which image data are here, and how to get them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Dir = Annotated[
    Path | None, typer.Option("--data-dir", envvar="FEATAVG_DATA", help="Folder with data sets.")
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("data")(_data)


def _data(
    action: Annotated[str, typer.Argument(help="list, or get to download.")] = "list",
    name: Annotated[str, typer.Argument(help="mnist, cifar10 or cifar100.")] = "",
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

    from featavg.commands.tables import console, table
    from featavg.data.archives import FILES, checked
    from featavg.data.published import data_folder
    from featavg.errors import InputError

    folder = data_folder(data_dir)
    shown = table("data", "state", "where")
    shown.add_row("digits", "here", "scikit-learn, no download")
    for name, published in FILES.items():
        try:
            files = checked(name, folder, optional=("train.bin",))
            state = "here, checked" if len(files) == len(published.md5) else "here in part, checked"
        except InputError as error:
            state = "damaged" if "damaged" in error.problem else "not here"
        shown.add_row(name, state, escape(str(folder / published.folder)))
    console().print(shown)
    console().print(
        "`featavg data get NAME` downloads one; --data-dir or $FEATAVG_DATA says where."
    )


def _get(name: str, data_dir: Path | None) -> None:
    from featavg.data.archives import download
    from featavg.data.published import data_folder

    for path in download(name, data_folder(data_dir)):
        typer.echo(f"{path}: whole")
