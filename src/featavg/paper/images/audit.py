"""Does the audit tell averaged from decoupled networks, and predict what finer labels buy?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from featavg.audit import gain as audit
from featavg.audit.gain import FeatureGain
from featavg.data.clusters import MultiCluster
from featavg.data.image_sets.loading import load_images
from featavg.data.streams import stream
from featavg.figures.figure import Axis, Bar, Bars, Figure
from featavg.figures.marks import Role
from featavg.measures.shared_gradient import SharedGradient, shared_gradient
from featavg.paper.engine.claim import Check, Context, Evidence, Headline, claim
from featavg.paper.engine.requirements import data_needed, run_folder, torch_needed
from featavg.paper.images.features import FeatureSet, embed
from featavg.paper.images.label_cell import LABELS
from featavg.paper.images.labels import Cells, all_cells, label_table
from featavg.progress import Progress, part, silent
from featavg.robustness.models.decision import ALL
from featavg.robustness.models.model import network_model
from featavg.storage.cache import fingerprint, kept_values
from featavg.training.train import train

# Fixed before the first run of the claim: what the audit promises on the simulator, and the least null.
AVERAGED, DECOUPLED, LEAST_NULL = 0.99, 0.1, 0.9
K, D = 10, 3072
CASES = ((0.0, "probability"), (0.0, "max"), (0.0, "sum"), (0.3, "probability"), (0.7, "probability"))
# Images per feature space: heads have few weights, and an audit has no more images either.
IMAGES = 1200
GAIN_ERROR = 0.15


@dataclass(frozen=True)
class Sharing:
    """The shared gradient A of networks with either labels on one kind of data, one value per seed.

    Attributes:
        panel, tick: the two halves of its name in a figure, where the whole would not fit.
        gap: the smallest with coarse labels minus the largest with fine ones; positive: no overlap. NaN
            where some network has no layer in which A is well defined.
    """

    panel: str
    tick: str
    coarse: tuple[float, ...]
    fine: tuple[float, ...]
    nulls: tuple[float, ...]
    name: str
    layer: str = "input"
    gap: float = field(init=False)

    def __post_init__(self) -> None:
        known = np.isfinite([*self.coarse, *self.fine, *self.nulls]).all()
        gap = min(self.coarse) - max(self.fine) if known else float("nan")
        object.__setattr__(self, "gap", gap)


@claim(
    "audit-shared-gradient", "The shared gradient tells averaged from decoupled networks",
    theme="Real data", minutes=0.2, seeds=3,
    source="Ours: the statistic of `featavg audit`; arXiv 2410.10322, Theorems 1 and 4",
    measured=f"shared gradient at the input of the simulator's networks, k = {K}, d = {D}, three seeds, "
    "three read-outs, features at cosine 0, 0.3 and 0.7, with its permutation null",
    statements=("summary-failure-signatures",),
)  # fmt: skip
def simulator(run: Context, k: int = K, d: int = D, n: int = 500) -> Evidence:
    """The share of mean sensitivity that the sub-classes of a class have in common is near 1 in
    networks that average features and near 0 in networks that decouple them.
    """
    rows = []
    for i, (cosine, readout) in enumerate(CASES):
        run.progress(i / len(CASES), f"cosine {cosine:g}, {readout}")
        rows.append(simulated(MultiCluster(k=k, d=d, cosine=cosine), run.seeds, readout, n))
    plain, by_max, by_sum, *near = rows
    coarse, fine = np.mean(plain.coarse), [np.mean(row.fine) for row in rows]
    return Evidence(
        Check("A, coarse labels", plain.coarse, ">=", AVERAGED, role="main"),
        Check("A, fine labels (probability)", plain.fine, "<=", DECOUPLED),
        Check("smallest with coarse labels minus largest with fine ones, worst case",
              min(row.gap for row in (plain, by_max, *near)), ">=", 0.0,
              note="no overlap between seeds, read-outs probability and max, cosines 0, 0.3 and 0.7"),
        Check("permutation null, smallest", min(min(row.nulls) for row in rows), ">=", LEAST_NULL),
        Check("A, fine labels, read-out sum", np.mean(by_sum.fine), ">=", DECOUPLED,
              note="the read-out sum adds up what the labels decoupled", role="note"),
        figure=figure(rows),
        numbers={"rows": rows},
        finding=f"On the simulator the shared gradient is {coarse:.2f} with coarse labels and "
        f"{fine[0]:.2f} with fine ones (max {fine[1]:.2f}, sum {fine[2]:.2f}); with features at cosine 0.3 "
        f"and 0.7 it is {fine[3]:.2f} and {fine[4]:.2f} with fine labels and "
        f"{np.mean(near[0].coarse):.2f} and {np.mean(near[1].coarse):.2f} with coarse ones.",
        headlines=(Headline(f"{coarse:.2f}", "shared gradient, coarse labels", "averaged"),),
    )  # fmt: skip


def simulated(task: MultiCluster, seeds: Sequence[int], readout: str, n: int) -> Sharing:
    """A of the simulator's networks on fresh points, gradients in closed form."""
    coarse, fine = (
        [network_sharing(task, labels, seed, readout, n) for seed in seeds] for labels in ("coarse", "fine")
    )
    panel = f"k={task.k}, cosine {task.cosine:g}"
    values = [tuple(each.value for each in some) for some in (coarse, fine)]
    nulls = tuple(each.null for each in (*coarse, *fine))
    return Sharing(panel, readout, values[0], values[1], nulls, f"{panel}, {readout}")


