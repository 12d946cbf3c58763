"""Progress callbacks and the progress bar.

Whatever takes longer than a few seconds has an argument `progress: Progress | None`, and calls it
with the share that is done (0 to 1) and a note. `ProgressBar` is such a function: a bar on a
terminal and in a notebook, a plain line every few seconds where there is neither.

>>> def slow(progress: Progress = silent) -> None:
...     for i in range(4):
...         progress(i / 4, f"seed {i}")
>>> with ProgressBar() as bar:
...     slow(bar)  # nothing is shown of what is over within two seconds
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from html import escape
from importlib import import_module
from time import monotonic
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Protocol, TypeAlias, cast, runtime_checkable

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

# The share of the work that is done, between 0 and 1, and what is being done.
Progress: TypeAlias = Callable[[float, str], None]

# Nothing is shown of what is over sooner than anyone would wonder.
PATIENCE = 2.0
# Seconds between two lines in a log, and between two changes of a bar in a notebook.
LINE_EVERY, NOTEBOOK_EVERY = 5.0, 0.25
# Runs longer than this are announced early: a mistyped size can mean hours.
LONG = 900.0


@runtime_checkable
class Stream(Protocol):
    """What a line can be written to: a terminal, a log, a string."""

    def write(self, text: str, /) -> object: ...  # noqa: D102 (as in io.TextIOBase)
    def flush(self) -> object: ...  # noqa: D102
    def isatty(self) -> bool: ...  # noqa: D102


def silent(share: float, note: str) -> None:
    """Ignores progress."""


def part(progress: Progress | None, start: float, end: float) -> Progress:
    """The progress of a part of the work: its 0 is `start` of the whole, its 1 is `end`.

    >>> second_half = part(lambda share, note: print(share, note), 0.5, 1.0)
    >>> second_half(0.5, "radii")
    0.75 radii
    """
    if progress is None:
        return silent
    whole = progress
    return lambda share, note: whole(start + (end - start) * share, note)


def duration(seconds: float) -> str:
    """A length of time, in the unit a person would use.

    >>> duration(0.0312), duration(7.26), duration(200), duration(8000), duration(1e6), duration(1e9)
    ('0.03 s', '7.3 s', '3 min 20 s', '2 h 13 min', '12 days', '32 years')
    """
    if seconds < 60:
        return f"{seconds:.{0 if seconds >= 10 else 1 if seconds >= 1 else 2}f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    days = seconds / 86400
    if days <= 2:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{days:.0f} days" if days <= 730 else f"{days / 365.25:,.0f} years"


class ProgressBar(AbstractContextManager["ProgressBar"]):
    """Shows how far one long computation is, and how long the rest will take.

    Args:
        expected: an estimate of the seconds of the whole. It counts as a tenth of the work, done
            at that speed, so that the first seconds do not swing the time left. Without it the
            time left is extrapolated from what was done since the first call: a resumed run starts
            in the middle.
        patience: seconds before anything is shown.
        quiet: show nothing at all; by default that is so when the logger "featavg" lets nothing
            below an error through, as after `featavg --quiet`.
        stream: where to show it; standard error by default.

    >>> import featavg as fa
    >>> with fa.ProgressBar(quiet=True) as bar:
    ...     bar(0.5, "half of it")
    """

    def __init__(
        self,
        expected: float | None = None,
        patience: float = PATIENCE,
        quiet: bool | None = None,
        stream: Stream | None = None,
    ) -> None:
        self.expected, self.patience, self.stream = expected, patience, stream or sys.stderr
        silenced = logging.getLogger("featavg").getEffectiveLevel() > logging.WARNING
        self.quiet = silenced if quiet is None else quiet
        self.started = self.last_shown = monotonic()
        self.first_share: float | None = None
        self._announced = False
        self._bar: RichProgress | None = None
        self._notebook_output: Any = None

    def __call__(self, share: float, note: str) -> None:
        """Show that `share` of the work is done, and what is being done."""
        now, share = monotonic(), min(max(share, 0.0), 1.0)
        if self.first_share is None:
            self.first_share = share
            self.started = self.started if self.expected else now
        if self.quiet or now - self.started < self.patience:
            return
        left = self.seconds_left(share, now)
        rest = "time left unknown" if left is None else f"about {duration(left)} left"
        line = f"{100 * share:3.0f}%  {rest}  {note}".rstrip()
        if self.stream.isatty():
            self._draw(share, line)
        elif (display := _notebook_display()) is not None:
            if self._notebook_output is None or now - self.last_shown >= NOTEBOOK_EVERY:
                self.last_shown = now
                self._display(display, share, line)
        elif now - self.last_shown >= LINE_EVERY:
            self._print(line, now)
        if not self._announced and self.expected is None and left is not None and left > LONG:
            self._announced = True
            self._announce(f"This takes about {duration(left)} at this speed; Ctrl-C stops it.")

    def say(self, line: str) -> None:
        """Prints a line that stays, except on a terminal, which has the bar."""
        if not self.quiet and not self.stream.isatty():
            self._print(line, monotonic())

    def seconds_left(self, share: float, now: float) -> float | None:
        """How long the rest will take, by the speed so far; None before anything was done."""
        spent = now - self.started
        if self.expected is not None:
            rate = (spent + self.expected / 10) / (share + 0.1)
            return max(rate * (1 - share), 1.0)
        done = share - (self.first_share or 0.0)
        return spent * (1 - share) / done if done > 0 else None

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()
        if self._notebook_output is not None:
            self._notebook_output.update({"text/plain": "", "text/html": ""}, raw=True)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _print(self, line: str, now: float) -> None:
        self.last_shown = now
        print(line, file=self.stream, flush=True)

    def _announce(self, sentence: str) -> None:
        """A sentence that stays, above the bar if there is one."""
        if self._bar is not None:
            self._bar.console.print(sentence, markup=False, highlight=False)
        elif self._notebook_output is None:
            print(sentence, file=self.stream, flush=True)

    def _draw(self, share: float, line: str) -> None:
        from rich.console import Console
        from rich.markup import escape as escape_markup
        from rich.progress import BarColumn, SpinnerColumn, TextColumn
        from rich.progress import Progress as RichProgress

        if self._bar is None:
            columns = (SpinnerColumn(), BarColumn(bar_width=28), TextColumn("{task.description}"))
            console = Console(file=cast("IO[str]", self.stream), force_terminal=True)
            self._bar = RichProgress(*columns, console=console, transient=True)
            self._bar.add_task("", total=1.0)
            self._bar.start()
        task = self._bar.task_ids[0]
        self._bar.update(task, completed=share, description=escape_markup(line))

    def _display(self, display: Any, share: float, line: str) -> None:
        # Not rich's own bar: in a notebook it needs ipywidgets, and shows nothing without.
        bar = f'<progress value="{share:.4f}" max="1" style="width: 16em"></progress>'
        content = {"text/plain": line, "text/html": f"{bar} <span>{escape(line)}</span>"}
        if self._notebook_output is None:
            self._notebook_output = display(content, raw=True, display_id=True)
        else:
            self._notebook_output.update(content, raw=True)


def is_watched() -> bool:
    """Whether there is a terminal or a notebook to show progress in."""
    return sys.stderr.isatty() or _notebook_display() is not None


def _notebook_display() -> Any:
    """IPython's `display` where there is a notebook to show things in, else None."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None or not hasattr(shell, "kernel"):
        return None
    return import_module("IPython.display").display
