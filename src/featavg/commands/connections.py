"""`featavg connections`: other explanations of non-robustness, each with its options."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from featavg.claims.ledger import ClaimSettings, Evidence

Seeds = Annotated[int, typer.Option(help="How many seeds, counted from 0.")]
Out = Annotated[Path, typer.Option(help="Folder for the figures and the numbers.")]
K = Annotated[int, typer.Option(help="Clusters.")]
D = Annotated[int, typer.Option(help="Dimension.")]
N = Annotated[int, typer.Option(help="Training points.")]
FOLDER = Path("featavg-connections")


def register(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(
        help="Other explanations of non-robustness, to run and to look at.", no_args_is_help=True
    )
    for name, command in COMMANDS.items():
        group.command(name)(command)
    app.add_typer(group, name="connections")


def _min_vidal(
    p: Annotated[list[float] | None, typer.Option(help="Power; may be repeated [1 3].")] = None,
    noise: Annotated[float, typer.Option(help="Length of the noise; features have 1.")] = 0.01,
    k: K = 10,
    positive: Annotated[int | None, typer.Option(help="Positive clusters [60%].")] = None,
    d: D = 1000,
    n: N = 300,
    width: Annotated[int, typer.Option(help="Neurons.")] = 80,
    scale: Annotated[float, typer.Option(help="Scale of the first weights.")] = 1e-7,
    time: Annotated[float, typer.Option(help="Gradient-flow time.")] = 16_000.0,
    seeds: Seeds = 1,
) -> None:
    """Min and Vidal 2024: relu^p neurons, and which limit they are near."""
    from featavg.commands.tables import console, table
    from featavg.experiments.connections.prelu_run import experiment, right_and_wrong
    from featavg.progress import ProgressBar

    powers = p or [1.0, 3.0]
    given = {"n": n, "width": width, "d": d, "scale": scale, "time": time}
    if positive is not None:
        given["positive"] = positive
    names = ("p", "seed", "to F", "to F^(p)", "nearer, certified", "ratio", "cos average",
             "cos feature", "radius", "certified")  # fmt: skip
    shown = table(*names, right=names)
    with ProgressBar() as progress:
        for i, (power, seed) in enumerate((q, s) for q in powers for s in range(_seeds(seeds))):
            progress(i / len(powers) / seeds, f"p = {power:g}, seed {seed}")
            run = experiment(power, noise, seed, k, **given)
            right, wrong = right_and_wrong(run, power)
            numbers = (
                run.near_average.ascent, run.near_decoupled.ascent, right.upper,
                wrong.lower / right.ascent, run.average_cosine, run.feature_cosine,
                run.radius, run.certified,
            )  # fmt: skip
            shown.add_row(f"{power:g}", str(seed), *(f"{v:.3f}" for v in numbers))
    console().print(shown)
    console().print(
        f"Distances on the unit sphere after the best rescaling; radii in l2 (1/√K = {k**-0.5:.3f})."
    )


def _simplicity(
    task: Annotated[
        str, typer.Option(help="lms-3, -5, -7, noisy-lms-7, ms-5-7, slabs-5.")
    ] = "lms-5",
    d: D = 50,
    n: N = 20_000,
    width: Annotated[list[int] | None, typer.Option(help="Of a hidden layer [100 100].")] = None,
    steps: Annotated[int, typer.Option(help="SGD steps.")] = 800,
    lr: Annotated[float, typer.Option(help="Learning rate.")] = 0.3,
    momentum: Annotated[float, typer.Option(help="Momentum.")] = 0.9,
    seeds: Seeds = 1,
) -> None:
    """Shah et al. 2020: train on slab data, then shuffle blocks of coordinates."""
    from featavg.claims.connections.simplicity import reliance
    from featavg.commands.tables import console, table
    from featavg.progress import ProgressBar

    names = (
        "seed",
        "AUC",
        "simplest shuffled",
        "others shuffled",
        "test accuracy",
        "train accuracy",
    )
    shown = table(*names, right=names)
    with ProgressBar() as progress:
        for seed in range(_seeds(seeds)):
            progress(seed / seeds, f"seed {seed}")
            run = reliance(task, seed, d, n, tuple(width or (100, 100)), steps, lr, momentum)
            numbers = (*run.aucs, run.accuracy, run.train_accuracy)
            shown.add_row(str(seed), *(f"{v:.3f}" for v in numbers))
    console().print(shown)


def _margin(
    angle: Annotated[float, typer.Option(help="Of the positive points, degrees.")] = 80.0,
    hint: Annotated[float, typer.Option(help="How far the hint is; 0 for none.")] = 10.0,
    leak: Annotated[float, typer.Option(help="Slope of the leaky ReLU below 0.")] = 0.1,
    seeds: Seeds = 5,
    out: Out = FOLDER,
) -> None:
    """Lyu et al. 2021: a line from a small start, and the best margin of any network."""
    from featavg.claims.connections.margin import margins

    _run("margin", lambda settings: margins(settings, angle, hint, leak), seeds, out)


def _features(
    k: K = 10,
    d: D = 3072,
    n: Annotated[int, typer.Option(help="Points to measure on.")] = 20_000,
    seeds: Seeds = 5,
    out: Out = FOLDER,
) -> None:
    """Ilyas et al. 2019: useful and robustly useful features, in closed form and measured."""
    from featavg.claims.connections.features import useful

    _run("features", lambda settings: useful(settings, k, d, n), seeds, out)


def _manifold(
    k: K = 10,
    d: D = 3072,
    r: Annotated[int, typer.Option(help="Dimension of the subspace.")] = 100,
    seeds: Seeds = 2,
    out: Out = FOLDER,
) -> None:
    """Shamir et al.: exact minimal perturbations, split along the data's subspace."""
    from featavg.claims.connections.dimples import manifold

    _run("manifold", lambda settings: manifold(settings, k, d, r), seeds, out)


