"""The pictures of an audit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from featavg.audit.gradients import FEATURES, VALID_NULL, LayerGradient
from featavg.audit.radii import DecisionRadii
from featavg.figures.figure import Axis, Bar, Bars, Figure, Heatmap, Lines, Rule, Series
from featavg.figures.marks import Role, Style
from featavg.measures.accuracy import Accuracy, wilson_interval


def gradient_figure(
    layer: LayerGradient, groups: Int[ndarray, " k"], names: Sequence[str]
) -> Figure:
    """The heat map of sub-class directions at one layer, the sub-classes of a class side by side."""
    order = np.argsort(groups, kind="stable")
    breaks = tuple(int(b) for b in np.flatnonzero(np.diff(groups[order])) + 1)
    matrix = np.nan_to_num(layer.shared.matrix)[np.ix_(order, order)]
    ordered = tuple(names[j] for j in order)
    heat = Heatmap(
        np.clip(matrix, -1.5, 1.5),
        ordered,
        ordered,
        label="shared gradient",
        limit=1.0,
        row_breaks=breaks,
        column_breaks=breaks,
    )
    return Figure(
        "directions",
        "Which sub-classes are sensitive to the same direction",
        f"Shared gradient of every pair of sub-classes at the layer '{layer.layer}': 1 inside a "
        "block is one direction for a whole class, 0 are directions with nothing in common.",
        (heat,),
    )


def layers_figure(layers: Sequence[LayerGradient]) -> Figure:
    """A and its null, layer by layer."""
    shared = [layer.shared for layer in layers]

    def bar(name: str, role: Role, values: list[float], low: list[float], high: list[float]) -> Bar:
        finite = [np.nan_to_num(v).tolist() for v in (values, low, high)]
        return Bar(name, finite[0], role, finite[1], finite[2])

    bars = (
        bar(
            "A",
            "averaged",
            [s.value for s in shared],
            [s.low for s in shared],
            [s.high for s in shared],
        ),
        bar(
            "permutation null",
            "neutral",
            [s.null for s in shared],
            [s.null_low for s in shared],
            [s.null_high for s in shared],
        ),
    )
    return Figure(
        "layers",
        "Where the shared gradient means something",
        "A (95% interval) and its permutation null (5% to 95%) at each layer. A layer counts where the "
        f"null exceeds {VALID_NULL:g}; the first such layer from the input on is reported. Intervals "
        f"that leave the picture are cut{_example(layers)}.",
        (Bars(_ticks(layers), bars, Axis("shared gradient", range=(-0.5, 1.5))),),
    )


def _example(layers: Sequence[LayerGradient]) -> str:
    """What the short name of a layer of this network means."""
    named = zip(_ticks(layers), layers, strict=True)
    return next((f"; {tick} is {each.layer}" for tick, each in named if "/" in tick), "")


def _ticks(layers: Sequence[LayerGradient]) -> tuple[str, ...]:
    """Names that fit under a bar: 'activation 5 of 19' is 5/19."""
    short = {FEATURES: "features"}
    names = [short.get(layer.layer, layer.layer) for layer in layers]
    return tuple(name.removeprefix("activation ").replace(" of ", "/") for name in names)


def radii_figure(radii: DecisionRadii, twin: DecisionRadii | None) -> Figure:
    """Robust accuracy of the decision as it is, and of the twin's."""
    networks: list[tuple[str, Role, DecisionRadii]] = [("this network", "neutral", radii)]
    if twin is not None:
        networks.append(("twin with fine labels", "decoupled", twin))
    finite = np.concatenate([r.attack[np.isfinite(r.attack)] for _, _, r in networks])
    # Where no attack flipped anything, the curve is a flat line over a unit of the radius.
    longest = float(np.quantile(finite, 0.99)) if len(finite) else 0.0
    grid = np.linspace(0.0, longest or 1.0, 41)
    lines = [_series(name, role, "solid", r.attack, grid) for name, role, r in networks]
    lines += [
        _series(f"{name}, certified", role, "dashed", r.certified, grid)
        for name, role, r in networks
        if r.certified is not None
    ]
    panel = Lines(
        Axis("radius", radii.unit), Axis("robust accuracy", "%", range=(0, 100)), tuple(lines)
    )
    return Figure(
        "radii",
        "How far the decision is from flipping",
        f"Share of {len(radii.attack)} images whose decision no perturbation found within the "
        f"radius changes, by an attack of {radii.gradients} gradients per image: an upper bound.",
        (panel,),
    )


def _series(name: str, role: Role, style: Style, radii: np.ndarray, grid: np.ndarray) -> Series:
    count = (radii[None, :] > grid[:, None]).sum(axis=1)
    low, high = wilson_interval(count, len(radii), 0.95)
    percent = [(100 * values).tolist() for values in (count / len(radii), low, high)]
    return Series(name, grid.tolist(), percent[0], role, style, percent[1], percent[2])


def subclass_radii_figure(
    names: Sequence[str], radii: DecisionRadii, twin: DecisionRadii | None
) -> Figure:
    """The median radius of each sub-class."""
    medians = radii.by_subclass()
    values = [medians[j] if np.isfinite(medians[j]) else 0.0 for j in medians]
    bars = [Bar("this network", values, "neutral")]
    if twin is not None:
        other = twin.by_subclass()
        finite = [other[j] if np.isfinite(other[j]) else 0.0 for j in medians]
        bars.append(Bar("twin with fine labels", finite, "decoupled"))
    return Figure(
        "radii-by-subclass",
        "The median radius of each sub-class",
        f"Median of the smallest flip found ({radii.unit}); 0 where most images are decided wrongly anyway.",
        (Bars(tuple(names[j] for j in medians), tuple(bars), Axis("median radius")),),
    )


def accuracy_figure(
    names: Sequence[str], by_subclass: Sequence[Accuracy], overall: Accuracy
) -> Figure:
    """The accuracy of each sub-class, with its interval."""

    def percent(field: str) -> list[float]:
        return [100 * float(getattr(each, field)) for each in by_subclass]

    values, low, high = (percent(field) for field in ("value", "low", "high"))
    bar = Bar("accuracy", values, "neutral", low, high)
    rules = (Rule(100 * overall.value, label="all images"),)
    panel = Bars(tuple(names), (bar,), Axis("accuracy", "%"), rules=rules)
    return Figure(
        "accuracy",
        "Accuracy of the coarse decision in each sub-class",
        "Share of images whose class is decided rightly, with its 95% Wilson interval.",
        (panel,),
    )
