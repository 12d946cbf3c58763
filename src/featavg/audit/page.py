"""The page of an audit: one HTML file in the report's style, with the same figures."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

import numpy as np

from featavg.audit.parts import number
from featavg.audit.result import Audit, with_code
from featavg.boundary.public import public
from featavg.figures.html import environment, look, picture
from featavg.figures.matplotlib_figure import save
from featavg.storage.files import write

NAME = "audit.html"


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
    pictures = []
    for figure in audit.figures():
        pictures.append(picture(figure.name, figure, save(figure, target / "figures")))
    return write(target / NAME, audit_page(audit, pictures, examples or {}))


def audit_page(audit: Audit, pictures: list[Any], examples: dict[str, list[str]]) -> str:
    """The whole page as text."""
    from markupsafe import Markup

    templates = environment(Path(__file__).parent)
    templates.filters["code"] = lambda text: Markup(with_code(text))
    return templates.get_template("audit.html.j2").render(
        audit=audit,
        rows=_rows(audit, details=False),
        details=_rows(audit, details=True),
        pictures=pictures,
        clusters=_ranked(audit, examples),
        **look(bool(pictures)),
    )


def _rows(audit: Audit, details: bool) -> list[tuple[str, str, str]]:
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
