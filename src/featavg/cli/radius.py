"""`featavg radius`: how far the points of a saved network are from its boundary."""

from pathlib import Path
from typing import Annotated, Any

import typer

from featavg.cli.checked import MOST_POINTS
from featavg.cli.flags import given, with_fields
from featavg.cli.output import Json


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("radius")(_radius)


@with_fields("readout")
def _radius(
    result: Annotated[Path, typer.Argument(help="The folder that `featavg simulate` wrote.")],
    points: Annotated[
        int, typer.Option(min=1, max=MOST_POINTS, help="How many fresh points.")
    ] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the points.")] = 1,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the curve and the histogram.")
    ] = None,
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
        report = radius_report(
            result, points, seed, out=figures, json=json, progress=progress, **given(fields)
        )
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
