"""Every command with its flags, read from the program itself; bad numbers and words for every flag."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import typer
from tests.bad_inputs.case import Case, command

from featavg.__main__ import make_app

# What each command needs beside the flag in question, and the least work should it be believed.
NEEDED: dict[str, list[str]] = {
    "radius": ["result", "--points=2"],
    "sweep": ["--vary=cosine=0,0.5", "--set=n=20", "--set=steps=1", "--seeds=1", "--engine=serial"],
    "reproduce": ["--only=lemma-1"],
    "run": ["lemma-12-epsilon", "--seeds=1"],
    "audit": ["tiny_model:net", "--data=digits", "--images=20", "--radii=2", "--gradients=2"],
    "images train": ["digits", "coarse", "--epochs=1"],
    "presets": [],
}
# Zero means something here: none, off, the default, or a number like any other.
ZERO_IS_GOOD = {
    "--seed", "--sigma", "--sigma-w", "--sigma-b", "--steps", "--cosine", "--beta", "--threads",
    "--checkpoint-every", "--samples", "--hint", "--noise", "--until", "--momentum",
    "--n-test", "--inner-scale", "--mean", "--leak", "--alpha", "--target-loss",
    "--label-share", "--label-wrong", "--label-per-cluster",
}  # fmt: skip
ONE_IS_BAD = {"--cosine", "--beta", "--momentum", "--k", "--r"}
# Minus one means something: a loss of 0.1, an angle, a cosine that is possible for two features.
NEGATIVE_IS_GOOD = {"--until", "--angle", "--leak", "--cosine"}
HUGE_IS_GOOD = {"--seed", "--passes"}
# What the sentence may call a flag beside its own name.
ALSO = {
    "--show": "preset", "--workers": "engine",
    "--checkpoint-every": "checkpoint_seconds", "--vary": "cosine is", "--set": "n is",
}  # fmt: skip
# Any length of these is as good as another: they are cut, or bound nothing that costs.
BOUNDLESS = {"--images", "--points", "--gradients", "--radii", "--every",
             "--steps", "--epochs", "--d", "--samples", "--save-every", "--clusters",
             "--label-per-cluster"}  # fmt: skip


def cases() -> Iterator[Case]:
    """All of them."""
    for each in commands():
        for flag in each.flags:
            for value in _bad_values(each, flag):
                yield _case(each, flag, value)
        yield command([*each.words, "--no-such-flag"], "--no-such-flag")
        yield command([*each.words, *NEEDED.get(each.name, []), *["much"] * 6], "much")
    for line in ([], ["images"]):
        yield command([*line, "no-such-command"], "no-such-command")


def _case(each: Command, flag: Flag, value: str) -> Case:
    needed = [word for word in NEEDED.get(each.name, []) if not word.startswith(f"{flag.name}=")]
    bare = flag.name.lstrip("-")
    names = (flag.name, ALSO.get(flag.name, flag.name), bare, bare.replace("-", "_"), bare.upper())
    if flag.is_option:
        return command([*each.words, *needed, f"{flag.name}={value}"], *names)
    names = (*names, value or "an argument", repr(value)[1:-1])
    return command([*each.words, value, *needed[1:]], *names)


def _bad_values(each: Command, flag: Flag) -> Iterator[str]:
    if flag.kind is bool:
        return
    yield ""
    if flag.kind in (int, float):
        yield from ("abc", "nan", "1e999", "0x", "1,2", "--", "one", "½", "∞", "0b1", "1__0")
        yield from ("1.2.3", "\udcff", "$(x)", "{0}")
        yield from ("1 2", "1\n2", "a" * 100_000)
        yield from _bad_numbers(each, flag)
    if flag.kind is float:
        yield from ("inf", "-inf", "1e308", "-1e308", "Infinity", "-NaN")
        if flag.name not in ZERO_IS_GOOD:
            yield "1e-400"
    if flag.kind is int:
        yield from ("1.5", "1e3")
        if flag.name not in HUGE_IS_GOOD:
            yield from ("1000000000000000000000000000000", "-9223372036854775809")
        if flag.name not in HUGE_IS_GOOD | BOUNDLESS:
            yield "1000000000000000000"
    if flag.kind is str and flag.name not in WORDS_ARE_GOOD:
        yield from BAD_WORDS.get(flag.name, ODD_WORDS)


ODD_WORDS = ("no-such-thing", "nan", "[/x]", "é", "a" * 300, " ", "a\nb", "\udcff", "{0}%s", "\x1b[31m")
WORDS_ARE_GOOD: set[str] = set()
BAD_WORDS = {
    "--mean": ("no-such-thing", "nan", "[/x]", "1,2,3,4,5,6,7"),
    "--std": ("no-such-thing", "nan", "0", "-1", "[/x]"),
    "--log-times": ("no-such-thing", "nan", "[/x]", "1,,2"),
    "--channels": ("no-such-thing", "nan,nan", "0,1", "1", "1,2,3", "1.5,2"),
    "--vary": ["no-such-thing", "=", "cosine=", "cosine=a", "nobody=1,2", "cosine=0:1:0", "d=1:2:log"],
    "--set": ("no-such-thing", "=", "n=", "n=a", "nobody=1", "n=1,2", "n=-1"),
    "--positive": ("no-such-thing", "nan", "-1", "1,1", "0", "99", "1.5"),
    "--norms": ("no-such-thing", "nan", "-1", "0", "1,2", "inf"),
    "--probabilities": ("no-such-thing", "nan", "1", "1,2", "-1,2"),
    "--gram": ("no-such-thing", "nan", "[/x]"),
    "--device": ("no-such-thing", "nan", "cuda:x", "[/x]"),
}


def _bad_numbers(each: Command, flag: Flag) -> Iterator[str]:
    if flag.name not in NEGATIVE_IS_GOOD:
        yield "-1"
    if flag.name not in ZERO_IS_GOOD:
        yield "0"
    if flag.name in ONE_IS_BAD:
        yield "1"


@dataclass(frozen=True)
class Flag:
    """One parameter of a command: its name on the line, and the type of one value."""

    name: str
    kind: type
    is_option: bool


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
        plain = next(a for a in (*typing.get_args(annotation), annotation) if a is not type(None))
        kind = typing.get_args(plain)[0] if typing.get_origin(plain) is list else plain
        yield Flag(flag, kind, is_option)
