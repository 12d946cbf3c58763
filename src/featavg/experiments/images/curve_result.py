"""Robust-accuracy curves of image networks as a result: numbers, tables and the pictures of Figure 3."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from featavg.experiments.images.decision_curve import ADAPTIVE, OWN_LOSS, DecisionCurve
from featavg.experiments.images.published_curves import PUBLISHED_CURVES
from featavg.figures.figure import Axis, Figure, Lines, Series
from featavg.figures.result import Result
from featavg.measures.accuracy import wilson_interval

Curves = Mapping[str, DecisionCurve]
ACCURACY = Axis("robust accuracy", "%", range=(0.0, 100.0))
STYLES: dict[str, Any] = {"coarse": "solid", "fine, max": "dashed", "fine, sum": "dotted"}


@dataclass(frozen=True, eq=False, repr=False)
class ImageCurves(Result):
    """Robust accuracy of networks with coarse and with fine labels on one data set."""

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
