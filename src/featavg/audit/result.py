"""The audit of a classifier: everything that was found, as numbers, figures, text, JSON and one page."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from featavg.audit.gain import FeatureGain
from featavg.audit.gradients import LayerGradient, Sharing
from featavg.audit.label_budget import LabelBudget
from featavg.audit.parts import Part, Row, number
from featavg.audit.radii import DecisionRadii
from featavg.audit.subclasses import Discovery, FeatureCollapse, Probes
from featavg.audit.verdict import AuditVerdict, Judgement
from featavg.boundary.public import public
from featavg.figures.figure import Axis, Bar, Bars, Figure, Result, Rule
from featavg.figures.html import environment, look, picture
from featavg.figures.matplotlib_figure import save
from featavg.figures.typeset import table
from featavg.measures.accuracy import Accuracy
from featavg.storage.files import strict_json, write


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
        judgement: the verdict and its reason.
        sharing: the shared gradient at each layer, and the layer that is reported.
        probes: whether the sub-classes of each class can be distinguished at all.
        predicted, measured: the gain of finer labels in feature space; None without features.
        competition: the gain of neurons that compete, with class labels alone; None without features.
        budget: how many fine labels are enough in feature space; None without features.
        radii: of the decision as it is.
        discovery: how sub-classes were found, if they were not given.
        collapse: of the features before the last layer; None if there is no such layer.
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
    judgement: Judgement
    sharing: Sharing
    probes: Probes
    predicted: FeatureGain | None
    measured: FeatureGain | None
    competition: FeatureGain | None
    budget: LabelBudget | None
    radii: DecisionRadii
    discovery: Discovery | None
    collapse: FeatureCollapse | None
    images: Int[ndarray, " n"]
    remedies: tuple[str, ...] = ()
    twin: Audit | None = None
    seconds: float = 0.0

    @property
    def verdict(self) -> AuditVerdict:
        """Averages, decoupled, mixed, or cannot tell."""
        return self.judgement.verdict

    @property
    def layers(self) -> tuple[LayerGradient, ...]:
        """The shared gradient at each layer, from the input to the head."""
        return self.sharing.layers

    @property
    def layer(self) -> LayerGradient | None:
        """The layer that is reported; None if the shared gradient means something nowhere."""
        return self.sharing.reported

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
        return self.figures()[0] if self.layer is not None else self.radii.figures(self)[0]

    def figures(self) -> tuple[Figure, ...]:
        """Everything that can be drawn."""
        drawn = [figure for _, part in self._parts() for figure in part.figures(self)]
        return (*drawn, self._accuracy_figure())

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        parts = dict(self._parts())
        names = {name: f"{name}_gain" for name in ("predicted", "measured", "competition")}
        rest = [item.name for item in fields(self) if item.name not in (*parts, "twin")]
        plain = {names.get(name, name): strict_json(getattr(self, name)) for name in rest}
        for name, part in parts.items():
            plain |= part.entries(name)
        return plain | {"twin": None if self.twin is None else self.twin.to_json()}

    def rows(self, details: bool = False) -> list[tuple[str, str]]:
        """The findings as names and a few words each; or the details, for those who check."""
        name, accuracy = self.worst_subclass
        found = [row for name, part in self._parts() for row in part.rows(name, self)]
        found[2:2] = [
            Row(
                "accuracy",
                f"{self.accuracy}: images whose class is decided rightly, with a 95% interval; higher is better",
            ),
            Row("worst sub-class", f"{name}: {accuracy}, the lowest accuracy of a sub-class"),
        ]
        return [(row.name, row.text) for row in found if row.is_detail == details]

    def _parts(self) -> list[tuple[str, Part]]:
        found = [(item.name, getattr(self, item.name)) for item in fields(self)]
        return [(name, value) for name, value in found if isinstance(value, Part)]

    def _accuracy_figure(self) -> Figure:
        rows = np.array([(each.value, each.low, each.high) for each in self.by_subclass])
        value, low, high = (100 * rows.T).tolist()
        bar = Bar("accuracy", value, "neutral", low, high)
        rules = (Rule(100 * self.accuracy.value, label="all images"),)
        return Figure(
            "accuracy",
            "Accuracy of the coarse decision in each sub-class",
            "Share of images whose class is decided rightly, with its 95% Wilson interval.",
            (Bars(self.names, (bar,), Axis("accuracy", "%"), rules=rules),),
        )

    def comparison(self) -> str:
        """What fine labels did, said only where a twin was audited beside."""
        if self.twin is None:
            return ""
        mine, other = self.radii.attack, self.twin.radii.attack
        both = (mine > 0) & (other > 0)
        share = float(np.mean(other[both] > mine[both])) if both.any() else float("nan")
        return (
            f"The twin's median radius is {number(self.twin.radii.median)} against "
            f"{number(self.radii.median)}; of the images that both decide rightly the twin is farther "
            f"from its boundary on {100 * share:.0f}%. Shared gradient {self.twin.shared_gradient:.2f} "
            f"against {self.shared_gradient:.2f}; accuracy {self.twin.accuracy} against {self.accuracy}."
        )

    def _repr_html_(self) -> str:
        rows = dict(self.rows())
        if self.twin is not None:
            rows["twin"] = self.comparison()
        told = "".join(f"<li>{with_code(line)}</li>" for line in self.remedies)
        return (
            f"{table(self._title(), rows)}{self.figure()._repr_html_()}<ul>{told}</ul>"
            f"<p>{escape(self.judgement.rule)}</p>"
        )

    def summary(self) -> str:
        """The findings as text."""
        rows = [*self.rows(), *self.rows(details=True)]
        rows += [("twin", self.comparison())] if self.twin is not None else []
        lines = [f"  {name:18} {text}" for name, text in rows]
        lines += [f"  - {line}" for line in self.remedies]
        return "\n".join([self._title(), *lines, f"  {self.judgement.rule}"])

    def _title(self) -> str:
        return f"Audit of {self.about['model']} on {self.about['images']} images"


def with_code(line: str) -> str:
    """Plain text, safe for a page, with `names` set as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(line))


