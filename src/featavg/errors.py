"""What featavg says when it is asked for something that cannot be."""

from __future__ import annotations

from collections.abc import Iterable


class InputError(ValueError):
    """Bad input, told in one sentence that names the argument and the remedy.

    The command line prints the sentence and exits with code 2; nothing has been written by then.

    >>> raise InputError("k", "is -3", "give at least two clusters")
    Traceback (most recent call last):
        ...
    featavg.errors.InputError: k is -3: give at least two clusters.
    """

    def __init__(self, argument: str, problem: str, remedy: str) -> None:
        self.argument, self.problem, self.remedy = argument, problem, remedy
        super().__init__(f"{argument} {problem}: {remedy}.")

    def __reduce__(self) -> tuple[type[InputError], tuple[str, str, str]]:
        # Exceptions are rebuilt from `args` in another process; ours has three, not one.
        return InputError, (self.argument, self.problem, self.remedy)


def one_of(argument: str, value: str, allowed: Iterable[str]) -> str:
    """Return `value` if it is one of `allowed`, otherwise say what is.

    >>> one_of("labels", "coarse", ("coarse", "fine"))
    'coarse'
    """
    options = list(allowed)
    if value not in options:
        raise InputError(argument, f"is {value!r}", f"choose one of {', '.join(options)}")
    return value
