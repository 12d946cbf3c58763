"""`featavg simulate`: any setting by flags or TOML, a summary, a result folder."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from featavg.cli.checked import MOST_SEEDS
from featavg.cli.interrupted import Interrupted
from featavg.cli.machine import JSON_HELP, write_json
from featavg.nets.readouts import NAMES
from featavg.registry import ACTIVATIONS, CONTROLLERS, LOSSES, STEPPERS
from featavg.storage.places import results_folder

if TYPE_CHECKING:
    from featavg.simulate.measurements import RunNumbers
    from featavg.simulate.run import Simulation
    from featavg.simulate.setting import Setting

    Column = list[RunNumbers]
else:
    Column = list  # a name that is not imported yet is no type to Python 3.10


def _what(text: str) -> Any:
    return typer.Option(help=text, rich_help_panel="What to run")


def _task(text: str) -> Any:
    return typer.Option(help=text, rich_help_panel="The task")


def _nets(text: str) -> Any:
    return typer.Option(help=text, rich_help_panel="The networks")


def _training(text: str) -> Any:
    return typer.Option(help=text, rich_help_panel="The training")


def _result(text: str) -> Any:
    return typer.Option(help=text, rich_help_panel="The result")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("simulate")(_simulate)


def _simulate(
    preset: Annotated[str | None, _what("paper (the default), talk or theorem.")] = None,
    config: Annotated[Path | None, _what("TOML file of settings; flags win over it.")] = None,
    labels: Annotated[str | None, _what("coarse, fine, or both on one sample [both].")] = None,
    n: Annotated[int | None, _what("Training points [1000].")] = None,
    seed: Annotated[list[int] | None, _what("Seed [0]; may be repeated.")] = None,
    seeds: Annotated[int | None, _what("How many seeds, counted from 0.")] = None,
    data: Annotated[Path | None, _what("Your points: npz with x and clusters.")] = None,
    k: Annotated[int | None, _task("Clusters [10].")] = None,
    d: Annotated[int | None, _task("Dimension [3072].")] = None,
    alpha: Annotated[float | None, _task("Signal [1].")] = None,
    sigma: Annotated[float | None, _task("Noise [1].")] = None,
    positive: Annotated[str | None, _task("How many clusters are positive, or which: 0,2.")] = None,
    cosine: Annotated[float | None, _task("Cosine between any two features [0].")] = None,
    norms: Annotated[str | None, _task("Length of the features, one or k of them.")] = None,
    probabilities: Annotated[str | None, _task("Shares of the clusters, such as 0.3,0.7.")] = None,
    gram: Annotated[str | None, _task("Gram matrix: CSV, JSON or npy file.")] = None,
    orientation: Annotated[str | None, _task("Features along axes or random [axes].")] = None,
    m: Annotated[int | None, _nets("Neurons per class, coarse labels [5].")] = None,
    h: Annotated[int | None, _nets("Neurons per cluster, fine labels [1].")] = None,
    sigma_w: Annotated[float | None, _nets("Scale of the first weights [1e-5].")] = None,
    sigma_b: Annotated[float | None, _nets("Scale of the first biases [1e-5].")] = None,
    layers: Annotated[str | None, _nets("Train first, hidden or all layers [first].")] = None,
    depth: Annotated[int | None, _nets("Layers of weights [2].")] = None,
    residual: Annotated[bool | None, _nets("Hidden layers add what they are fed.")] = None,
    activation: Annotated[
        str | None, _nets(f"{ACTIVATIONS} [relu]; options: leaky-relu:leak=0.1.")
    ] = None,
    biases: Annotated[bool | None, _nets("Hidden biases [with coarse labels only].")] = None,
    head: Annotated[str | None, _nets("Last layer of the theory, or random [theory].")] = None,
    inner_scale: Annotated[float | None, _nets("Scale of layers behind the first [1].")] = None,
    readout: Annotated[str | None, _nets(f"{', '.join(NAMES)} [{NAMES[0]}].")] = None,
    loss: Annotated[str | None, _training(f"{LOSSES}.")] = None,
    stepper: Annotated[
        str | None, _training(f"{STEPPERS} [gd]; options: momentum:beta=0.5.")
    ] = None,
    controller: Annotated[str | None, _training(f"{CONTROLLERS} [by the stepper].")] = None,
    lr: Annotated[float | None, _training("Learning rate [0.001].")] = None,
    beta: Annotated[float | None, _training("Momentum [0.9].")] = None,
    tolerance: Annotated[float | None, _training("Local error of the flow [0.001].")] = None,
    steps: Annotated[int | None, _training("The most steps to take [100].")] = None,
    time: Annotated[float | None, _training("Stop at this gradient-flow time.")] = None,
    target_loss: Annotated[float | None, _training("Stop at this loss.")] = None,
    coordinates: Annotated[str | None, _training("auto, compressed or ambient [auto].")] = None,
    n_test: Annotated[int | None, _result("Test points [1000].")] = None,
    save_every: Annotated[int | None, _result("Keep the weights every so many steps.")] = None,
    out: Annotated[
        Path | None, _result("Result folder [featavg-results/simulations/NAME].")
    ] = None,
    json: Annotated[Path | None, _result(JSON_HELP)] = None,
    overwrite: Annotated[bool, _result("Replace the result of another setting.")] = False,
    figures: Annotated[bool, _result("Draw the figures.")] = True,
    checkpoint: Annotated[Path | None, _result("Folder of the state [OUT/checkpoint].")] = None,
    checkpoint_every: Annotated[float, _result("Seconds between states; 0 for none.")] = 30.0,
) -> None:
    """Train networks on clusters and measure what they have learned.

    Without flags: the paper's setting, coarse and fine labels on one sample. A run that was killed
    goes on from where it was when the same command is given again.
    """
    flags = dict(locals())  # before anything else is a local name
    from featavg.data.memory import available_bytes, readable
    from featavg.progress import ProgressBar
    from featavg.simulate.points import memory_needed
    from featavg.simulate.run import simulate

    setting = _setting(flags)
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


def _setting(flags: dict[str, Any]) -> "Setting":
    from featavg.cli.parse import int_or_list, listed, one_or_list
    from featavg.errors import InputError
    from featavg.simulate.presets import compose
    from featavg.simulate.setting import Setting

    given = {n: v for n, v in flags.items() if n in Setting.model_fields and v is not None}
    readers = {"positive": int_or_list, "norms": one_or_list, "probabilities": listed}
    for name, reader in readers.items():
        if name in given:
            given[name] = reader(name, given[name])
    if flags["seed"] and flags["seeds"] is not None:
        raise InputError("seed", "is given beside seeds", "give one of the two")
    if flags["seeds"] is not None:
        if not 1 <= flags["seeds"] <= MOST_SEEDS:
            raise InputError("seeds", f"is {flags['seeds']}", f"give from 1 to {MOST_SEEDS}")
        given["seeds"] = range(flags["seeds"])
    if flags["seed"]:
        given["seeds"] = flags["seed"]
    if "seeds" in given:
        given["seeds"] = tuple(given["seeds"])
    if "data" in given:
        given["data"] = str(given["data"])
    return compose(flags["preset"], flags["config"], **given)


def _default_out(setting: "Setting") -> Path:
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

    from featavg.cli.tables import console, table

    kinds = done.setting.each_labels
    shown = table("", *(f"{labels} labels" for labels in kinds))
    for name, cell in _ROWS.items():
        cells = [cell(done.of(labels)) for labels in kinds]
        if any(cells):
            shown.add_row(name, *map(escape, cells))
    terminal = console()
    terminal.print(escape(_title(done)), style="bold")
    terminal.print(shown)
    if done.folder is not None:
        terminal.print(f"Result: {escape(_short(done.folder))}", soft_wrap=True)


def _title(done: "Simulation") -> str:
    setting = done.setting
    seeds = f"seed {setting.seeds[0]}" if len(setting.seeds) == 1 else f"{len(setting.seeds)} seeds"
    if setting.data is not None:
        return f"{setting.data}, {seeds}"
    return f"k = {setting.k}, d = {setting.d}, n = {setting.n}, {seeds}"


def _short(folder: Path) -> str:
    try:
        return str(folder.relative_to(Path.cwd()))
    except ValueError:
        return str(folder)


def _outcome(runs: Column) -> str:
    from featavg.training.trajectory import Outcome

    endings = []
    for name in dict.fromkeys(run.outcome for run in runs):
        steps = [run.steps for run in runs if run.outcome == name]
        counts = f"{steps[0]}" if len(set(steps)) == 1 else f"{min(steps)} to {max(steps)}"
        endings.append(f"{Outcome[name].value} ({counts})")
    return "; ".join(endings)


def _number(get: "Callable[[RunNumbers], float | None]") -> Callable[[Column], str]:
    """The median over the seeds, and their range if there are several."""

    def cell(runs: Column) -> str:
        import statistics

        values = [value for run in runs if (value := get(run)) is not None]
        if not values:
            return ""
        middle = f"{statistics.median(values):.3f}"
        return middle if len(runs) == 1 else f"{middle}  [{min(values):.3f}, {max(values):.3f}]"

    return cell


def _accuracy(
    right: "Callable[[RunNumbers], int | None]", n: "Callable[[RunNumbers], int | None]"
) -> Callable[[Column], str]:
    """All seeds' points in one share, with its 95% interval."""

    def cell(runs: Column) -> str:
        from featavg.measures.accuracy import wilson

        rights, counts = [right(run) for run in runs], [n(run) for run in runs]
        if None in rights or None in counts:
            return ""
        return str(wilson(sum(r or 0 for r in rights), sum(c or 0 for c in counts)))

    return cell


_ROWS: dict[str, Callable[[Column], str]] = {
    "how it ended (steps)": _outcome,
    "log10 of the training loss": _number(lambda run: run.log10_loss),
    "training accuracy": _accuracy(lambda run: run.train_right, lambda run: run.train_n),
    "test accuracy": _accuracy(lambda run: run.test_right, lambda run: run.test_n),
    "clusters named right": _accuracy(lambda run: run.cluster_right, lambda run: run.test_n),
    "cosine with the own feature": _number(lambda run: run.own_cosine),
    "  with others of its class": _number(lambda run: run.same_class_cosine),
    "  with the other class": _number(lambda run: run.other_class_cosine),
    "averaging index": _number(lambda run: run.averaging_index),
    "  the same for random directions": _number(lambda run: run.averaging_index_null),
    "  share of |w|² in the features' span": _number(lambda run: run.span_share),
}
