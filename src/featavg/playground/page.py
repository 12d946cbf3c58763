"""The playground as one HTML file: put together from its parts, written, opened.

Everything is inline: a style sheet, one script, and the text of the workers, which the page turns
into a Blob. The file therefore opens by double click, without a server and without a request.

A page opened from a file address may not load modules, fetch anything or start a worker from a
file. So every module becomes a function that runs once, in the order of the imports:

    import { dot } from "./vectors.js";      ->   const { dot } = $simulator_vectors;
    export function norm(a) { ... }          ->   function norm(a) { ... }   ...   return { norm };

Only these forms are understood (named imports on one or several lines, `export function`, `class`,
`const`); anything else is refused here rather than in the reader's browser.
"""

from __future__ import annotations

import re
import tempfile
import webbrowser
from pathlib import Path, PurePosixPath

from featavg.boundary.public import public
from featavg.errors import InputError
from featavg.figures import palette
from featavg.storage.files import write

HERE = Path(__file__).parent
_IMPORT = re.compile(r'^import \{([^}]*)\} from "([^"]+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function\*?|class|const) (\w+))", re.MULTILINE)
_LEFT_OVER = re.compile(r"^(import|export)\b.*$", re.MULTILINE)
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


def _figure(view: str, title: str, explanation: str = "", extra: str = "", of: str = "") -> str:
    name = f"{title} ({of})" if of else title
    words = f" <span>{explanation}</span>" if explanation else ""
    return (
        f'<figure data-view="{view}"><figcaption><b>{title}</b>{words}</figcaption>{extra}'
        '<div class="drawing"></div>'
        f'<p class="save">{_save(name, "SVG")} {_save(name, "PNG")}</p></figure>'
    )


def _save(name: str, kind: str) -> str:
    label = f"Save {name} as {kind}"
    return f'<button type="button" data-save="{kind.lower()}" aria-label="{label}">{kind}</button>'


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
        f"matrix-{labels}", "Cosines", f'<span class="cell" id="cell-{labels}">features with weights</span>', of=title
    )
    strip = f'<div class="neurons" id="neurons-{labels}" role="group" aria-label="Neurons"></div>'
    neuron = _figure(f"neuron-{labels}", "A neuron", "in terms of features", strip, title)
    history = _figure(f"history-{labels}", "Its coefficients over time", of=title)
    return (
        f'<article class="side {role}" aria-labelledby="title-{labels}"><h2 id="title-{labels}">'
        f"{title} <span>{kind}: {result} features</span></h2>"
        f'<dl class="numbers">{numbers}</dl><div class="duo">{matrix}{neuron}</div>{history}'
        "</article>"
    )


def _plane(labels: str) -> str:
    role, title, *_ = _NETWORKS[labels]
    return f'<div class="side {role}">{_figure(f"plane-{labels}", title, of="plane")}</div>'


def _text(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")


def script(entry: str) -> str:
    """The module `entry` and everything it imports, as one script.

    Args:
        entry: path of a module below this folder, such as "worker/worker.js".

    The script is a single expression whose value holds the exports of `entry`.

    >>> script("simulator/vectors.js").startswith("(() => {")
    True
    """
    parts = [_wrapped(name) for name in modules(entry)]
    return "(() => {\n" + "\n".join(parts) + f"\nreturn {_variable(entry)};\n}})()"


def modules(entry: str, path: tuple[str, ...] = ()) -> list[str]:
    """The modules that `entry` needs, itself last, each after what it imports."""
    if entry in path:
        raise ValueError(f"modules import each other: {' -> '.join([*path, entry])}")
    targets = [_resolved(entry, target) for _, target in _IMPORT.findall(_text(entry))]
    needed = [name for target in targets for name in modules(target, (*path, entry))]
    return list(dict.fromkeys([*needed, entry]))


def _wrapped(name: str) -> str:
    """One module as `const $name = (() => { ... return { exports }; })();`."""
    source = _text(name)
    exported = _EXPORT.findall(source)
    body = _EXPORT.sub("", _IMPORT.sub(lambda found: _binding(name, found), source))
    strange = _LEFT_OVER.search(body)
    if strange is not None:
        raise ValueError(f"{name} has an import or export of another form: {strange.group()}")
    return f"// {name}\nconst {_variable(name)} = (() => {{\n{body}return {{ {', '.join(exported)} }};\n}})();\n"


def _binding(importer: str, found: re.Match[str]) -> str:
    names, target = found.groups()
    module = _resolved(importer, target)
    known = set(_EXPORT.findall(_text(module)))
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    missing = [name for name in wanted if name.split(" as ")[0] not in known]
    if missing:
        raise ValueError(f"{importer} imports {', '.join(missing)}, which {module} does not have")
    pairs = ", ".join(name.replace(" as ", ": ") for name in wanted)
    return f"const {{ {pairs} }} = {_variable(module)};\n"


def _resolved(importer: str, target: str) -> str:
    parts: list[str] = []
    for part in (PurePosixPath(importer).parent / target).parts:
        if part == "..":
            parts.pop()
        elif part != ".":
            parts.append(part)
    return "/".join(parts)


def _variable(name: str) -> str:
    return "$" + re.sub(r"\W", "_", name.removesuffix(".js"))
