"""Robust-accuracy curves of image networks beside the published ones of Figure 3 (middle, right)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from featavg.figures.figure import Axis, Figure, Lines, Series
from featavg.figures.result import Result
from featavg.measures.accuracy import wilson_interval
from featavg.paper.images.decision_curve import ADAPTIVE, OWN_LOSS, DecisionCurve
from featavg.robustness.curve import Curve

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
CLOSE_TO_PUBLISHED = 8.0

Curves = Mapping[str, DecisionCurve]
ACCURACY = Axis("robust accuracy", "%", range=(0.0, 100.0))
STYLES: dict[str, Any] = {"coarse": "solid", "fine, max": "dashed", "fine, sum": "dotted"}


@dataclass(frozen=True, eq=False, repr=False)
class ImageCurves(Result):
    """Robust accuracy of networks with coarse and with fine labels on one data set.

    Returned by `fa.image_curve`, which has an example.
    """

    data: str
    curves: tuple[DecisionCurve, ...]

    def by_name(self, protocol: str, norm: str = "l2") -> dict[str, DecisionCurve]:
        """The curves of one protocol and norm, by labels and read-out."""
        return {c.name: c for c in self.curves if (c.protocol, c.norm) == (protocol, norm)}

    def figure(self) -> Figure:
        """Both protocols in l2 beside the published curves, if there are any; else l_inf."""
        l2 = self.by_name(ADAPTIVE)
        if not l2:
            return _linf_figure(self.data, self.by_name(ADAPTIVE, "linf"))
        return _l2_figure(self.data, self.by_name(OWN_LOSS), l2)

    def figures(self) -> tuple[Figure, ...]:
        """One for each norm."""
        linf = self.by_name(ADAPTIVE, "linf")
        first = (self.figure(),)
        return (*first, _linf_figure(self.data, linf)) if linf and self.by_name(ADAPTIVE) else first

    def tables(self) -> list[tuple[str, list[float], list[tuple[str, str, list[float]]]]]:
        """For each protocol and norm: a title, the radii, and labels, read-out and shares of each row.

        Protocols are read at radii of their own, so each has a table of its own.
        """
        tables: dict[tuple[str, str], list[DecisionCurve]] = {}
        for each in self.curves:
            tables.setdefault((each.norm, each.protocol), []).append(each)
        return [
            (
                f"{protocol}, {members[0].curve.unit}",
                members[0].curve.radii.tolist(),
                [
                    (c.labels, c.readout if c.labels == "fine" else "", c.curve.accuracy.tolist())
                    for c in members
                ],
            )
            for (_, protocol), members in tables.items()
        ]

    def to_json(self) -> dict[str, Any]:
        """Plain values, the radius of each image included."""
        return {"data": self.data, "curves": [each.to_json() for each in self.curves]}

    def summary(self) -> str:
        """The tables as text."""
        lines = [f"Robust accuracy in percent on {self.data}:"]
        for title, radii, rows in self.tables():
            lines += [title, "  radius              " + " ".join(f"{r:6g}" for r in radii)]
            lines += [
                f"  {f'{labels} {readout}':19} " + " ".join(f"{100 * v:6.1f}" for v in shares)
                for labels, readout, shares in rows
            ]
        return "\n".join(lines)


def _l2_figure(data: str, own_loss: Curves, adaptive: Curves) -> Figure:
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


def _linf_figure(data: str, adaptive: Curves) -> Figure:
    """The same question in l_inf."""
    return Figure(
        f"{data}-linf",
        f"{data}: robust accuracy in l_inf",
        "Robust accuracy of the coarse decision against the l_inf radius, minimal-norm attack on the "
        "decision itself.",
        (Lines(Axis("radius", "l_inf, pixels in [0,1]"), ACCURACY, _attacked(adaptive)),),
    )


def _paper(data: str) -> tuple[Series, ...]:
    if data not in PUBLISHED_CURVES:
        return ()
    return tuple(
        Series(
            f"paper, {'class' if labels == 'coarse' else 'fine'} labels",
            PUBLISHED_CURVES[data]["radii"],
            PUBLISHED_CURVES[data][labels],
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


def stretch_to_published(name: str, curves: Mapping[str, Curve]) -> tuple[float, float]:
    """One factor on all of our radii that brings both curves nearest to the published ones.

    Returns:
        the factor, and the largest distance in points that is left with it.
    """
    low, high = COMPARED_BETWEEN[name]
    paper_radii = np.array(PUBLISHED_CURVES[name]["radii"])
    inside = (paper_radii >= low) & (paper_radii <= high)
    factors = np.exp(np.linspace(np.log(0.5), np.log(10.0), 601))
    worst = np.zeros(len(factors))
    for model, curve in curves.items():
        ours, paper = 100 * curve.accuracy, np.array(PUBLISHED_CURVES[name][model])[inside]
        for i, factor in enumerate(factors):
            moved = np.interp(paper_radii[inside], factor * curve.radii, ours)
            worst[i] = max(worst[i], float(np.abs(moved - paper).max()))
    best = int(worst.argmin())
    return float(factors[best]), float(worst[best])


def distance_in_words(far: dict[str, float], stretch: float, left: float) -> str:
    """What separates our networks from the published ones, in a sentence."""
    if max(far.values()) <= CLOSE_TO_PUBLISHED:
        return ""
    return (
        f" Under PGD on each network's own loss the curves are up to {far['coarse']:.0f} (class labels) and "
        f"{far['fine']:.0f} points (fine labels) from the published ones. One factor of {stretch:.2f} on "
        f"all radii leaves {left:.0f}: {_meaning(left)}"
    )


def _meaning(left: float) -> str:
    if left <= CLOSE_TO_PUBLISHED:
        return (
            "the shapes and the gap between the labels agree, and what differs is how robust networks "
            "of this width and training are as a whole."
        )
    return "a common scale does not explain the distance."
