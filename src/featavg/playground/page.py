"""The playground as one HTML file: put together from its parts, written, opened.

Everything is inline: a style sheet, one script, and the text of the workers, which the page turns
into a Blob. The file therefore opens by double click, without a server and without a request.
"""

from __future__ import annotations

import tempfile
import webbrowser
from pathlib import Path

from featavg.boundary.public import public
from featavg.errors import InputError
from featavg.figures import palette
from featavg.playground.bundle import HERE, script
from featavg.storage.files import write

NAME = "playground.html"
MARK = b"<title>Feature averaging: the playground</title>"  # a user's own page is not overwritten
STYLES = ("base", "bar", "story", "settings", "views")

# Name, title and explanation of the views, in the order of the page.
_NETWORKS = {
    "coarse": ("averaged", "Class labels", "coarse", "averaged"),
    "fine": ("decoupled", "Cluster labels", "fine", "decoupled"),
}
_SHARED = {
    "index": ("Averaging index", "1 is an average, 0 one feature"),
    "loss": ("Loss", "on its own labels"),
    "curve": ("Robust accuracy", "100 fresh points, exact radii"),
}


@public
def playground(path: str | Path | None = None, *, open_browser: bool = False) -> Path:
    """Write the playground, one HTML file, and return where it is.

    Two networks, with class labels and with cluster labels, train in it on the same sample; their
    cosines, coefficients, averaging index, loss, decision and exact robust radii are drawn as they
    train. It needs no server and makes no request.

    Args:
        path: the file, or a folder for it; a new temporary folder unless given.
        open_browser: also open it.

    >>> import featavg as fa
    >>> import tempfile
    >>> written = fa.playground(tempfile.mkdtemp())
    >>> written.name, written.stat().st_size < 600_000
    ('playground.html', True)
    """
    place = Path(tempfile.mkdtemp(prefix="featavg-")) if path is None else Path(path)
    target = place / NAME if place.is_dir() else place
    if target.is_file() and MARK not in target.read_bytes():
        raise InputError("path", f"({target}) is not a playground", "name a new file")
    write(target, page())
    if open_browser:
        webbrowser.open(target.absolute().as_uri())
    return target


def page() -> str:
    """The whole page as text."""
    from featavg import __version__

    parts = {
        "style": palette.css() + "".join(_text(f"style/{name}.css") for name in STYLES),
        "worker": _inside_script(script("worker/worker.js")),
        "script": _inside_script(script("page/main.js")),
        "networks": "\n".join(_network(labels) for labels in _NETWORKS),
        "shared": "\n".join(_figure(view, *words) for view, words in _SHARED.items()),
        "planes": "\n".join(_plane(labels) for labels in _NETWORKS),
        "version": __version__,
    }
    text = _text("playground.html")
    for name, content in parts.items():
        text = text.replace("{" + name + "}", content)
    return text


def _inside_script(source: str) -> str:
    """No "</script>" in a string may end the block early."""
    return source.replace("</", "<\\/")


def _figure(view: str, title: str, explanation: str = "", extra: str = "") -> str:
    words = f" <span>{explanation}</span>" if explanation else ""
    return (
        f'<figure data-view="{view}"><figcaption><b>{title}</b>{words}</figcaption>{extra}'
        '<div class="drawing"></div>'
        f'<p class="save">{_save(title, "SVG")} {_save(title, "PNG")}</p></figure>'
    )


def _network(labels: str) -> str:
    role, title, kind, result = _NETWORKS[labels]
    numbers = "".join(
        f'<div><dt>{name}</dt><dd id="{key}-{labels}">–</dd></div>'
        for key, name in (
            ("index", "averaging index"),
            ("radius", "median radius"),
            ("theory", "theory"),
            ("loss", "loss"),
            ("accuracy", "accuracy"),
        )
    )
    matrix = _figure(
        f"matrix-{labels}",
        "Cosines",
        f'<span class="cell" id="cell-{labels}">features with weights</span>',
    )
    strip = f'<div class="neurons" id="neurons-{labels}" role="group" aria-label="Neurons"></div>'
    neuron = _figure(f"neuron-{labels}", "A neuron", "in terms of features", strip)
    history = _figure(f"history-{labels}", "Its coefficients over time")
    return (
        f'<article class="side {role}" aria-labelledby="title-{labels}"><h2 id="title-{labels}">'
        f"{title} <span>{kind}: {result} features</span></h2>"
        f'<dl class="numbers">{numbers}</dl><div class="duo">{matrix}{neuron}</div>{history}'
        "</article>"
    )


def _plane(labels: str) -> str:
    role, title, *_ = _NETWORKS[labels]
    return f'<div class="side {role}">{_figure(f"plane-{labels}", title)}</div>'


def _text(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")


def _save(title: str, kind: str) -> str:
    name = f'aria-label="Save {title} as {kind}"'
    return f'<button type="button" data-save="{kind.lower()}" {name}>{kind}</button>'
