"""A share of the fine labels on images: digits and MNIST (even or odd), and CIFAR-10 (its two halves).

Some images are told their fine label, the others their class alone. On digits: two layers of ten outputs
on pixels, whose radii are exact, and small convolutional networks under the usual attacks. On MNIST, two
layers (ten outputs of ten neurons); on MNIST and CIFAR-10 small convolutional networks (two convolutions,
two dense layers), all by Adam with one objective; and heads on frozen features of CIFAR-10, whose radii are
exact.

The tolerances were written before the first runs. A trial with two seeds had found that 2% (two layers) and
10% (convolutions) of the fine labels of MNIST gave at least what all of them give.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from featavg.audit.label_budget import label_budget
from featavg.data.image_sets.loading import load_images
from featavg.data.images import ImageTask
from featavg.data.labels import Labels
from featavg.data.streams import stream
from featavg.figures.figure import Axis, Figure, Lines, Series
from featavg.figures.marks import Role
from featavg.paper.engine.claim import Check, Context, Evidence, claim
from featavg.paper.engine.requirements import data_needed, run_folder, torch_needed
from featavg.paper.engine.tables import tabulate
from featavg.paper.images.features import FeatureSet, pixels_of
from featavg.paper.images.heads import HEAD_IMAGES, head_radii, public_features
from featavg.robustness.exact.budget import Budget
from featavg.robustness.radii import radii
from featavg.storage.cache import kept_values
from featavg.training.checkpoint import fingerprint
from featavg.training.heads import HeadRecipe, train_head

if TYPE_CHECKING:
    import xarray as xr
    from torch import nn

SHARES = (0.0, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
# Data and training images of each network.
NETWORKS = {
    "MNIST, two layers": ("mnist", 20_000),
    "MNIST, convolutions": ("mnist", 10_000),
    "CIFAR-10, convolutions": ("cifar10", 10_000),
    "CIFAR-10, frozen features": ("cifar10", HEAD_IMAGES),
}
NEURONS, WIDTH, START = 10, 8, 1e-3
# Another number computes anew what is kept on disk.
VERSION = 1
# Networks on digits, and how their curve looks.
DIGITS: dict[str, tuple[str, Role]] = {
    "two": ("two layers, exact", "decoupled"),
    "conv": ("convolutions, attacked", "averaged"),
}


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

    def measure(share: float, seed: int) -> dict[str, float]:
        two = two_layers(task, Labels(share=share), seed, steps, points)
        conv = convolutions(task, Labels(share=share), seed, epochs, points)
        return dict(zip(("two", "two_accuracy", "conv", "conv_accuracy"), (*two, *conv), strict=True))

    table = tabulate(measure, run.seeds, run.progress, share=SHARES)
    radius = {name: table[name] for name in DIGITS}
    gain = {name: each.sel(share=1.0) / each.sel(share=0.0) for name, each in radius.items()}
    tenth = {name: each.sel(share=0.1) / each.sel(share=1.0) for name, each in radius.items()}
    pixels = pixels_of(task)
    space = pixels.train, pixels.train_classes, pixels.groups
    budget = label_budget(*space, shares=SHARES, seeds=run.seeds[:3], points=points)
    factor = np.nan
    if budget.share is not None and budget.predicted_share is not None:
        factor = budget.predicted_share / budget.share
    mean = table.mean("seed")
    said = "; ".join(
        f"{100 * share:g}%: {float(mean['two'].sel(share=share)):.2f} and {float(mean['conv'].sel(share=share)):.2f}"
        for share in SHARES
    )
    return Evidence(
        Check("two layers: radius with a tenth of the labels over that with all", tenth["two"], ">=", 0.9),
        Check("convolutions: the same", tenth["conv"], ">=", 0.9),
        Check("two layers: radius with all fine labels over that with none", gain["two"], ">=", 1.05),
        Check("convolutions: the same", gain["conv"], ">=", 1.05, role="note"),
        Check(
            "label budget on pixels: predicted share over the measured one", factor, "within", (0.5, 2.0), role="note"
        ),
        figure=digits_figure(table),
        numbers={"table": table, "budget": budget.to_json()},
        finding=f"Share of images with their digit, and the median radius of two layers and of convolutions: "
        f"{said}. {budget.summary()}",
    )


def two_layers(task: ImageTask, labels: Labels, seed: int, steps: int, points: int) -> tuple[float, float]:
    """Median exact radius and accuracy of ten outputs of three neurons on pixels, read out by `max`."""
    pixels = pixels_of(task)
    recipe = HeadRecipe(steps=steps, rate=2.0)
    net = train_head(pixels.train, pixels.train_classes, pixels.groups, labels, recipe, seed)
    y = np.where(pixels.groups[pixels.test_classes] == 1, 1, -1)
    right = np.mean(pixels.groups[net(pixels.test).argmax(axis=1)] == (y == 1))
    budget, positive = Budget(nodes=150), pixels.groups == 1
    x, y = pixels.test[:points], y[:points]
    exact = radii(net, x, y, readout="max", positive=positive, budget=budget, jobs=1)
    return float(np.mean(exact.median)), float(right)


def convolutions(task: ImageTask, labels: Labels, seed: int, epochs: int, points: int) -> tuple[float, float]:
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


def start(name: str, task: ImageTask, seed: int) -> nn.Module:
    """The network before training, on pixels in [0, 1]."""
    from featavg.nets.torch.architecture import architecture
    from featavg.nets.torch.competitive import CompetitiveHead
    from featavg.nets.torch.inference import own_randomness

    if "two layers" not in name:
        return architecture("convnet", task, "fine", WIDTH).build(seed)
    with own_randomness(seed):
        return CompetitiveHead(int(np.prod(task.shape)), task.fine, NEURONS, "mean", START)


def trained(name: str, task: ImageTask, share: float, seed: int, steps: int) -> nn.Module:
    """Adam at 0.001 in batches of 128, on as many of the fine labels as `share` says."""
    import torch

    from featavg.training.torch.module import partial_targets
    from featavg.training.torch.objectives import PartialCrossEntropy

    net = start(name, task, seed)
    x = torch.from_numpy(task.train.unit).float()
    y = torch.from_numpy(partial_targets(task, Labels(share=share), seed))
    objective = PartialCrossEntropy(tuple(task.groups.tolist()))
    adam, rng = torch.optim.Adam(net.parameters(), lr=1e-3), stream(seed, "batches")
    net.train()
    for _ in range(steps):
        rows = torch.from_numpy(rng.integers(len(x), size=128))
        loss, _ = objective(net, x[rows], y[rows])
        adam.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        adam.step()
    return net.eval()


def attacked(net: nn.Module, task: ImageTask, points: int) -> dict[str, float]:
    """Median radius of the decision between the classes in the pixel box, and its accuracy."""
    from featavg.robustness.attacks.suite import attack_suite
    from featavg.robustness.models.torch_model import torch_model
    from featavg.training.torch.image_network import outputs

    y = task.groups[task.test.fine]
    right = task.groups[outputs(net, task.test.unit).argmax(axis=1)] == y
    rows = stream(0, "attacked").permutation(len(y))[:points]
    model = torch_model(net, (0.0, 1.0), groups=task.groups, readout="max")
    found = attack_suite(model, task.test.unit[rows], y[rows])
    return {"radius": float(np.median(found.radii)), "accuracy": float(np.mean(right))}


def head(features: FeatureSet, share: float, seed: int, points: int) -> dict[str, float]:
    """The same of a head on frozen features, exactly, in units of their length."""
    labels, groups = Labels(share=share), features.groups
    net = train_head(features.train, features.train_classes, groups, labels, HeadRecipe(), seed)
    right = groups[net(features.test).argmax(axis=1)] == groups[features.test_classes]
    found = head_radii(net, features, "max", points)
    return {"radius": float(np.median(found.certified)) / features.length, "accuracy": float(np.mean(right))}


def measured(
    run: Context, name: str, share: float, seed: int, steps: int, points: int, tasks: dict[str, Any]
) -> dict[str, float]:
    """One cell, or what an earlier run kept of it."""
    data, images = NETWORKS[name]
    words = (name, share, seed, steps, points, images, NEURONS, WIDTH, START, VERSION)
    path = run_folder(run) / "labels-images" / f"{fingerprint([], *words)}.json"

    def cell() -> dict[str, float]:
        if name.endswith("features"):
            if "features" not in tasks:
                tasks["features"] = public_features(run)
            return head(tasks["features"], share, seed, points)
        if data not in tasks:
            tasks[data] = data_needed(data, run)
        task = replace(tasks[data], train=tasks[data].train[slice(0, images)])
        return attacked(trained(name, task, share, seed, steps), task, points)

    return kept_values(path, fingerprint([], *words), cell)


@claim(
    "question-labels-images", "On images a few fine labels are as good as all", theme="Open questions",
    source="Summary of arXiv 2410.10322, open question 3 and design tradeoffs",
    measured="median l2 radius and accuracy of the decision between two classes for seven shares of fine "
    "labels: by the usual attacks in the pixel box on MNIST and CIFAR-10, exactly on frozen features",
    tier="full", minutes=25, needs=("torch", "mnist", "cifar10", "weights"), seeds=3,
    statements=("summary-open-3", "summary-tradeoffs"),
)  # fmt: skip
def labels_images(
    run: Context, networks: tuple[str, ...] = tuple(NETWORKS), steps: int = 1200, points: int = 100
) -> Evidence:
    """On MNIST, even or odd, 2% of the fine labels (two layers) and 10% of them (convolutions) make a
    network as robust as all of them.
    """
    torch_needed()
    tasks: dict[str, Any] = {}
    table = tabulate(
        lambda network, share, seed: measured(run, network, share, seed, steps, points, tasks),
        run.seeds, run.progress, network=networks, share=SHARES,
    )  # fmt: skip
    radius, accuracy = table["radius"], table["accuracy"]

    def over(network: str, share: float, base: float = 1.0) -> Any:
        some = radius.sel(network=network)
        return (some.sel(share=share) / some.sel(share=base)).values

    two, conv = "MNIST, two layers", "MNIST, convolutions"
    lost = accuracy.sel(network=two, share=0.02) - accuracy.sel(network=two, share=1.0)
    others = [name for name in networks if name not in (two, conv)]
    mean = table.mean("seed")
    told = "; ".join(f"{name}: {_line(mean.sel(network=name))}" for name in networks)
    return Evidence(
        Check("MNIST, two layers: radius with 2% of the labels over that with all", over(two, 0.02), ">=", 1.0),
        Check("MNIST, convolutions: radius with 10% of the labels over that with all", over(conv, 0.1),
              ">=", 1.0),
        Check("MNIST, two layers: accuracy with 2% of the labels minus that with all", lost.values, ">=", -0.01),
        *(Check(f"{name}: radius with 10% of the labels over that with all", over(name, 0.1), ">=", 0.9,
                role="note") for name in others),
        *(Check(f"{name}: radius with all fine labels over that with none", over(name, 1.0, 0.0), ">=", 1.1,
                role="note") for name in networks),
        figure=figure(table),
        numbers={"table": table},
        finding=f"Median radius (accuracy) by the share of fine labels. {told}.",
    )  # fmt: skip


def _line(mean: xr.Dataset) -> str:
    cells = (
        f"{100 * share:g}% {float(mean['radius'].sel(share=share)):.2f} "
        f"({100 * float(mean['accuracy'].sel(share=share)):.1f}%)"
        for share in SHARES
    )
    return ", ".join(cells)


def digits_figure(table: xr.Dataset) -> Figure:
    """Radii against the share, one panel for each kind of network."""
    about = "Median radius of the decision even or odd against the share of training images with their digit"
    return Figure(
        "labels-digits",
        "Fine labels of digits",
        f"{about} (none at the left edge).",
        tuple(_panel(table[name], "l2", *look) for name, look in DIGITS.items()),
    )


def figure(table: xr.Dataset) -> Figure:
    """The same for MNIST and CIFAR-10."""
    about = "Median radius of the decision between two classes against the share of training images with"
    units = {True: "feature lengths", False: "l2"}
    panels = tuple(
        _panel(table["radius"].sel(network=name), units[name.endswith("features")], name)
        for name in table["network"].values.tolist()
    )
    return Figure(
        "labels-images",
        "Fine labels of MNIST and CIFAR-10",
        f"{about} their fine label (none at the left edge).",
        panels,
    )


def _panel(radius: xr.DataArray, unit: str, name: str, role: Role = "decoupled") -> Lines:
    x = np.maximum(radius["share"].values, 0.01)  # none at the left edge of a logarithmic axis
    runs = radius.transpose("seed", "share").values
    series = (Series.over_seeds(name, x, runs, role, "line+markers"),)
    axes = Axis("share of fine labels", log=True), Axis("median radius", unit)
    return Lines(*axes, series, title=name)
