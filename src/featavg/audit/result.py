"""The audit of a classifier: everything that was found, as numbers, figures, text and a page."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from html import escape
from typing import Any

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from featavg.audit.discovery import Discovery
from featavg.audit.figures import (
    accuracy_figure,
    gradient_figure,
    layers_figure,
    radii_figure,
    subclass_radii_figure,
)
from featavg.audit.gain import FeatureGain
from featavg.audit.gradients import LayerGradient
from featavg.audit.probe import SubclassProbe
from featavg.audit.radii import DecisionRadii
from featavg.audit.verdict import RULE, AuditVerdict, Judgement
from featavg.figures.figure import Figure, Result
from featavg.measures.accuracy import Accuracy
from featavg.measures.collapse import SubclassCollapse
from featavg.notebook import table
from featavg.storage.files import strict_json


@dataclass(frozen=True, eq=False, repr=False)
class Audit(Result):
    """What an audit found.

    Attributes:
        about: what was audited: model, images, bounds, read-out, versions.
        finer: whether the network has more outputs than classes.
        groups: the class of each sub-class.
        names: of the sub-classes.
        accuracy: of the decision, over all images.
        by_class, by_subclass: the same for each.
        layers: the shared gradient at each layer, from the input to the head.
        layer: the one that is reported; None if it means something nowhere.
        collapse: of the features before the last layer; None if there is no such layer.
        probes: whether the sub-classes of each class can be told apart at all.
        predicted, measured: the gain of finer labels in feature space; None without features.
        radii: of the decision as it is.
        discovery: how sub-classes were found, if they were not given.
        judgement: the verdict and its reason.
        remedies: what would help, each a sentence.
        twin: the audit of a twin with fine labels, if one was given.
        seconds: what it took.
        images: which of the given images were audited.

    Returned by `fa.audit`, which has an example.
    """

    about: Mapping[str, Any]
    finer: bool
    groups: Int[ndarray, " k"]
    names: tuple[str, ...]
    accuracy: Accuracy
    by_class: tuple[Accuracy, ...]
    by_subclass: tuple[Accuracy, ...]
    layers: tuple[LayerGradient, ...]
    layer: LayerGradient | None
    collapse: SubclassCollapse | None
    probes: Mapping[int, SubclassProbe]
    predicted: FeatureGain | None
    measured: FeatureGain | None
    radii: DecisionRadii
    discovery: Discovery | None
    judgement: Judgement
    remedies: tuple[str, ...] = ()
    twin: Audit | None = None
    seconds: float = 0.0
    images: Int[ndarray, " n"] | None = None

    @property
    def verdict(self) -> AuditVerdict:
        """Averages, decoupled, mixed, or cannot tell."""
        return self.judgement.verdict

    @property
    def shared_gradient(self) -> float:
        """A at the reported layer; NaN if there is none."""
        return float("nan") if self.layer is None else self.layer.shared.value

    @property
    def worst_subclass(self) -> tuple[str, Accuracy]:
        """The sub-class that is decided worst."""
        worst = int(np.argmin([each.value for each in self.by_subclass]))
        return self.names[worst], self.by_subclass[worst]

    @property
    def worst_radius(self) -> tuple[str, float]:
        """The sub-class with the smallest median radius, and that radius."""
        medians = self.radii.by_subclass()
        worst = min(medians, key=lambda j: medians[j])
        return self.names[worst], medians[worst]

    def figure(self) -> Figure:
        """The heat map of sub-class directions, or the radii where it means nothing."""
        if self.layer is None:
            return radii_figure(self.radii, None if self.twin is None else self.twin.radii)
        return gradient_figure(self.layer, self.groups, self.names)

    def figures(self) -> tuple[Figure, ...]:
        """Everything that can be drawn."""
        twin = None if self.twin is None else self.twin.radii
        heat = () if self.layer is None else (gradient_figure(self.layer, self.groups, self.names),)
        return (
            *heat,
            *((layers_figure(self.layers),) if self.layers else ()),
            radii_figure(self.radii, twin),
            subclass_radii_figure(self.names, self.radii, twin),
            accuracy_figure(self.names, self.by_subclass, self.accuracy),
        )

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        names = {"judgement": "verdict", "predicted": "predicted_gain", "measured": "measured_gain"}
        own = {"layer", "layers", "radii", "twin"}
        rest = [item.name for item in fields(self) if item.name not in own]
        return {names.get(name, name): strict_json(getattr(self, name)) for name in rest} | {
            "layer": None if self.layer is None else self.layer.layer,
            "layers": [layer.to_json() for layer in self.layers],
            "radii": self.radii.to_json(),
            "twin": None if self.twin is None else self.twin.to_json(),
        }

    def rows(self) -> list[tuple[str, str]]:
        """The findings as names and a few words each: what a number means, and which way is good."""
        name, accuracy = self.worst_subclass
        worst, radius = self.worst_radius
        rows = [
            ("verdict", self.verdict.value),
            ("why", self.judgement.reason),
            ("shared gradient", self._shared_text()),
            ("class by class", self._classes_text()),
            ("accuracy", f"{self.accuracy}: images whose class is decided rightly"),
            ("worst sub-class", f"{name}: {accuracy}"),
        ]
        rows += [("sub-class probe", self._probes_text())] if self.probes else []
        rows += [("predicted gain", self.predicted.words(self.finer))] if self.predicted else []
        rows += [("measured gain", self.measured.words(self.finer))] if self.measured else []
        rows.append(("median radius", self._radius_text()))
        rows.append(("worst radius", f"{_number(radius)} ({worst}), the smallest median"))
        if self.discovery is not None:
            how = "given" if self.discovery.given else "the most stable"
            text = f"k-means, {self.discovery.clusters_per_class} per class ({how})"
            rows.append(("sub-classes", f"discovered in {self.discovery.where}: {text}"))
        return rows

    def details(self) -> list[tuple[str, str]]:
        """What only those need who check the findings."""
        rows = []
        if self.layer is not None:
            null = f"{self.layer.shared.null:.2f}; near 1 the shared gradient means something"
            rows.append(("permutation null", null))
        if self.collapse is not None:
            c = self.collapse
            rows += [
                (
                    "same-class cosine",
                    f"{c.same_class_cosine:.2f} between sub-class means of a class, at 1 they lie in one "
                    f"place (other classes {c.other_class_cosine:.2f})",
                ),
                (
                    "collapse (NC1)",
                    f"{c.classes.nc1:.3g} of classes, {c.subclasses.nc1:.3g} of sub-classes; 0 is full "
                    f"collapse",
                ),
            ]
        return rows

    def _shared_text(self) -> str:
        if self.layer is None:
            return "not defined at any layer"
        a = self.layer.shared
        return (
            f"{a.value:.2f} [{a.low:.2f}, {a.high:.2f}] at {self.layer.layer}; 1 is one direction for a "
            f"class, 0 one for each sub-class, which is harder to attack"
        )

    def _classes_text(self) -> str:
        if self.layer is None:
            return "not defined"
        verdicts = self.judgement.by_class
        return "; ".join(
            f"class {each.label}: {each.value:.2f} [{each.low:.2f}, {each.high:.2f}]"
            + (f", {verdicts[each.label].value}" if each.label in verdicts else "")
            for each in self.layer.shared.by_class
        )

    def _probes_text(self) -> str:
        each = "; ".join(f"class {c}: {p} ({p.where})" for c, p in self.probes.items())
        return f"{each}. Near chance the sub-classes may not exist"

    def _radius_text(self) -> str:
        text = f"{_number(self.radii.median)} {self.radii.unit}: half of the images flip within "
        text += f"it, so larger is better (attack of {self.radii.gradients} gradients)"
        if self.radii.refuted:
            text += f"; not certified: flips of {self.radii.refuted} images lie below the exact twin's bounds"
        certified = self.radii.certified_median
        return text if certified is None else f"{text}; certified {certified:.4g}"

    def comparison(self) -> str:
        """What fine labels did, said only where a twin was audited beside."""
        if self.twin is None:
            return ""
        mine, other = self.radii.attack, self.twin.radii.attack
        both = (mine > 0) & (other > 0)
        share = float(np.mean(other[both] > mine[both])) if both.any() else float("nan")
        return (
            f"The twin's median radius is {_number(self.twin.radii.median)} against "
            f"{_number(self.radii.median)}; of the images that both decide rightly the twin is farther "
            f"from its boundary on {100 * share:.0f}%. Shared gradient {self.twin.shared_gradient:.2f} "
            f"against {self.shared_gradient:.2f}; accuracy {self.twin.accuracy} against {self.accuracy}."
        )

    def _repr_html_(self) -> str:
        rows = dict(self.rows())
        if self.twin is not None:
            rows["twin"] = self.comparison()
        title = f"Audit of {self.about['model']} on {self.about['images']} images"
        told = "".join(f"<li>{with_code(line)}</li>" for line in self.remedies)
        return (
            f"{table(title, rows)}{self.figure()._repr_html_()}<ul>{told}</ul><p>{escape(RULE)}</p>"
        )

    def summary(self) -> str:
        """The findings as text."""
        lines = [f"Audit of {self.about['model']} on {self.about['images']} images"]
        lines += [f"  {name:18} {text}" for name, text in (*self.rows(), *self.details())]
        if self.twin is not None:
            lines.append(f"  {'twin':18} {self.comparison()}")
        lines += [f"  - {line}" for line in self.remedies]
        return "\n".join([*lines, f"  {RULE}"])


def with_code(line: str) -> str:
    """Plain text, safe for a page, with `names` set as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(line))


def _number(radius: float) -> str:
    return f"{radius:.4g}" if np.isfinite(radius) else "not found"
