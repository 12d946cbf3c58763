"""`featavg data`: which image data are here; `featavg images`: train networks on them."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from featavg.cli.flags import MOST_WIDTH, DataDir, Groups, Threads, use_torch
from featavg.cli.output import Json, write_json
from featavg.registry import IMAGE_SETS
from featavg.storage.places import results_folder

Data = Annotated[str, typer.Argument(help=f"{', '.join(IMAGE_SETS)}, an npz file or a folder of yours.")]
Out = Annotated[Path, typer.Option(help="Folder for the networks and results.")]
PresetName = Annotated[str | None, typer.Option(help="Network and recipe; `featavg images presets` lists them.")]
RUNS = results_folder("images")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("data")(_data)
    group = typer.Typer(help="Deep networks on images, with coarse and with fine labels.")
    group.command("presets")(_presets)
    group.command("train")(_train)
    app.add_typer(group, name="images")


def _presets() -> None:
    """List the networks and recipes that data sets are trained with."""
    from featavg.cli.output import console, table
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
    width: Annotated[int | None, typer.Option(min=1, max=MOST_WIDTH, help="Channels of the first stage.")] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="Passes over the training images.")] = None,
    precision: Annotated[str | None, typer.Option(help="float32 or bfloat16.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of weights, order and augmentation.")] = 0,
    groups: Groups = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    threads: Threads = 0,
    data_dir: DataDir = None,
    json: Json = None,
) -> None:
    """Train a network; after a kill the same command continues."""
    from featavg.cli.output import Interrupted
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
            trained = train_images(task, labels, folder, network, width, recipe, progress, device, preset=chosen.name)
    except KeyboardInterrupt as error:
        raise Interrupted(f"Interrupted; the same command continues from {folder}.partial.") from error
    for kind, share in trained.test_accuracy.items():
        typer.echo(f"test accuracy, {kind} classes: {100 * share:.2f}%")
    write_json(json, trained.to_json())


def _data(
    action: Annotated[str, typer.Argument(help="list, or get to download.")] = "list",
    name: Annotated[str, typer.Argument(help="One of the list, to download.")] = "",
    data_dir: DataDir = None,
) -> None:
    """List image data sets and whether each file is whole, or `get` one and check it by its hash."""
    from featavg.errors import one_of

    if one_of("action", action, ("list", "get")) == "get":
        _get(name, data_dir)
    else:
        _list(data_dir)


def _list(data_dir: Path | None) -> None:
    from rich.markup import escape

    from featavg.cli.output import console, table
    from featavg.data.image_sets.archives import state
    from featavg.data.image_sets.loading import data_folder

    folder = data_folder(data_dir)
    rows = table("data", "state", "where")
    for name, image_set in IMAGE_SETS.items():
        if image_set.md5:
            rows.add_row(name, state(image_set, folder), escape(str(folder / image_set.folder)))
        else:
            rows.add_row(name, "here", "comes with a package, no download")
    console().print(rows)
    console().print("`featavg data get NAME` downloads one; --data-dir or $FEATAVG_DATA says where.")


def _get(name: str, data_dir: Path | None) -> None:
    from featavg.data.image_sets.archives import download
    from featavg.data.image_sets.loading import data_folder

    for path in download(name, data_folder(data_dir)):
        typer.echo(f"{path}: whole")
