"""How far the decision of a network is from flipping, image by image; what is done is kept on disk."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.audit.classifier import Classifier
from featavg.progress import Progress
from featavg.robustness.attacks.multi_start_ddn import minimal_radii
from featavg.robustness.curve import Curve, curve_of
from featavg.robustness.exact.budget import Budget
from featavg.robustness.models.decision import Decision
from featavg.robustness.models.model import Model
from featavg.robustness.radii import radii as exact_radii
from featavg.storage.cache import kept_values
from featavg.storage.files import strict_json
from featavg.training.checkpoint import fingerprint

BLOCK = 50
NODES = 200
# The model flips in its own precision, float32 as a rule, and a twin is certified in float64.
SLACK = 1e-4

_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class DecisionRadii:
    """Radii of the decision as it is.

    Attributes:
        attack: the smallest flip found for each image; 0 where the decision is wrong anyway,
            infinite where none was found, which does not mean that there is none.
        certified: a lower bound for each image that the exact twin certifies; None where the network
            has no exact twin, or a flip was found below a bound.
        refuted: images with a flip below their bound; nothing is certified then.
        coarse, fine: the labels of the images.
        unit: of both.
        gradients: per image that the attack was allowed.
    """

    attack: Float[ndarray, " n"]
    certified: Float[ndarray, " n"] | None
    coarse: Int[ndarray, " n"]
    fine: Int[ndarray, " n"] | None
    unit: str
    gradients: int
    refuted: int = 0

    @property
    def median(self) -> float:
        """The median attack radius; infinite if over half of the images were never flipped."""
        return float(np.median(self.attack))

    @property
    def certified_median(self) -> float | None:
        """The median certified radius."""
        return None if self.certified is None else float(np.median(self.certified))

    def by_subclass(self) -> dict[int, float]:
        """The median attack radius of each sub-class (or class)."""
        labels = self.coarse if self.fine is None else self.fine
        return {int(j): float(np.median(self.attack[labels == j])) for j in np.unique(labels)}

    def curve(self) -> Curve:
        """Robust accuracy against the radius."""
        return curve_of(self.attack, self.unit, label="attack")

    def to_json(self) -> object:
        """Plain values; "inf" stands for a radius that was not found."""
        names = ("median", "certified_median")
        summary = {name: getattr(self, name) for name in names} | {
            "by_subclass": self.by_subclass()
        }
        return strict_json(vars(self) | summary)


def decision_radii(
    classifier: Classifier,
    decision: Decision,
    x: ndarray,
    coarse: Int[ndarray, " n"],
    fine: Int[ndarray, " n"] | None,
    gradients: int = 60,
    folder: Path | None = None,
    progress: Progress | None = None,
) -> DecisionRadii:
    """Attack every image, block by block; certify too where the network is small enough.

    Args:
        gradients: per image.
        folder: where finished blocks are kept, so that a killed audit goes on.
    """
    model = classifier.model(decision, x)
    weights = fingerprint(classifier.arrays())
    y = 2 * coarse - 1 if decision.signed else coarse
    attack = []
    for start in range(0, len(x), BLOCK):
        if progress is not None:
            progress(start / len(x), "radii of the decision")
        rows = slice(start, start + BLOCK)
        attack.append(_block(weights, model, x[rows], y[rows], gradients, folder))
    certified = _certified(classifier, decision, x, coarse)
    attacked = np.concatenate(attack)
    refuted = 0 if certified is None else int(np.sum(certified > (1 + SLACK) * attacked))
    if refuted:
        _log.warning("a flip lies below the certified radius of %d images: none is kept", refuted)
        certified = None
    return DecisionRadii(attacked, certified, coarse, fine, model.unit("l2"), gradients, refuted)


def _block(
    weights: str,
    model: Model,
    x: ndarray,
    y: ndarray,
    gradients: int,
    folder: Path | None,
) -> Float[ndarray, " n"]:
    flat = model.rows(x)
    # Weights may stay while code changes, and outputs of these images while weights change: both, exactly.
    decision = model.decision
    words = (weights, decision.readout.name, str(decision.groups), gradients, model.unit("l2"))
    key = fingerprint([flat, y, model.outputs(flat)], *words)
    path = None if folder is None else folder / f"radii-{key}.json"

    def attacked() -> dict[str, list[float | None]]:
        return {"attack": [_plain(r) for r in minimal_radii(model, x, y, "l2", gradients)]}

    radii = kept_values(path, key, attacked)["attack"]
    return np.array([np.inf if r is None else float(r) for r in radii])


def _certified(
    classifier: Classifier, decision: Decision, x: ndarray, coarse: ndarray
) -> Float[ndarray, " n"] | None:
    """Exact radii without the box are lower bounds with it: a box only forbids perturbations."""
    net = classifier.exact
    if net is None or decision.classes != 2 or classifier.kind != "logits":
        return None
    positive = None if decision.groups is None else decision.groups == 1
    if net.outputs == 1:
        positive = None
    # With one output per class all read-outs are the same decision, and `max` is the exact one.
    readout = "max" if net.outputs <= decision.classes else decision.readout.name
    if readout == "probability" and np.any(net.head < 0):
        return None  # its bounds are for networks whose outputs are sums of ReLUs
    flat = x.reshape(len(x), -1).astype(float)
    y = np.where(coarse == 1, 1, -1)
    budget = Budget(nodes=NODES)
    exact = exact_radii(net, flat, y, readout=readout, positive=positive, budget=budget, jobs=1)
    return exact.certified


def _plain(value: float | None) -> float | None:
    return None if value is None or not np.isfinite(value) else float(value)
