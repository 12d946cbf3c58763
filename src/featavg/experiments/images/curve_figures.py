"""The pictures of Figure 3 on images."""

from __future__ import annotations

from typing import Any

import numpy as np

from featavg.experiments.images.published_curves import PUBLISHED
from featavg.figures.figure import Axis, Figure, Lines, Series
from featavg.measures.accuracy import wilson_interval

Row = dict[str, Any]
ACCURACY = Axis("robust accuracy", "%", range=(0.0, 100.0))
STYLES: dict[str, Any] = {"coarse": "solid", "fine, max": "dashed", "fine, sum": "dotted"}


def label_of(row: Row) -> str:
    """Labels and read-out; with class labels there is only one read-out."""
    return "coarse" if row["model"] == "coarse" else f"fine, {row['readout']}"


def l2_figure(name: str, published: dict[str, Row], adaptive: dict[str, Row]) -> Figure:
    """Both protocols side by side, the published curves beside ours."""
    x = Axis("radius", "l2, pixels in [0,1]")
    paper = tuple(
        Series(
            f"paper, {'class' if m == 'coarse' else 'fine'} labels",
            PUBLISHED[name]["radii"],
            PUBLISHED[name][m],
            "published",
            "line+markers" if m == "coarse" else "dashed",
        )
        for m in ("coarse", "fine")
    )
    ours = tuple(
        Series(
            "class labels" if m == "coarse" else "fine labels",
            published[m]["radii"],
            [100 * share for share in published[m]["accuracy"]],
            "averaged" if m == "coarse" else "decoupled",
        )
        for m in ("coarse", "fine")
    )
    return Figure(
        f"{name}-curves",
        f"{name}: robust accuracy, two protocols",
        "Robust accuracy of the coarse decision against the l2 radius. Left: PGD on each model's own "
        "loss, beside the published curves. Right: the same minimal-norm attack on the decision itself, "
        "for the network with class labels and three read-outs of the one with fine labels.",
        (
            Lines(x, ACCURACY, (*ours, *paper), "as published"),
            Lines(x, ACCURACY, _attacked(list(adaptive.values())), "adaptive"),
        ),
        headline=True,
    )


def linf_figure(name: str, adaptive: list[Row]) -> Figure:
    """The same question in l_inf."""
    rows = [row for row in adaptive if row["norm"] == "linf"]
    return Figure(
        f"{name}-linf",
        f"{name}: robust accuracy in l_inf",
        "Robust accuracy of the coarse decision against the l_inf radius, minimal-norm attack on the "
        "decision itself.",
        (Lines(Axis("radius", "l_inf, pixels in [0,1]"), ACCURACY, _attacked(rows)),),
    )


def _attacked(rows: list[Row]) -> tuple[Series, ...]:
    """Curves from the radius of each image, out to where next to nothing is left."""
    each = [_radii(row) for row in rows]
    last = max((float(np.quantile(radii, 0.99, method="lower")) for radii in each), default=1.0)
    grid = np.linspace(0.0, last if 0.0 < last < np.inf else 1.0, 41)
    return tuple(_series(row, radii, grid) for row, radii in zip(rows, each, strict=True))


def _radii(row: Row) -> np.ndarray:
    radii = np.array(row["each"])
    return np.where(radii < 0, np.inf, radii)


def _series(row: Row, radii: np.ndarray, grid: np.ndarray) -> Series:
    count = (radii[None, :] > grid[:, None]).sum(axis=1)
    low, high = wilson_interval(count, len(radii), 0.95)
    label = label_of(row)
    return Series(
        "class labels" if label == "coarse" else f"fine labels, {label[6:]}",
        grid.tolist(),
        (100 * count / len(radii)).tolist(),
        "averaged" if label == "coarse" else "decoupled",
        STYLES.get(label, "solid"),
        (100 * low).tolist(),
        (100 * high).tolist(),
    )
