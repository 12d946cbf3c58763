"""Every command with its parameters, read from the program itself."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import typer

from featavg.cli.app import make_app


@dataclass(frozen=True)
class Flag:
    """One parameter of a command: its name on the line, and the type of one value."""

    name: str
    kind: type
    is_option: bool
    repeated: bool


@dataclass(frozen=True)
class Command:
    """A command and its parameters."""

    words: tuple[str, ...]
    flags: tuple[Flag, ...]

    @property
    def name(self) -> str:
        return " ".join(self.words)


def commands() -> list[Command]:
    """All of them, those of groups included."""
    return list(_commands(make_app(), ()))


def _commands(app: typer.Typer, above: tuple[str, ...]) -> Iterator[Command]:
    for info in app.registered_commands:
        assert info.name is not None
        assert info.callback is not None
        yield Command((*above, info.name), tuple(_flags(info.callback)))
    for group in app.registered_groups:
        assert group.typer_instance is not None
        yield from _commands(group.typer_instance, (*above, str(group.name)))


def _flags(callback: Any) -> Iterator[Flag]:
    function = inspect.unwrap(callback)
    hints = typing.get_type_hints(function, include_extras=True)
    for name in inspect.signature(function).parameters:
        annotation, about = typing.get_args(hints[name])[:2]
        declared = getattr(about, "param_decls", None) or ()
        is_option = isinstance(about, typer.models.OptionInfo)
        shown = next((d.split("/")[0] for d in declared if d.startswith("--")), None)
        flag = shown or ("--" if is_option else "") + name.strip("_").replace("_", "-")
        kind, repeated = _kind(annotation)
        yield Flag(flag, kind, is_option, repeated)


def _kind(annotation: Any) -> tuple[type, bool]:
    """The type of one value, and whether there may be several."""
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union:
        annotation = next(a for a in typing.get_args(annotation) if a is not type(None))
    if typing.get_origin(annotation) is list:
        return typing.get_args(annotation)[0], True
    return annotation, False
