"""`featavg audit`: does a classifier of yours average its features, and what does that cost?"""

from pathlib import Path
from typing import Annotated

import typer

from featavg.cli.flags import DataDir, Groups, Threads, use_torch
from featavg.cli.output import Json, write_json
from featavg.registry import IMAGE_SETS


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("audit")(_audit)


def _audit(
    model: Annotated[
        str,
        typer.Argument(
            help="MODULE:FACTORY (importing MODULE runs your own code), a folder of `images train`, an "
            "ONNX file, or a file with the weights of linear layers or of a public CIFAR ResNet."
        ),
    ],
    data: Annotated[
        str, typer.Option(help=f"{IMAGE_SETS}, a folder of pictures, or an npz file with x, coarse and perhaps fine.")
    ],
    weights: Annotated[
        Path | None, typer.Option(help="For FACTORY: safetensors, or torch tensors; never code.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of the page, figures and numbers.")] = Path("featavg-audit"),
    fine: Annotated[
        bool, typer.Option("--fine/--no-fine", help="Use the data's fine labels, or discover some.")
    ] = True,
    groups: Groups = None,
    twin: Annotated[str | None, typer.Option(help="A network with fine labels, named like MODEL.")] = None,
    twin_weights: Annotated[Path | None, typer.Option(help="For the twin's FACTORY.")] = None,
    mean: Annotated[str | None, typer.Option(help="Per-channel mean, comma-separated.  [0, or timm's]")] = None,
    std: Annotated[str | None, typer.Option(help="Per-channel deviation, comma-separated.  [1, or timm's]")] = None,
    readout: Annotated[str, typer.Option(help="probability or max.")] = "probability",
    clusters: Annotated[int | None, typer.Option(min=2, help="Per class, with --no-fine.")] = None,
    embedding: Annotated[Path | None, typer.Option(help="With --no-fine: npy file with a row per test image.")] = None,
    layer: Annotated[str, typer.Option(help="Where the shared gradient is read.")] = "auto",
    images: Annotated[int, typer.Option(min=1, help="For accuracy, gradients and features.")] = 1000,
    radii: Annotated[int, typer.Option(min=1, help="Images whose radius is looked for.")] = 200,
    gradients: Annotated[int, typer.Option(min=1, help="Per image, for the attack.")] = 60,
    seed: Annotated[int, typer.Option(min=0, help="Of the sample of images.")] = 0,
    device: Annotated[str | None, typer.Option(help="Where torch runs the network, such as cuda.")] = None,
    threads: Threads = 0,
    data_dir: DataDir = None,
    json: Json = None,
) -> None:
    """Audit a classifier: accuracy, shared gradient, collapse, radii, a verdict, and one HTML page."""
    from featavg.cli.output import console
    from featavg.errors import InputError, one_of
    from featavg.progress import ProgressBar
    from featavg.storage.files import dumps, usable_folder, write
    from featavg.storage.reading import read_arrays

    use_torch(threads)
    from featavg import audit, write_audit
    from featavg.audit.labels import audit_images
    from featavg.audit.models import load_model
    from featavg.audit.result import pictures_of

    # `sum` is worse than coarse labels: it is measured elsewhere, never offered.
    one_of("readout", readout, ("probability", "max"))
    shift, scale = _one_or_list("mean", mean), _one_or_list("std", std)
    vectors = None if embedding is None else next(iter(read_arrays(embedding).values()))
    if twin is None and twin_weights is not None:
        raise InputError("twin_weights", "is given without a twin", "give --twin too")
    usable_folder(out)
    looked_at = audit_images(data, groups, data_dir)
    network = load_model(model, weights)
    other = None if twin is None else load_model(twin, twin_weights, "twin")
    with ProgressBar() as progress:
        result = audit(
            network,
            looked_at.x,
            looked_at.coarse,
            looked_at.fine if fine else None,
            mean=shift,
            std=scale,
            readout=readout,
            clusters=clusters,
            layer=layer,
            images=images,
            radii=radii,
            gradients=gradients,
            twin=other,
            names=looked_at.names if fine else None,
            name=model,
            folder=out / "parts",
            seed=seed,
            progress=progress,
            embedding=vectors,
            groups=None if fine else looked_at.groups,
            device=device,
        )
    write(out / "audit.json", dumps(result.to_json()))
    page = write_audit(result, out, pictures_of(result, looked_at.x))
    console().print(repr(result), markup=False)
    console().print(f"Page: {page}", markup=False)
    write_json(json, result.to_json())


def _one_or_list(argument: str, text: str | None) -> float | list[float] | None:
    """Numbers with commas between them; one number as a number."""
    if text is None:
        return None
    from math import isfinite

    from featavg.errors import InputError

    try:
        values = [float(part) for part in text.split(",")]
        if not all(map(isfinite, values)):
            raise ValueError
    except ValueError:
        remedy = "give numbers with commas between them, such as 1,2.5"
        raise InputError(argument, f"is {text!r}", remedy) from None
    return values[0] if len(values) == 1 else values
