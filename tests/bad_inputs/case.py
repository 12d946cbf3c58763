"""One bad input, and how its answer is judged."""

from __future__ import annotations

import contextlib
import functools
import io
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from unittest import mock

import typer
import typer.main

from featavg.__main__ import main, make_app
from featavg.errors import InputError

_SLOW = "answered after"
# Seconds: whoever typed something wrong hears of it at once. Of this process, as others may be busy;
# what waits for somebody else (a pipe) uses none.
LIMIT, PATIENCE, WAIT = 2.0, 20.0, 200.0


@dataclass(frozen=True)
class Case:
    """A bad input.

    Attributes:
        text: as a person would type it.
        names: the sentence has to have one of them.
        call: hands it to featavg.
        is_command: whether it is a command line, or else a call.
    """

    text: str
    names: tuple[str, ...]
    call: Callable[[], object]
    is_command: bool = True

    def problem(self) -> str | None:
        """What is wrong with the answer, or None. Slow ones get a second chance: imports are over."""
        problem = self._problem()
        return self._problem() if problem is not None and problem.startswith(_SLOW) else problem

    def _problem(self) -> str | None:
        before, started = _files(), time.process_time()
        try:
            with _at_most(PATIENCE):
                problem = self._command() if self.is_command else self._call()
        except _TooSlowError:
            problem = f"no answer within {PATIENCE:g} s"
        seconds = time.process_time() - started  # of this process: others may be busy
        if problem is None and seconds > LIMIT:
            problem = f"{_SLOW} {seconds:.1f} s"
        after = _files()
        if problem is None and before != after:
            problem = f"wrote {', '.join(sorted(after ^ before)[:3])}"
        return problem

    def _command(self) -> str | None:
        out, error = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
            code = self.call()
        told = error.getvalue()
        if code != 2:
            return f"exit code {code}: {(told or out.getvalue()).strip()[-200:]}"
        if out.getvalue():
            return f"printed {out.getvalue()[:100]!r} before it"
        return self._judge(told)

    def _call(self) -> str | None:
        try:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                answer = self.call()
        except InputError as error:
            return self._judge(f"{error}\n")
        except Exception as error:
            return f"{type(error).__name__}: {error}".replace("\n", " ")[:250]
        return f"accepted: {type(answer).__name__}"

    def _judge(self, told: str) -> str | None:
        if told.count("\n") != 1 or not told.endswith(".\n"):
            return f"not one sentence: {told[-300:]!r}"
        if not any(name in told for name in self.names):
            return f"does not name {self.names[0]}: {told.strip()}"
        return None if ": " in told else f"no remedy: {told.strip()}"


def command(line: list[str], *names: str) -> Case:
    """A bad command line, run in this process; the program is put together once for all of them."""

    def call() -> int:
        with mock.patch("featavg.__main__.make_app", _program):
            return main(line)

    return Case("featavg " + " ".join(line), names, call)


@functools.cache
def _program() -> object:
    return typer.main.get_command(make_app())


class _TooSlowError(BaseException):
    """Not an `Exception`: the program would take it for one of its own."""


@contextlib.contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    def too_slow(*_: object) -> None:
        raise _TooSlowError

    timers = ((signal.SIGPROF, signal.ITIMER_PROF, seconds),)
    timers += ((signal.SIGALRM, signal.ITIMER_REAL, WAIT),)
    before = [signal.signal(number, too_slow) for number, _, _ in timers]
    for _, timer, length in timers:
        signal.setitimer(timer, length)
    try:
        yield
    finally:
        for (number, timer, _), handler in zip(timers, before, strict=True):
            signal.setitimer(timer, 0)
            signal.signal(number, handler)


def _files() -> set[str]:
    """All that is below the working folder."""
    return {f"{folder}/{name}" for folder, folders, files in os.walk(".") for name in (*folders, *files)}
