"""Figure 3 (right): which way of running PGD the published CIFAR-10 curves agree with."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from featavg.data.images import ImageTask
from featavg.figures.figure import Figure, Lines, Series
from featavg.figures.marks import Axis, Style
from featavg.paper.engine.claim import Check, Context, Evidence, claim
from featavg.paper.engine.requirements import data_needed, run_folder, torch_needed
from featavg.paper.images.curves import attacked_images, coarse_model
from featavg.paper.images.figure3 import ACCURACY, CLOSE_TO_PUBLISHED, ROLES, WORDS, published, trained_pair
from featavg.progress import Progress, part, silent
from featavg.robustness.attacks.pgd import pgd
from featavg.storage.cache import fingerprint, kept_values

if TYPE_CHECKING:
    import xarray as xr
    from torch import nn

IMAGES = 200
# Published radii at which both are compared: each costs a PGD of its own.
RADII = (0.08, 0.24, 0.4, 0.56, 0.8)
PIXELS, DATA_UNIT, USUAL_UNIT = "pixels", "normalised", "normalised by 0.2"
# Deviations of CIFAR-10 that much code copies: those of pixels inside an image, by mistake for all pixels.
USUAL_DEVIATION = 0.2


@dataclass(frozen=True)
class PgdProtocol:
    """One way to run l2 PGD that "PGD" may stand for; part of the key that its results are kept under.

    Attributes:
        steps: gradients.
        reach: what all steps together cover, in radii; 2.5 is usual.
        random_start: begin at a random point of the ball instead of at the image.
        coarse_label: attack the ten-class network by the cross-entropy of the coarse label, that is of
            the summed probabilities, instead of by that of its own label.
        units: in which the radius is measured. In a unit of one deviation s a radius r is s r in pixels,
            and since steps are shares of the radius the attack is the same: only the axis is another.
    """

    name: str
    steps: int = 40
    reach: float = 2.5
    random_start: bool = False
    coarse_label: bool = False
    units: tuple[str, ...] = (PIXELS,)


# Fixed before the first run.
PROTOCOLS = (
    PgdProtocol("PGD-40, own loss", units=(PIXELS, DATA_UNIT, USUAL_UNIT)),
    PgdProtocol("10 steps", steps=10),
    PgdProtocol("random start", random_start=True),
    PgdProtocol("coarse label", coarse_label=True, units=(PIXELS, USUAL_UNIT)),
    PgdProtocol("steps that reach a quarter of the radius", steps=10, reach=0.25),
)
ROWS = tuple((protocol, unit) for protocol in PROTOCOLS for unit in protocol.units)


@claim(
    "figure-3-cifar10-protocol", "Which attack the published CIFAR-10 curves are",
    theme="Real data", tier="full", minutes=15, needs=("torch", "cifar10"), seeds=3,
    source="Ours: a question that Figure 3 (right) of the paper leaves open",
    measured=f"robust accuracy of the coarse decision of pairs of narrow ResNet-18s, those of figure-3-cifar10, on "
    f"{IMAGES} test images under l2 PGD: three units, 10 and 40 steps, short steps, random start, and the "
    "coarse label for the ten-class network; the nearest protocol is the one with the smallest mean over pairs; the "
    "radii of a protocol, in all its units, are tried by bisection for each image: one that PGD flips at a radius "
    "counts as flipped at every larger one, and one that it leaves at a radius as left at every smaller one",
    statements=("notes-figure-3-right",),
)  # fmt: skip
def protocols(run: Context, preset: str = "cifar10", images: int = IMAGES) -> Evidence:
    """The published robust accuracies on CIFAR-10 agree with PGD whose radius is measured in
    normalised units, and not with PGD whose radius is measured in pixels.
    """
    torch_needed()
    task = data_needed("cifar10", run)
    count = len(run.seeds)
    parts = [part(run.progress, i / count, (i + 1) / count) for i in range(count)]
    folder, scales = run_folder(run), unit_scales(task)
    found = [
        pair_accuracies(preset, task, seed, folder, images, progress)
        for seed, progress in zip(run.seeds, parts, strict=True)
    ]
    table = table_of([percent for percent, _ in found], [clean for _, clean in found], scales, run.seeds)
    distance = distances(table)
    reaching = [protocol.reach >= 1 for protocol, _ in ROWS]
    normalised = distance.sel(row=nearest(distance[:, table["unit"] != PIXELS]))
    pixels = distance.sel(row=nearest(distance[:, (table["unit"] == PIXELS) & reaching]))
    return Evidence(
        Check("normalised units, nearest protocol: largest distance from the published curves (points)",
              normalised, "<=", CLOSE_TO_PUBLISHED, note=normalised["row"].item(), role="main"),
        Check("pixels, nearest protocol whose steps reach the radius: how much farther (points)",
              pixels - normalised, ">=", CLOSE_TO_PUBLISHED, note=pixels["row"].item()),
        *(Check(f"{each['row'].item()}: largest distance (points)", each, "<=", CLOSE_TO_PUBLISHED, role="note")
          for each in distance.T),
        figure=figure(table, images),
        numbers=table.assign(distance=distance),
        finding=_finding(table),
        seeds=run.seeds,
    )  # fmt: skip


def distances(table: xr.Dataset) -> xr.DataArray:
    """The largest distance of each pair and row from either published curve, in points."""
    return abs(table["percent"] - table["published"]).max(("labels", "radius"))


def nearest(distance: xr.DataArray) -> str:
    """The row that comes nearest to the published curves, in the mean over pairs."""
    return str(distance["row"].values[int(distance.mean("seed").values.argmin())])


def _finding(table: xr.Dataset) -> str:
    away = distances(table).mean("seed")
    best = nearest(distances(table))
    residual = (table["percent"] - table["published"]).mean("seed").sel(row=best)
    left = "; ".join(
        f"{WORDS[labels]} " + ", ".join(f"{points:+.0f}" for points in residual.sel(labels=labels).values)
        for labels in WORDS
    )
    others = "; ".join(f"{row['row'].item()} {float(row):.0f}" for row in away)
    clean = table["clean"].mean("seed")
    seeds = table.sizes["seed"]
    return (
        f"Nearest to the published curves comes {best}, {float(away.sel(row=best)):.0f} points away at the worst "
        f"radius. What is left, ours minus published at radii 0.08 to 0.8: {left}. Without an attack our networks "
        f"have {float(clean.sel(labels='coarse')):.0f}% (class labels) and {float(clean.sel(labels='fine')):.0f}% "
        f"(fine labels), the published ones 97% and 98%. Largest distances: {others}. "
        f"{'One pair of networks' if seeds == 1 else f'Means over {seeds} pairs of networks'}. Short steps and "
        "normalised units shrink the same ball, and curves alone do not tell them apart."
    )


def pair_accuracies(
    preset: str, task: ImageTask, seed: int, folder: Path, images: int, progress: Progress = silent
) -> tuple[np.ndarray, np.ndarray]:
    """Trains the pair of a seed, or finds it, and attacks it: `robust_accuracies`."""
    from featavg.training.torch.recipe import network_name

    nets = {labels: trained.net for labels, trained in trained_pair(preset, task, seed, folder, progress).items()}
    kept = folder / network_name(preset, "protocols", seed)
    return robust_accuracies(nets, task, images, kept, part(progress, 0.6, 1.0))


def robust_accuracies(
    nets: Mapping[str, nn.Module], task: ImageTask, images: int, folder: Path, progress: Progress = silent
) -> tuple[np.ndarray, np.ndarray]:
    """Percent of the images that stay right under every way to attack a pair of networks; kept.

    The first array has the axes row, labels and radius; the second, without an attack, labels.
    """
    from featavg.training.torch.module import arrays_of

    scales, found = unit_scales(task), dict[tuple[str, str], dict[str, Any]]()
    jobs = [(protocol, labels) for labels in nets for protocol in PROTOCOLS]
    for i, (protocol, labels) in enumerate(jobs):
        if protocol.coarse_label and labels == "coarse":  # its own label: the first protocol again
            found[protocol.name, labels] = found[PROTOCOLS[0].name, labels]
            continue
        progress(i / len(jobs), f"{protocol.name}, {labels} labels")
        radii = sorted(scales[unit] * radius for unit in protocol.units for radius in RADII)
        given = nets[labels], task, protocol, radii, labels, images
        key = fingerprint(list(arrays_of(nets[labels]).values()), asdict(protocol), radii, images, "bisection")
        words = re.findall(r"[^\W_]+", f"{protocol.name} {labels}".lower())
        found[protocol.name, labels] = kept_values(folder / f"{'-'.join(words)}.json", key, partial(_attacked, *given))

    def share(protocol: PgdProtocol, unit: str, labels: str, radius: float) -> float:
        each = found[protocol.name, labels]
        return float(each["percent"][each["radii"].index(scales[unit] * radius)])

    percent = [[[share(*row, labels, radius) for radius in RADII] for labels in nets] for row in ROWS]
    return np.array(percent), np.array([found[PROTOCOLS[0].name, labels]["clean"] for labels in nets])


def table_of(percent: Any, clean: Any, scales: Mapping[str, float], seeds: Sequence[int]) -> xr.Dataset:
    """What was measured of each pair (rows in the order of `ROWS`), beside the published curves."""
    import xarray as xr

    paper = [published("cifar10", labels, RADII) for labels in WORDS]
    units = [unit for _, unit in ROWS]
    return xr.Dataset(
        {
            "percent": (("seed", "row", "labels", "radius"), percent),
            "published": (("labels", "radius"), paper),
            "clean": (("seed", "labels"), clean),
        },
        coords={"row": [f"{protocol.name}, {unit}" for protocol, unit in ROWS], "labels": list(WORDS),
                "seed": list(seeds), "radius": list(RADII), "unit": ("row", units),
                "scale": ("row", [scales[u] for u in units])},
    )  # fmt: skip


def unit_scales(task: ImageTask) -> dict[str, float]:
    """Pixels in one of each unit; the mean of the channels' deviations, which differ by 4%."""
    from featavg.nets.torch.architecture import statistics

    deviation = float(np.mean(statistics(task)[1]))
    return {PIXELS: 1.0, DATA_UNIT: deviation, USUAL_UNIT: USUAL_DEVIATION}


