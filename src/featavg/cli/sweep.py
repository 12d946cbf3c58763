"""`featavg sweep`: many settings, one table."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from featavg.cli.flags import MOST_SEEDS, MOST_WORKERS
from featavg.cli.output import Interrupted, Json, write_json


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("sweep")(_sweep)


def _sweep(
    vary: Annotated[
        list[str] | None,
        typer.Option(help="A field and its values: cosine=0:0.9:10, d=1e3:1e6:4:log, stepper=gd,adam."),
    ] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="A field that stays: n=200.")] = None,
    config: Annotated[Path | None, typer.Option(help="TOML with fields of a setting, and a table [vary].")] = None,
    measure: Annotated[str, typer.Option(help="What to measure; --list-measures tells all.")] = ("index,radii"),
    seeds: Annotated[int, typer.Option(min=1, max=MOST_SEEDS, help="Seeds of every setting.")] = 5,
    way: Annotated[str, typer.Option(help="grid, random or sobol.")] = "grid",
    samples: Annotated[int, typer.Option(min=0, help="How many random points.")] = 0,
    engine: Annotated[str, typer.Option(help="processes, serial, dask, or dask://HOST:PORT.")] = "processes",
    workers: Annotated[int | None, typer.Option(min=1, max=MOST_WORKERS, help="How many processes.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for the index of runs, the table, figures and page.")] = Path(
        "featavg-sweep"
    ),
    json: Json = None,
    yes: Annotated[bool, typer.Option(help="Run even a very large sweep.")] = False,
    list_measures: Annotated[bool, typer.Option(help="List what can be measured.")] = False,
) -> None:
    """Train and measure every setting of a grid; what was computed before is not done again."""
    from featavg.cli.output import console, table
    from featavg.progress import ProgressBar
    from featavg.simulate.sweep.measures import MEASURES
    from featavg.simulate.sweep.run import sweep
    from featavg.simulate.sweep.table import write_sweep
    from featavg.storage.files import usable_folder

    terminal = console()
    if list_measures:
        listed = table("measure", "what it is")
        for known in MEASURES.values():
            listed.add_row(known.name, known.about)
        terminal.print(listed)
        return
    base, axes = _asked(config, set_ or [], vary or [])
    usable_folder(out)
    try:
        with ProgressBar() as progress:
            result = sweep(
                axes,
                out,
                measures=measure,
                seeds=seeds,
                way=way,
                samples=samples,
                engine=engine,
                workers=workers,
                yes=yes,
                progress=progress,
                **base,
            )
    except KeyboardInterrupt:
        sentence = f"Interrupted: finished runs are in {out}, and the same command resumes."
        raise Interrupted(sentence) from None
    terminal.print(result.summary(), markup=False)
    command = "featavg " + " ".join(sys.argv[1:])
    terminal.print(f"Table, figures and page: {write_sweep(result, out, command)}", markup=False)
    write_json(json, result.to_json())


def _asked(config: Path | None, fixed: list[str], vary: list[str]) -> tuple[dict[str, Any], list[Any]]:
    """The fields that stay and the axes, from the file and from the flags."""
    from featavg.errors import InputError
    from featavg.simulate.setting import read_table
    from featavg.simulate.sweep.plan import SweepAxis, known_field

    base: dict[str, Any] = {}
    axes: list[Any] = []
    if config is not None:
        given = read_table(config)
        varied = given.pop("vary", {})
        if not isinstance(varied, dict):
            raise InputError("vary", f"is {varied!r:.60}", "write a table [vary] of fields")
        axes += [SweepAxis.of(name, values) for name, values in varied.items()]
        base |= {known_field(name): value for name, value in given.items()}
    for assignment in fixed:
        try:
            axis = SweepAxis.parse(assignment)
        except InputError as error:
            raise InputError("set", error.problem, "write field=value") from error
        if len(axis.values) != 1:
            raise InputError("set", f"is {assignment!r}", "give one value, or use --vary")
        base[axis.field] = axis.values[0]
    return base, axes + [SweepAxis.parse(text) for text in vary]
