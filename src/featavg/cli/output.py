"""What commands print and write: tables, `--json FILE`, and how to resume after Ctrl-C."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

JSON_HELP = "File for everything, for machines; - is standard output."
Json = Annotated[Path | None, typer.Option(help=JSON_HELP)]
STANDARD_OUTPUT = Path("-")


def write_json(path: Path | None, value: Any) -> None:
    """Write it, if the user asked for it."""
    if path is None:
        return
    from featavg.storage.files import dumps, strict_json, write

    write(path, dumps(strict_json(value)), "json")


@contextmanager
def machine_file(path: Any) -> Iterator[Any]:
    """The JSON file of a command; prints its name afterwards.

    For `-` the JSON alone goes to standard output, and whatever else the command prints goes to
    standard error: `featavg radius RESULT --json - | jq .`
    """
    if path != STANDARD_OUTPUT:
        yield path
        if isinstance(path, Path):
            typer.echo(f"Everything: {path}")
        return
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        written = Path(folder) / "everything.json"
        try:
            with redirect_stdout(sys.stderr):
                yield written
        finally:  # a command that ends with a code of its own has written before
            if written.exists():
                sys.stdout.write(written.read_text())


def console() -> Console:
    """Standard output; without a terminal rich would assume 80 columns and fold every number."""
    from rich.console import Console

    return Console(highlight=False) if sys.stdout.isatty() else Console(width=120, highlight=False)


def table(*columns: str, right: tuple[str, ...] = ()) -> Table:
    """An empty table with these columns, those of `right` set flush right."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    empty = Table(box=SIMPLE_HEAD, header_style="bold", pad_edge=False)
    for name in columns:
        justify = "right" if name in right else "left"
        empty.add_column(name, justify=justify, overflow="fold")  # type: ignore[arg-type]
    return empty


class Interrupted(Exception):  # noqa: N818 (the user's wish, not a fault)
    """Ctrl-C in a command that can say how to resume; the sentence is shown, exit code 130."""