def network_sharing(task: MultiCluster, labels: str, seed: int, readout: str, n: int) -> SharedGradient:
    """Trains a network of the simulator and measures its shared gradient at the input."""
    net = train(task, labels=labels, n=n, steps=100, seed=seed).net
    points = task.sample(n, seed=seed + 1)
    positive = task.positive_clusters if net.outputs > 1 else None
    model = network_model(net, positive, readout)
    x = model.rows(points.coordinates(net.dimension))
    label = model.decision.labels(points.y)
    margin, _, gradient = model.descend(x, label, np.full(len(x), ALL))
    right = margin > 0
    groups = task.positive_clusters.astype(int)
    return shared_gradient(gradient[right], points.clusters[right], groups, 20, 20, seed)


@claim(
    "audit-shared-gradient-images", "It does so on images",
    theme="Real data", tier="full", minutes=90, needs=("torch", "mnist", "cifar10"),
    source="Ours: the statistic of `featavg audit`",
    measured="shared gradient at the reported layer, on 400 test images, of the networks of "
    "`finer-labels-border` that were trained with cross-entropy alone; five seeds on digits, three "
    "on MNIST and CIFAR-10",
    statements=(
        "itcs-averaging-slide", "csml-averaging-slide", "summary-open-3", "abstract-principal",
    ),
)  # fmt: skip
def images(run: Context) -> Evidence:
    """It separates networks trained with coarse labels from networks with fine ones on images."""
    rows = of_cells(all_cells(run))
    apart = [row.name for row in rows if row.gap > 0]
    known = [row for row in rows if not np.isnan(row.gap)]
    overlap = [f"{row.name} ({row.gap:+.2f})" for row in known if not row.gap > 0]
    silent = [row.name for row in rows if np.isnan(row.gap)]
    return Evidence(
        Check("share of networks whose seeds do not overlap", len(apart) / len(rows), ">=", 1.0, role="main",
              note="smallest A with coarse labels above the largest with fine ones"),
        Check("permutation null, smallest", min(min(row.nulls) for row in known), ">=", LEAST_NULL,
              note="where a layer has a valid one"),
        figure=figure(rows),
        numbers={"rows": rows},
        finding="Shared gradient with coarse and with fine labels: "
        + "; ".join(f"{row.name} {np.mean(row.coarse):.2f} and {np.mean(row.fine):.2f} (at {row.layer})"
                    for row in known)
        + f". No overlap in {len(apart)} of {len(rows)}"
        + (f"; it overlaps for {', '.join(overlap)}" if overlap else "")
        + (f"; it cannot tell for {', '.join(silent)} (no valid layer)." if silent else "."),
        seeds=tuple(range(max(len(row.coarse) for row in rows))),
    )  # fmt: skip


