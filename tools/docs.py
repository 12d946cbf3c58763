"""Build the documentation: generated pages first, then Sphinx with warnings as errors, then the links.

    python tools/docs.py [--out out/docs] [--no-gallery]

Verdicts, statements, the API and the gallery are written from the package itself, never by hand.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import json
import runpy
import shutil
import subprocess
import sys
import tempfile
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--out", type=Path, default=ROOT / "out" / "docs")
    options.add_argument("--no-gallery", action="store_true", help="do not run the examples")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "docs"
        shutil.copytree(DOCS, source)
        api(source / "api")
        verdicts(source)
        gallery(source / "gallery", run=not given.no_gallery)
        built = Path(folder) / "html"
        command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html"]
        if subprocess.run([*command, str(source), str(built)], check=False).returncode:
            return 1
        broken = links(built)
        for line in broken:
            print(f"broken link: {line}", file=sys.stderr)
        if broken:
            return 1
        shutil.rmtree(given.out, ignore_errors=True)
        shutil.copytree(built, given.out, ignore=shutil.ignore_patterns(".doctrees", ".buildinfo"))
    print(f"Documentation: {given.out / 'index.html'}")
    return 0


def surface() -> list[tuple[str, list[str]]]:
    """The public names by stage, in the order of `__init__.pyi`."""
    stages: list[tuple[str, list[str]]] = []
    for line in (ROOT / "src" / "featavg" / "__init__.pyi").read_text().splitlines():
        if line.startswith("# "):
            stages.append((line[2:], []))
        elif line.startswith("from featavg.") and stages:
            stages[-1][1].append(line.split(" as ")[-1].strip())
    return [(stage, names) for stage, names in stages if names]


def api(folder: Path) -> None:
    """One page per public name: how it is called, and its docstring as `help` shows it."""
    import featavg

    folder.mkdir()
    lines = [
        "# API",
        "",
        "Every public name, in the order of the stages; all are in `featavg`.",
        "",
    ]
    entries = []
    for stage, names in surface():
        lines += [f"## {stage}", ""]
        for name in names:
            thing = getattr(featavg, name)
            text = inspect.getdoc(thing) or ""
            first = text.split("\n\n")[0].replace("\n", " ")
            lines.append(f"- [`{name}`]({name.lower()}-{kind(thing)}.md): {plain(first)}")
            entries.append(f"{name.lower()}-{kind(thing)}")
            (folder / f"{entries[-1]}.md").write_text(page(name, thing, text))
        lines.append("")
    lines += ["```{toctree}", ":hidden:", "", *entries, "```", ""]
    (folder / "index.md").write_text("\n".join(lines))


def kind(thing: object) -> str:
    if inspect.isclass(thing):
        return "class"
    return "function" if callable(thing) else "value"


def plain(text: str) -> str:
    return text.replace("<", "&lt;").replace("*", "\\*").replace("|", "\\|").replace("[", "\\[")


def page(name: str, thing: object, text: str) -> str:
    try:
        signature = (
            f"{name}{inspect.signature(thing)}" if callable(thing) else f"{name} = {thing!r}"
        )
    except (TypeError, ValueError):
        signature = name
    parts = [f"# {name}", "", "```python", f"fa.{signature}", "```", "", "```text", text, "```", ""]
    for method, value in vars(thing).items() if inspect.isclass(thing) else ():
        shown = not method.startswith("_") and (callable(value) or isinstance(value, property))
        doc = inspect.getdoc(value) or ""
        if shown and doc:
            parts += [f"## {method}", "", "```text", doc, "```", ""]
    home = getattr(thing, "__module__", "")
    if home:
        parts += [f"Defined in `{home}`.", ""]
    return "\n".join(parts)


def verdicts(folder: Path) -> None:
    """The table of verdicts, from the results that `tools/record_verdicts.py` keeps."""
    recorded = json.loads((DOCS / "verdicts.json").read_text())
    lines = [
        "# What holds and what does not",
        "",
        f"{len(recorded['claims'])} claims, as they came out with featavg {recorded['version']}. "
        "Each is a program: `featavg reproduce --only ID` repeats it.",
        "",
    ]
    themes: dict[str, list[dict[str, str]]] = {}
    for claim in recorded["claims"]:
        themes.setdefault(claim["theme"], []).append(claim)
    for theme, claims in themes.items():
        lines += [f"## {theme}", "", "| verdict | claim | what decided | |", "|---|---|---|---|"]
        for claim in claims:
            lines.append(
                f"| {claim['symbol']} {claim['verdict']} | `{claim['id']}`: {cell(claim['title'])} "
                f"| {cell(claim['decided'])} | {cell(claim['tolerance'])} |"
            )
        lines.append("")
        for claim in claims:
            if claim["verdict"] not in ("holds", "not run") and claim["finding"]:
                lines += [f"**{claim['id']}**: {plain_tags(claim['finding'])}", ""]
    (folder / "verdicts.md").write_text("\n".join(lines))
    lines = ["# Every statement and its claim", ""]
    documents: dict[str, list[dict[str, Any]]] = {}
    for statement in recorded["statements"]:
        documents.setdefault(statement["document"], []).append(statement)
    for document, statements in documents.items():
        lines += [f"## {document}", "", "| place | in our words | claims and verdicts |"]
        lines.append("|---|---|---|")
        for one in statements:
            pairs = zip(one["claims"], one["verdicts"], strict=True)
            checked = "; ".join(f"`{name}`: {verdict}" for name, verdict in pairs)
            lines.append(
                f"| {cell(one['place'])} | {cell(one['words'])} | {checked or cell(one['reason'])} |"
            )
        lines.append("")
    (folder / "statements.md").write_text("\n".join(lines) + "\n")


def cell(text: str) -> str:
    return plain_tags(text).replace("|", "\\|").replace("\n", " ")


def plain_tags(text: str) -> str:
    """Our texts use <sub>, <sup>, <i>, <b>, which Markdown lets through."""
    return text.replace("*", "\\*").replace("$", "\\$")


def gallery(folder: Path, run: bool) -> None:
    """Run every example and write its page: title, picture, script."""
    lines = [
        "# Gallery",
        "",
        "Short scripts with their figures; every one is executed by the build.",
        "",
    ]
    names = []
    for script in sorted(folder.glob("*.py")):
        doc = ast.get_docstring(ast.parse(script.read_text())) or script.stem
        title, _, text = doc.partition("\n")
        names.append(script.stem)
        picture = ""
        if run:
            from featavg.figures.matplotlib_figure import render

            drawn = render(runpy.run_path(str(script))["figure"])
            (folder / f"{script.stem}.png").write_bytes(drawn["png"])
            picture = f"![{title.rstrip('.')}]({script.stem}.png)"
            lines += [f"[{picture}]({script.stem}.md)", ""]
        lines += [f"[{title.rstrip('.')}]({script.stem}.md). {text.strip()}", ""]
        body = [f"# {title.rstrip('.')}", "", text.strip(), "", picture, ""]
        body += [f"```{{literalinclude}} {script.name}", ":language: python", "```", ""]
        (folder / f"{script.stem}.md").write_text("\n".join(body))
    lines += ["```{toctree}", ":hidden:", "", *names, "```", ""]
    (folder / "index.md").write_text("\n".join(lines))


class Anchors(HTMLParser):
    """Where a page points to, and which places it has."""

    def __init__(self) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.places: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.targets.append(value)
            if name == "id" and value:
                self.places.add(value)


def links(site: Path) -> list[str]:
    """Links inside the site that lead nowhere."""
    pages: dict[Path, Anchors] = {}
    for path in site.rglob("*.html"):
        pages[path.resolve()] = parsed = Anchors()
        parsed.feed(path.read_text(encoding="utf-8"))
    broken = []
    for path, parsed in pages.items():
        for target in parsed.targets:
            split = urlsplit(target)
            if split.scheme or split.netloc:
                continue
            aim = (path.parent / unquote(split.path)).resolve() if split.path else path
            missing = not aim.exists() or (
                split.fragment and aim in pages and unquote(split.fragment) not in pages[aim].places
            )
            if missing and split.fragment != "top":
                broken.append(f"{path.relative_to(site.resolve())}: {target}")
    return broken


if __name__ == "__main__":
    raise SystemExit(main())