def _expressivity(
    m: Annotated[int, typer.Option(help="Dimension of the cube of vertices.")] = 10,
    gap: Annotated[float, typer.Option(help="Width of the last coordinate.")] = 0.05,
    eps: Annotated[float, typer.Option(help="Length of the perturbation.")] = 0.25,
    seeds: Seeds = 5,
    out: Out = FOLDER,
) -> None:
    """Li et al. 2022: a line that is right and never robust."""
    from featavg.claims.connections.expressivity import expressivity

    _run("expressivity", lambda settings: expressivity(settings, m, gap, eps), seeds, out)


def _picture(
    k: K = 10,
    d: D = 3072,
    n: N = 1000,
    seed: Annotated[int, typer.Option(help="Of the trained networks.")] = 0,
    steps: Annotated[int, typer.Option(help="Training steps of the film.")] = 100,
    every: Annotated[int, typer.Option(help="A frame every so many steps.")] = 4,
    animate: Annotated[
        bool, typer.Option("--animate", help="Make a film of the training.")
    ] = False,
    out: Out = FOLDER,
) -> None:
    """The line and the zigzag, with clusters, exact perturbations and their balls."""
    from featavg.claims.connections.picture import film, picture
    from featavg.claims.ledger import ClaimSettings

    made = _run("picture", lambda _: picture(ClaimSettings((seed,)), k, d, n), 1, out)
    if animate:
        from featavg.figures.animation import animate as write
        from featavg.progress import ProgressBar

        with ProgressBar() as progress:
            path = write(film(k, d, n, seed, steps, every), made / "picture.gif", progress=progress)
        typer.echo(f"Film: {path}")


COMMANDS: dict[str, Callable[..., Any]] = {
    "min-vidal": _min_vidal,
    "simplicity": _simplicity,
    "margin": _margin,
    "features": _features,
    "manifold": _manifold,
    "expressivity": _expressivity,
    "picture": _picture,
}


def _seeds(count: int) -> int:
    from featavg.errors import InputError

    if count < 1:
        raise InputError("seeds", f"is {count}", "give at least one")
    return count


def _run(name: str, program: Callable[[ClaimSettings], Evidence], seeds: int, out: Path) -> Path:
    """Run a claim's program with the user's options; show its checks, write figures and numbers."""
    from rich.markup import escape

    from featavg.claims.check import measured_text, tolerance_text
    from featavg.claims.ledger import ClaimSettings
    from featavg.claims.result import strict
    from featavg.commands.tables import console, table
    from featavg.figures.figure import without_tags
    from featavg.figures.matplotlib_figure import save
    from featavg.progress import ProgressBar
    from featavg.storage.files import dumps, usable_folder, write

    folder = usable_folder(out)
    with ProgressBar() as progress:
        found = program(ClaimSettings(seeds=tuple(range(_seeds(seeds))), progress=progress))
    shown = table("", "what is measured", "measured", "asked for", right=("measured",))
    for check in found.checks:
        sign = "✓" if check.passed else "✗"
        shown.add_row(
            sign, escape(without_tags(check.name)), measured_text(check), tolerance_text(check)
        )
    console().print(shown)
    console().print(escape(without_tags(found.finding)))
    for figure in found.figures:
        save(figure, folder, f"{name}-{figure.name}")
    numbers = {"finding": without_tags(found.finding), "numbers": dict(found.numbers)}
    path = write(folder / f"{name}.json", dumps(strict(numbers)))
    typer.echo(f"Figures and numbers: {path.parent}")
    return folder
