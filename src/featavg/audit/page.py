"""The page of an audit: one HTML file in the report's style, with the same figures."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from featavg.audit.result import Audit, with_code
from featavg.audit.verdict import RULE
from featavg.boundary.public import public
from featavg.figures import matplotlib_figure
from featavg.figures.html import environment, look, picture
from featavg.storage.files import write

if TYPE_CHECKING:
    from markupsafe import Markup

NAME = "audit.html"


@public
def write_audit(
    audit: Audit, folder: str | Path, examples: dict[str, list[str]] | None = None
) -> Path:
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
    pictures = []
    for figure in audit.figures():
        files = matplotlib_figure.render(figure)
        for extension, content in files.items():
            write(target / "figures" / f"{figure.name}.{extension}", content)
        pictures.append(picture(figure.name, figure, files))
    return write(target / NAME, audit_page(audit, pictures, examples or {}))


def audit_page(audit: Audit, pictures: list[Any], examples: dict[str, list[str]]) -> str:
    """The whole page as text."""
    templates = environment(Path(__file__).parent)
    templates.filters["code"] = _code
    template = templates.get_template("audit.html.j2")
    return template.render(
        audit=audit,
        rows=_rows(audit, Audit.rows),
        details=_rows(audit, Audit.details),
        collapse=_collapse_rows(audit),
        comparison=audit.comparison(),
        pictures=pictures,
        clusters=_ranked(audit, examples),
        rule=RULE,
        **look(bool(pictures)),
    )


def _rows(
    audit: Audit, find: Callable[[Audit], list[tuple[str, str]]]
) -> list[tuple[str, str, str]]:
    """Name, finding and what the twin has there; of a lone network the title says the verdict."""
    other = {} if audit.twin is None else dict(find(audit.twin))
    said = ("why",) if other else ("verdict", "why")
    return [(name, text, other.get(name, "–")) for name, text in find(audit) if name not in said]


def _ranked(audit: Audit, examples: dict[str, list[str]]) -> list[dict[str, Any]]:
    """Discovered sub-classes, the worst decided first, with what was measured on each."""
    if audit.discovery is None:
        return []
    radii = audit.radii.by_subclass()
    order = sorted(range(len(audit.names)), key=lambda j: (audit.by_subclass[j].value, j))
    return [
        {
            "name": audit.names[j],
            "accuracy": str(audit.by_subclass[j]),
            "radius": _number(radii.get(j)),
            "images": examples.get(audit.names[j], []),
        }
        for j in order
    ]


def _collapse_rows(audit: Audit) -> list[tuple[str, str, str]]:
    if audit.collapse is None:
        return []
    classes, fine = audit.collapse.classes, audit.collapse.subclasses
    words = {
        "nc1": "NC1, variability inside against between",
        "nc2": "NC2, distance of means from a simplex",
        "nc3": "NC3, distance of weights from means",
        "nc4": "NC4, share decided otherwise by the nearest mean",
    }
    return [
        (text, _number(getattr(classes, name)), _number(getattr(fine, name)))
        for name, text in words.items()
    ]


def _code(text: str) -> Markup:
    from markupsafe import Markup

    return Markup(with_code(text))


def _number(value: float | None) -> str:
    if value is None or not np.isfinite(value):
        return "–"
    return "0" if abs(value) < 1e-9 else f"{value:.3g}"  # round-off, not a measurement


def pictures_of(audit: Audit, x: np.ndarray, most: int = 6) -> dict[str, list[str]]:
    """The examples of each discovered sub-class as small pictures inside the page.

    Args:
        x: the images that `audit` was given, n x channels x height x width.
    """
    if audit.discovery is None or audit.images is None or x.ndim != 4 or x.shape[1] not in (1, 3):
        return {}
    return {
        audit.names[j]: [_png(x[audit.images[i]]) for i in rows[:most]]
        for j, rows in audit.discovery.examples.items()
    }


def _png(image: np.ndarray) -> str:
    from PIL import Image

    values = image if image.dtype == np.uint8 else np.clip(255 * image, 0, 255).astype(np.uint8)
    grey = values[0] if len(values) == 1 else values.transpose(1, 2, 0)
    buffer = io.BytesIO()
    Image.fromarray(grey).save(buffer, "png")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
