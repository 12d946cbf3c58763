"""`featavg reproduce`, `claims`, `run`, `stability` and `report`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from featavg.cli.flags import MOST_SEEDS, MOST_WORKERS
from featavg.cli.output import write_json
from featavg.errors import InputError

Only = Annotated[
    list[str] | None, typer.Option(help="A claim, or the beginning of its id; may be repeated.", metavar="ID")
]
Full = Annotated[bool, typer.Option("--full", help="Run the full tier too: hours, real data.")]
Seeds = Annotated[int, typer.Option(min=1, max=MOST_SEEDS, help="How many seeds, counted from 0.")]
Json = Annotated[Path | None, typer.Option(help="Write every number and verdict to this file.")]
Out = Annotated[Path | None, typer.Option(help="Folder of the report.  [default: featavg-results/report]")]
DataDir = Annotated[Path | None, typer.Option(envvar="FEATAVG_DATA", help="Folder with data sets.")]
Resume = Annotated[
    bool | None,
    typer.Option(
        "--resume/--fresh",
        help="Take over what an earlier run into the same folder has finished, or start anew.  "
        "[default: --resume with --full]",
        show_default=False,
    ),
]
Record = Annotated[bool, typer.Option("--record", help="Keep full-tier results in the package (for developers).")]
Workers = Annotated[
    int | None,
    typer.Option(min=1, max=MOST_WORKERS, help="Processes.  [default: all cores, one with --full]", show_default=False),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("reproduce")(_reproduce)
    app.command("claims")(_claims)
    app.command("run")(_run)
    app.command("stability")(_stability)
    app.command("report")(_report)


def _reproduce(
    only: Only = None,
    full: Full = False,
    seeds: Seeds = 5,
    json: Json = None,
    out: Out = None,
    data_dir: DataDir = None,
    resume: Resume = None,
    record: Record = False,
    workers: Workers = None,
) -> None:
    """Run the claims of the documents: a table of verdicts and one HTML report."""
    from featavg.paper.report.reproduction import exit_code, reproduce

    outcomes = reproduce(
        only=",".join(only) if only else None,
        full=full,
        seeds=seeds,
        out=out,
        json=json,
        data_dir=data_dir,
        record=record,
        resume=resume,
        workers=workers,
    )
    raise typer.Exit(exit_code(outcomes))


def _claims(
    only: Only = None, json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False, out: Out = None
) -> None:
    """List the claims: id, tier, what they say, and their last verdict if one was recorded."""
    from featavg.paper.engine.registry import find_claims
    from featavg.paper.report.reproduction import DEFAULT_OUT

    if out is not None and not out.is_dir():
        raise InputError("out", f"({out}) is not a folder", "give what `featavg reproduce` wrote")
    rows = [
        {
            "id": claim.id,
            "tier": claim.tier,
            "title": claim.title,
            "theme": claim.theme,
            "source": claim.source,
            "minutes": float(claim.minutes),
            "verdict": last_verdict(claim.id, out or DEFAULT_OUT),
        }
        for claim in find_claims(",".join(only) if only else None)
    ]
    if json:
        from json import dumps

        typer.echo(dumps(rows, indent=1, ensure_ascii=False))
    else:
        _show(rows)


def _run(
    id: Annotated[str, typer.Argument(help="The id of a claim; `featavg claims` lists them.")],
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="A parameter, as n=500; may be repeated.", metavar="NAME=VALUE")
    ] = None,
    seeds: Seeds = 5,
    out: Annotated[Path | None, typer.Option(help="Folder for figures and numbers.")] = None,
    json: Json = None,
    data_dir: DataDir = None,
) -> None:
    """Run one claim, with some of its parameters changed."""
    from featavg.paper.engine.registry import find_claims
    from featavg.paper.engine.run import run_claim
    from featavg.paper.engine.terminal import show_result
    from featavg.paper.report.reproduction import write_result
    from featavg.progress import ProgressBar
    from featavg.storage.files import usable_folder

    (claim, *others) = find_claims([id])
    if others:
        raise InputError("id", f"begins {1 + len(others)} claims", f"give one, such as {claim.id}")
    values: dict[str, str] = {}
    for given in set_ or ():
        name, equals, value = given.partition("=")
        if not equals:
            raise InputError("set", f"is {given!r}", "write NAME=VALUE")
        values[name.strip().replace("-", "_")] = value.strip()
    changed = claim.values_of(values)
    folder = None if out is None else usable_folder(out)
    with ProgressBar(expected=60 * float(claim.minutes)) as bar:
        result = run_claim(claim.id, seeds, data_dir, bar, **changed)
    show_result(result, claim.parameters | changed)
    if folder is not None:
        write_result(result, folder)
    write_json(json, result.to_json())
    raise typer.Exit(int(result.error))


def _stability(
    only: Only = None,
    blocks: Annotated[int, typer.Option(min=1, max=100, help="Other blocks of five seeds.")] = 10,
    json: Json = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of finished blocks.  [default: featavg-results/stability]")
    ] = None,
    data_dir: DataDir = None,
    record: Annotated[
        bool, typer.Option("--record", help="Keep the verdicts in the package (for developers).")
    ] = False,
    workers: Workers = None,
) -> None:
    """Judge claims (the quick tier) again by other blocks of seeds: is the verdict the same?"""
    from featavg.cli.output import console, table
    from featavg.paper.engine.stability import agreement, others_text, stability

    verdicts = stability(",".join(only) if only else None, blocks, out, data_dir, record, workers=workers)
    shown = table("claim", "verdict", "the same", "others")
    for name, (first, *_) in verdicts.items():
        same, count = agreement(verdicts[name], first)
        shown.add_row(name, first, f"{same} of {count}", others_text(verdicts[name], first))
    console().print(shown)
    write_json(json, verdicts)


def _report(
    folder: Annotated[
        Path | None, typer.Argument(help="What `featavg reproduce` wrote.", show_default="featavg-results/report")
    ] = None,
    only: Only = None,
    slides: Annotated[bool, typer.Option("--slides", help="Write slides.pdf too, a figure a page.")] = False,
    pdf: Annotated[bool, typer.Option("--pdf", help="Write every figure as PDF too, for a paper.")] = False,
) -> None:
    """Write the report and the tables of verdicts from results that are there."""
    from featavg.paper.report.reproduction import rebuild

    rebuild(folder, ",".join(only) if only else None, slides=slides, pdf=pdf)


def last_verdict(claim_id: str, out: Path) -> str | None:
    """The verdict in the report folder `out`, else the one recorded in the package, else None."""
    from featavg.paper.engine.store import recorded_result
    from featavg.storage.reading import read_json

    try:
        return str(read_json(out / "outcomes" / f"{claim_id}.json")["verdict"])
    except (ValueError, KeyError, TypeError):  # InputError is a ValueError
        recorded = recorded_result(claim_id)
        return recorded.verdict.value if recorded else None


def _show(rows: list[dict[str, Any]]) -> None:
    from rich.markup import escape

    from featavg.cli.output import console, table
    from featavg.storage.places import typed

    shown = table("claim", "tier", "verdict", "what it says")
    theme = None
    for row in rows:
        if theme is not None and row["theme"] != theme:
            shown.add_section()
        theme = row["theme"]
        shown.add_row(row["id"], row["tier"], row["verdict"] or "", escape(row["title"]))
    console().print(shown)
    console().print(f"{len(rows)} claims. `{typed('featavg reproduce --only ID')}` runs one.")