def _attacked(
    net: nn.Module, task: ImageTask, protocol: PgdProtocol, radii: Sequence[float], labels: str, images: int
) -> dict[str, Any]:
    """Robust accuracy in percent at each of the increasing `radii`, by bisection for each image."""
    rows = attacked_images(task, images, seed=0)
    pixels = task.test.unit[rows]
    model = coarse_model(net, task, labels, "probability").shaped(pixels)
    x = model.rows(pixels)
    label = model.decision.labels(task.targets(task.test, "coarse")[rows])
    own = task.targets(task.test, labels)[rows]
    right = np.flatnonzero(model.margins(x, label) > 0)
    # Of each image the last radius that left it and the first that flipped it; both begin outside of `radii`.
    left, flipped = np.full(len(right), -1), np.full(len(right), len(radii))
    while len(between := np.flatnonzero(flipped - left > 1)):
        middle, some = (left[between] + flipped[between]) // 2, right[between]
        end = pgd(
            model,
            x[some],
            label[some],
            np.asarray(radii)[middle],
            steps=protocol.steps,
            step_size=protocol.reach / protocol.steps,
            # With two classes the probability's margin and its cross-entropy point the same way.
            loss="margin" if protocol.coarse_label else "cross-entropy",
            own=own[some],
            random_start=protocol.random_start,
        )
        flipped[between] = np.where(end.flipped, middle, flipped[between])
        left[between] = np.where(end.flipped, left[between], middle)
    stay = [100 * float(np.sum(flipped > i)) / len(rows) for i in range(len(radii))]
    return {"radii": list(radii), "percent": stay, "clean": 100 * len(right) / len(rows)}


