"""The documentation: its blocks of Python run, its examples have figures, the README fits."""

import ast
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from featavg.figures.figure import Figure

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if "```python" in path.read_text())
# Needs a model of the reader's.
NOT_RUN = {"own-network.md"}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_the_code_of_a_page_runs(page, tmp_path, monkeypatch):
    if page.name in NOT_RUN:
        pytest.skip("needs a network of the reader's")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.M | re.S)
    exec(compile("\n".join(blocks), str(page), "exec"), {})


@pytest.mark.parametrize("script", sorted(DOCS.glob("gallery/*.py")), ids=lambda path: path.stem)
def test_an_example_has_a_title_and_a_figure(script):
    assert (ast.get_docstring(ast.parse(script.read_text())) or "").count("\n\n") >= 1
    assert isinstance(runpy.run_path(str(script))["figure"], Figure)


def test_the_readme_says_what_was_recorded():
    assert (
        subprocess.run(
            [sys.executable, "tools/readme.py", "--check"], cwd=ROOT, check=False
        ).returncode
        == 0
    )
