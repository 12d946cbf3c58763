"""The tutorials: plain scripts in docs/notebooks with an .ipynb beside each, made here.

    python tools/notebooks.py [--check]

A line `# %%` begins a cell, `# %% [markdown]` one of text. `make docs` executes the notebooks in a
kernel of Jupyter and shows what came out; the tests run the same scripts as plain Python.
"""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "notebooks"


@dataclass(frozen=True)
class Cell:
    """A piece of a script, text or code."""

    kind: str
    text: str


def scripts() -> list[Path]:
    return [FOLDER / f"{name}.py" for name in ("theory", "exact_robustness", "audit")]


def cells(script: Path) -> list[Cell]:
    """The cells of a script."""
    found = []
    for part in re.split(r"^# %%", script.read_text(encoding="utf-8"), flags=re.M)[1:]:
        mark, _, body = part.partition("\n")
        if "[markdown]" in mark:
            lines = (line.removeprefix("#").removeprefix(" ") for line in body.strip().splitlines())
            found.append(Cell("markdown", "\n".join(lines)))
        else:
            found.append(Cell("code", body.strip()))
    return found


def notebook(script: Path) -> dict[str, Any]:
    """The script as nbformat 4.5 has it, without outputs: the same text gives the same file."""
    listed = []
    for number, cell in enumerate(cells(script)):
        made: dict[str, Any] = {"cell_type": cell.kind, "id": f"cell-{number}", "metadata": {}}
        made["source"] = cell.text.splitlines(keepends=True)
        listed.append(made | {"execution_count": None, "outputs": []} if cell.kind == "code" else made)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {
        "cells": listed,
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def text_of(script: Path) -> str:
    return json.dumps(notebook(script), indent=1, ensure_ascii=False) + "\n"


def executed(script: Path) -> Any:
    """The notebook after a kernel has run it from top to bottom; it stops at the first error."""
    import nbformat
    from nbclient import NotebookClient

    made = nbformat.reads(text_of(script), as_version=4)
    # A kernel warns that it listens on a port of this machine; its messages are signed.
    quiet = ["--IPKernelApp.log_level=40"]
    NotebookClient(made, timeout=300, kernel_name="python3", extra_arguments=quiet).execute()
    return made


def lacks(script: Path) -> str:
    """What a notebook needs and is not here: nothing, or PyTorch."""
    needs = "import torch" in script.read_text(encoding="utf-8")
    return "PyTorch" if needs and find_spec("torch") is None else ""


def unexecuted(script: Path) -> Any:
    """The notebook as it is: no outputs."""
    import nbformat

    return nbformat.reads(text_of(script), as_version=4)


def page(made: Any, pictures: Path, name: str) -> str:
    """An executed notebook as a page of Markdown; pictures are written beside it."""
    parts: list[str] = []
    for number, cell in enumerate(made.cells):
        if cell.cell_type == "markdown":
            parts += [cell.source, ""]
            continue
        parts += ["```python", cell.source, "```", ""]
        for output in cell.outputs:
            parts += [*_shown(output, pictures, f"{name}-{number}"), ""]
    link = f"This page is a notebook: {{download}}`{name}.ipynb`, as a script {{download}}`{name}.py`."
    if not any(cell.get("outputs") for cell in made.cells):
        why = lacks(FOLDER / f"{name}.py")
        link += " It was not executed for this page" + (f", which takes {why}." if why else ".")
        link += " `make docs` executes it."
    title, _, rest = parts[0].partition("\n")
    return "\n".join([title, "", link, "", rest, *parts[1:]]) + "\n"


def _shown(output: Any, pictures: Path, name: str) -> list[str]:
    if output.output_type == "stream":
        return ["```text", output.text.rstrip(), "```"]
    data = output.get("data", {})
    if "text/html" in data:
        html = data["text/html"].strip()
        return ["```{raw} html", f'<div class="output">{html}</div>', "```"] if html else []
    if "image/png" in data:
        (pictures / f"{name}.png").write_bytes(base64.b64decode(data["image/png"]))
        return [f"![output]({name}.png)"]
    return ["```text", data.get("text/plain", "").rstrip(), "```"]


def main() -> int:
    """Write the notebook beside each script."""
    for script in scripts():
        script.with_suffix(".ipynb").write_text(text_of(script), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
