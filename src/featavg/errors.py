"""Bad input, refused in one plain sentence."""

from __future__ import annotations

import math
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

_LONGEST = 1000  # characters; a longer sentence is cut


class InputError(ValueError):
    """Bad input, in one sentence that names the argument and the remedy.

    The command line prints the sentence and exits with code 2; nothing has been written by then.

    >>> import featavg as fa
    >>> raise fa.InputError("k", "is -3", "give at least two clusters")
    Traceback (most recent call last):
        ...
    featavg.errors.InputError: k is -3: give at least two clusters.
    """

    def __init__(self, argument: str, problem: str, remedy: str) -> None:
        self.argument, self.problem, self.remedy = argument, problem, remedy
        super().__init__(_one_line(f"{argument} {problem}: {remedy}."))

    def __reduce__(self) -> tuple[type[InputError], tuple[str, str, str]]:
        # Exceptions are rebuilt from `args` in another process; ours has three, not one.
        return InputError, (self.argument, self.problem, self.remedy)


def _one_line(sentence: str) -> str:
    """Strips line breaks and control characters, and truncates."""
    text = " ".join(sentence.split())
    text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]} ... {text[-_LONGEST // 2 :]}"


def message_of(error: BaseException) -> str:
    """The kind of an error and what it says; of one that cannot be printed, its kind.

    >>> message_of(KeyError("no such layer"))
    "KeyError: 'no such layer'"
    """
    kind = type(error).__name__
    try:
        words = str(error)
    except Exception:  # whatever a stranger's __str__ raises
        words = "its message cannot be printed"
    return f"{kind}: {words}" if words else kind


def one_of(argument: str, value: str, allowed: Iterable[str]) -> str:
    """Return `value` if it is one of `allowed`, otherwise say what is.

    >>> one_of("labels", "coarse", ("coarse", "fine"))
    'coarse'
    """
    options = list(allowed)
    if value not in options:
        raise InputError(argument, f"is {value!r}", f"choose one of {', '.join(options)}")
    return value


def finite(
    argument: str,
    value: Any,
    *,
    least: float | None = None,
    most: float | None = None,
    above: float | None = None,
    below: float | None = None,
) -> float:
    """Return `value` if it is a finite number in the stated range, otherwise say which it is.

    >>> finite("beta", 0.5, least=0, below=1)
    0.5
    >>> finite("rate", -1.0, above=0)
    Traceback (most recent call last):
        ...
    featavg.errors.InputError: rate is -1.0: give a finite number above 0.
    """
    number = not isinstance(value, bool) and isinstance(value, Real) and math.isfinite(value)
    inside = number and (
        (least is None or value >= least)
        and (most is None or value <= most)
        and (above is None or value > above)
        and (below is None or value < below)
    )
    if not inside:
        limits = (("of at least", least), ("at most", most), ("above", above), ("below", below))
        words = " and ".join(f"{word} {limit:g}" for word, limit in limits if limit is not None)
        raise InputError(argument, f"is {value}", f"give a finite number {words}".rstrip())
    return value


def whole(argument: str, value: Any, *, least: int, most: int | None = None) -> int:
    """Return `value` if it is a whole number in the stated range, otherwise say that it must be.

    >>> whole("steps", float("nan"), least=0)
    Traceback (most recent call last):
        ...
    featavg.errors.InputError: steps is nan: give a whole number, 0 or more.
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < least:
        raise InputError(argument, f"is {value}", f"give a whole number, {least} or more")
    if most is not None and int(value) > most:
        raise InputError(argument, f"is {float(value):.3g}", f"give at most {most:.7g}")
    return int(value)


def torch_needed(name: str = "torch") -> None:
    """Say how to get PyTorch if it is not installed; `name` is what needs it."""
    from importlib.util import find_spec

    if find_spec("torch") is None:
        from featavg.storage.places import install_command

        problem = "is not installed" if name == "torch" else "needs PyTorch, which is not installed"
        raise InputError(name, problem, install_command("torch"))
