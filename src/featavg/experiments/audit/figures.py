"""The pictures of an audit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from featavg.experiments.audit.gradients import VALID_NULL
from featavg.figures.figure import Axis, Bar, Bars, Figure, Heatmap, Lines, Rule, Series
from featavg.figures.marks import Role, Style
from featavg.measures.accuracy import Accuracy, wilson_interval

if TYPE_CHECKING:
    from featavg.experiments.audit.radii import DecisionRadii
    from featavg.experiments.audit.result import Audit


def gradient_figure(audit: Audit) -> Figure:
    """The heat map of sub-class directions at the reported layer."""
    assert audit.layer is not None
    order = np.argsort(audit.groups, kind="stable")
    breaks = tuple(int(b) for b in np.flatnonzero(np.diff(audit.groups[order])) + 1)
    matrix = np.nan_to_num(audit.layer.shared.matrix)[np.ix_(order, order)]
    names = tuple(audit.names[j] for j in order)
    heat = Heatmap(
        np.clip(matrix, -1.5, 1.5),
        names,
        names,
        label="shared gradient",
        limit=1.0,
        row_breaks=breaks,
        column_breaks=breaks,
    )
    return Figure(
        "directions",
        "Which sub-classes are sensitive to the same direction",
        f"Shared gradient of every pair of sub-classes at the layer '{audit.layer.layer}': 1 inside a "
        "block is one direction for a whole class, 0 are directions with nothing in common.",
        (heat,),
    )


def layers_figure(audit: Audit) -> Figure:
    """A and its null, layer by layer."""
    layers = tuple(layer.layer for layer in audit.layers)
    shared = [layer.shared for layer in audit.layers]

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
        f"null exceeds {VALID_NULL:g}; the first such layer from the input on is reported.",
        (Bars(layers, bars, Axis("shared gradient")),),
    )


def radii_figure(audit: Audit) -> Figure:
    """Robust accuracy of the decision as it is, and of the twin's."""
    shown: list[tuple[str, Role, DecisionRadii]] = [("this network", "averaged", audit.radii)]
    if audit.twin is not None:
        shown.append(("twin with fine labels", "decoupled", audit.twin.radii))
    finite = np.concatenate([r.attack[np.isfinite(r.attack)] for _, _, r in shown])
    grid = np.linspace(0.0, float(np.quantile(finite, 0.99)) or 1.0, 41)
    lines = [_series(name, role, "solid", r.attack, grid) for name, role, r in shown]
    lines += [
        _series(f"{name}, certified", role, "dashed", r.certified, grid)
        for name, role, r in shown
        if r.certified is not None
    ]
    panel = Lines(
        Axis("radius", audit.radii.unit), Axis("robust accuracy", "%", range=(0, 100)), tuple(lines)
    )
    return Figure(
        "radii",
        "How far the decision is from flipping",
        f"Share of {len(audit.radii.attack)} images whose decision no perturbation found within the "
        f"radius changes, by an attack of {audit.radii.gradients} gradients per image: an upper bound.",
        (panel,),
    )


def _series(name: str, role: Role, style: Style, radii: np.ndarray, grid: np.ndarray) -> Series:
    count = (radii[None, :] > grid[:, None]).sum(axis=1)
    low, high = wilson_interval(count, len(radii), 0.95)
    percent = [(100 * values).tolist() for values in (count / len(radii), low, high)]
    return Series(name, grid.tolist(), percent[0], role, style, percent[1], percent[2])


def subclass_radii_figure(audit: Audit) -> Figure:
    """The median radius of each sub-class."""
    medians = audit.radii.by_subclass()
    values = [medians[j] if np.isfinite(medians[j]) else 0.0 for j in medians]
    names = tuple(audit.names[j] for j in medians)
    bars = [Bar("this network", values, "averaged")]
    if audit.twin is not None:
        other = audit.twin.radii.by_subclass()
        finite = [other[j] if np.isfinite(other[j]) else 0.0 for j in medians]
        bars.append(Bar("twin with fine labels", finite, "decoupled"))
    return Figure(
        "radii-by-subclass",
        "The median radius of each sub-class",
        "Median of the smallest flip found; 0 where most images are decided wrongly anyway.",
        (Bars(names, tuple(bars), Axis("median radius", audit.radii.unit)),),
    )


def accuracy_figure(audit: Audit) -> Figure:
    """The accuracy of each sub-class, with its interval."""

    def percent(accuracies: tuple[Accuracy, ...], field: str) -> list[float]:
        return [100 * float(getattr(each, field)) for each in accuracies]

    parts = (percent(audit.by_subclass, field) for field in ("value", "low", "high"))
    values, low, high = parts
    bar = Bar("accuracy", values, "averaged", low, high)
    rules = (Rule(100 * audit.accuracy.value, label="all images"),)
    panel = Bars(audit.names, (bar,), Axis("accuracy", "%"), rules=rules)
    return Figure(
        "accuracy",
        "Accuracy of the coarse decision in each sub-class",
        "Share of images whose class is decided rightly, with its 95% Wilson interval.",
        (panel,),
    )
