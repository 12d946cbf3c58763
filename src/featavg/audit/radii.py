"""How far the decision of a network is from flipping, image by image; what is done is kept on disk."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.audit.classifier import Subject
from featavg.audit.inputs import balanced
from featavg.audit.parts import Audited, Part, Row, number
from featavg.figures.figure import Axis, Bar, Bars, Figure, Lines, Series
from featavg.figures.marks import Role, Style
from featavg.measures.accuracy import wilson_interval
from featavg.progress import Progress
from featavg.robustness.attacks.multi_start_ddn import minimal_radii
from featavg.robustness.curve import Curve, curve_of
from featavg.robustness.exact.budget import Budget
from featavg.robustness.models.model import Model
from featavg.robustness.radii import radii as exact_radii
from featavg.storage.cache import fingerprint, kept_values
from featavg.storage.files import strict_json

BLOCK = 50
NODES = 200
# The model flips in its own precision, float32 as a rule, and a twin is certified in float64.
SLACK = 1e-4

_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class DecisionRadii(Part):
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
    fine: Int[ndarray, " n"]
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
        """The median attack radius of each sub-class."""
        return {int(j): float(np.median(self.attack[self.fine == j])) for j in np.unique(self.fine)}

    def curve(self) -> Curve:
        """Robust accuracy against the radius."""
        return curve_of(self.attack, self.unit, label="attack")

    def rows(self, name: str, audit: Audited) -> list[Row]:
        """The median, what is certified, and the worst sub-class."""
        text = f"{number(self.median)} {self.unit}: half of the images flip within "
        text += f"it, so larger is better (attack of {self.gradients} gradients)"
        if self.refuted:
            text += f"; not certified: flips of {self.refuted} images lie below the exact twin's bounds"
        if self.certified_median is not None:
            text += f"; certified {self.certified_median:.4g}"
        worst, radius = audit.worst_radius
        smallest = f"{number(radius)} ({worst}), the smallest median of a sub-class: it flips most easily"
        return [Row("median radius", text), Row("worst radius", smallest)]

    def figures(self, audit: Audited) -> list[Figure]:
        """Robust accuracy against the radius, and the median of each sub-class; the twin's beside."""
        networks: list[tuple[str, Role, DecisionRadii]] = [("this network", "neutral", self)]
        if audit.twin is not None:
            networks.append(("twin with fine labels", "decoupled", audit.twin.radii))
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
        bars = []
        for name, role, r in networks:
            medians = np.array([r.by_subclass()[j] for j in self.by_subclass()])
            bars.append(Bar(name, np.where(np.isfinite(medians), medians, 0.0).tolist(), role))
        percent = Axis("robust accuracy", "%", range=(0, 100))
        labels = tuple(audit.names[j] for j in self.by_subclass())
        return [
            Figure(
                "radii",
                "How far the decision is from flipping",
                f"Share of {len(self.attack)} images whose decision no perturbation found within the "
                f"radius changes, by an attack of {self.gradients} gradients per image: an upper bound.",
                (Lines(Axis("radius", self.unit), percent, tuple(lines)),),
            ),
            Figure(
                "radii-by-subclass",
                "The median radius of each sub-class",
                f"Median of the smallest flip found ({self.unit}); 0 where most images are decided wrongly anyway.",
                (Bars(labels, tuple(bars), Axis("median radius")),),
            ),
        ]

    def entries(self, name: str) -> dict[str, object]:
        """Plain values; "inf" stands for a radius that was not found."""
        medians = {"median": self.median, "certified_median": self.certified_median}
        return {name: strict_json(vars(self) | medians | {"by_subclass": self.by_subclass()})}


def _series(name: str, role: Role, style: Style, radii: ndarray, grid: ndarray) -> Series:
    count = (radii[None, :] > grid[:, None]).sum(axis=1)
    low, high = wilson_interval(count, len(radii), 0.95)
    percent = [(100 * values).tolist() for values in (count / len(radii), low, high)]
    return Series(name, grid.tolist(), percent[0], role, style, percent[1], percent[2])


def decision_radii(subject: Subject, progress: Progress) -> DecisionRadii:
    """Attack images of every sub-class, block by block; certify too where the network is small enough."""
    data, decision = subject.data, subject.decision
    fine, _ = data.divided
    rows = balanced(fine, subject.radii, subject.seed)
    x, coarse = data.x[rows], data.coarse[rows]
    model = subject.network.model(decision, x)
    weights = fingerprint(subject.network.arrays())
    y = 2 * coarse - 1 if decision.signed else coarse
    attack = np.zeros(len(x))
    for start in range(0, len(x), BLOCK):
        progress(start / len(x), "radii of the decision")
        block = slice(start, start + BLOCK)
        attack[block] = _block(subject, weights, model, x[block], y[block])
    certified = _certified(subject, x, coarse)
    refuted = 0 if certified is None else int(np.sum(certified > (1 + SLACK) * attack))
    if refuted:
        _log.warning("a flip lies below the certified radius of %d images: none is kept", refuted)
        certified = None
    unit = model.unit("l2")
    return DecisionRadii(attack, certified, coarse, fine[rows], unit, subject.gradients, refuted)


def _block(subject: Subject, weights: str, model: Model, x: ndarray, y: ndarray) -> Float[ndarray, " n"]:
    flat, decision, gradients = model.rows(x), model.decision, subject.gradients
    # Weights may stay while code changes, and outputs of these images while weights change: both, exactly.
    words = (weights, decision.readout.name, str(decision.groups), gradients, model.unit("l2"))
    key = fingerprint([flat, y, model.outputs(flat)], *words)

    def attacked() -> dict[str, list[float | None]]:
        found = minimal_radii(model, x, y, "l2", gradients)
        return {"attack": [float(r) if np.isfinite(r) else None for r in found]}

    radii = kept_values(subject.kept(f"radii-{key}"), key, attacked)["attack"]
    return np.array([np.inf if r is None else float(r) for r in radii])


def _certified(subject: Subject, x: ndarray, coarse: Int[ndarray, " n"]) -> Float[ndarray, " n"] | None:
    """Exact radii without the box are lower bounds with it: a box only forbids perturbations."""
    net, decision = subject.network.exact, subject.decision
    if net is None or decision.classes != 2 or subject.network.kind != "logits":
        return None
    positive = None if decision.groups is None or net.outputs == 1 else decision.groups == 1
    # With one output per class all read-outs are the same decision, and `max` is the exact one.
    readout = "max" if net.outputs <= decision.classes else decision.readout.name
    if readout == "probability" and np.any(net.head < 0):
        return None  # its bounds are for networks whose outputs are sums of ReLUs
    flat = x.reshape(len(x), -1).astype(float)
    y = np.where(coarse == 1, 1, -1)
    budget = Budget(nodes=NODES)
    exact = exact_radii(net, flat, y, readout=readout, positive=positive, budget=budget, jobs=1)
    return exact.certified
