"""`featavg simulate`, `presets`, `radius` and `playground`: one setting, its radii, two networks live."""

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from featavg.cli.flags import MOST_POINTS, MOST_SEEDS, given, with_fields
from featavg.cli.output import JSON_HELP, Interrupted, Json, write_json
from featavg.errors import InputError
from featavg.fields import in_words
from featavg.simulate.setting import PRESETS, SECTIONS, Setting, compose, preset_values
from featavg.storage.places import results_folder

if TYPE_CHECKING:
    from featavg.simulate.run import Simulation


_what = partial(typer.Option, rich_help_panel=SECTIONS[0])
_result = partial(typer.Option, rich_help_panel=SECTIONS[-1])


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("simulate")(_simulate)
    app.command("presets")(_presets)
    app.command("radius")(_radius)
    app.command("playground")(_playground)


@with_fields(sections=True)
def _simulate(
    preset: Annotated[str | None, _what(help=f"{in_words(PRESETS)} [paper].")] = None,
    config: Annotated[Path | None, _what(help="TOML file of settings; flags win over it.")] = None,
    seed: Annotated[list[int] | None, _what(help="Seed [0]; may be repeated.")] = None,
    seeds: Annotated[int | None, _what(help="How many seeds, counted from 0.")] = None,
    *,
    out: Annotated[Path | None, _result(help="Result folder [featavg-results/simulations/NAME].")] = None,
    json: Annotated[Path | None, _result(help=JSON_HELP)] = None,
    overwrite: Annotated[bool, _result(help="Replace the result of another setting.")] = False,
    figures: Annotated[bool, _result(help="Draw the figures.")] = True,
    checkpoint: Annotated[Path | None, _result(help="Folder of the state [OUT/checkpoint].")] = None,
    checkpoint_every: Annotated[float, _result(help="Seconds between states; 0 for none.")] = 30.0,
    **fields: Any,
) -> None:
    """Train networks on clusters and measure what they have learned.

    Without flags: the paper's setting, coarse and fine labels on one sample. A run that was killed
    resumes when the same command is given again.
    """
    from featavg.machine import available_bytes, readable
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
    preset: str | None, config: Path | None, seed: list[int] | None, seeds: int | None, fields: dict[str, Any]
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
        return f"Interrupted: the same command resumes from {states}."
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
    show: Annotated[str | None, typer.Option(metavar="NAME", help="Print it as TOML for `simulate --config`.")] = None,
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


@with_fields("readout")
def _radius(
    result: Annotated[Path, typer.Argument(help="The folder that `featavg simulate` wrote.")],
    points: Annotated[int, typer.Option(min=1, max=MOST_POINTS, help="How many fresh points.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the points.")] = 1,
    out: Annotated[Path | None, typer.Option(help="Folder for the curve and the histogram.")] = None,
    json: Json = None,
    **fields: Any,
) -> None:
    """Exact l2 radii of a saved network, or certified brackets: table, histogram, curve."""
    from featavg.cli.output import console, table
    from featavg.progress import ProgressBar
    from featavg.simulate.radius import radius_report

    terminal = console()
    figures = out or result / "radii"
    with ProgressBar() as progress:
        report = radius_report(result, points, seed, out=figures, json=json, progress=progress, **given(fields))
    rows = report.rows()
    shown = table(*rows[0])
    for row in rows:
        shown.add_row(*row.values())
    terminal.print(shown)
    for labels, radii in report.radii.items():
        terminal.print(f"{labels} labels, certified radii:")
        terminal.print(_histogram(radii.certified))
    terminal.print(f"Curve and histogram: {figures}", markup=False)


def _histogram(values: object, bins: int = 10, width: int = 50) -> str:
    """A histogram in text: one bar a line."""
    import numpy as np

    finite = np.asarray(values, dtype=float)
    finite = finite[np.isfinite(finite)]
    if not len(finite):
        return "  no finite radius"
    counts, edges = np.histogram(finite, bins)
    longest = counts.max()
    return "\n".join(
        f"  {low:9.4g} to {high:<9.4g} {'█' * round(width * count / longest)} {count}"
        for low, high, count in zip(edges, edges[1:], counts, strict=False)
    )


def _playground(
    out: Annotated[
        Path | None, typer.Option(help="The HTML file, or a folder for it.", show_default="featavg-results")
    ] = None,
    opens: Annotated[bool, typer.Option("--open/--no-open", help="Open it in the browser.")] = True,
) -> None:
    """Write the playground, one HTML file that trains two networks live, and open it."""
    from featavg.playground.page import NAME, playground

    written = playground(out if out is not None else results_folder(NAME), open_browser=opens)
    print(f"The playground is {written}: it opens by double click and needs no server.")
