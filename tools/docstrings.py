"""Docstrings as Markdown: paragraphs, formulas, a list of arguments, examples.

A docstring is written for `help`, at a hundred signs a line. On a page its paragraphs flow, indented
formulas stay as they are, `Args:` becomes a list, an example keeps its prompts, and a public name in
backticks leads to its page.
"""

from __future__ import annotations

import re
from collections.abc import Callable

LISTS = {"Args:": "Arguments", "Attributes:": "Attributes", "Returns:": "Returns"}
# From a name in backticks to the page that explains it; None where there is none.
Pages = Callable[[str], "str | None"]


def as_markdown(text: str, page_of: Pages = lambda name: None) -> str:
    """A docstring, cleaned of its own indentation, as Markdown."""
    parts: list[str] = []
    blocks = re.split(r"\n[ \t]*\n", text.strip("\n"))
    for number, block in enumerate(blocks):
        head, _, rest = block.partition("\n")
        if block.startswith(">>>"):
            shown = "\n\n".join(blocks[number:])
            parts += ["```pycon", without_marks(shown), "```", ""]
            break
        if head in LISTS:
            parts += [f"**{LISTS[head]}**", "", *_entries(rest, page_of)]
        elif all(line.startswith("    ") for line in block.splitlines()):
            parts += ["```text", _outdented(block), "```"]
        else:
            parts += [_flowing(line, page_of) for line in block.splitlines()]
        parts.append("")
    return "\n".join(parts)


def without_marks(example: str) -> str:
    """An example without the word that tells the tests to leave it out."""
    return re.sub(r"  # long$", "", example, flags=re.M)


def flowing(text: str, page_of: Pages = lambda name: None) -> str:
    """A sentence; what Markdown would read as its own signs is protected outside of backticks."""
    pieces = re.split(r"(`[^`]+`)", text)
    for i, piece in enumerate(pieces):
        if i % 2 == 0:
            pieces[i] = re.sub(r"([\\*_$\[\]|#~{}])", r"\\\1", piece).replace("<", "&lt;")
        elif page := page_of(piece.strip("`").removeprefix("fa.")):
            pieces[i] = f"[{piece}]({page})"
    return "".join(pieces)


def _flowing(line: str, page_of: Pages) -> str:
    """A line of a paragraph or of a list: a sign that would begin something else is protected."""
    mark = re.match(r"\s*(?:[-*]|\d+\.) ", line)
    if mark:
        return mark[0] + flowing(line[mark.end() :], page_of)
    return re.sub(r"^(\s*)([+>=-])", r"\1\\\2", flowing(line, page_of))


def _entries(text: str, page_of: Pages) -> list[str]:
    """`name: what it is`, with its continuation lines, as a list."""
    found: list[list[str]] = []
    for line in _outdented(text).splitlines():
        if line.startswith(" ") and found:
            found[-1].append(line.strip())
        else:
            found.append([line])
    listed = []
    for entry in found:
        name, colon, said = " ".join(entry).partition(": ")
        if colon:
            names = ", ".join(f"`{one}`" for one in name.split(", "))
            listed.append(f"- {names}: {flowing(said, page_of)}")
        else:
            listed.append(f"- {flowing(name, page_of)}")
    return listed


def _outdented(text: str) -> str:
    lines = text.splitlines()
    least = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    return "\n".join(line[least:] for line in lines)
