"""Validates the flags of a command before it runs.

Ranges of single flags stand beside the flags (`typer.Option(min=1)`), and what belongs to a model is
checked by the model. Here is what holds for every flag: numbers are finite and of a size that a
machine can count to, names can be names of files, and nothing is empty.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from featavg.cli.output import STANDARD_OUTPUT, machine_file
from featavg.errors import InputError
from featavg.storage.filenames import check_file_name

# Beyond these no setting makes sense, and sums and squares of them are not numbers any more.
LARGEST, MOST = 1e100, 10**18
# Of seeds, processes and points: far more than anyone runs, far less than takes the machine down.
MOST_SEEDS, MOST_WORKERS, MOST_POINTS, MOST_NEURONS = 100_000, 4096, 10_000_000, 1_000_000
MOST_WIDTH = 4096  # channels


def checked(callback: Callable[..., Any]) -> Callable[..., Any]:
    """`callback`, called only with values that can be meant."""

    @functools.wraps(callback)
    def command(**flags: Any) -> Any:
        for name, value in flags.items():
            for single in value if isinstance(value, (list, tuple)) else (value,):
                _check(name.strip("_").replace("_", "-"), single)
        with machine_file(flags.get("json")) as path:
            return callback(**(flags | {"json": path} if path else flags))

    return command


def refuse_empty(words: Sequence[str]) -> None:
    """Refuse `--out ""` and `--out=`: an empty name would silently mean the working folder."""
    for i, word in enumerate(words):
        if word == "--":
            return
        if word == "":
            before = words[i - 1] if i else ""
            name = before if before.startswith("-") else "an argument"
            raise InputError(name, "is empty", "give a value, or leave it out")
        if word.startswith("--") and word.endswith("="):
            raise InputError(word[:-1], "is empty", "give a value, or leave it out")


def _check(name: str, value: Any) -> None:
    if isinstance(value, bool) or value is None:
        return
    if isinstance(value, float) and not abs(value) <= LARGEST:
        problem = f"is {value:g}"
        raise InputError(name, problem, f"give a finite number of at most {LARGEST:g}")
    if isinstance(value, int) and abs(value) > MOST:
        raise InputError(
            name, f"is {float_of(value)}", f"give a whole number of at most {MOST:.0e}"
        )
    if isinstance(value, Path):
        check_file_name(name, value)
        if name == "json" and value != STANDARD_OUTPUT:  # written last: said before hours of work
            from featavg.storage.files import usable_file

            usable_file(value, name)
    if isinstance(value, str) and "\0" in value:
        raise InputError(name, "has a zero byte", "give plain text")


def float_of(value: int) -> str:
    """A number of any length in a few characters."""
    return (
        f"{value:.3g}"
        if abs(value) < 10**300
        else f"a number of {int(math.log10(abs(value)))} digits"
    )
