"""Progress of one long computation: a bar on a terminal, else a plain line every few seconds."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

# Nothing is shown of what is over sooner than anyone would wonder.
_PATIENCE, _EVERY = 2.0, 5.0


class Progress(AbstractContextManager["Progress"]):
    """Call it with the share done and a note; it says when the rest will be done."""

    def __init__(self) -> None:
        self.started = self.spoken = monotonic()
        self.first: float | None = None
        self.bar: Bar | None = None

    def __call__(self, share: float, note: str) -> None:
        """Show that `share` of the work is done."""
        now = monotonic()
        if self.first is None:
            # A resumed run starts in the middle: the rate is that of this session.
            self.first, self.started = share, now
        if now - self.started < _PATIENCE:
            return
        line = f"{100 * share:3.0f}%  {self._left(share, now)}  {note}"
        if sys.stderr.isatty():
            self._draw(share, line)
        elif now - self.spoken >= _EVERY:
            self.spoken = now
            print(line, file=sys.stderr, flush=True)

    def _left(self, share: float, now: float) -> str:
        from featavg.figures.number_format import duration

        done = share - (self.first or 0.0)
        if done <= 0:
            return "time left unknown"
        return f"about {duration((now - self.started) * (1 - share) / done)} left"

    def _draw(self, share: float, line: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as Bar

        if self.bar is None:
            columns = (BarColumn(bar_width=28), TextColumn("{task.description}"))
            self.bar = Bar(*columns, console=Console(stderr=True), transient=True)
            self.bar.add_task("", total=1.0)
            self.bar.start()
        self.bar.update(self.bar.task_ids[0], completed=share, description=line)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.bar is not None:
            self.bar.stop()