def of_cells(cells: Cells) -> list[Sharing]:
    """The shared gradient of the networks that were trained with cross-entropy alone."""
    table = label_table([cell for cell in cells if cell["training"] == "cross-entropy"])
    rows = []
    for name in table["row"].values:
        row = table.sel(row=name)
        some = row.isel(seed=slice(0, int(row["seeds"])))
        shared = [tuple(some["shared"].sel(labels=labels).values.tolist()) for labels in LABELS]
        nulls, layers = (some[field].values.ravel().tolist() for field in ("null", "layer"))
        data, network = row["data"].item(), row["network"].item()
        layer = ", ".join(dict.fromkeys(layers))
        rows.append(Sharing(data, network, shared[0], shared[1], tuple(nulls), str(name), layer))
    return rows


def figure(rows: Sequence[Sharing]) -> Figure:
    """A with either kind of labels, mean and range over seeds."""
    # A bar of a network that has no valid layer would read as decoupled.
    known = [row for row in rows if not np.isnan(row.gap)]

    def bar(title: str, role: Role, values: Sequence[tuple[float, ...]]) -> Bar:
        means, low, high = ([float(f(each)) for each in values] for f in (np.mean, min, max))
        return Bar(title, means, role, low, high)

    panels = []
    for panel in dict.fromkeys(row.panel for row in known):
        some = [row for row in known if row.panel == panel]
        bars = (
            bar("coarse labels", "averaged", [row.coarse for row in some]),
            bar("fine labels", "decoupled", [row.fine for row in some]),
        )
        ticks = tuple(row.tick for row in some)
        panels.append(Bars(ticks, bars, Axis("shared gradient A", range=(0, 1)), title=panel))
    return Figure(
        "shared-gradient",
        "The shared gradient tells averaged from decoupled networks",
        "Shared gradient A of the coarse decision, mean and range over seeds, of networks trained with "
        "coarse and with fine labels. 1 is one sensitive direction for a whole class.",
        tuple(panels),
    )


@dataclass(frozen=True)
class Gain:
    """One feature space; `error` is |predicted / measured - 1|, NaN where either was refused."""

    source: str
    predicted: FeatureGain
    measured: FeatureGain
    error: float = field(init=False)

    def __post_init__(self) -> None:
        error = abs(_value(self.predicted) / _value(self.measured) - 1.0)
        object.__setattr__(self, "error", error)


@claim(
    "audit-predicted-gain", "What finer labels buy in feature space can be predicted",
    theme="Real data", tier="full", minutes=10, needs=("torch", "cifar10", "weights"), seeds=3,
    source="Ours: the prediction of `featavg audit`",
    measured="median exact radius of fine over coarse heads, on Gaussian samples and on the features "
    "themselves: digits, six networks on digits, two public ResNets on CIFAR-10",
    statements=("summary-open-3",),
)  # fmt: skip
def predicted_gain(run: Context) -> Evidence:
    """Means and covariance of the sub-classes' features predict how much farther away finer labels
    push the boundary of a head on those features.
    """
    torch_needed()
    data_needed("cifar10", run)
    weights, folder = data_needed("weights", run), run_folder(run)
    progress = part(run.progress, 0.0, 0.5), part(run.progress, 0.5, 1.0)
    spaces = feature_spaces(folder, run.seeds, weights, run.data_dir, progress[0])
    rows = gains(spaces, folder / "gains", progress[1])
    answered = [row for row in rows if not np.isnan(row.error)]
    error = float(np.median([row.error for row in answered])) if answered else float("nan")
    refused = len(rows) - len(answered)
    more = f" ({refused} more were refused)" if refused else ""
    wrong_side = sum((_value(row.predicted) > 1) != (_value(row.measured) > 1) for row in answered)
    return Evidence(
        Check("median error of the prediction", error, "<=", GAIN_ERROR, role="main"),
        Check("feature spaces on the wrong side of 1", wrong_side, "<=", 1),
        Check("feature spaces answered", len(answered), ">=", 8, role="note"),
        figure=gain_figure(answered),
        numbers={"rows": rows, "median_error": error, "wrong_side": wrong_side},
        finding=f"Over {len(answered)} feature spaces{more} the predicted gain of finer labels "
        f"is off by {100 * error:.0f}% (median), and on the wrong side of 1 in {wrong_side}. "
        + "; ".join(f"{row.source}: {row.predicted} against {row.measured}" for row in answered)
        + ".",
    )


