"""`featavg toy`."""

import typer


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("toy")(_toy)


def _toy() -> None:
    """Say that a toy was here."""
    typer.echo("a toy was here")
