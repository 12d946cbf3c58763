"""Bad numbers and words on the command line: for every flag of every command."""

from __future__ import annotations

from collections.abc import Iterator

from tests.bad_inputs.case import Case, command
from tests.bad_inputs.command_table import Command, Flag, commands

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
             "--steps", "--epochs", "--d", "--samples", "--save-every", "--clusters"}  # fmt: skip


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
    return command(
        [*each.words, value, *needed[1:]], *names, value or "an argument", repr(value)[1:-1]
    )


def _bad_values(each: Command, flag: Flag) -> Iterator[str]:
    if flag.kind is bool:
        return
    yield ""
    if flag.kind in (int, float):
        yield from ("abc", "nan", "1e999", "0x", "1,2", "1 2", "--", "one")
        yield from (
            "½",
            "∞",
            "0b1",
            "1__0",
            "1.2.3",
            "\udcff",
            "1\n2",
            "$(x)",
            "{0}",
            "a" * 100_000,
        )
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


ODD_WORDS = (
    "no-such-thing", "nan", "[/x]", "é", "a" * 300, " ", "a\nb", "\udcff", "{0}%s", "\x1b[31m",
)  # fmt: skip
WORDS_ARE_GOOD: set[str] = set()
BAD_WORDS = {
    "--mean": ("no-such-thing", "nan", "[/x]", "1,2,3,4,5,6,7"),
    "--std": ("no-such-thing", "nan", "0", "-1", "[/x]"),
    "--log-times": ("no-such-thing", "nan", "[/x]", "1,,2"),
    "--channels": ("no-such-thing", "nan,nan", "0,1", "1", "1,2,3", "1.5,2"),
    "--vary": (
        "no-such-thing",
        "=",
        "cosine=",
        "cosine=a",
        "nobody=1,2",
        "cosine=0:1:0",
        "d=1:2:log",
    ),
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
