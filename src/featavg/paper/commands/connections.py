"""`featavg connections`: other explanations of non-robustness, each with its options."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from featavg.cli.checked import MOST_NEURONS, MOST_POINTS, MOST_SEEDS
from featavg.cli.machine import Json, write_json
from featavg.storage.places import results_folder

if TYPE_CHECKING:
    from featavg.figures.figure import Figure
    from featavg.figures.result import Result

Seeds = Annotated[int, typer.Option(min=1, max=MOST_SEEDS, help="How many seeds, counted from 0.")]
Out = Annotated[Path, typer.Option(help="Folder for the figures and the numbers.")]
K = Annotated[int, typer.Option(min=2, help="Clusters.")]
D = Annotated[int, typer.Option(min=1, help="Dimension.")]
N = Annotated[int, typer.Option(min=1, max=MOST_POINTS, help="Training points.")]
FOLDER = results_folder("connections")


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
    noise: Annotated[
        float, typer.Option(min=0, help="Length of the noise; features have 1.")
    ] = 0.01,
    k: K = 10,
    positive: Annotated[int | None, typer.Option(min=1, help="Positive clusters [60%].")] = None,
    d: D = 1000,
    n: N = 300,
    width: Annotated[int, typer.Option(min=1, max=MOST_NEURONS, help="Neurons.")] = 80,
    scale: Annotated[float, typer.Option(help="Scale of the first weights.")] = 1e-7,
    time: Annotated[float, typer.Option(help="Gradient-flow time.")] = 16_000.0,
    seeds: Seeds = 1,
    out: Out = FOLDER,
    json: Json = None,
) -> None:
    """Min and Vidal 2024: relu^p neurons, and which limit they are near."""
    from featavg.paper.connections.power_relu_runs import power_relu_run
    from featavg.progress import ProgressBar
    from featavg.storage.files import usable_folder

    plans = [(power, seed) for power in p or [1.0, 3.0] for seed in range(seeds)]
    folder, runs = usable_folder(out), []
    with ProgressBar() as progress:
        for i, (power, seed) in enumerate(plans):
            progress(i / len(plans), f"p = {power:g}, seed {seed}")
            run = power_relu_run(
                power, noise, seed, k, positive=positive, n=n, width=width, d=d, scale=scale,
                time=time,
            )  # fmt: skip
            _show(f"min-vidal-p{power:g}-seed{seed}".replace(".", "-"), run, folder)
            runs.append({"p": power, "seed": seed, **run.to_json()})
    write_json(json, runs)


def _simplicity(
    task: Annotated[
        str, typer.Option(help="lms-3, -5, -7, noisy-lms-7, ms-5-7, slabs-5.")
    ] = "lms-5",
    d: D = 50,
    n: N = 20_000,
    width: Annotated[
        list[int] | None, typer.Option(min=1, max=MOST_NEURONS, help="Of a hidden layer [100 100].")
    ] = None,
    steps: Annotated[int, typer.Option(min=1, help="SGD steps.")] = 800,
    lr: Annotated[float, typer.Option(help="Learning rate.")] = 0.3,
    momentum: Annotated[float, typer.Option(help="Momentum.")] = 0.9,
    seeds: Seeds = 1,
    out: Out = FOLDER,
    json: Json = None,
) -> None:
    """Shah et al. 2020: train on slab data, then shuffle blocks of coordinates."""
    from featavg.paper.connections.slab_shuffling import slab_reliance

    widths = tuple(width or (100, 100))
    _run(
        "simplicity", slab_reliance, out, json, task, d=d, n=n, widths=widths, steps=steps, lr=lr,
        momentum=momentum, seeds=range(seeds),
    )  # fmt: skip


def _margin(
    angle: Annotated[float, typer.Option(help="Of the positive points, degrees.")] = 80.0,
    hint: Annotated[float, typer.Option(help="How far the hint is; 0 for none.")] = 10.0,
    leak: Annotated[float, typer.Option(help="Slope of the leaky ReLU below 0.")] = 0.1,
    seeds: Seeds = 5,
    out: Out = FOLDER,
    json: Json = None,
) -> None:
    """Lyu et al. 2021: a line from a small start, and the best margin of any network."""
    from featavg.paper.connections.half_margin import hinted_margin

    _run("margin", hinted_margin, out, json, angle, hint, leak, seeds=range(seeds))


def _features(
    k: K = 10,
    d: D = 3072,
    n: Annotated[int, typer.Option(min=1, max=MOST_POINTS, help="Points to measure on.")] = 20_000,
    seeds: Seeds = 5,
    out: Out = FOLDER,
    json: Json = None,
) -> None:
    """Ilyas et al. 2019: useful and robustly useful features, ideal and learnt."""
    from featavg.paper.connections.feature_usefulness import useful_features

    _run("features", useful_features, out, json, k, d, n, seeds=range(seeds))


def _manifold(
    k: K = 10,
    d: D = 3072,
    r: Annotated[int, typer.Option(min=1, help="Dimension of the subspace.")] = 100,
    seeds: Seeds = 2,
    out: Out = FOLDER,
    json: Json = None,
) -> None:
    """Shamir et al.: exact minimal perturbations, split along the data's subspace."""
    from featavg.paper.connections.dimpled_manifold import off_manifold

    _run("manifold", off_manifold, out, json, k, d, r, seeds=range(seeds), more=("plane_figure",))


