"""`--json FILE`: everything that a command computed, for machines."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

Json = Annotated[Path | None, typer.Option(help="File for everything, for machines.")]


def write_json(path: Path | None, value: Any) -> None:
    """Write it, if the user asked for it."""
    if path is None:
        return
    from featavg.claims.result import strict_json
    from featavg.storage.files import dumps, write

    write(path, dumps(strict_json(value)), "json")
    typer.echo(f"Everything: {path}")
