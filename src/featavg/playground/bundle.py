"""Plain JavaScript modules put together into one inline script, without Node.

A page opened from a file address may not load modules, fetch anything or start a worker from a
file. So every module becomes a function that runs once, in the order of the imports:

    import { dot } from "./vectors.js";      ->   const { dot } = $simulator_vectors;
    export function norm(a) { ... }          ->   function norm(a) { ... }   ...   return { norm };

Only these forms are understood (named imports on one or several lines, `export function`, `class`,
`const`); anything else is refused here rather than in the reader's browser.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

HERE = Path(__file__).parent
_IMPORT = re.compile(r'^import \{([^}]*)\} from "([^"]+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function\*?|class|const) (\w+))", re.MULTILINE)
_LEFT_OVER = re.compile(r"^(import|export)\b.*$", re.MULTILINE)


def script(entry: str) -> str:
    """The module `entry` and everything it imports, as one script.

    Args:
        entry: path of a module below this folder, such as "worker/worker.js".

    The script is a single expression whose value holds the exports of `entry`.

    >>> script("simulator/vectors.js").startswith("(() => {")
    True
    """
    order: list[str] = []
    _visit(entry, order, [])
    parts = [_wrapped(name) for name in order]
    return "(() => {\n" + "\n".join(parts) + f"\nreturn {_variable(entry)};\n}})()"


def modules(entry: str) -> list[str]:
    """The modules that `entry` needs, itself last, each after what it imports."""
    order: list[str] = []
    _visit(entry, order, [])
    return order


def _visit(name: str, order: list[str], path: list[str]) -> None:
    if name in path:
        raise ValueError(f"modules import each other: {' -> '.join([*path, name])}")
    if name in order:
        return
    for _, target in _IMPORT.findall(_source(name)):
        _visit(_resolved(name, target), order, [*path, name])
    order.append(name)


def _wrapped(name: str) -> str:
    """One module as `const $name = (() => { ... return { exports }; })();`."""
    source = _source(name)
    exported = _EXPORT.findall(source)
    body = _EXPORT.sub("", _IMPORT.sub(lambda found: _binding(name, found), source))
    strange = _LEFT_OVER.search(body)
    if strange is not None:
        raise ValueError(f"{name} has an import or export of another form: {strange.group()}")
    return (
        f"// {name}\nconst {_variable(name)} = (() => {{\n{body}"
        f"return {{ {', '.join(exported)} }};\n}})();\n"
    )


def _binding(importer: str, found: re.Match[str]) -> str:
    names, target = found.groups()
    module = _resolved(importer, target)
    known = set(_EXPORT.findall(_source(module)))
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


def _source(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")


def _variable(name: str) -> str:
    return "$" + re.sub(r"\W", "_", name.removesuffix(".js"))
