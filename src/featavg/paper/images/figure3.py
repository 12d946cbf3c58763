"""Figure 3 (middle, right): robust accuracy on MNIST and CIFAR-10, under two protocols."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from featavg.data.images import ImageTask
from featavg.figures.figure import Axis, Figure, Lines, Series
from featavg.figures.marks import Role, Style
from featavg.measures.accuracy import wilson_interval
from featavg.paper.engine.claim import Check, Context, Evidence, Headline, claim
from featavg.paper.engine.requirements import data_needed, run_folder, torch_needed
from featavg.paper.images.curves import ADAPTIVE, OWN_LOSS, CurveSettings, image_curves, pgd_ends
from featavg.progress import Progress, part

# Read off the published figure by eye (reference/figures.json): percent, good to about 1.5.
PUBLISHED_CURVES: dict[str, dict[str, tuple[float, ...]]] = {
    "mnist": {
        "radii": (0.0, 0.4, 0.8, 1.0, 1.2, 1.4, 1.6, 1.8, 2.0),
        "coarse": (99.2, 96, 86.5, 75.5, 58.5, 39.5, 24, 13, 7),
        "fine": (99.5, 98, 93, 88, 80.5, 69.5, 56, 41.5, 28),
    },
    "cifar10": {
        "radii": (0.0, 0.08, 0.16, 0.24, 0.32, 0.4, 0.48, 0.56, 0.64, 0.72, 0.8),
        "coarse": (97, 94.5, 90.5, 84.5, 76.5, 68, 59, 50.5, 43, 37, 31),
        "fine": (98, 96.7, 94.2, 90.5, 85.5, 79, 72, 65, 57.5, 50.5, 43.5),
    },
}
# Fixed before the first run. Between these radii the published curves differ clearly.
COMPARED_BETWEEN = {"mnist": (0.4, 1.6), "cifar10": (0.08, 0.8)}
CLOSE_TO_PUBLISHED = 8.0  # points of percent
LEAST_ADVANTAGE = 2.0  # points of percent, fixed before the first run
LINF = {"mnist": (0.0, 0.02, 0.05, 0.1, 0.15, 0.2), "cifar10": (0.0, 0.002, 0.004, 0.008, 0.012, 0.016, 0.02)}
# Not every published radius: PGD, radius by radius, costs more than everything else together.
PGD_RADII = {
    "mnist": (0.0, 0.4, 0.8, 1.0, 1.2, 1.4, 1.6, 2.0),
    "cifar10": (0.0, 0.08, 0.16, 0.24, 0.32, 0.4, 0.56, 0.8),
}
ASSUMPTION = "the paper says PGD and no more: that it attacked each network's own loss is our assumption"
STATEMENT = (
    "On {}, {}, a ResNet-18 trained with fine labels decides the coarse question more robustly than one "
    "trained with coarse labels."
)
MEASURED = (
    "robust accuracy of the coarse decision of narrow ResNet-18s on 1000 test images, by a minimal-norm "
    "attack on the decision (adaptive, l2 and l_inf) and, on {}, by PGD on each network's own loss, "
    "radius by radius: " + ASSUMPTION
)
ACCURACY = Axis("robust accuracy", "%", range=(0.0, 100.0))
WORDS = {"coarse": "class labels", "fine": "fine labels"}
ROLES: dict[str, Role] = {"coarse": "averaged", "fine": "decoupled"}
# A curve of `image_curves`.
Curve = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class LabelPair:
    """Two networks of one seed: their curves, how each was trained, where own-loss PGD ends."""

    seed: int
    curves: Sequence[Curve]
    about: Mapping[str, Mapping[str, Any]]
    ends: Mapping[str, float]


# Pairs of networks: minutes each on MNIST, an hour and more on CIFAR-10.
@claim(
    "figure-3-mnist", "Fine labels buy robustness on MNIST",
    theme="Real data", tier="full", minutes=50, needs=("torch", "mnist"), seeds=3,
    statement=STATEMENT.format("MNIST", "even against odd"),
    source="Paper, Figure 3 (middle)", measured=MEASURED.format("all of them"),
    statements=(
        "notes-figure-3-middle", "itcs-examples", "itcs-figure-2", "csml-examples", "csml-figure-2",
        "summary-key-results", "summary-confidence",
    ),
)  # fmt: skip
def mnist(
    run: Context, preset: str = "mnist", images: int = 1000, pgd_images: int = 1000, budget: int = 60
) -> Evidence:
    """Runs pairs of networks on MNIST."""
    return evidence("mnist", _pairs("mnist", run, preset, images, pgd_images, budget))


@claim(
    "figure-3-cifar10", "Fine labels buy robustness on CIFAR-10",
    theme="Real data", tier="full", minutes=220, needs=("torch", "cifar10"), seeds=3,
    statement=STATEMENT.format("CIFAR-10", "first five classes against last five"),
    source="Paper, Figure 3 (right)", measured=MEASURED.format("the first 300"),
    statements=(
        "notes-figure-3-right", "itcs-examples", "itcs-figure-2", "csml-examples", "csml-figure-2",
        "summary-key-results", "summary-experiment-2", "summary-confidence",
    ),
)  # fmt: skip
def cifar10(
    run: Context, preset: str = "cifar10", images: int = 1000, pgd_images: int = 300, budget: int = 30
) -> Evidence:
    """Runs pairs of networks on CIFAR-10."""
    return evidence("cifar10", _pairs("cifar10", run, preset, images, pgd_images, budget))


def _pairs(data: str, run: Context, preset: str, images: int, pgd_images: int, budget: int) -> list[LabelPair]:
    torch_needed()
    task = data_needed(data, run)
    settings = CurveSettings(
        images=images,
        pgd_images=pgd_images,
        pgd_radii=PGD_RADII[data],
        budget=budget,
        radii={"l2": PUBLISHED_CURVES[data]["radii"], "linf": LINF[data]},
    )
    folder, count = run_folder(run), len(run.seeds)
    return [
        train_pair(preset, task, seed, folder, settings, part(run.progress, i / count, (i + 1) / count))
        for i, seed in enumerate(run.seeds)
    ]


def train_pair(
    preset: str, task: ImageTask, seed: int, folder: Path, settings: CurveSettings, progress: Progress
) -> LabelPair:
    """Trains both networks of a preset and attacks them; what is finished is kept in `folder`."""
    from featavg.training.torch.recipe import network_name

    networks = trained_pair(preset, task, seed, folder, progress)
    nets, kept = {name: each.net for name, each in networks.items()}, folder / network_name(preset, "curves", seed)
    curves = image_curves(nets, task, settings, kept, part(progress, 0.6, 0.95))
    part(progress, 0.95, 1.0)(0.0, "where own-loss PGD ends")
    ends = pgd_ends(nets["fine"], task, settings)
    return LabelPair(seed, curves, {name: each.about for name, each in networks.items()}, ends)


def trained_pair(preset: str, task: ImageTask, seed: int, folder: Path, progress: Progress) -> dict[str, Any]:
    """The networks of a preset with coarse and with fine labels, kept in `folder`."""
    from featavg.training.torch.image_network import train_images
    from featavg.training.torch.recipe import image_preset, network_name

    recipe = replace(image_preset(preset).recipe, seed=seed)
    return {
        labels: train_images(
            task,
            labels,
            folder / network_name(preset, labels, seed),
            recipe=recipe,
            preset=preset,
            progress=part(progress, 0.3 * i, 0.3 * (i + 1)),
        )
        for i, labels in enumerate(("coarse", "fine"))
    }


def evidence(data: str, pairs: Sequence[LabelPair]) -> Evidence:
    """The checks, over pairs."""
    low, high = COMPARED_BETWEEN[data]
    radii = [r for r in PGD_RADII[data] if low <= r <= high]
    curves = mean_curves(pairs)
    own_loss = {curve["labels"]: curve for curve in picked(curves, OWN_LOSS).values()}
    distance = {
        labels: float(np.abs(percent(curve, radii) - published(data, labels, radii)).max())
        for labels, curve in own_loss.items()
    }
    stretch, left = stretch_to_published(data, own_loss)
    gains = [advantages(pair.curves, radii) for pair in pairs]
    gain = {name: float(np.mean([each[name] for each in gains])) for name in gains[0]}
    clean = {
        labels: {kind: float(np.mean([pair.about[labels]["test_accuracy"][kind] for pair in pairs])) for kind in first}
        for labels, first in ((labels, about["test_accuracy"]) for labels, about in pairs[0].about.items())
    }
    within = f"mean over radii {low:g} to {high:g}, points of percent, one value per pair"

    def advantage(check: str, name: str, role: Any, note: str = within) -> Check:
        return Check(check, [each[name] for each in gains], ">=", LEAST_ADVANTAGE, note, role)

    return Evidence(
        advantage("adaptive, probability: advantage of fine labels", "fine, probability", "main"),
        advantage("adaptive, max", "fine, max", "essential"),
        advantage("own-loss PGD: advantage of fine labels", OWN_LOSS, "essential", ASSUMPTION),
        advantage("adaptive, sum", "fine, sum", "note"),
        Check("class labels: largest distance from the published curve", distance["coarse"], "<=",
              CLOSE_TO_PUBLISHED, role="note",
              note="width, epochs and decay of the paper's networks are not known; ours are narrow"),
        Check("fine labels: largest distance from the published curve", distance["fine"], "<=",
              CLOSE_TO_PUBLISHED, role="note"),
        figures=figures(data, curves),
        numbers={
            "advantage": gain, "advantage_by_seed": gains, "own_loss_pgd_ends": [pair.ends for pair in pairs],
            "distance_from_published": distance, "stretch": {"factor": stretch, "distance_then": left},
            "median_l2": {name: _mean_median(pairs, name) for name in picked(curves, ADAPTIVE)},
            "median_linf": {name: _mean_median(pairs, name, "linf") for name in picked(curves, ADAPTIVE, "linf")},
            "test_accuracy": clean,
            "curves": [{"seed": pair.seed, **curve} for pair in pairs for curve in pair.curves],
            "training": [pair.about for pair in pairs],
        },
        finding=_finding(data, gain, clean, pairs, [each["fine, probability"] for each in gains])
        + _distance(distance, stretch, left),
        headlines=(Headline(f"{gain['fine, probability']:+.1f}", f"points of robust accuracy from fine labels, "
                            f"{data}, adaptive attack", "decoupled"),),
        seeds=tuple(pair.seed for pair in pairs),
        # What training and attacks took, whenever that was.
        seconds=sum(float(about["seconds"] or 0.0) for pair in pairs for about in pair.about.values())
        + sum(curve["seconds"] for pair in pairs for curve in pair.curves),
    )  # fmt: skip


def picked(curves: Sequence[Curve], protocol: str, norm: str = "l2") -> dict[str, Curve]:
    """The curves of one protocol and norm, by labels and (for fine labels) read-out."""
    return {
        "coarse" if each["labels"] == "coarse" else f"fine, {each['readout']}": each
        for each in curves
        if (each["protocol"], each["norm"]) == (protocol, norm)
    }


def percent(curve: Curve, radii: Sequence[float]) -> np.ndarray:
    """Robust accuracy at these radii, at each of which the curve was read."""
    shares = dict(zip(curve["radii"], curve["accuracy"], strict=True))
    return np.array([100 * shares[r] for r in radii])


def published(data: str, labels: str, radii: Sequence[float]) -> np.ndarray:
    """The published robust accuracy at some of its radii, in percent."""
    paper = PUBLISHED_CURVES[data]
    by_radius = dict(zip(paper["radii"], paper[labels], strict=True))
    return np.array([by_radius[radius] for radius in radii])


def advantages(curves: Sequence[Curve], radii: Sequence[float]) -> dict[str, float]:
    """Points of percent that fine labels gain, mean over `radii`, by read-out; and by own-loss PGD."""
    attacked, own_loss = picked(curves, ADAPTIVE), picked(curves, OWN_LOSS)

    def more(each: Mapping[str, Curve], name: str) -> float:
        return float(np.mean(percent(each[name], radii) - percent(each["coarse"], radii)))

    gains = {name: more(attacked, name) for name in attacked if name != "coarse"}
    return gains | {OWN_LOSS: more(own_loss, "fine, probability")}


def mean_curves(pairs: Sequence[LabelPair]) -> list[dict[str, Any]]:
    """The mean curve of several pairs; its band covers the band of each."""
    means = []
    for members in zip(*(pair.curves for pair in pairs), strict=True):
        mean = {"accuracy": np.mean([each["accuracy"] for each in members], axis=0)}
        mean["low"] = np.min([each["low"] for each in members], axis=0)
        mean["high"] = np.max([each["high"] for each in members], axis=0)
        if "each" in members[0]:
            mean["each"] = np.concatenate([each["each"] for each in members])
        means.append({**members[0], **mean})
    return means


def stretch_to_published(data: str, curves: Mapping[str, Curve]) -> tuple[float, float]:
    """One factor on all radii that brings both curves nearest to the published ones, and what is left."""
    low, high = COMPARED_BETWEEN[data]
    radii = [r for r in PUBLISHED_CURVES[data]["radii"] if low <= r <= high]
    factors = np.exp(np.linspace(np.log(0.5), np.log(10.0), 601))
    worst = np.zeros(len(factors))
    for labels, curve in curves.items():
        ours, paper = 100 * np.asarray(curve["accuracy"]), published(data, labels, radii)
        for i, factor in enumerate(factors):
            moved = np.interp(radii, factor * np.asarray(curve["radii"]), ours)
            worst[i] = max(worst[i], float(np.abs(moved - paper).max()))
    best = int(worst.argmin())
    return float(factors[best]), float(worst[best])


def _mean_median(pairs: Sequence[LabelPair], name: str, norm: str = "l2") -> float:
    medians = [picked(pair.curves, ADAPTIVE, norm)[name]["median"] for pair in pairs]
    return float(np.mean(medians))


def _finding(
    data: str, gain: Mapping[str, float], clean: Mapping[str, Any], pairs: Sequence[LabelPair], by_seed: Sequence[float]
) -> str:
    own_loss = gain[OWN_LOSS]
    read = {readout: gain[f"fine, {readout}"] for readout in ("probability", "max", "sum")}
    kept = [readout for readout, points in read.items() if points >= LEAST_ADVANTAGE]
    coarse, fine = (_mean_median(pairs, name) for name in ("coarse", "fine, probability"))
    text = (
        f"Clean coarse accuracy {100 * clean['coarse']['coarse']:.1f}% (class labels) and "
        f"{100 * clean['fine']['coarse']:.1f}% (fine labels, {100 * clean['fine']['fine']:.1f}% of the "
        f"fine classes). Under PGD on each model's own loss fine labels gain {own_loss:+.1f} points; when "
        f"the decision itself is attacked, the same way for both, {read['probability']:+.1f} "
        f"(probability), {read['max']:+.1f} (max), {read['sum']:+.1f} (sum). Median l2 radii: "
        f"{coarse:.3f} and {fine:.3f}. "
    )
    if own_loss - read["probability"] >= LEAST_ADVANTAGE:
        fooled, same_side = (100 * float(np.mean([pair.ends[name] for pair in pairs])) for name in ("fooled", "kept"))
        text += (
            f"So {own_loss - read['probability']:.1f} of the points depend on the attack. The reason: at "
            f"radius {pairs[0].ends['radius']:g} own-loss PGD has moved {fooled:.0f}% of the images "
            f"into another fine class, but {same_side:.0f}% into one on the same side, which "
            "flips nothing. "
        )
    if kept:
        text += f"{LEAST_ADVANTAGE:g} points or more remain for: {', '.join(kept)}. "
    else:
        text += (
            f"Less than {LEAST_ADVANTAGE:g} points remain for every read-out. Perhaps a deep network "
            "tells the classes apart inside whatever its labels, so that averaging in the last layer is "
            "not what limits its radius; that is a guess. "
        )
    if len(pairs) == 1:
        text += "One pair of networks, one training seed."
    else:
        points = ", ".join(f"{value:+.1f}" for value in by_seed)
        text += f"Means over {len(pairs)} pairs of networks; by seed (probability) {points}."
    return f"{data}: {text}"


def _distance(far: Mapping[str, float], stretch: float, left: float) -> str:
    """What separates our networks from the published ones, in a sentence."""
    if max(far.values()) <= CLOSE_TO_PUBLISHED:
        return ""
    meaning = (
        "the shapes and the gap between the labels agree, and what differs is how robust networks "
        "of this width and training are as a whole."
        if left <= CLOSE_TO_PUBLISHED
        else "a common scale does not explain the distance."
    )
    return (
        f" Under PGD on each network's own loss the curves are up to {far['coarse']:.0f} (class labels) and "
        f"{far['fine']:.0f} points (fine labels) from the published ones. One factor of {stretch:.2f} on "
        f"all radii leaves {left:.0f}: {meaning}"
    )


def figures(data: str, curves: Sequence[Curve]) -> list[Figure]:
    """Both protocols in l2 beside the published curves, then l_inf if it was measured."""
    x, linf = Axis("radius", "l2, pixels in [0,1]"), picked(curves, ADAPTIVE, "linf")
    ours = tuple(
        Series(WORDS[each["labels"]], each["radii"], 100 * np.asarray(each["accuracy"]), ROLES[each["labels"]])
        for each in picked(curves, OWN_LOSS).values()
    )
    paper: Mapping[str, Style] = {"coarse": "line+markers", "fine": "dashed"}
    paper_radii = PUBLISHED_CURVES[data]["radii"]
    theirs = tuple(
        Series(f"paper, {WORDS[labels]}", paper_radii, PUBLISHED_CURVES[data][labels], "published", style)
        for labels, style in paper.items()
    )
    drawn = [
        Figure(
            f"{data}-curves",
            f"{data}: robust accuracy, two protocols",
            "Robust accuracy of the coarse decision against the l2 radius. Left: PGD on each network's "
            "own loss, which is how we read the paper, beside the published curves. Right: the same "
            "minimal-norm attack on the decision itself, for the network with class labels and three "
            "read-outs of the one with fine labels.",
            (
                Lines(x, ACCURACY, (*ours, *theirs), "PGD on each network's own loss"),
                Lines(x, ACCURACY, _attacked(picked(curves, ADAPTIVE)), "adaptive"),
            ),
            headline=True,
        )
    ]
    if linf:
        panel = Lines(Axis("radius", "l_inf, pixels in [0,1]"), ACCURACY, _attacked(linf))
        caption = (
            "Robust accuracy of the coarse decision against the l_inf radius, minimal-norm attack on the "
            "decision itself."
        )
        drawn.append(Figure(f"{data}-linf", f"{data}: robust accuracy in l_inf", caption, (panel,)))
    return drawn


def _attacked(curves: Mapping[str, Curve]) -> tuple[Series, ...]:
    """Curves from the radius of each image, out to where next to nothing is left."""
    styles: dict[str, Style] = {"fine, max": "dashed", "fine, sum": "dotted"}
    radii = {name: np.asarray(curve["each"]) for name, curve in curves.items()}
    radii = {name: np.where(each < 0, np.inf, each) for name, each in radii.items()}
    last = max(float(np.quantile(each, 0.99, method="lower")) for each in radii.values())
    grid = np.linspace(0.0, last if 0.0 < last < np.inf else 1.0, 41)
    series = []
    for name, each in radii.items():
        count = (each[None, :] > grid[:, None]).sum(axis=1)
        low, high = wilson_interval(count, len(each), 0.95)
        labels, _, readout = name.partition(", ")
        title = f"{WORDS[labels]}, {readout}" if readout else WORDS[labels]
        style, share = styles.get(name, "solid"), 100 * count / len(each)
        series.append(Series(title, grid, share, ROLES[labels], style, 100 * low, 100 * high))
    return tuple(series)
