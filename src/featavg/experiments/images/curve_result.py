"""Robust-accuracy curves of image networks as a result: numbers, tables and figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.experiments.images.curve_figures import l2_figure, linf_figure
from featavg.figures.figure import Figure
from featavg.figures.result import Result
from featavg.robustness.curve import Curve

ADAPTIVE, OWN_LOSS = "adaptive", "own-loss PGD"


@dataclass(frozen=True, eq=False)
class DecisionCurve:
    """Robust accuracy of one decision under one protocol.

    Attributes:
        protocol: `ADAPTIVE` (a minimal-norm attack on the decision) or `OWN_LOSS`.
        labels, readout: whose decision.
        norm: "l2" or "linf".
        curve: shares at radii, with their intervals.
        radii: the smallest flip of each image to five digits, 0 where it is decided wrongly anyway,
            infinite where none was found; None for PGD, which looks at one radius at a time.
        gradients_per_image: what the attack cost; None for PGD.
        seconds: what it took, whenever that was.
    """

    protocol: str
    labels: str
    readout: str
    norm: str
    curve: Curve
    radii: Float[ndarray, " n"] | None = None
    gradients_per_image: float | None = None
    seconds: float = 0.0

    @property
    def name(self) -> str:
        """Labels and read-out; with coarse labels there is only one read-out."""
        return "coarse" if self.labels == "coarse" else f"fine, {self.readout}"

    @property
    def median(self) -> float:
        """The median radius; NaN for PGD, 1e9 where over half of the images were never flipped."""
        if self.radii is None:
            return float("nan")
        return float(np.median(np.minimum(self.radii, 1e9)))

    def shares(self) -> dict[float, float]:
        """Robust accuracy by radius."""
        return dict(zip(self.curve.radii.tolist(), self.curve.accuracy.tolist(), strict=True))

    def to_json(self) -> dict[str, Any]:
        """Plain values; -1 stands for a radius that was not found."""
        described: dict[str, Any] = {
            "protocol": self.protocol,
            "labels": self.labels,
            "readout": self.readout,
            "norm": self.norm,
            "seconds": round(self.seconds, 1),
        }
        if self.radii is not None:
            described["median"] = self.median
            described["gradients_per_image"] = self.gradients_per_image
            described["each"] = [r if r < np.inf else -1.0 for r in self.radii.tolist()]
        return described | self.curve.to_json()

    @classmethod
    def from_json(cls, described: Mapping[str, Any]) -> DecisionCurve:
        """The inverse of `to_json`."""
        names = ("n", "unit", "label", "confidence", "unresolved")
        values: dict[str, Any] = {name: described[name] for name in names}
        values |= {n: np.array(described[n]) for n in ("radii", "accuracy", "low", "high")}
        curve = Curve(**values)
        each = described.get("each")
        radii = None if each is None else np.where(np.array(each) < 0, np.inf, np.array(each))
        words = {name: described[name] for name in ("protocol", "labels", "readout", "norm")}
        cost, seconds = described.get("gradients_per_image"), described["seconds"]
        return cls(**words, curve=curve, radii=radii, gradients_per_image=cost, seconds=seconds)


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
            return linf_figure(self.data, self.by_name(ADAPTIVE, "linf"))
        return l2_figure(self.data, self.by_name(OWN_LOSS), l2)

    def figures(self) -> tuple[Figure, ...]:
        """One for each norm."""
        linf = self.by_name(ADAPTIVE, "linf")
        first = (self.figure(),)
        return (*first, linf_figure(self.data, linf)) if linf and self.by_name(ADAPTIVE) else first

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
