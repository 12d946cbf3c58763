"""Robust accuracy of one decision of an image network, under one protocol."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

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
