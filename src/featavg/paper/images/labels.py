"""Where finer labels pay on images: the table of labels, and what explains its border."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import rankdata

from featavg.data.image_sets.loading import load_images
from featavg.data.streams import stream
from featavg.errors import InputError, one_of
from featavg.figures.figure import Axis, Figure, Lines, Rule, Series
from featavg.figures.marks import Role
from featavg.paper.engine.claim import Check, Context, Evidence, claim
from featavg.paper.engine.requirements import data_needed, run_folder, torch_needed
from featavg.paper.images.label_cell import (
    CNNS,
    KINDS,
    LABELS,
    MEASURED,
    PARTS,
    PRESET_ATTACKED,
    PRESET_TRAINED,
    PROTOCOLS,
    RESNET,
    TRAININGS,
    LabelCell,
    measured_cell,
)
from featavg.progress import Progress, part, silent

if TYPE_CHECKING:
    import xarray as xr

# How many seeds a data set gets.
SEEDS = {"digits": 5, "mnist": 3, "cifar10": 3}
# Fixed before the first run, from a trial on other networks: plain training gains on digits and MNIST,
# and once the gradient is controlled finer labels change the radius by no more than this.
CONTROLLED = 0.15
# Below this accuracy a network of two classes has not learnt them: its radii are those of a guess, and
# the pair that it belongs to is left out of the gains, and counted.
GUESSING = 0.55
# Short names of the trainings, for the ticks of a figure.
TICKS = dict(zip(TRAININGS, ("plain", "penalty", "1-Lipschitz", "adversarial"), strict=True))
# What might explain where finer labels pay, as numbers of the coarse network's cell.
EXPLANATIONS = {
    "collapse (same-class cosine)": "same_class_cosine",
    "collapse (NC1 of sub-classes)": "nc1",
    "gradient noise": "noise",
    "shared gradient": "shared",
}
# Kinds of networks whose gains on the same data and training are compared.
CONTRASTS = {
    "depth": ("two-layer", "narrow CNN"),
    "width": ("narrow CNN", "wide CNN"),
    "residual depth": ("wide CNN", RESNET),
}
Cells = Sequence[Mapping[str, Any]]
Numbers = Mapping[str, Mapping[str, float]]


def _described() -> str:
    small = "; ".join(
        f"{data}: {p.train} training images, {p.epochs} epochs, {p.attacked} attacked" for data, p in PROTOCOLS.items()
    )
    return (
        f"{small}; the narrow ResNet-18 on cifar10 by the preset cifar10-quick: {PRESET_TRAINED} training "
        f"images, {PRESET_ATTACKED} attacked"
    )


@claim(
    "finer-labels-border", "Where finer labels pay on images",
    theme="Real data", tier="full", minutes=90, needs=("torch", "mnist", "cifar10"),
    source="Ours: a table that the documents leave open; arXiv 2410.10322, Section 5, shows one cell",
    measured="median l2 radius and robust accuracy under the strongest attack with 60 gradients per image, "
    "shared gradient, collapse and gradient noise, over data, network, training and labels, same "
    f"budget for both labels; five seeds on digits, three elsewhere. {_described()}",
    statements=(
        "itcs-averaging-slide", "csml-averaging-slide", "summary-open-3", "summary-confidence",
        "abstract-principal",
    ),
)  # fmt: skip
def border(run: Context, data: tuple[str, ...] = tuple(PROTOCOLS)) -> Evidence:
    """On digits and MNIST finer labels push the decision boundary of small convolutional networks
    farther from images when they are trained with cross-entropy alone, and change little once the
    gradient is controlled.
    """
    if not {"digits", "mnist"}.intersection(data):
        raise InputError("data", "has neither digits nor mnist", "the statement is about them")
    cells = all_cells(run, data)
    table = label_table(cells)
    small = table["network"].isin(CNNS) & table["data"].isin(("digits", "mnist"))
    training = table["training"]
    plain = table.isel(row=(small & (training == "cross-entropy")).values)
    controlled = table.isel(row=(small & training.isin(("gradient penalty", "adversarial"))).values)
    why, shapes = explanations(table), contrasts(table)
    return Evidence(
        Check("gain of small CNNs under cross-entropy, smallest",
              plain["gain"].min(skipna=False), ">=", 1.0, role="main",
              note="median radius with fine labels over that with coarse ones, mean over seeds"),
        Check("the same cells: smallest radius with fine labels minus largest with coarse ones",
              plain["gap"].min(skipna=False), ">=", 0.0, note="no overlap between seeds"),
        Check("with a gradient penalty or adversarial training: largest |gain - 1|",
              abs(controlled["gain"] - 1).max(skipna=False), "<=", CONTROLLED, note="small CNNs"),
        *_by_products(table, why),
        figures=(figure(table), gain_figure(table)),
        numbers={"protocols": PROTOCOLS, "networks": KINDS, "cells": cells, "explanations": why,
                 "contrasts": shapes},
        finding=_finding(table, why, shapes),
        seeds=tuple(range(table.sizes["seed"])),
        seconds=float((table["train_seconds"] + table["attack_seconds"]).sum()),
    )  # fmt: skip


def all_cells(run: Context, data: Sequence[str] = tuple(PROTOCOLS)) -> Cells:
    """All cells of `PARTS` on these data."""
    torch_needed()
    for name in data:
        one_of("data", name, PROTOCOLS)
        data_needed(name, run)
    kinds = [
        (name, network, training)
        for names, networks, trainings in PARTS
        for name in names
        for network in networks
        for training in trainings
        if name in data
    ]
    return measured_cells(kinds, SEEDS, run_folder(run) / "label-table", run.data_dir, run.progress)


def measured_cells(
    kinds: Sequence[tuple[str, str, str]],
    seeds: Mapping[str, int],
    folder: Path | None = None,
    data_dir: Path | None = None,
    progress: Progress = silent,
) -> Cells:
    """Trains and attacks every cell of the kinds (data, network, training), with several seeds each.

    What is finished is kept in `folder`, a small JSON file per cell, and a killed table continues. The
    networks that a preset trains lie beside it.
    """
    # Both labels of a seed one after the other: a table that was killed has whole pairs.
    cells = [LabelCell(*kind, labels, seed) for kind in kinds for seed in range(seeds[kind[0]]) for labels in LABELS]
    tasks = {name: load_images(name, data_dir=data_dir) for name in dict.fromkeys(c.data for c in cells)}
    found = []
    for i, cell in enumerate(cells):
        progress(i / len(cells), cell.file.removesuffix(".json"))
        step = part(progress, i / len(cells), (i + 1) / len(cells))
        found.append(measured_cell(cell, tasks[cell.data], folder, step))
    return found


def label_table(cells: Cells) -> xr.Dataset:
    """The numbers of `cells` by row (data, network and training), labels and seed.

    `gains` is the median radius with fine labels over that with coarse ones, of the seeds in which neither
    network guesses, `gain` their mean, `gap` the smallest median with fine labels minus the largest with
    coarse ones; how many pairs are `left_out` is counted.
    """
    import pandas as pd

    frame = pd.DataFrame(list(cells))
    frame["row"] = frame["data"] + ", " + frame["network"] + ", " + frame["training"]
    rows = frame.drop_duplicates("row").set_index("row")[["data", "network", "training"]]
    values = frame.set_index(["row", "labels", "seed"])[[*MEASURED, "median", "layer"]].to_xarray()
    table = values.reindex(row=rows.index).assign_coords({name: ("row", rows[name]) for name in rows})
    coarse, fine = (table["median"].sel(labels=labels, drop=True) for labels in LABELS)
    run = table["accuracy"].notnull().all("labels")
    learnt = run & (table["accuracy"].min("labels") >= GUESSING)
    gains = (fine / coarse.clip(min=1e-12)).where(learnt)
    return table.assign(
        seeds=run.sum("seed"),
        left_out=run.sum("seed") - learnt.sum("seed"),
        gains=gains,
        gain=gains.mean("seed"),
        gap=fine.where(learnt).min("seed") - coarse.where(learnt).max("seed"),
    )


def chosen(table: xr.Dataset, **names: str) -> xr.Dataset:
    """The rows with this data, network or training."""
    keep = np.ones(table.sizes["row"], dtype=bool)
    for name, value in names.items():
        keep &= (table[name] == value).values
    return table.isel(row=np.flatnonzero(keep))


def of_coarse(table: xr.Dataset, name: str) -> np.ndarray:
    """A number of the coarse networks, mean over the seeds that were run; NaN if one has none."""
    values = table[name].sel(labels="coarse").values
    return np.array([np.mean(row[: int(n)]) for row, n in zip(values, table["seeds"], strict=True)])


def explanations(table: xr.Dataset) -> dict[str, dict[str, float]]:
    """Spearman's correlation of properties of the coarse networks with the gain, over all rows.

    It is NaN if either is the same in all rows, or with fewer than three; `p` is the share of random
    orders of the rows with as large a one, either sign.
    """
    return {name: _correlated(of_coarse(table, field), table["gain"].values) for name, field in EXPLANATIONS.items()}


def _correlated(x: np.ndarray, y: np.ndarray, draws: int = 2000) -> dict[str, float]:
    finite = np.isfinite(x) & np.isfinite(y)
    x, y = rankdata(x[finite]), rankdata(y[finite])
    if len(x) < 3 or np.std(x) == 0 or np.std(y) == 0:
        return {"correlation": float("nan"), "p": float("nan"), "rows": len(x)}
    x, y = ((v - v.mean()) / np.linalg.norm(v - v.mean()) for v in (x, y))
    correlation = float(x @ y)
    orders = stream(0, "explanation").permuted(np.tile(x, (draws, 1)), axis=1)
    # Equal sums in another order differ in their last bits, and count as equal.
    as_large = np.abs(orders @ y) >= abs(correlation) - 1e-12
    return {"correlation": correlation, "p": float(as_large.mean()), "rows": len(x)}


def contrasts(table: xr.Dataset) -> dict[str, dict[str, float]]:
    """Gains of the second kind over the first: geometric mean, rows, and in how many it is larger."""
    gain = dict(zip(table["row"].values, table["gain"].values, strict=True))
    found: dict[str, dict[str, float]] = {}
    for name, (first, second) in CONTRASTS.items():
        rows, ratios = chosen(table, network=first), []
        for data, training in zip(rows["data"].values, rows["training"].values, strict=True):
            one, other = ((data, kind, training) for kind in (first, second))
            # Not more images for one of them.
            if ", ".join(other) in gain and _protocol(*one) == _protocol(*other):
                ratios.append(gain[", ".join(other)] / gain[", ".join(one)])
        finite = np.array([ratio for ratio in ratios if np.isfinite(ratio)])
        if len(finite):
            mean, larger = float(np.exp(np.mean(np.log(finite)))), int((finite > 1).sum())
            row = {"ratio": mean, "larger": larger, "rows": len(finite)}
            found[f"{name}: {second} over {first}"] = row
    return found


def _protocol(data: str, network: str, training: str) -> object:
    return LabelCell(data, network, training, "coarse", 0).protocol


def _by_products(table: xr.Dataset, why: Numbers) -> list[Check]:
    """What was measured beside: other data and trainings, and the explanations."""
    rows = (
        ("digits", "two-layer", "cross-entropy"),
        ("cifar10", "wide CNN", "cross-entropy"),
        ("digits", "narrow CNN", "1-Lipschitz"),
        ("digits", RESNET, "cross-entropy"),
        ("mnist", RESNET, "cross-entropy"),
        ("cifar10", RESNET, "cross-entropy"),
    )
    gain = dict(zip(table["row"].values, table["gain"].values, strict=True))
    checks = [
        Check(f"gain with {training} on {data}, {network}", value, ">=", 1.0, role="note")
        for data, network, training in rows
        if np.isfinite(value := gain.get(f"{data}, {network}, {training}", np.nan))
    ]
    checks += [
        Check(f"explanation, {name}: p of its rank correlation with the gain", each["p"], "<=", 0.05,
              note=f"Spearman {each['correlation']:+.2f} over {each['rows']} rows", role="note")
        for name, each in why.items()
        if not np.isnan(each["p"])  # too few rows to rank
    ]  # fmt: skip
    return checks


def _finding(table: xr.Dataset, why: Numbers, shapes: Numbers) -> str:
    gains = []
    for data in dict.fromkeys(table["data"].values):
        spans = [
            f"{training} {_span(rows['gain'].dropna('row').values)}"
            for training in TRAININGS
            if (rows := chosen(table, data=data, training=training)).sizes["row"]
        ]
        gains.append(f"{data}: {', '.join(spans)}")
    causes = ", ".join(f"{name} {each['correlation']:+.2f} (p {each['p']:.2f})" for name, each in why.items())
    contrast = ", ".join(
        f"{name} times {each['ratio']:.2f} (larger in {each['larger']} of {each['rows']})"
        for name, each in shapes.items()
    )
    text = (
        f"Gain of finer labels in median radius, smallest to largest over networks: {'; '.join(gains)}. "
        f"Rank correlation of the gain with properties of the coarse network: {causes}. Gains by {contrast}."
    )
    # The narrow ResNet-18, pair by pair: the network of the paper's Figure 3.
    rows = chosen(table, network=RESNET, training="cross-entropy")
    pairs = [
        f"{data} {np.mean(each):.2f} ({', '.join(f'{gain:.2f}' for gain in each)})"
        for data, gains_of in zip(rows["data"].values, rows["gains"], strict=True)
        if len(each := gains_of.dropna("seed").values)
    ]
    if pairs:
        text += f" The narrow ResNet-18 under cross-entropy, by seed: {'; '.join(pairs)}."
    counts = zip(table["row"].values, table["left_out"].values, strict=True)
    guessed = [f"{count} of {name}" for name, count in counts if count]
    if guessed:
        text += (
            f" Pairs left out because a network did not learn its classes (below {GUESSING:.0%}): {', '.join(guessed)}."
        )
    return text


def _span(gains: np.ndarray) -> str:
    return f"{min(gains):.2f} to {max(gains):.2f}" if len(gains) > 1 else f"{gains[0]:.2f}"


def figure(table: xr.Dataset) -> Figure:
    """Median radius of every network, seed by seed, a panel per data set and network."""
    kinds = dict.fromkeys(zip(table["data"].values, table["network"].values, strict=True))
    return Figure(
        "label-table",
        "Where finer labels pay",
        "Median l2 radius of the coarse decision in pixels in [0, 1] under the strongest attack, one "
        "mark per seed, of networks trained with coarse and with fine labels: plainly (cross-entropy), "
        "with a gradient penalty, with 1-Lipschitz layers, adversarially. A mark at 0, or a missing one, "
        "is a network that did not learn its classes.",
        tuple(_panel(chosen(table, data=data, network=network)) for data, network in kinds),
    )


def _panel(rows: xr.Dataset) -> Lines:
    looks: dict[str, tuple[Role, float]] = {"coarse": ("averaged", -0.12), "fine": ("decoupled", 0.12)}
    series = []
    for labels, (role, shift) in looks.items():
        x, y = [], []
        for i, (medians, n) in enumerate(zip(rows["median"].sel(labels=labels).values, rows["seeds"], strict=True)):
            x += [i + shift] * int(n)
            y += [median if np.isfinite(median) else np.nan for median in medians[: int(n)]]
        series.append(Series(f"{labels} labels", x, y, role, "markers"))
    names = tuple(TICKS[training] for training in rows["training"].values)
    ticks = Axis("", ticks=list(range(len(names))), tick_labels=names)
    title = f"{rows['data'].values[0]}, {rows['network'].values[0]}"
    return Lines(ticks, Axis("median radius", "l2"), tuple(series), title=title)


def gain_figure(table: xr.Dataset) -> Figure:
    """The gain of every row against how far the coarse network has collapsed."""
    roles: dict[str, Role] = {"digits": "averaged", "mnist": "decoupled", "cifar10": "neutral"}
    series = []
    for data in dict.fromkeys(table["data"].values):
        rows = chosen(table, data=data)
        x = of_coarse(rows, "same_class_cosine")
        series.append(Series(data, x, rows["gain"].values, roles[data], "markers"))
    panel = Lines(
        Axis("cosine of sub-class means, coarse network"),
        Axis("gain of finer labels"),
        tuple(series),
        rules=(Rule(1.0, label="no gain"),),
    )
    return Figure(
        "label-gain",
        "Does collapse say where finer labels pay?",
        "Median radius with fine over that with coarse labels, mean over seeds, against how far the "
        "sub-classes have collapsed in the coarse network; one mark per network and training.",
        (panel,),
    )
