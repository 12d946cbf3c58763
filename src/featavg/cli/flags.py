"""The flags of commands: those made from the fields of a setting, those that commands share, their checks.

Ranges of single flags stand beside the flags (`typer.Option(min=1)`), and what belongs to a model is
checked by the model. What holds for every flag is checked here: numbers are finite and of a size that a
machine can count to, names can be names of files, and nothing is empty.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import Field
from pathlib import Path
from typing import Annotated, Any

import typer

from featavg.boundary.coerce import short
from featavg.boundary.kinds import MOST
from featavg.cli.output import STANDARD_OUTPUT, machine_file
from featavg.errors import InputError
from featavg.fields import from_text, in_words, kinds_of
from featavg.simulate.setting import FIELDS
from featavg.storage.files import check_file_name, usable_file

# Beyond these no setting makes sense, and sums and squares of them are not numbers any more.
LARGEST = 1e100
# Of seeds, processes and points: far more than anyone runs, far less than takes the machine down.
MOST_SEEDS, MOST_WORKERS, MOST_POINTS, MOST_NEURONS = 100_000, 4096, 10_000_000, 1_000_000
MOST_WIDTH = 4096  # channels

Threads = Annotated[
    int,
    typer.Option(
        min=0, max=MOST_WORKERS, help="Threads of torch; 0 leaves its own choice. The last bits depend on it."
    ),
]
DataDir = Annotated[Path | None, typer.Option("--data-dir", envvar="FEATAVG_DATA", help="Folder with data sets.")]
Groups = Annotated[
    str | None, typer.Option(help="Coarse classes: parity, halves, or as 0,1,2/3,4,5 (of two the first is class 1).")
]
Command = Callable[..., None]
_KINDS = {"int": int, "float": float, "bool": bool}


def with_fields(*names: str, sections: bool = False) -> Callable[[Command], Command]:
    """Puts a flag for each field of `Setting` in the place of `**fields`, before flags behind a `*`.

    Args:
        names: which fields; all those without a flag of the same name if none is named.
        sections: whether the help shows the flags in sections.
    """

    def add(command: Command) -> Command:
        own = [p for p in inspect.signature(command).parameters.values() if p.name != "fields"]
        mine = {parameter.name for parameter in own}
        wanted = names or FIELDS.keys() - mine
        flags = [
            inspect.Parameter(one.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_flag(one, sections))
            for one in FIELDS.values()
            if one.name in wanted
        ]
        first = [p for p in own if p.kind is not inspect.Parameter.KEYWORD_ONLY]
        last = [p for p in own if p.kind is inspect.Parameter.KEYWORD_ONLY]
        made = inspect.Signature([*first, *flags, *last])
        command.__signature__ = made  # type: ignore[attr-defined]
        command.__annotations__ = {n: p.annotation for n, p in made.parameters.items()}
        return command

    return add


def given(flags: dict[str, Any]) -> dict[str, Any]:
    """The fields of `Setting` among the flags that were given, lists of numbers read from their text."""
    said = {name: value for name, value in flags.items() if name in FIELDS and value is not None}
    lists = [n for n, v in said.items() if isinstance(v, str) and "str" not in kinds_of(FIELDS[n])]
    return said | {name: from_text(FIELDS[name], said[name]) for name in lists}


def _flag(one: Field[Any], in_section: bool) -> Any:
    known, kinds = one.metadata, kinds_of(one)
    several = any("[" in kind for kind in kinds)
    plain = str if several else _KINDS.get(kinds[0], str)
    text = f"{known['text']}: {in_words(known['choices'])}" if known["choices"] else known["text"]
    shown = f"{one.default:g}" if isinstance(one.default, float) else f"{one.default}"
    shown = known["unset"] if one.default in (None, math.inf) else shown
    text += f" [{shown}]" if shown and one.default is not False else ""
    option = typer.Option(help=f"{text}.", rich_help_panel=known["section"] if in_section else None)
    return Annotated[(Path if known["file"] else plain) | None, option]


def use_torch(threads: int) -> None:
    """Say how to get torch if it is missing, and set its threads."""
    from featavg.errors import torch_needed

    torch_needed()
    if threads:
        import torch

        torch.set_num_threads(threads)


def checked(callback: Callable[..., Any]) -> Callable[..., Any]:
    """`callback` with the values of its flags validated."""

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
        raise InputError(name, f"is {value:g}", f"give a finite number of at most {LARGEST:g}")
    if isinstance(value, int) and abs(value) > MOST:
        shown = f"{value:.3g}" if abs(value) < 10**300 else short(value)
        raise InputError(name, f"is {shown}", f"give a whole number of at most {MOST:.0e}")
    if isinstance(value, Path):
        check_file_name(name, value)
        if name == "json" and value != STANDARD_OUTPUT:  # written last: said before hours of work
            usable_file(value, name)
    if name == "data" and isinstance(value, str):
        check_file_name(name, value)
    if isinstance(value, str) and "\0" in value:
        raise InputError(name, "has a zero byte", "give plain text")
