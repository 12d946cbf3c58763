"""The tutorials: plain scripts in docs/notebooks with an .ipynb beside each, made here.

    python tools/notebooks.py

A line `# %%` begins a cell, `# %% [markdown]` one of text. `make site` executes the notebooks in a
kernel of Jupyter and shows what came out; the tests run the same scripts as plain Python.
"""

from __future__ import annotations

import base64
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "notebooks"


def scripts() -> list[Path]:
    return [FOLDER / f"{name}.py" for name in ("theory", "exact_robustness", "audit")]


def notebook(script: Path) -> Any:
    """The script as a notebook without outputs: the same text gives the same file."""
    from nbformat import v4

    made = []
    for number, part in enumerate(re.split(r"^# %%", script.read_text(encoding="utf-8"), flags=re.M)[1:]):
        mark, _, body = part.partition("\n")
        if "[markdown]" in mark:
            text = re.sub("^# ?", "", body.strip(), flags=re.M)
            made.append(v4.new_markdown_cell(text, id=f"cell-{number}"))
        else:
            made.append(v4.new_code_cell(body.strip(), id=f"cell-{number}"))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return v4.new_notebook(cells=made, metadata={"kernelspec": kernel, "language_info": {"name": "python"}})


def text_of(script: Path) -> str:
    import nbformat

    return str(nbformat.writes(notebook(script))) + "\n"


def executed(script: Path) -> Any:
    """The notebook after a kernel has run it from top to bottom; it stops at the first error."""
    from nbclient import NotebookClient

    made = notebook(script)
    # A kernel warns that it listens on a port of this machine; its messages are signed.
    quiet = ["--IPKernelApp.log_level=40"]
    NotebookClient(made, timeout=300, kernel_name="python3", extra_arguments=quiet).execute()
    return made


def lacks(script: Path) -> str:
    """What a notebook needs and is not here: nothing, or PyTorch."""
    needs = "import torch" in script.read_text(encoding="utf-8")
    return "PyTorch" if needs and find_spec("torch") is None else ""


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
