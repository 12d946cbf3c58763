"""The blocks of code of the Markdown pages, and how they are run.

A page is run from top to bottom in an empty folder: `python` blocks share their names, as in a
notebook, and in `sh` blocks every line is a command. A comment before a block says otherwise:

    <!-- long -->                     only `make docs` runs it, and `make test-full`
    <!-- not run: needs a cluster -->  it is never run, for this reason
    <!-- prints -->                   the text below is what the block above it prints, `...` for a part
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import shlex
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LANGUAGES = ("python", "sh", "toml", "slurm")
SAME = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
_FENCE = re.compile(
    r"(?:^<!-- (?P<mark>long|prints|not run: [^\n]+?) -->\n+)?^```(?P<language>\w+)\n(?P<text>.*?)^```", re.M | re.S
)


@dataclass(frozen=True)
class Block:
    """A block of code or output, where it begins, and its mark ("", "long", "prints" or the reason not to run it)."""

    page: Path
    line: int
    language: str
    text: str
    mark: str

    @property
    def runs(self) -> bool:
        return self.language in ("python", "sh") and not self.mark.startswith("not run")


def pages() -> list[Path]:
    """The README and every page that a person wrote."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path) -> list[Block]:
    """All blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(page, text.count("\n", 0, match.start("text")) + 1, match["language"], match["text"], match["mark"] or "")
        for match in _FENCE.finditer(text)
        if match["language"] in LANGUAGES or match["mark"] == "prints"
    ]


def run(page: Path, long: bool = False) -> int:
    """Run the blocks of a page in an empty folder, those marked long only if asked; how many ran."""
    names: dict[str, object] = {"__name__": "__page__"}
    before, count = Path.cwd(), 0
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as printed:
        os.chdir(folder)
        try:
            for block in blocks(page):
                if block.mark == "prints" and not doctest.OutputChecker().check_output(
                    block.text, printed.getvalue(), SAME
                ):
                    raise ValueError(f"{page.name}:{block.line}: what is printed is {printed.getvalue()}")
                if not block.runs or (block.mark == "long" and not long):
                    continue
                count += 1
                printed.seek(0)
                printed.truncate()
                if block.language == "python":
                    # As many lines above as in the page: a traceback then names the right one.
                    source = "\n" * (block.line - 1) + block.text
                    exec(compile(source, str(page), "exec", dont_inherit=True), names)
                else:
                    for command in commands(block.text):
                        _run_command(command, block)
        finally:
            os.chdir(before)
    return count


def commands(text: str) -> list[list[str]]:
    """The commands of a block, without comments, as lists of words."""
    joined = text.replace("\\\n", " ")
    lines = (shlex.split(line, comments=True) for line in joined.splitlines())
    return [words for words in lines if words]


def _run_command(words: list[str], block: Block) -> None:
    from featavg.__main__ import main

    where = f"{block.page.name}:{block.line}"
    if words[0] != "featavg":
        raise ValueError(f"{where}: only featavg is run here, not {words[0]}: mark the block")
    code = main(words[1:])
    if code:
        raise ValueError(f"{where}: {shlex.join(words)} exits with {code}")
