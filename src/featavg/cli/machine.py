"""`--json FILE`: everything that a command computed, for machines; `-` is standard output."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Annotated, Any

import typer

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
    """The file that a command writes for machines, and where it is said that it did.

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
