"""A share of the fine labels on real images: handwritten digits, even or odd.

Two-layer networks with ten outputs on pixels, whose radii are exact, and small convolutional networks under
the usual attacks, on the same shares of images that are told their digit; the others are told even or odd.

The tolerances were written before the first run. A trial on MNIST had found that 2% (two layers) and 10%
(convolutions) of the fine labels gave as much as all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from featavg.audit.label_budget import label_budget
from featavg.data.image_sets.loading import load_images
from featavg.data.labels import Labels
from featavg.figures.figure import Axis, Figure, Lines, Series
from featavg.figures.marks import Role
from featavg.paper.engine.claim import Check, Context, Evidence, claim
from featavg.paper.engine.requirements import torch_needed
from featavg.paper.images.features import pixels_of
from featavg.robustness.exact.budget import Budget
from featavg.robustness.radii import radii
from featavg.training.heads import HeadRecipe, train_head

if TYPE_CHECKING:
    import xarray as xr

    from featavg.data.images import ImageTask

SHARES = (0.0, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)


@claim(
    "question-labels-digits", "On digits a tenth of the fine labels is nearly as good as all",
    theme="Open questions", source="Summary of arXiv 2410.10322, open question 3 and design tradeoffs",
    measured="median l2 radius of the decision even or odd for seven shares of images with their digit: exact "
    "ones of two-layer networks on pixels, and by the usual attacks those of small convolutional networks",
    tier="full", minutes=2, needs=("torch",), statements=("summary-open-3", "summary-tradeoffs"),
)  # fmt: skip
def labels_digits(run: Context, steps: int = 500, epochs: int = 10, points: int = 40) -> Evidence:
    """If a tenth of the training images of handwritten digits is labelled by digit and the others by
    even or odd alone, networks are nearly as robust in deciding even or odd as with all digits.
    """
    torch_needed()
    task = load_images("digits")
    table = measured(run, task, steps, epochs, points)
    gain = {
        name: table[name].sel(share=1.0) / table[name].sel(share=0.0) for name in ("two", "conv")
    }
    tenth = {
        name: table[name].sel(share=0.1) / table[name].sel(share=1.0) for name in ("two", "conv")
    }
    pixels = pixels_of(task)
    budget = label_budget(
        pixels.train,
        pixels.train_classes,
        pixels.groups,
        shares=SHARES,
        seeds=run.seeds[:3],
        points=points,
    )
    factor = np.nan
    if budget.share is not None and budget.predicted_share is not None:
        factor = budget.predicted_share / budget.share
    mean = table.mean("seed")
    said = "; ".join(
        f"{100 * share:g}%: {float(mean['two'].sel(share=share)):.2f} and "
        f"{float(mean['conv'].sel(share=share)):.2f}"
        for share in SHARES
    )
    return Evidence(
        Check("two layers: radius with a tenth of the labels over that with all", tenth["two"], ">=", 0.9),
        Check("convolutions: the same", tenth["conv"], ">=", 0.9),
        Check("two layers: radius with all fine labels over that with none", gain["two"], ">=", 1.05),
        Check("convolutions: the same", gain["conv"], ">=", 1.05, role="note"),
        Check("label budget on pixels: predicted share over the measured one", factor, "within", (0.5, 2.0),
              role="note"),
        figure=figure(table),
        numbers={"table": table, "budget": budget.to_json()},
        finding=f"Share of images with their digit, and the median radius of two layers and of convolutions: "
        f"{said}. {budget.summary()}",
    )  # fmt: skip


def measured(run: Context, task: ImageTask, steps: int, epochs: int, points: int) -> xr.Dataset:
    """Median radius and accuracy of both networks by share and seed."""
    import xarray as xr

    names = ("two", "conv", "two_accuracy", "conv_accuracy")
    cells = {name: np.full((len(SHARES), len(run.seeds)), np.nan) for name in names}
    for i, share in enumerate(SHARES):
        run.progress(0.8 * i / len(SHARES), f"{share:.0%} of the digits")
        for j, seed in enumerate(run.seeds):
            labels = Labels(share=share)
            for name, found in (
                ("two", two_layers(task, labels, seed, steps, points)),
                ("conv", convolutions(task, labels, seed, epochs, points)),
            ):
                cells[name][i, j], cells[f"{name}_accuracy"][i, j] = found
    table = {name: (("share", "seed"), values) for name, values in cells.items()}
    return xr.Dataset(table, {"share": list(SHARES), "seed": list(run.seeds)})


def two_layers(
    task: ImageTask, labels: Labels, seed: int, steps: int, points: int
) -> tuple[float, float]:
    """Median exact radius and accuracy of ten outputs of three neurons on pixels, read out by `max`."""
    pixels = pixels_of(task)
    recipe = HeadRecipe(steps=steps, rate=2.0)
    net = train_head(pixels.train, pixels.train_classes, pixels.groups, labels, recipe, seed)
    y = np.where(pixels.groups[pixels.test_classes] == 1, 1, -1)
    right = np.mean(pixels.groups[net(pixels.test).argmax(axis=1)] == (y == 1))
    how = {"readout": "max", "positive": pixels.groups == 1, "budget": Budget(nodes=150)}
    exact = radii(net, pixels.test[:points], y[:points], **how, jobs=1)
    return float(np.mean(exact.median)), float(right)


def convolutions(
    task: ImageTask, labels: Labels, seed: int, epochs: int, points: int
) -> tuple[float, float]:
    """Median attack radius in the pixel box and accuracy of a small convolutional network."""
    from featavg.robustness.attacks.suite import attack_suite
    from featavg.robustness.models.torch_model import torch_model
    from featavg.training.torch.image_network import train_images
    from featavg.training.torch.recipe import ImageRecipe

    recipe = ImageRecipe(epochs=epochs, batch=64, crop=0, seed=seed)
    trained = train_images(task, labels, recipe=recipe)
    model = torch_model(trained.net, groups=task.groups)
    y = task.groups[task.test.fine[:points]]
    found = attack_suite(model, task.test.unit[:points], y, seed=seed)
    return float(np.median(found.radii)), trained.test_accuracy["coarse"]


def figure(table: xr.Dataset) -> Figure:
    """Radii against the share, one panel for each kind of network."""
    x = np.maximum(table["share"].values, 0.01)  # none at the left edge of a logarithmic axis
    kinds: dict[str, tuple[str, Role]] = {
        "two": ("two layers, exact", "decoupled"),
        "conv": ("convolutions, attacked", "averaged"),
    }
    panels = []
    for name, (label, role) in kinds.items():
        runs = table[name].transpose("seed", "share").values
        series = (Series.over_seeds(label, x, runs, role, "line+markers"),)
        axes = Axis("share of fine labels", log=True), Axis("median radius", "l2")
        panels.append(Lines(*axes, series, title=label))
    about = "Median radius of the decision even or odd against the share of training images with their digit"
    return Figure(
        "labels-digits", "Fine labels of digits", f"{about} (none at the left edge).", tuple(panels)
    )
