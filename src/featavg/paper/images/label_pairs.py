"""Pairs of networks that differ in their labels only: trained, attacked, compared (torch)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.data.images import ImageTask
from featavg.paper.images.curve_result import ImageCurves
from featavg.paper.images.curves import CurveSettings, PgdEnds, image_curve, pgd_ends
from featavg.paper.images.decision_curve import ADAPTIVE, OWN_LOSS, DecisionCurve
from featavg.progress import Progress, part


@dataclass(frozen=True, eq=False)
class LabelPair:
    """Two networks of one seed, one with coarse and one with fine labels.

    Attributes:
        curves: of both, under both protocols.
        about: how each was trained, by labels.
        ends: where own-loss PGD on the fine one ends.
    """

    seed: int
    curves: ImageCurves
    about: dict[str, dict[str, Any]]
    ends: PgdEnds

    @property
    def seconds(self) -> float:
        """What training and attacks took, whenever that was."""
        trained = sum(float(about["seconds"] or 0.0) for about in self.about.values())
        return trained + sum(curve.seconds for curve in self.curves.curves)


def train_pair(
    preset: str,
    task: ImageTask,
    seed: int,
    folder: Path,
    settings: CurveSettings,
    progress: Progress | None = None,
) -> LabelPair:
    """Train both networks of a preset and attack them; what is finished is kept in `folder`."""
    from featavg.training.torch.image_network import train_images
    from featavg.training.torch.recipe import image_preset, network_name

    recipe = replace(image_preset(preset).recipe, seed=seed)
    networks = {
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
    kept = folder / network_name(preset, "curves", seed)
    curves = image_curve(networks, task, settings, kept, part(progress, 0.6, 0.95))
    part(progress, 0.95, 1.0)(0.0, "where own-loss PGD ends")
    ends = pgd_ends(networks["fine"].net, task, settings)
    return LabelPair(seed, curves, {name: net.about for name, net in networks.items()}, ends)


def mean_curves(pairs: Sequence[LabelPair]) -> ImageCurves:
    """The mean curve of several pairs; its band covers the band of each."""
    columns = zip(*(pair.curves.curves for pair in pairs), strict=True)
    return ImageCurves(pairs[0].curves.data, tuple(_mean(members) for members in columns))


def _mean(members: Sequence[DecisionCurve]) -> DecisionCurve:
    first = members[0]
    curve = replace(
        first.curve,
        accuracy=np.mean([each.curve.accuracy for each in members], axis=0),
        low=np.min([each.curve.low for each in members], axis=0),
        high=np.max([each.curve.high for each in members], axis=0),
    )
    radii = [each.radii for each in members if each.radii is not None]
    return replace(first, curve=curve, radii=np.concatenate(radii) if radii else None)


def advantages(curves: ImageCurves, radii: Sequence[float]) -> dict[str, float]:
    """Points of percent that fine labels gain, mean over `radii`, by read-out; and by own-loss PGD."""
    l2, pgd = curves.by_name(ADAPTIVE), curves.by_name(OWN_LOSS)
    gains = {
        name: float(np.mean(percent(curve, radii) - percent(l2["coarse"], radii)))
        for name, curve in l2.items()
        if name != "coarse"
    }
    fine = pgd["fine, probability"]
    own_loss = float(np.mean(percent(fine, radii) - percent(pgd["coarse"], radii)))
    return gains | {OWN_LOSS: own_loss}


def percent(curve: DecisionCurve, radii: Sequence[float]) -> Float[ndarray, " q"]:
    """Robust accuracy at these radii, at each of which the curve was read."""
    shares = curve.shares()
    return np.array([100 * shares[r] for r in radii])
