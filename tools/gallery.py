"""The gallery: short scripts, each with the figure it makes."""

from __future__ import annotations

import ast
import runpy
from pathlib import Path


def gallery(folder: Path, run: bool) -> None:
    """Run every example and write its page: title, picture, script; and the page of all."""
    lines = ["# Gallery", "", "Short scripts with their figures; the build ran every one.", ""]
    lines += ["::::{container} gallery", ""]
    names = []
    for script in sorted(folder.glob("*.py")):
        doc = ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) or script.stem
        title, _, text = doc.partition("\n")
        title, text = title.rstrip("."), " ".join(text.split())
        names.append(script.stem)
        picture = _picture(script, title) if run else ""
        lines += [":::{container} example", f"[{picture or title}]({script.stem}.md)", ""]
        lines += [f"**[{title}]({script.stem}.md)**. {text}", ":::", ""]
        body = [f"# {title}", "", text, "", picture, ""]
        body += [f"```{{literalinclude}} {script.name}", ":language: python", "```", ""]
        (folder / f"{script.stem}.md").write_text("\n".join(body), encoding="utf-8")
    lines += ["::::", "", "```{toctree}", ":hidden:", "", *names, "```", ""]
    (folder / "index.md").write_text("\n".join(lines), encoding="utf-8")


def _picture(script: Path, title: str) -> str:
    from featavg.figures.matplotlib_figure import render

    drawn = render(runpy.run_path(str(script))["figure"])
    script.with_suffix(".png").write_bytes(drawn["png"])
    return f"![{title}]({script.stem}.png)"
