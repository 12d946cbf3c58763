"""The documentation: its code runs, its examples have figures, the README fits what was recorded."""

import ast
import re
import runpy
import subprocess
import sys
import time
from functools import wraps
from pathlib import Path

import pytest
from tools import code_blocks, docs, notebooks

from featavg import __main__ as cli
from featavg.figures.figure import Figure

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [page for page in code_blocks.pages() if code_blocks.blocks(page)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_code_of_a_page_runs(page):
    expected = [block for block in code_blocks.blocks(page) if block.runs and not block.mark]
    if not expected:
        pytest.skip("every block is marked")
    assert code_blocks.run(page) == len(expected)


@pytest.mark.full
@pytest.mark.parametrize(
    "page", [p for p in PAGES if any(b.mark == "long" for b in code_blocks.blocks(p))], ids=lambda p: p.stem
)
def test_the_long_code_of_a_page_runs(page):
    pytest.importorskip("torch", exc_type=ImportError)
    assert code_blocks.run(page, long=True) > 0


def test_what_one_adds_needs_public_names_only():
    said = "\n".join(block.text for block in code_blocks.blocks(DOCS / "howto" / "extend.md"))
    imported = re.findall(r"^\s*(?:from|import) (featavg\S*)", said, re.M)
    assert set(imported) == {"featavg"}
    for part in ("fa.steppers.Stepper", "fa.controllers.Controller", "fa.losses.Loss"):
        assert f"({part}):" in said


def test_every_block_is_run_or_says_why_not():
    """A fence with another name would be run by nobody, without a word."""
    known = {*code_blocks.LANGUAGES, "text", "bibtex"}
    for page in code_blocks.pages():
        for language in re.findall(r"^```(\S*)\n(?:.*?)^```", page.read_text(), re.M | re.S):
            assert language in known or language.startswith("{"), (page.name, language)


GROUPS = ("data", "images")


def named_commands(page):
    """The commands of a page that are not run: in a sentence, and in blocks that are marked."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    inside = re.findall(r"`(?:\.venv/bin/)?(featavg [a-z][^`]*)`", text)
    sentences = [" ".join(command.split()) for command in inside]
    marked = [one.text for one in code_blocks.blocks(page) if one.mark and one.language == "sh"]
    listed = [words for text in [*sentences, *marked] for words in code_blocks.commands(text)]
    return [words[1:] for words in listed if words[0] == "featavg" and words[1][0] != "-"]


@pytest.mark.parametrize("page", code_blocks.pages(), ids=lambda page: page.stem)
def test_a_command_that_a_page_names_is_understood(page, monkeypatch, capsys):
    """Its arguments are read, and then it does nothing."""
    monkeypatch.setattr(cli, "checked", lambda command: wraps(command)(lambda **given: 0))
    for words in named_commands(page):
        is_name = len(words) == 1 or (words[0] in GROUPS and len(words) == 2)
        code = cli.main([*words, "--help"] if is_name else words)
        assert code == 0, (words, capsys.readouterr().err)


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: page.stem)
def test_code_has_a_fence(page):
    """Markdown takes indented lines for code too, which nobody would run and no mark could excuse."""
    outside = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    assert re.findall(r"\n\n {4,}\S.*", outside) == []


def test_a_page_that_does_not_run_is_noticed(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("Text.\n\n```python\nx = 1\n```\n\n```python\nassert x == 2\n```\n")
    with pytest.raises(AssertionError):
        code_blocks.run(page)
    page.write_text("```sh\nfeatavg radius nothing\n```\n")
    with pytest.raises(ValueError, match="exits with 2"):
        code_blocks.run(page)
    page.write_text("<!-- not run: needs data -->\n```sh\nmake reproduce\n```\n")
    assert code_blocks.run(page) == 0
    page.write_text("```python\nprint(1)\n```\n\n<!-- prints -->\n```text\n2\n```\n")
    with pytest.raises(ValueError, match="what is printed is 1"):
        code_blocks.run(page)
    page.write_text("```sh\nmake reproduce\n```\n")
    with pytest.raises(ValueError, match="mark the block"):
        code_blocks.run(page)


@pytest.mark.parametrize("script", sorted(DOCS.glob("gallery/*.py")), ids=lambda path: path.stem)
def test_an_example_has_a_title_and_a_figure(script):
    assert (ast.get_docstring(ast.parse(script.read_text())) or "").count("\n\n") >= 1
    assert isinstance(runpy.run_path(str(script))["figure"], Figure)


def test_the_readme_says_what_was_recorded():
    check = [sys.executable, "tools/readme.py", "--check"]
    assert subprocess.run(check, cwd=ROOT, check=False).returncode == 0


@pytest.mark.full
@pytest.mark.parametrize("script", notebooks.scripts(), ids=lambda path: path.stem)
def test_a_notebook_runs_as_a_script(script, tmp_path, monkeypatch, capsys):
    if "import torch" in script.read_text():
        pytest.importorskip("torch", exc_type=ImportError)
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(script))


def test_notebooks_are_made_from_their_scripts():
    for script in notebooks.scripts():
        made = notebooks.notebook(script)
        assert [cell["cell_type"] for cell in made["cells"]][:2] == ["markdown", "code"]


JOBLIB = "import joblib; joblib.Parallel(n_jobs=2)(joblib.delayed(abs)(x) for x in range(2))"


def test_a_build_does_not_wait_for_the_processes_of_joblib(monkeypatch):
    """They stay for five idle minutes, and a worker of the build waits for its children."""
    for library in ("OMP", "OPENBLAS", "MKL"):
        monkeypatch.setenv(f"{library}_NUM_THREADS", "1")
    with docs.workers() as pool:
        pool.submit(exec, JOBLIB, {}).result()
        ran = time.perf_counter()
    assert time.perf_counter() - ran < 250


@pytest.mark.parametrize("page", sorted(ROOT.glob("*.md")), ids=lambda page: page.stem)
def test_links_of_pages_beside_the_site_lead_somewhere(page):
    """`tools/docs.py` follows those of the site."""
    aims = re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8"))
    missing = [aim for aim in aims if "://" not in aim and not (ROOT / aim).exists()]
    assert missing == []
