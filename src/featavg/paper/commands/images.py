"""`featavg images`: train on images, study heads, attack, and report."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from featavg.cli.checked import MOST_SEEDS, MOST_WIDTH
from featavg.cli.machine import Json, write_json
from featavg.cli.torch_threads import Threads, use_torch
from featavg.data.image_sets.registry import named
from featavg.storage.places import results_folder

Dir = Annotated[Path | None, typer.Option(envvar="FEATAVG_DATA", help="Folder with data sets.")]
Data = Annotated[str, typer.Argument(help=f"{named()}, an npz file or a folder of yours.")]
Groups = Annotated[
    str | None,
    typer.Option(help="Coarse classes: parity, halves, or fine classes as 0,1,2/3,4,5."),
]
Out = Annotated[Path, typer.Option(help="Folder for the networks and results.")]
PresetName = Annotated[
    str | None, typer.Option(help="Network and recipe; `featavg images presets` lists them.")
]
RUNS, REPORT = results_folder("images"), results_folder("images-report")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(help="Deep networks on images, with coarse and with fine labels.")
    for name, command in (
        ("presets", _presets),
        ("train", _train),
        ("heads", _heads),
        ("curve", _curve),
        ("table", _table),
        ("report", _report),
    ):
        group.command(name)(command)
    app.add_typer(group, name="images")


def _presets() -> None:
    """List the networks and recipes that data sets are trained with."""
    from featavg.cli.tables import console, table
    from featavg.training.torch.recipe import image_presets

    rows = table("preset", "data", "network", "width", "epochs", "minutes", "about")
    for name, preset in image_presets().items():
        numbers = (str(preset.width), str(preset.recipe.epochs), f"{preset.minutes:g}")
        rows.add_row(name, preset.data, preset.network, *numbers, preset.about)
    console().print(rows)


def _train(
    data: Data,
    labels: Annotated[str, typer.Argument(help="coarse or fine.")],
    out: Out = RUNS,
    preset: PresetName = None,
    network: Annotated[str | None, typer.Option(help="resnet18 or convnet.")] = None,
    width: Annotated[
        int | None, typer.Option(min=1, max=MOST_WIDTH, help="Channels of the first stage.")
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Passes over the training images.")
    ] = None,
    precision: Annotated[str | None, typer.Option(help="float32 or bfloat16.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of weights, order and augmentation.")] = 0,
    groups: Groups = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    threads: Threads = 0,
    data_dir: Dir = None,
    json: Json = None,
) -> None:
    """Train a network; after a kill the same command goes on where it was."""
    from featavg.cli.interrupted import Interrupted
    from featavg.data.image_sets.loading import load_images
    from featavg.errors import one_of
    from featavg.progress import ProgressBar
    from featavg.storage.files import usable_folder
    from featavg.training.torch.recipe import image_preset, network_name, preset_for

    one_of("labels", labels, ("coarse", "fine"))
    use_torch(threads)
    from featavg.nets.torch.architecture import architecture
    from featavg.training.torch.image_network import train_images
    from featavg.training.torch.module import check_device

    check_device(device)
    task = load_images(data, groups, data_dir)
    chosen = image_preset(preset) if preset is not None else preset_for(task.name)
    changes: dict[str, Any] = {"seed": seed}
    changes |= {"epochs": epochs} if epochs is not None else {}
    changes |= {"precision": precision} if precision is not None else {}
    recipe = replace(chosen.recipe, **changes)
    folder = usable_folder(out) / network_name(preset or task.name, labels, seed)
    architecture(network or chosen.network, task, labels, chosen.width if width is None else width)
    typer.echo(f"{folder}: about {chosen.minutes:g} min on two quiet cores with the preset's size.")
    try:
        with ProgressBar() as progress:
            trained = train_images(
                task, labels, folder, network, width, recipe, progress, device, preset=chosen.name
            )
    except KeyboardInterrupt as error:
        raise Interrupted(
            f"Interrupted; the same command goes on from {folder}.partial."
        ) from error
    for kind, share in trained.test_accuracy.items():
        typer.echo(f"test accuracy, {kind} classes: {100 * share:.2f}%")
    write_json(json, trained.to_json())


def _heads(
    data: Data = "digits",
    features: Annotated[
        str,
        typer.Option(help="pixels, efficientnet, clip, a folder of `train`, or a weights file."),
    ] = "pixels",
    seeds: Annotated[
        int, typer.Option(min=1, max=MOST_SEEDS, help="How many seeds, counted from 0.")
    ] = 5,
    points: Annotated[
        int, typer.Option(min=1, help="Test points whose exact radius is found.")
    ] = 100,
    groups: Groups = None,
    threads: Threads = 0,
    data_dir: Dir = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the figures.")] = None,
    json: Json = None,
) -> None:
    """Heads on frozen features: averaging index, cosines, exact radii (Figure 2 c, d)."""
    import numpy as np

    from featavg.cli.tables import console, table
    from featavg.data.image_sets.loading import load_images
    from featavg.figures.matplotlib_figure import save
    from featavg.paper.images.features import embed
    from featavg.paper.images.heads import head_radii, study_heads
    from featavg.progress import ProgressBar, part
    from featavg.storage.files import usable_folder

    if out is not None:
        usable_folder(out)
    if features != "pixels":
        use_torch(threads)
    rows = table("labels", "read-out", "accuracy", "averaging index", "median radius", "lost")
    numbers: dict[str, Any] = {}
    with ProgressBar() as progress:
        task = load_images(data, groups, data_dir)
        vectors = embed(features, task, progress=part(progress, 0.0, 0.2))
        for i, labels in enumerate(("coarse", "fine")):
            start = 0.2 + 0.4 * i
            told = part(progress, start, start + 0.2)
            study = study_heads(vectors, labels, range(seeds), progress=told)
            numbers[labels] = study.to_json() | {"radii": {}}
            readouts = ("max", "sum", "probability") if labels == "fine" else ("max",)
            for j, readout in enumerate(readouts):
                begin = start + 0.2 + 0.2 * j / len(readouts)
                told = part(progress, begin, begin + 0.2 / len(readouts))
                radii = head_radii(study.nets[0], vectors, readout, points, progress=told)
                rows.add_row(
                    labels,
                    readout if labels == "fine" else "",
                    f"{100 * float(np.mean(study.accuracy)):.1f}%",
                    f"{study.index:.2f} (random {study.null:.2f})",
                    f"{radii.median[0]:.3f}",
                    str(sum(study.lost)),
                )
                numbers[labels]["radii"][readout] = radii.to_json()
                if out is not None:
                    save(radii.figure(), out, f"{labels}-{readout}-{radii.figure().name}")
    console().print(rows)
    console().print("Radii: exact l2 in units of the length of a feature vector, first seed.")
    write_json(json, numbers)


def _curve(
    data: Data,
    runs: Annotated[Path, typer.Option(help="Folder that `train` wrote into.")] = RUNS,
    images: Annotated[int, typer.Option(min=1, help="Test images.")] = 1000,
    budget: Annotated[int, typer.Option(min=1, help="Gradients per image.")] = 60,
    pgd_steps: Annotated[
        int, typer.Option(min=0, help="Of PGD on each network's own loss; 0 leaves it out.")
    ] = 40,
    norms: Annotated[str, typer.Option(help="l2, linf, or both with a comma.")] = "l2",
    preset: Annotated[str | None, typer.Option(help="That the networks were trained with.")] = None,
    groups: Groups = None,
    threads: Threads = 0,
    data_dir: Dir = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the curves [RUNS/NAME-curves].")
    ] = None,
    json: Json = None,
) -> None:
    """Robust accuracy of two trained networks, by PGD on their own losses and adaptively (Figure 3)."""
    from featavg.cli.tables import console, table
    from featavg.data.image_sets.loading import load_images
    from featavg.errors import one_of
    from featavg.progress import ProgressBar

    use_torch(threads)
    from featavg.figures.matplotlib_figure import save
    from featavg.paper.images.curves import CurveSettings, image_curve
    from featavg.storage.files import usable_folder
    from featavg.training.torch.image_network import load_trained
    from featavg.training.torch.recipe import image_preset

    kinds = tuple(one_of("norms", norm, ("l2", "linf")) for norm in norms.split(","))
    if preset is not None:
        image_preset(preset)
    task = load_images(data, groups, data_dir)
    name, count = preset or task.name, min(images, len(task.test))
    folder = usable_folder(out if out is not None else runs / f"{name}-curves")
    nets = {labels: load_trained(runs / f"{name}-{labels}") for labels in ("coarse", "fine")}
    settings = CurveSettings(
        images=count,
        norms=kinds,
        budget=budget,
        pgd_images=count,
        pgd_steps=pgd_steps,
    )
    with ProgressBar() as progress:
        curves = image_curve(nets, task, settings, folder, progress)
    for title, radii, members in curves.tables():
        rows = table("labels", "read-out", *(f"{r:g}" for r in radii))
        for labels, readout, shares in members:
            rows.add_row(labels, readout, *(f"{100 * share:.0f}" for share in shares))
        console().print(rows)
        console().print(f"Robust accuracy in percent at each radius ({title}).")
    for figure in curves.figures():
        save(figure, folder, figure.name)
    console().print(f"Figures: {folder}", markup=False)
    write_json(json, curves.to_json())


def _table(
    data: Annotated[
        str, typer.Argument(help="digits, mnist, cifar10, or several with commas.")
    ] = "digits",
    networks: Annotated[str | None, typer.Option(help="Some of them, commas between.")] = None,
    trainings: Annotated[str | None, typer.Option(help="Some of them, commas between.")] = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, max=MOST_SEEDS, help="How many, counted from 0.")
    ] = None,
    out: Out = RUNS / "label-table",
    recorded: Annotated[
        bool,
        typer.Option("--recorded", help="Take over the cells that were recorded with the package."),
    ] = False,
    threads: Threads = 0,
    data_dir: Dir = None,
    json: Json = None,
) -> None:
    """Where finer labels pay: data x network x training x labels; after a kill it goes on."""
    from featavg.paper.engine.store import recorded_result
    from featavg.progress import ProgressBar

    use_torch(threads)
    from featavg.figures.matplotlib_figure import save
    from featavg.paper.images.label_protocol import NETWORKS, TRAININGS
    from featavg.paper.images.label_record import restore_cells
    from featavg.paper.images.label_study import label_table
    from featavg.storage.files import usable_folder

    usable_folder(out)
    kept = recorded_result("finer-labels-border") if recorded else None
    if kept is not None and kept.evidence is not None:
        count = restore_cells(kept.evidence.numbers, kept.commit, out)
        typer.echo(f"{count} cells of the record (commit {kept.commit}) put into {out}.")
    names = data.split(",")
    with ProgressBar() as progress:
        result = label_table(
            names,
            tuple(NETWORKS) if networks is None else networks.split(","),
            TRAININGS if trainings is None else trainings.split(","),
            None if seeds is None else dict.fromkeys(names, seeds),
            out,
            data_dir,
            progress,
        )
    typer.echo(result.summary())
    save(result.figure(), out, "label-table")
    typer.echo(f"Figure: {out}")
    write_json(json, result.to_json())


def _report(
    out: Annotated[Path, typer.Option(help="Folder of the report.")] = REPORT,
    full: Annotated[bool, typer.Option("--full", help="Run what is not recorded: hours.")] = False,
    data_dir: Dir = None,
    json: Json = None,
) -> None:
    """The claims on real data as one HTML page, from recorded results unless --full."""
    from featavg.paper.engine.registry import all_claims
    from featavg.paper.report.reproduction import exit_code, reproduce

    claims = tuple(claim for claim in all_claims() if claim.theme == "Real data")
    results = reproduce(claims=claims, full=full, out=out, data_dir=data_dir, json=json)
    raise typer.Exit(exit_code(results))