def figure(table: xr.Dataset, images: int) -> Figure:
    """A panel per protocol and unit, ours beside the published curves; bands span the pairs."""
    styles: dict[str, Style] = {"coarse": "solid", "fine": "dashed"}
    paper = [
        Series(f"paper, {WORDS[labels]}", RADII, table["published"].sel(labels=labels).values, "published", style)
        for labels, style in styles.items()
    ]
    panels, several = [], table.sizes["seed"] > 1
    for row, away in zip(table["row"], distances(table).mean("seed").values, strict=True):
        ours = []
        for labels in WORDS:
            each = table["percent"].sel(row=row, labels=labels)
            band = (each.min("seed").values, each.max("seed").values) if several else (None, None)
            ours.append(Series(WORDS[labels], RADII, each.mean("seed").values, ROLES[labels], "solid", *band))
        x = Axis("radius", f"l2, {row['unit'].item()}")
        panels.append(Lines(x, ACCURACY, (*ours, *paper), f"{row.item()}: {away:.0f}"))
    pairs = f"{table.sizes['seed']} pairs of" if several else "one pair of"
    return Figure(
        "published-protocols",
        "Which attack are the published CIFAR-10 curves?",
        f"Robust accuracy of the coarse decision of {pairs} narrow ResNet-18s on {images} test "
        "images under PGD, run in several ways and its radius measured in several units, beside the "
        "published curves (grey; dashed: fine labels). The number is the largest distance in points, in the mean "
        "over pairs.",
        tuple(panels),
    )
