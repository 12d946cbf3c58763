"""`featavg data`: which image data are here, and how to get them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Dir = Annotated[
    Path | None, typer.Option("--data-dir", envvar="FEATAVG_DATA", help="Folder with data sets.")
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(help="Image data: what is here, and how to get it.", no_args_is_help=False)
    group.callback(invoke_without_command=True)(_data)
    group.command("get")(_get)
    app.add_typer(group, name="data")


def _data(context: typer.Context, data_dir: Dir = None) -> None:
    """List the data sets, where they are looked for, and whether each file is whole."""
    context.obj = data_dir
    if context.invoked_subcommand is not None:
        return
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


def _get(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="mnist, cifar10 or cifar100.")],
    data_dir: Dir = None,
) -> None:
    """Download a data set, check it by its hash, and lay it out as published."""
    from featavg.data.archives import download
    from featavg.data.published import data_folder

    for path in download(name, data_folder(data_dir or context.obj)):
        typer.echo(f"{path}: whole")
