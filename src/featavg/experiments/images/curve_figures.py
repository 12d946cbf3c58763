"""The pictures of Figure 3 on images."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from featavg.experiments.images.published_curves import PUBLISHED
from featavg.figures.figure import Axis, Figure, Lines, Series
from featavg.measures.accuracy import wilson_interval

if TYPE_CHECKING:
    from featavg.experiments.images.curve_result import DecisionCurve

Curves = Mapping[str, "DecisionCurve"]
ACCURACY = Axis("robust accuracy", "%", range=(0.0, 100.0))
STYLES: dict[str, Any] = {"coarse": "solid", "fine, max": "dashed", "fine, sum": "dotted"}


def l2_figure(data: str, own_loss: Curves, adaptive: Curves) -> Figure:
    """Both protocols side by side, the published curves beside ours."""
    x = Axis("radius", "l2, pixels in [0,1]")
    right = Lines(x, ACCURACY, _attacked(adaptive), "adaptive")
    caption = (
        "Robust accuracy of the coarse decision against the l2 radius: the same minimal-norm attack on "
        "the decision itself, for the network with class labels and the read-outs of the one with fine "
        "labels."
    )
    panels: tuple[Lines, ...] = (right,)
    if own_loss:
        ours = tuple(
            Series(
                "class labels" if each.labels == "coarse" else "fine labels",
                each.curve.radii.tolist(),
                (100 * each.curve.accuracy).tolist(),
                "averaged" if each.labels == "coarse" else "decoupled",
            )
            for each in own_loss.values()
        )
        left = Lines(x, ACCURACY, (*ours, *_paper(data)), "PGD on each network's own loss")
        panels = (left, right)
        caption = (
            "Robust accuracy of the coarse decision against the l2 radius. Left: PGD on each network's "
            "own loss, which is how we read the paper, beside the published curves. Right: the same "
            "minimal-norm attack on the decision itself, for the network with class labels and three "
            "read-outs of the one with fine labels."
        )
    return Figure(
        f"{data}-curves", f"{data}: robust accuracy, two protocols", caption, panels, headline=True
    )


def linf_figure(data: str, adaptive: Curves) -> Figure:
    """The same question in l_inf."""
    return Figure(
        f"{data}-linf",
        f"{data}: robust accuracy in l_inf",
        "Robust accuracy of the coarse decision against the l_inf radius, minimal-norm attack on the "
        "decision itself.",
        (Lines(Axis("radius", "l_inf, pixels in [0,1]"), ACCURACY, _attacked(adaptive)),),
    )


def _paper(data: str) -> tuple[Series, ...]:
    if data not in PUBLISHED:
        return ()
    return tuple(
        Series(
            f"paper, {'class' if labels == 'coarse' else 'fine'} labels",
            PUBLISHED[data]["radii"],
            PUBLISHED[data][labels],
            "published",
            "line+markers" if labels == "coarse" else "dashed",
        )
        for labels in ("coarse", "fine")
    )


def _attacked(curves: Curves) -> tuple[Series, ...]:
    """Curves from the radius of each image, out to where next to nothing is left."""
    radii = {name: _radii(each) for name, each in curves.items()}
    last = max(
        (float(np.quantile(each, 0.99, method="lower")) for each in radii.values()), default=1.0
    )
    grid = np.linspace(0.0, last if 0.0 < last < np.inf else 1.0, 41)
    return tuple(_series(name, each, grid) for name, each in radii.items())


def _radii(curve: DecisionCurve) -> np.ndarray:
    assert curve.radii is not None  # an adaptive attack has a radius for each image
    return curve.radii


def _series(name: str, radii: np.ndarray, grid: np.ndarray) -> Series:
    count = (radii[None, :] > grid[:, None]).sum(axis=1)
    low, high = wilson_interval(count, len(radii), 0.95)
    return Series(
        "class labels" if name == "coarse" else f"fine labels, {name[6:]}",
        grid.tolist(),
        (100 * count / len(radii)).tolist(),
        "averaged" if name == "coarse" else "decoupled",
        STYLES.get(name, "solid"),
        (100 * low).tolist(),
        (100 * high).tolist(),
    )
