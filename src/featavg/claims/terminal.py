"""What a run shows on the terminal: progress with the time left, then the table of verdicts."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING

from featavg.claims import check_text
from featavg.claims.ledger import Claim, Verdict
from featavg.claims.result import Outcome
from featavg.figures.figure import without_tags
from featavg.figures.number_format import duration

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table

COLOURS = {
    Verdict.HOLDS: "green",
    Verdict.IN_PART: "yellow",
    Verdict.FAILS: "red",
    Verdict.NOT_RUN: "dim",
}


class Watch(AbstractContextManager["Watch"]):
    """Progress over claims: a bar on a terminal, otherwise a plain line every few seconds.

    The time left is the claims' own estimates, rescaled by how this machine has done so far.
    """

    def __init__(
        self, claims: Sequence[Claim], console: Console | None = None, quiet: bool = False
    ) -> None:
        from rich.console import Console

        self.console, self.quiet = console or Console(stderr=True), quiet
        self.total = sum(float(claim.minutes) for claim in claims)
        self.count, self.index, self.done = len(claims), 0, 0.0
        self.current: Claim | None = None
        self.started = self.spoken = perf_counter()
        self.bar: Progress | None = None

    def __enter__(self) -> Watch:
        if self.console.is_terminal and not self.quiet:
            from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

            self.bar = Progress(
                SpinnerColumn(),
                TextColumn("{task.fields[index]}/{task.fields[count]}"),
                BarColumn(bar_width=28),
                TextColumn("{task.percentage:>3.0f}%  {task.fields[left]}  {task.description}"),
                console=self.console,
                transient=True,
            )
            total = max(self.total, 1e-9)
            self.bar.add_task("", total=total, index=0, count=self.count, left="")
            self.bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.bar is not None:
            self.bar.stop()

    def start(self, claim: Claim) -> None:
        """A claim begins."""
        self.current, self.index = claim, self.index + 1
        self.update(0.0, "")

    def update(self, fraction: float, note: str) -> None:
        """The claim is `fraction` of the way; `note` says what it is doing."""
        assert self.current is not None
        at = self.done + min(max(fraction, 0.0), 1.0) * float(self.current.minutes)
        line = f"{self.current.id}  {note}".rstrip()
        if self.bar is not None:
            task, left = self.bar.task_ids[0], self._left(at)
            self.bar.update(task, completed=at, description=line, index=self.index, left=left)
        elif perf_counter() - self.spoken > 5:
            self._say(f"[{self.index}/{self.count}] {line} ({self._left(at)})")

    def finish(self, outcome: Outcome) -> None:
        """The claim has its verdict."""
        assert self.current is not None
        self.done += float(self.current.minutes)
        if self.bar is None:
            told = f"{outcome.verdict.symbol} {outcome.id}: {outcome.verdict.value}"
            self._say(f"[{self.index}/{self.count}] {told}, {duration(outcome.seconds)}")

    def _say(self, line: str) -> None:
        self.spoken = perf_counter()
        if not self.quiet:
            print(line, file=self.console.file, flush=True)

    def _left(self, at: float) -> str:
        # A tenth of the whole counts as already measured at the estimated speed, so that the first
        # seconds do not swing the estimate.
        prior = self.total / 10
        rate = (perf_counter() - self.started + 60 * prior) / max(at + prior, 1e-9)
        return f"about {duration(max(rate * (self.total - at), 1.0))} left"


def verdict_table(outcomes: Sequence[Outcome]) -> Table:
    """All claims with verdict, the number that tells most, its tolerance, and the time."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, header_style="bold", pad_edge=False)
    table.add_column("verdict", no_wrap=True)
    table.add_column("claim", overflow="fold")
    table.add_column("measured", overflow="fold")
    table.add_column("tolerance", no_wrap=True)
    table.add_column("time", justify="right", no_wrap=True)
    theme = None
    for outcome in outcomes:
        if theme is not None and outcome.theme != theme:
            table.add_section()
        theme, colour = outcome.theme, COLOURS[outcome.verdict]
        verdict = Text(f"{outcome.verdict.symbol} {outcome.verdict.value}", colour)
        when = f"recorded {outcome.when[:10]}" if outcome.recorded else ""
        time = when or (duration(outcome.seconds) if outcome.seconds else "")
        if outcome.evidence is None:
            table.add_row(verdict, outcome.id, Text(outcome.reason, "dim"), "", time)
            continue
        check = outcome.evidence.key_check
        told = Text(f"{without_tags(check.name)}: {check_text.measured(check)}")
        table.add_row(verdict, outcome.id, told, check_text.tolerance(check), time)
    return table


def summary(outcomes: Sequence[Outcome]) -> str:
    """The count of verdicts in one line."""
    counts = Counter(outcome.verdict for outcome in outcomes)
    told = [f"{counts[v]} {v.value}" for v in Verdict if counts[v]]
    return f"{len(outcomes)} claims: {', '.join(told)}" if told else "no claims"


def show(outcomes: Sequence[Outcome]) -> None:
    """Print the table and the count."""
    from rich.console import Console

    # Without a terminal rich would assume 80 columns and fold every id.
    console = Console() if sys.stdout.isatty() else Console(width=120)
    console.print(verdict_table(outcomes))
    console.print(summary(outcomes), style="bold")
