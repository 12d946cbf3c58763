"""Flags that commands share: those made from the fields of a setting, and the threads of torch."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import Field
from pathlib import Path
from typing import Annotated, Any

import typer

from featavg.cli.checked import MOST_WORKERS
from featavg.fields import from_text, in_words, kinds_of
from featavg.simulate.setting import FIELDS

Threads = Annotated[
    int,
    typer.Option(
        min=0,
        max=MOST_WORKERS,
        help="Threads of torch; 0 leaves its own choice. The last bits depend on it.",
    ),
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
            inspect.Parameter(
                one.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=None,
                annotation=_flag(one, sections),
            )
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
