"""`featavg simulate`: any setting by flags or TOML, a summary, a result folder; `featavg presets`."""

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from featavg.cli.checked import MOST_SEEDS
from featavg.cli.flags import given, with_fields
from featavg.cli.output import JSON_HELP, Interrupted, write_json
from featavg.errors import InputError
from featavg.fields import in_words
from featavg.simulate.presets import PRESETS, compose, preset_values
from featavg.simulate.setting import SECTIONS, Setting
from featavg.storage.places import results_folder

if TYPE_CHECKING:
    from featavg.simulate.run import Simulation


_what = partial(typer.Option, rich_help_panel=SECTIONS[0])
_result = partial(typer.Option, rich_help_panel=SECTIONS[-1])


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("simulate")(_simulate)
    app.command("presets")(_presets)


@with_fields(sections=True)
def _simulate(
    preset: Annotated[str | None, _what(help=f"{in_words(PRESETS)} [paper].")] = None,
    config: Annotated[Path | None, _what(help="TOML file of settings; flags win over it.")] = None,
    seed: Annotated[list[int] | None, _what(help="Seed [0]; may be repeated.")] = None,
    seeds: Annotated[int | None, _what(help="How many seeds, counted from 0.")] = None,
    *,
    out: Annotated[
        Path | None, _result(help="Result folder [featavg-results/simulations/NAME].")
    ] = None,
    json: Annotated[Path | None, _result(help=JSON_HELP)] = None,
    overwrite: Annotated[bool, _result(help="Replace the result of another setting.")] = False,
    figures: Annotated[bool, _result(help="Draw the figures.")] = True,
    checkpoint: Annotated[
        Path | None, _result(help="Folder of the state [OUT/checkpoint].")
    ] = None,
    checkpoint_every: Annotated[float, _result(help="Seconds between states; 0 for none.")] = 30.0,
    **fields: Any,
) -> None:
    """Train networks on clusters and measure what they have learned.

    Without flags: the paper's setting, coarse and fine labels on one sample. A run that was killed
    goes on from where it was when the same command is given again.
    """
    from featavg.data.memory import available_bytes, readable
    from featavg.progress import ProgressBar
    from featavg.simulate.points import memory_needed
    from featavg.simulate.run import simulate

    setting = _setting(preset, config, seed, seeds, fields)
    folder = out if out is not None else _default_out(setting)
    needed = memory_needed(setting)
    if 1e9 < needed <= (available_bytes() or needed):  # what is too much is refused by `simulate`
        print(f"This needs about {readable(needed)} of memory.", file=sys.stderr)
    try:
        with ProgressBar() as progress:
            done = simulate(
                setting,
                folder,
                progress,
                figures=figures,
                overwrite=overwrite,
                checkpoint=checkpoint,
                checkpoint_seconds=checkpoint_every,
            )
    except KeyboardInterrupt:
        raise Interrupted(_how_to_go_on(checkpoint or folder / "checkpoint")) from None
    _show(done)
    write_json(json, done.to_json())


def _setting(
    preset: str | None,
    config: Path | None,
    seed: list[int] | None,
    seeds: int | None,
    fields: dict[str, Any],
) -> Setting:
    if seed and seeds is not None:
        raise InputError("seed", "is given beside seeds", "give one of the two")
    if seeds is not None and not 1 <= seeds <= MOST_SEEDS:
        raise InputError("seeds", f"is {seeds}", f"give from 1 to {MOST_SEEDS}")
    chosen = seed or (None if seeds is None else range(seeds))
    return compose(preset, config, **given(fields), **({"seeds": chosen} if chosen else {}))


def _default_out(setting: Setting) -> Path:
    """The same setting goes to the same folder, so that a killed run is found again."""
    shape = "data" if setting.data is not None else f"k{setting.k}-d{setting.d}-n{setting.n}"
    return results_folder("simulations") / f"{setting.labels}-{shape}-{setting.key}"


def _how_to_go_on(states: Path) -> str:
    if states.exists():
        return f"Interrupted: the same command goes on from {states}."
    return "Interrupted before the first checkpoint: nothing was written."


def _show(done: "Simulation") -> None:
    """Print the table, and where the rest is."""
    from rich.markup import escape

    from featavg.cli.output import console, table

    shown = table("", *(f"{labels} labels" for labels in done.setting.each_labels))
    for name, cells in done.rows():
        shown.add_row(name, *map(escape, cells))
    terminal = console()
    terminal.print(escape(_title(done)), style="bold")
    terminal.print(shown)
    if done.folder is not None:
        terminal.print(f"Result: {escape(_short(done.folder))}", soft_wrap=True)


def _title(done: "Simulation") -> str:
    seeds = done.setting.seeds
    shown = f"seed {seeds[0]}" if len(seeds) == 1 else f"{len(seeds)} seeds"
    source = "" if done.setting.data is None else f"{done.setting.data}: "
    return f"{source}{done.shapes}, {shown}"


def _short(folder: Path) -> str:
    try:
        return str(folder.relative_to(Path.cwd()))
    except ValueError:
        return str(folder)


@with_fields("k", "d")
def _presets(
    show: Annotated[
        str | None, typer.Option(metavar="NAME", help="Print it as TOML for `simulate --config`.")
    ] = None,
    **fields: Any,
) -> None:
    """List the presets and their values, or print one as TOML: talk follows d, theorem follows k."""
    chosen = given(fields)
    if show is not None:
        typer.echo(compose(show, **chosen).to_toml(), nl=False)
        return
    from featavg.cli.output import console, table

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
