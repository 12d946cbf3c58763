"""`featavg images`: train on images, study heads, attack, and report."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from featavg.data.images import ImageTask

Dir = Annotated[Path | None, typer.Option(envvar="FEATAVG_DATA", help="Folder with data sets.")]
Data = Annotated[
    str, typer.Argument(help="digits, mnist, cifar10, cifar100, an npz file or a folder of yours.")
]
Groups = Annotated[
    str | None,
    typer.Option(help="Coarse classes: parity, halves, or fine classes as 0,1,2/3,4,5."),
]
Out = Annotated[Path, typer.Option(help="Folder for the networks and results.")]
Threads = Annotated[int, typer.Option(help="Threads of torch; 0 leaves its own choice.")]
Preset = Annotated[
    str | None, typer.Option(help="digits, mnist, cifar10, mnist-paper, cifar10-paper.")
]
RUNS = Path("featavg-images")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(help="Deep networks on images, with coarse and with fine labels.")
    for name, command in (
        ("train", _train),
        ("heads", _heads),
        ("curve", _curve),
        ("report", _report),
    ):
        group.command(name)(command)
    app.add_typer(group, name="images")


def _task(data: str, data_dir: Path | None, groups: str | None) -> ImageTask:
    from featavg.data.published import TASKS, load
    from featavg.data.user_images import own_images
    from featavg.errors import InputError

    if data in TASKS:
        task = load(data, data_dir)
        return task.with_partition(groups) if groups else task
    if not Path(data).exists():
        raise InputError("data", f"is {data!r}", f"give {', '.join(TASKS)}, a file or a folder")
    return own_images(Path(data), groups)


def _torch(threads: int) -> None:
    from featavg.errors import InputError

    if importlib.util.find_spec("torch") is None:
        raise InputError("torch", "is not installed", "pip install 'featavg[torch]'")
    if threads:
        import torch

        torch.set_num_threads(threads)


def _train(
    data: Data,
    labels: Annotated[str, typer.Argument(help="coarse or fine.")],
    out: Out = RUNS,
    preset: Preset = None,
    network: Annotated[str | None, typer.Option(help="resnet18 or convnet.")] = None,
    width: Annotated[int | None, typer.Option(help="Channels of the first stage.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the training images.")] = None,
    precision: Annotated[str | None, typer.Option(help="float32 or bfloat16.")] = None,
    seed: Annotated[int, typer.Option(help="Of weights, order and augmentation.")] = 0,
    groups: Groups = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    threads: Threads = 0,
    data_dir: Dir = None,
) -> None:
    """Train a network; after a kill the same command goes on where it was."""
    from featavg.errors import one_of

    one_of("labels", labels, ("coarse", "fine"))
    one_of("device", device.split(":")[0], ("cpu", "cuda"))
    task = _task(data, data_dir, groups)
    _torch(threads)
    from featavg.commands import Interrupted
    from featavg.progress import ProgressBar
    from featavg.training.torch.images import train_images
    from featavg.training.torch.presets import PRESETS
    from featavg.training.torch.presets import preset as named

    chosen = named(preset or (task.name if task.name in PRESETS else "digits"))
    changes: dict[str, Any] = {"seed": seed}
    changes |= {"epochs": epochs} if epochs is not None else {}
    changes |= {"precision": precision} if precision is not None else {}
    folder = out / f"{preset or task.name}-{labels}"
    typer.echo(f"{folder}: about {chosen.minutes:g} min on two quiet cores with the preset's size.")
    try:
        with ProgressBar() as progress:
            trained = train_images(
                task,
                labels,
                folder,
                network or chosen.network,
                width or chosen.width,
                replace(chosen.recipe, **changes),
                progress,
                device,
            )
    except KeyboardInterrupt as error:
        raise Interrupted(
            f"Interrupted; the same command goes on from {folder}.partial."
        ) from error
    for kind, share in trained.about["test_accuracy"].items():
        typer.echo(f"test accuracy, {kind} classes: {100 * share:.2f}%")


def _heads(
    data: Data = "digits",
    features: Annotated[
        str,
        typer.Option(help="pixels, efficientnet, clip, a folder of `train`, or a weights file."),
    ] = "pixels",
    seeds: Annotated[int, typer.Option(help="How many seeds, counted from 0.")] = 5,
    points: Annotated[int, typer.Option(help="Test points whose exact radius is found.")] = 100,
    groups: Groups = None,
    threads: Threads = 0,
    data_dir: Dir = None,
) -> None:
    """Heads on frozen features: averaging index, cosines, exact radii (Figure 2 c, d)."""
    import numpy as np

    from featavg.commands.tables import console, table
    from featavg.experiments.images.heads import head_radii, study_heads

    found = _features(_task(data, data_dir, groups), features, threads)
    shown = table("labels", "read-out", "accuracy", "averaging index", "median radius", "lost")
    for labels in ("coarse", "fine"):
        result = study_heads(found, labels, range(seeds))
        for readout in ("max", "sum", "probability") if labels == "fine" else ("max",):
            radius = head_radii(result.nets[0], found, readout, points)
            shown.add_row(
                labels,
                readout if labels == "fine" else "",
                f"{100 * float(np.mean(result.accuracy)):.1f}%",
                f"{result.index:.2f} (random {result.null:.2f})",
                f"{radius['median'][0]:.3f}",
                str(sum(result.lost)),
            )
    console().print(shown)
    console().print("Radii: exact l2 in units of the length of a feature vector, first seed.")


def _features(task: ImageTask, source: str, threads: int) -> Any:
    from featavg.experiments.images.heads import Features

    if source == "pixels":
        flat = [part.unit.reshape(len(part), -1).astype(float) for part in (task.train, task.test)]
        return Features(
            flat[0], task.train.fine, flat[1], task.test.fine, task.groups, f"pixels of {task.name}"
        )
    _torch(threads)
    from featavg.experiments.images.features import features_of
    from featavg.nets.torch.embedding import clip, efficientnet_lite0, penultimate
    from featavg.nets.torch.pretrained import public_cifar_resnet
    from featavg.training.torch.images import load_trained

    if source == "efficientnet":
        embedding = efficientnet_lite0()
    elif source == "clip":
        embedding = clip()
    elif Path(source).is_dir():
        embedding = penultimate(load_trained(Path(source)).net, Path(source).name)
    else:
        embedding = penultimate(public_cifar_resnet(Path(source)), Path(source).stem)
    return features_of(task, embedding)


def _curve(
    data: Data,
    runs: Annotated[Path, typer.Option(help="Folder that `train` wrote into.")] = RUNS,
    images: Annotated[int, typer.Option(help="Test images.")] = 1000,
    budget: Annotated[int, typer.Option(help="Gradients an image.")] = 60,
    pgd_steps: Annotated[
        int, typer.Option(help="Of the published protocol; 0 leaves it out.")
    ] = 40,
    norms: Annotated[str, typer.Option(help="l2, linf, or both with a comma.")] = "l2",
    preset: Annotated[str | None, typer.Option(help="That the networks were trained with.")] = None,
    groups: Groups = None,
    threads: Threads = 0,
    data_dir: Dir = None,
) -> None:
    """Robust accuracy of two trained networks, as published and adaptively (Figure 3)."""
    task = _task(data, data_dir, groups)
    _torch(threads)
    from featavg.commands.tables import console, table
    from featavg.errors import one_of
    from featavg.experiments.images.curves import CurveSettings, compare
    from featavg.progress import ProgressBar
    from featavg.training.torch.images import load_trained

    wanted = tuple(one_of("norms", norm, ("l2", "linf")) for norm in norms.split(","))
    name = preset or task.name
    nets = {labels: load_trained(runs / f"{name}-{labels}").net for labels in ("coarse", "fine")}
    how = CurveSettings(
        images=min(images, len(task.test)),
        norms=wanted,
        budget=budget,
        pgd_images=images,
        pgd_steps=pgd_steps,
    )
    with ProgressBar() as progress:
        found = compare(nets, task, how, runs / f"{name}-curves", progress)
    for norm in wanted:
        at = how.radii[norm]
        shown = table("protocol", "labels", "read-out", *(f"{r:g}" for r in at))
        for protocol, rows in found.items():
            for row in (r for r in rows if r["norm"] == norm):
                shares = (f"{100 * v:.0f}" for v in row["accuracy"])
                shown.add_row(protocol, row["model"], row["readout"], *shares)
        console().print(shown)
        console().print(f"Robust accuracy in percent at each radius ({norm}, pixels in [0,1]).")


def _report(
    out: Annotated[Path, typer.Option(help="Folder of the report.")] = Path(
        "featavg-images-report"
    ),
    full: Annotated[bool, typer.Option("--full", help="Run what is not recorded: hours.")] = False,
    data_dir: Dir = None,
) -> None:
    """The claims on real data as one HTML page, from recorded results unless --full."""
    from featavg.claims.images.digits import CLAIMS
    from featavg.report.reproduce import exit_code, reproduce

    outcomes = reproduce(claims=CLAIMS, full=full, out=out, data_dir=data_dir)
    raise typer.Exit(exit_code(outcomes))