def _expressivity(
    m: Annotated[int, typer.Option(min=1, help="Dimension of the cube of vertices.")] = 10,
    gap: Annotated[float, typer.Option(help="Width of the last coordinate.")] = 0.05,
    eps: Annotated[float, typer.Option(min=1e-9, help="Length of the perturbation.")] = 0.25,
    seeds: Seeds = 5,
    out: Out = FOLDER,
    json: Json = None,
) -> None:
    """Li et al. 2022: a line that is right and never robust, and what robustness costs."""
    from featavg.paper.connections.cost_of_robustness import expressivity

    _run("expressivity", expressivity, out, json, m, gap, eps, seeds=range(seeds))


def _picture(
    k: K = 10,
    d: D = 3072,
    n: N = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Of the trained networks.")] = 0,
    steps: Annotated[int, typer.Option(min=1, help="Training steps of the film.")] = 100,
    every: Annotated[int, typer.Option(min=1, help="A frame every so many steps.")] = 4,
    animate: Annotated[
        bool, typer.Option("--animate", help="Make a film of the training.")
    ] = False,
    out: Out = FOLDER,
    json: Json = None,
) -> None:
    """The line and the zigzag, with clusters, exact perturbations and their balls."""
    from featavg.figures.matplotlib_figure import animate as write
    from featavg.paper.connections.boundary import boundary_picture, film
    from featavg.progress import ProgressBar

    folder = _run("picture", boundary_picture, out, json, k, d, n, seed, more=("attack_figure",))
    if animate:
        with ProgressBar() as progress:
            frames = film(k, d, n, seed, steps, every)
            path = write(frames, folder / "picture.gif", progress=progress)
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


def _run(
    name: str,
    experiment: Callable[..., "Result"],
    out: Path,
    json: Path | None,
    *arguments: object,
    more: tuple[str, ...] = (),
    **options: object,
) -> Path:
    """Run an experiment with the user's options; print it, write its figures and numbers."""
    from featavg.progress import ProgressBar
    from featavg.storage.files import usable_folder

    folder = usable_folder(out)
    with ProgressBar() as progress:
        result = experiment(*arguments, progress=progress, **options)
    _show(name, result, folder, *(getattr(result, figure)() for figure in more))
    write_json(json, result.to_json())
    return folder


def _show(name: str, result: "Result", folder: Path, *more: "Figure") -> None:
    from featavg.figures.matplotlib_figure import save
    from featavg.figures.typeset import without_tags
    from featavg.storage.files import dumps, write

    summary = without_tags(result.summary())
    typer.echo(summary)
    for figure in (result.figure(), *more):
        save(figure, folder, f"{name}-{figure.name}")
    path = write(folder / f"{name}.json", dumps({"finding": summary, "numbers": result.to_json()}))
    typer.echo(f"Figures and numbers: {path.parent}")
