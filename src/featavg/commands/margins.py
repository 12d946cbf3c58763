"""`featavg margins`: train the network of the margin table, go on with it, show how far it got."""

from __future__ import annotations

import importlib.util
import json
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from featavg.commands import Interrupted

if TYPE_CHECKING:
    from featavg.training.margin_network.run import MarginRun, MarginSettings

RUN = Path("featavg-margins")
ABOUT = "about.json"

Dir = Annotated[Path | None, typer.Option(envvar="FEATAVG_DATA", help="Folder with data sets.")]
Out = Annotated[Path, typer.Option(help="Folder of the run.")]
Passes = Annotated[int, typer.Option(help="Stop when so many passes count.")]
Workers = Annotated[
    int, typer.Option(help="Attempts side by side; the numbers do not depend on it.")
]
Until = Annotated[
    float | None, typer.Option(help="Stop at this log10 of the training loss, such as -20.07.")
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(help="The MNIST network of the margin table, to losses like 1e-881.")
    for name, command in (
        ("train", _train),
        ("resume", _resume),
        ("show", _show),
        ("linear", _linear),
    ):
        group.command(name)(command)
    app.add_typer(group, name="margins")


def _train(
    data: Annotated[str, typer.Argument(help="mnist, or digits for a quick look.")] = "mnist",
    out: Out = RUN,
    data_dir: Dir = None,
    passes: Passes = 10_000,
    until: Until = None,
    biases: Annotated[str, typer.Option(help="A bias in the first layer, or in all.")] = "first",
    channels: Annotated[str, typer.Option(help="Of the two convolutions.")] = "32,64",
    hidden: Annotated[int, typer.Option(help="Width of the full layer.")] = 1024,
    seed: Annotated[int, typer.Option(help="Of weights and order.")] = 0,
    threads: Annotated[int, typer.Option(help="Threads of torch; part of what makes bits.")] = 1,
    workers: Workers = 2,
) -> None:
    """Train with SGD, batches of 100 and the loss-based rate.

    A run that was killed goes on to the same bits when the same command is given again.
    """
    from featavg.commands.parse import listed
    from featavg.data.published import load
    from featavg.errors import InputError
    from featavg.nets.torch.margin_cnn import MarginCNN
    from featavg.storage.files import check_writable, write
    from featavg.training.margin_network.run import MarginSettings

    _torch()
    widths = [int(width) for width in listed("channels", channels)]
    if len(widths) != 2 or min(*widths, hidden) < 1:
        raise InputError("channels", f"are {channels!r}", "give two positive numbers, as 32,64")
    task = load(data, data_dir)
    network = MarginCNN(task.shape[-1], (widths[0], widths[1]), hidden, task.fine, biases)
    settings = MarginSettings(network=network, seed=seed, threads=threads)
    check_writable(out)
    _refuse_another(out, settings)
    if not (out / ABOUT).exists():
        write(out / ABOUT, json.dumps({"data": data}) + "\n")
    _go(out, settings, task.train, passes, until, workers)


def _resume(
    out: Annotated[Path, typer.Argument(help="Folder of the run.")] = RUN,
    data_dir: Dir = None,
    passes: Passes = 10_000,
    until: Until = None,
    workers: Workers = 2,
) -> None:
    """Go on with a run, whatever it was started with."""
    from featavg.data.published import load
    from featavg.training.margin_network.fit import CHECKPOINT
    from featavg.training.margin_network.run import read_run

    _torch()
    run = read_run(out / CHECKPOINT)
    about = out / ABOUT
    name = json.loads(about.read_text())["data"] if about.exists() else "mnist"
    _go(out, run.settings, load(name, data_dir).train, passes, until, workers)


def _show(
    out: Annotated[Path, typer.Argument(help="Folder of the run.")] = RUN,
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> None:
    """The rows that the run has reached, beside the published ones, and where it stands."""
    from featavg.claims.margins.table import PUBLISHED
    from featavg.commands.tables import console, table
    from featavg.training.margin_network.fit import CHECKPOINT
    from featavg.training.margin_network.run import read_run

    run = read_run(out / CHECKPOINT)
    found: list[dict[str, Any]] = []
    for row in PUBLISHED:
        place = out / f"row-{row.model}"
        if place.exists():
            found.append({"model": row.model, **read_run(place).history[-1]})
    if as_json:
        typer.echo(json.dumps({"rows": found, "history": run.history}, indent=1))
        return
    published = {row.model: row for row in PUBLISHED}
    lines = [
        (
            f"row {entry['model']}",
            str(entry["epoch"]),
            f"{entry['log10_loss']:.2f}",
            _number(entry["normalized_margin"]),
            _number(entry.get("product_margin")),
            str(published[entry["model"]].epochs),
            f"{published[entry['model']].normalized_margin:.2e}",
        )
        for entry in found
    ]
    if run.history:
        last = run.history[-1]
        both = (_number(last["normalized_margin"]), _number(last.get("product_margin")))
        lines.append(("now", str(last["epoch"]), f"{last['log10_loss']:.2f}", *both, "", ""))
    head = (
        "",
        "passes",
        "log10 loss",
        "min q / |theta|^4",
        "min q / product of norms",
        "published passes",
        "published margin",
    )
    shown = table(*head, right=head[1:])
    for line in lines:
        shown.add_row(*line)
    console().print(shown)


def _linear(
    data: Annotated[Path, typer.Argument(help="npz file with x (n x d) and y (-1, +1).")],
    log_times: Annotated[str, typer.Option(help="log t at which to look.")] = "10,100,1000,10000",
) -> None:
    """The max-margin direction of your points, and how gradient flow drifts to it."""
    from featavg.commands.parse import listed
    from featavg.commands.tables import console, table
    from featavg.measures.svm import angle, checked_max_margin
    from featavg.training.linear.flow import linear_flow

    x, y = _points(data)
    found = checked_max_margin(x, y)
    times = listed("log-times", log_times)
    typer.echo(f"Margin {found.margin:.6g}, {len(found.support)} of {len(y)} support vectors.")
    shown = table("log t", "angle to the max-margin direction", right=("log t",))
    for time, w in zip(times, linear_flow(x, y, times), strict=True):
        shown.add_row(f"{time:g}", f"{float(angle(w, found.w)):.2e}")
    console().print(shown)


def _points(path: Path) -> tuple[Any, Any]:
    import numpy as np

    from featavg.errors import InputError

    try:
        with np.load(path, allow_pickle=False) as arrays:
            x, y = arrays["x"].astype(float), arrays["y"].astype(int)
    except (OSError, ValueError, KeyError) as error:
        raise InputError(
            str(path), f"cannot be read ({error})", "give an npz with x and y"
        ) from error
    if x.ndim != 2 or y.shape != x.shape[:1]:
        raise InputError(str(path), "has no n x d points with n labels", "give x and y like that")
    return x, y


def _number(value: float | None) -> str:
    return "not homogeneous" if value is None else f"{value:.2e}"


def _go(
    out: Path,
    settings: MarginSettings,
    pictures: Any,
    passes: int,
    until: float | None,
    workers: int,
) -> None:
    from featavg.errors import InputError
    from featavg.progress import ProgressBar
    from featavg.training.margin_network.fit import fit

    if workers < 1:
        raise InputError("workers", f"is {workers}", "give 1, or as many as there are cores")
    goal = -math.inf if until is None else until
    try:
        with ProgressBar() as bar:

            def told(run: MarginRun, part: float) -> None:
                by_passes = (run.epoch + part) / passes
                by_loss = run.log10_loss / goal if math.isfinite(goal) else 0.0
                note = f"pass {run.epoch + 1}, log10 loss {run.log10_loss:.2f}"
                bar(min(1.0, max(by_passes, by_loss, 0.0)), note)

            run = fit(
                out, settings, pictures, epochs=passes, until=goal, tick=told, workers=workers
            )
    except KeyboardInterrupt:
        raise Interrupted(f"Interrupted: `featavg margins resume {out}` goes on.") from None
    told_so_far = f"{run.epoch} passes, log10 loss {run.log10_loss:.2f}"
    typer.echo(f"{told_so_far}: see `featavg margins show {out}`.")


def _refuse_another(out: Path, settings: MarginSettings) -> None:
    """Before anything is written: a folder holds one run."""
    from featavg.errors import InputError
    from featavg.training.margin_network.fit import CHECKPOINT
    from featavg.training.margin_network.run import read_run

    if (out / CHECKPOINT).exists() and read_run(out / CHECKPOINT).settings != settings:
        raise InputError(str(out), "holds a run with other settings", "choose another folder")


def _torch() -> None:
    from featavg.errors import InputError

    if importlib.util.find_spec("torch") is None:
        raise InputError("torch", "is not installed", "pip install 'featavg[torch]'")
    # Threads that spin while they wait for each other take the processor from whoever needs it.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
