"""Faces: what a folder offers stands in its `__init__.pyi`, one line per name, and nowhere else.

Type checkers read the page as it is. At run time a name is imported from the file where it lives
when somebody asks for it, so a folder costs nothing until it is used, and PyTorch is not loaded for
a folder that also has parts which need it. This is the `attach_stub` of Scientific Python's SPEC 1,
with one difference: nothing is kept here. A function that a test, or a user, replaces where it
lives is replaced for everyone who comes in through the face.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path


@cache
def homes(init: str) -> dict[str, str]:
    """The names that the page beside `init` states, each with the module where it lives.

    >>> import featavg.training.linear as folder
    >>> homes(folder.__file__)["linear_flow"]
    'featavg.paper.margins.linear_flow'
    """
    page = Path(init).with_suffix(".pyi").read_text(encoding="utf-8")
    # A long line is broken by the formatter, always in the same way.
    page = page.replace("(\n    ", "").replace(",\n)", "")
    lines = (line.split() for line in page.splitlines() if line.startswith("from "))
    return {name: module for _, module, _, name, *_ in lines}


def face(package: str, init: str) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package whose names stand in its `__init__.pyi`."""

    def look_up(name: str) -> object:
        home = homes(init).get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(home), name)

    def names() -> list[str]:
        return sorted(homes(init))

    return look_up, names
