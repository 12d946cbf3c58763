"""`featavg presets`: the named settings."""

from typing import Annotated, Any

import typer

from featavg.cli.flags import given, with_fields


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("presets")(_presets)


@with_fields("k", "d")
def _presets(
    show: Annotated[
        str | None, typer.Option(metavar="NAME", help="Print it as TOML for `simulate --config`.")
    ] = None,
    **fields: Any,
) -> None:
    """List the presets and their values, or print one as TOML: talk follows d, theorem follows k."""
    from featavg.simulate.presets import PRESETS, compose, preset_values

    chosen = given(fields)
    if show is not None:
        typer.echo(compose(show, **chosen).to_toml(), nl=False)
        return
    from featavg.cli.tables import console, table

    compose(**chosen)  # refuses an impossible k or d
    columns = {name: preset_values(name, chosen) | chosen for name in PRESETS}
    shown = table("", *columns)
    for key in dict.fromkeys(key for values in columns.values() for key in values):
        shown.add_row(key, *(_cell(values.get(key)) for values in columns.values()))
    terminal = console()
    terminal.print(shown)
    for name, preset in PRESETS.items():
        terminal.print(f"{name}: {preset.summary}.")
    terminal.print("`featavg simulate --preset NAME` runs one.")


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