@public
def write_audit(audit: Audit, folder: str | Path, examples: dict[str, list[str]] | None = None) -> Path:
    """Write `folder/audit.html` and every figure under `folder/figures/`; the page's path.

    Args:
        examples: of each discovered sub-class, pictures as addresses that a page can show; see
            `pictures_of`.

    >>> import tempfile
    >>> import featavg as fa
    >>> task = fa.MultiCluster(k=4, d=50)
    >>> points = task.sample(200, seed=0)
    >>> net = fa.feature_averaging(task, task.d)
    >>> report = fa.audit(net, points.x, points.y, points.clusters, bounds=None, radii=5)
    >>> fa.write_audit(report, tempfile.mkdtemp()).name
    'audit.html'
    """
    target = Path(folder)
    pictures = [picture(each.name, each, save(each, target / "figures")) for each in audit.figures()]
    return write(target / "audit.html", audit_page(audit, pictures, examples or {}))


def audit_page(audit: Audit, pictures: list[Any], examples: dict[str, list[str]]) -> str:
    """The whole page as text."""
    from markupsafe import Markup

    templates = environment(Path(__file__).parent)
    templates.filters["code"] = lambda text: Markup(with_code(text))
    return templates.get_template("audit.html.j2").render(
        audit=audit,
        rows=_beside_twin(audit, details=False),
        details=_beside_twin(audit, details=True),
        pictures=pictures,
        clusters=_ranked(audit, examples),
        **look(bool(pictures)),
    )


def _beside_twin(audit: Audit, details: bool) -> list[tuple[str, str, str]]:
    """Name, finding and what the twin has there; of a lone network the title says the verdict."""
    other = {} if audit.twin is None else dict(audit.twin.rows(details))
    said = ("why",) if other else ("verdict", "why")
    return [(name, text, other.get(name, "–")) for name, text in audit.rows(details) if name not in said]


def _ranked(audit: Audit, examples: dict[str, list[str]]) -> list[tuple[str, str, list[str]]]:
    """Discovered sub-classes, the worst decided first: name, what was measured, and pictures."""
    if audit.discovery is None:
        return []
    radii = audit.radii.by_subclass()
    order = sorted(range(len(audit.names)), key=lambda j: (audit.by_subclass[j].value, j))
    return [
        (
            audit.names[j],
            f"accuracy {audit.by_subclass[j]}, median radius {number(radii.get(j, np.inf))}",
            examples.get(audit.names[j], []),
        )
        for j in order
    ]


def pictures_of(audit: Audit, x: np.ndarray, most: int = 6) -> dict[str, list[str]]:
    """The examples of each discovered sub-class as small pictures inside the page.

    Args:
        x: the images that `audit` was given, n x channels x height x width.
    """
    if audit.discovery is None or audit.images is None or x.ndim != 4 or x.shape[1] not in (1, 3):
        return {}
    return {
        audit.names[j]: [_png(x[audit.images[i]]) for i in rows[:most]] for j, rows in audit.discovery.examples.items()
    }


def _png(image: np.ndarray) -> str:
    from PIL import Image

    values = image if image.dtype == np.uint8 else np.clip(255 * image, 0, 255).astype(np.uint8)
    grey = values[0] if len(values) == 1 else values.transpose(1, 2, 0)
    buffer = io.BytesIO()
    Image.fromarray(grey).save(buffer, "png")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
