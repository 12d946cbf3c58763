"""`featavg margins`: train the network of the margin table, go on with it, show how far it got."""

import importlib.util
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from featavg.cli.checked import MOST_NEURONS, MOST_WORKERS
from featavg.cli.interrupted import Interrupted
from featavg.cli.machine import Json, write_json
from featavg.storage.places import results_folder

if TYPE_CHECKING:
    from featavg.paper.margins.network.settings import MarginSettings

RUN = results_folder("margins")

Dir = Annotated[Path | None, typer.Option(envvar="FEATAVG_DATA", help="Folder with data sets.")]
Out = Annotated[Path, typer.Option(help="Folder of the run.")]
Passes = Annotated[int, typer.Option(min=1, help="Stop when so many passes count.")]
Workers = Annotated[
    int,
    typer.Option(
        min=1, max=MOST_WORKERS, help="Attempts side by side; the numbers do not depend on it."
    ),
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
    hidden: Annotated[
        int, typer.Option(min=1, max=MOST_NEURONS, help="Width of the full layer.")
    ] = 1024,
    seed: Annotated[int, typer.Option(min=0, help="Of weights and order.")] = 0,
    rule: Annotated[
        str, typer.Option(help="loss-based (as published), constant, or support.")
    ] = "loss-based",
    rate: Annotated[float, typer.Option(help="The first rate, or the constant one.")] = 0.1,
    threads: Annotated[
        int,
        typer.Option(min=1, max=MOST_WORKERS, help="Threads of torch; part of what makes bits."),
    ] = 1,
    workers: Workers = 2,
    json: Json = None,
) -> None:
    """Train with SGD, batches of 100 and the loss-based rate.

    With --rule support, rounds over the samples that hold the loss, in implicit steps, each round
    ended by a look at every sample: to the last row of the table unless --until says otherwise. The
    time left is shown on the way. A run that was killed goes on to the same bits when the same
    command is given again.
    """
    from featavg.cli.parse import listed
    from featavg.data.image_sets.loading import load
    from featavg.errors import InputError, one_of
    from featavg.paper.margins.network.margin_cnn import MarginCNN
    from featavg.paper.margins.network.settings import MarginSettings, SupportRule
    from featavg.training.controllers.constant import Constant
    from featavg.training.controllers.loss_based import LossBased

    _torch()
    one_of("rule", rule, ("loss-based", "constant", "support"))
    widths = [int(width) for width in listed("channels", channels) if width == int(width)]
    if len(widths) != 2:
        raise InputError("channels", f"are {channels!r}", "give two whole numbers, as 32,64")
    task = load(data, data_dir)
    settings = MarginSettings(
        network=MarginCNN(task.shape[-1], (widths[0], widths[1]), hidden, task.fine, biases),
        seed=seed,
        threads=threads,
        controller=Constant(rate) if rule == "constant" else LossBased(rate),
        support=SupportRule(first_rate=rate) if rule == "support" else None,
    )
    _go(out, data, settings, data_dir, passes, until, workers, json)


def _resume(
    out: Annotated[Path, typer.Argument(help="Folder of the run.")] = RUN,
    data_dir: Dir = None,
    passes: Passes = 10_000,
    until: Until = None,
    workers: Workers = 2,
    json: Json = None,
) -> None:
    """Go on with a run, whatever it was started with."""
    from featavg.paper.margins.mnist_margins import data_of_run
    from featavg.paper.margins.network.fit import CHECKPOINT
    from featavg.paper.margins.network.run import read_run

    _torch()
    settings = read_run(out / CHECKPOINT).settings
    _go(out, data_of_run(out), settings, data_dir, passes, until, workers, json)


def _show(
    out: Annotated[Path, typer.Argument(help="Folder of the run.")] = RUN,
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> None:
    """The rows that the run has reached, beside the published ones, and where it stands."""
    from featavg.paper.margins.mnist_margins import margin_table
    from featavg.storage.files import dumps

    _torch()
    result = margin_table(out)
    typer.echo(dumps(result.to_json()).rstrip() if as_json else result.summary())


def _linear(
    data: Annotated[Path, typer.Argument(help="npz file with x (n x d) and y (-1, +1).")],
    log_times: Annotated[str, typer.Option(help="log t at which to look.")] = "10,100,1000,10000",
    out: Annotated[Path | None, typer.Option(help="Folder for the figure.")] = None,
    json: Json = None,
) -> None:
    """The max-margin direction of your points, and how gradient flow drifts to it."""
    from featavg.cli.parse import listed
    from featavg.data.user_points import read_labelled
    from featavg.figures.matplotlib_figure import save
    from featavg.paper.margins.linear_classifiers import linear_drift
    from featavg.storage.files import usable_folder

    if out is not None:
        usable_folder(out)
    drift = linear_drift(*read_labelled(data), listed("log-times", log_times))
    typer.echo(drift.summary())
    if out is not None:
        save(drift.figure(), out, drift.figure().name)
    write_json(json, drift.to_json())


def _go(
    out: Path,
    data: str,
    settings: "MarginSettings",
    data_dir: Path | None,
    passes: int,
    until: float | None,
    workers: int,
    json: Path | None,
) -> None:
    from featavg.paper.margins.mnist_margins import margin_table, train_margin_network
    from featavg.progress import ProgressBar

    last = -math.inf if settings.support is None else min(settings.save_at)
    goal = last if until is None else until
    try:
        with ProgressBar() as bar:
            run = train_margin_network(
                out, data, settings, data_dir=data_dir, epochs=passes, until=goal, workers=workers,
                progress=bar,
            )  # fmt: skip
    except KeyboardInterrupt:
        raise Interrupted(f"Interrupted: `featavg margins resume {out}` goes on.") from None
    end = f"{run.epoch} passes, log10 loss {run.log10_loss:.2f}, {run.outcome.value}"
    typer.echo(f"{end}: see `featavg margins show {out}`.")
    if json is not None:
        write_json(json, margin_table(out).to_json())


def _torch() -> None:
    from featavg.errors import InputError

    if importlib.util.find_spec("torch") is None:
        from featavg.storage.places import install_command

        raise InputError("torch", "is not installed", install_command("torch"))
    # Threads that spin while they wait for each other take the processor from whoever needs it.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
