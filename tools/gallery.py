"""The gallery: short scripts, each with the figure it makes."""

from __future__ import annotations

import ast
import runpy
from concurrent.futures import Future
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "gallery"


def scripts() -> list[Path]:
    return sorted(FOLDER.glob("*.py"))


def drawn(script: Path) -> bytes:
    """Run an example; its figure as a PNG."""
    from featavg.figures.matplotlib_figure import render

    return render(runpy.run_path(str(script))["figure"], ("png",))["png"]


def write(folder: Path, shown: dict[Path, Future[bytes]]) -> None:
    """A page for every example, with title, picture and script; and the page of all."""
    ran = "the build of these pages ran every one" if shown else "none was run for these pages"
    lines = ["# Gallery", "", f"Short scripts with their figures; {ran}.", ""]
    lines += ["::::{container} gallery", ""]
    names = []
    for script in scripts():
        doc = ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) or script.stem
        title, _, text = doc.partition("\n")
        title, text = title.rstrip("."), " ".join(text.split())
        names.append(script.stem)
        picture = ""
        if script in shown:
            (folder / f"{script.stem}.png").write_bytes(shown[script].result())
            picture = f"![{title}]({script.stem}.png)"
        lines += [":::{container} example", f"[{picture or title}]({script.stem}.md)", ""]
        lines += [f"**[{title}]({script.stem}.md)**. {text}", ":::", ""]
        body = [f"# {title}", "", text, "", picture, ""]
        body += [f"```{{literalinclude}} {script.name}", ":language: python", "```", ""]
        body += [f"The script: {{download}}`{script.name}`. More: [gallery](index.md).", ""]
        (folder / f"{script.stem}.md").write_text("\n".join(body), encoding="utf-8")
    lines += ["::::", "", "```{toctree}", ":hidden:", "", *names, "```", ""]
    (folder / "index.md").write_text("\n".join(lines), encoding="utf-8")