def gains(spaces: Sequence[FeatureSet], folder: Path, progress: Progress = silent) -> list[Gain]:
    """Predicts and measures the gain on each set of features; finished sets are kept in `folder`."""
    rows = []
    for i, space in enumerate(spaces):
        step = part(progress, i / len(spaces), (i + 1) / len(spaces))
        step(0.0, space.source)
        x, fine, groups = space.train, space.train_classes, space.groups
        if len(x) > IMAGES:
            some = stream(0, "gain").choice(len(x), IMAGES, replace=False)
            x, fine = x[some], fine[some]
        key = fingerprint([x, fine, groups], 0, audit.READOUT, audit.POINTS, audit.NODES, audit.RECIPE, audit.ERROR)
        given: tuple[Any, Any, Any] = (x, fine, groups)

        def compared(given: tuple[Any, Any, Any] = given, step: Progress = step) -> dict[str, Any]:
            predicted = audit.predicted_gain(*given, progress=part(step, 0.0, 0.5))
            measured = audit.measured_gain(*given, progress=part(step, 0.5, 1.0))
            return {"predicted": asdict(predicted), "measured": asdict(measured)}

        kept = kept_values(folder / f"gain-{key}.json", key, compared)
        rows.append(Gain(space.source, FeatureGain(**kept["predicted"]), FeatureGain(**kept["measured"])))
    return rows


def _value(gain: FeatureGain) -> float:
    return float("nan") if gain.value is None else gain.value


def feature_spaces(
    folder: Path, seeds: Sequence[int], weights: Path, data_dir: Path | None, progress: Progress
) -> list[FeatureSet]:
    """Pixels of digits, networks on digits with either kind of labels, and public CIFAR ResNets."""
    from featavg.training.torch.image_network import train_images
    from featavg.training.torch.recipe import image_preset, network_name

    digits, preset = load_images("digits"), image_preset("digits")
    spaces = [embed("pixels", digits)]
    for labels in ("coarse", "fine"):
        for seed in seeds:
            kept_in = folder / network_name("digits", labels, seed)
            part(progress, 0.0, 0.5)(0.0, f"digits, {labels} labels, seed {seed}")
            train_images(digits, labels, kept_in, recipe=replace(preset.recipe, seed=seed))
            spaces.append(embed(kept_in, digits))
    cifar = load_images("cifar10", data_dir=data_dir)
    small = replace(cifar, train=cifar.train[slice(0, IMAGES)], test=cifar.test[slice(0, 200)])
    for file in sorted(weights.glob("resnet*.th")):
        part(progress, 0.5, 1.0)(0.0, file.stem)
        spaces.append(embed(file, small))
    return spaces


def gain_figure(rows: Sequence[Gain]) -> Figure:
    """Both gains, space by space."""

    def bar(field: str, role: Role) -> Bar:
        found = [getattr(row, field) for row in rows]
        low, high = ([getattr(each, name) for each in found] for name in ("low", "high"))
        return Bar(field, [each.value for each in found], role, low, high)

    names = tuple(row.source for row in rows)
    bars = (bar("predicted", "reference"), bar("measured", "decoupled"))
    return Figure(
        "predicted-gain",
        "What finer labels buy in feature space, predicted and measured",
        "Median exact radius of heads with fine labels over that of heads with coarse labels: on "
        "Gaussian sub-classes with the measured means and covariance, and on the features themselves.",
        (Bars(names, bars, Axis("gain")),),
    )
