"""The look of every table on the terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def console() -> Console:
    """Standard output; without a terminal rich would assume 80 columns and fold every number."""
    from rich.console import Console

    return Console(highlight=False) if sys.stdout.isatty() else Console(width=120, highlight=False)


def table(*columns: str, right: tuple[str, ...] = ()) -> Table:
    """An empty table with these columns, those of `right` set flush right."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    empty = Table(box=SIMPLE_HEAD, header_style="bold", pad_edge=False)
    for name in columns:
        justify = "right" if name in right else "left"
        empty.add_column(name, justify=justify, overflow="fold")  # type: ignore[arg-type]
    return empty
