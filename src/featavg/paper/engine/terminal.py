"""What a run shows on the terminal: progress with the time left, then the table of verdicts."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING

from featavg.figures.typeset import without_tags
from featavg.paper.engine.check import measured_text, tolerance_text
from featavg.paper.engine.claim import Claim, Verdict
from featavg.paper.engine.result import ClaimResult
from featavg.progress import ProgressBar, Stream, duration

if TYPE_CHECKING:
    from rich.table import Table

COLOURS = {
    Verdict.HOLDS: "green",
    Verdict.IN_PART: "yellow",
    Verdict.UNDECIDED: "magenta",
    Verdict.FAILS: "red",
    Verdict.NOT_RUN: "dim",
}


class Watch(AbstractContextManager["Watch"]):
    """Progress over claims, each as long as its own estimate says."""

    def __init__(
        self, claims: Sequence[Claim], stream: Stream | None = None, quiet: bool | None = None, workers: int = 1
    ) -> None:
        self.minutes = {claim.id: float(claim.minutes) for claim in claims}
        self.finished: list[str] = []
        seconds = 60 * sum(self.minutes.values()) / workers
        self.bar = ProgressBar(seconds, patience=0.0, quiet=quiet, stream=stream)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.close()

    def update(self, claim: Claim, share: float, note: str) -> None:
        """The claim is `share` of the way; `note` says what it is doing."""
        count = f"[{len(self.finished) + 1}/{len(self.minutes)}]"
        self._show(min(max(share, 0.0), 1.0) * float(claim.minutes), f"{count} {claim.id}  {note}")

    def finish(self, result: ClaimResult) -> None:
        """The claim has its verdict."""
        self.finished.append(result.id)
        count = f"[{len(self.finished)}/{len(self.minutes)}]"
        verdict = f"{result.verdict.symbol} {result.id}: {result.verdict.value}"
        reason = f" ({result.reason})" if result.verdict is Verdict.NOT_RUN else ""
        self._show(0.0, f"{count} {verdict}")
        self.bar.say(f"{count} {verdict}, {duration(result.seconds)}{reason}")

    def _show(self, minutes: float, note: str) -> None:
        """`minutes` of work are done besides what is finished."""
        done = minutes + sum(self.minutes[name] for name in self.finished)
        self.bar(done / sum(self.minutes.values()), note)


def verdict_table(outcomes: Sequence[ClaimResult]) -> Table:
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
        told = Text(f"{without_tags(check.name)}: {measured_text(check)}")
        table.add_row(verdict, outcome.id, told, tolerance_text(check), time)
    return table


def show_results(outcomes: Sequence[ClaimResult]) -> None:
    """Print the table and the count."""
    from rich.console import Console

    # Without a terminal rich would assume 80 columns and fold every id.
    console = Console() if sys.stdout.isatty() else Console(width=120)
    console.print(verdict_table(outcomes))
    for outcome in outcomes:
        if outcome.recorded and outcome.reason:  # a recorded result, and why it was not run anew
            console.print(f"{outcome.id}: {outcome.reason}", style="dim", markup=False)
    counts = Counter(outcome.verdict for outcome in outcomes)
    counted = ", ".join(f"{counts[verdict]} {verdict.value}" for verdict in Verdict if counts[verdict])
    console.print(f"{len(outcomes)} claims: {counted}" if counted else "no claims", style="bold")


def show_result(result: ClaimResult, parameters: Mapping[str, object]) -> None:
    """Print one result: what was set, every check, the finding."""
    from rich.console import Console
    from rich.table import Table

    console = Console() if sys.stdout.isatty() else Console(width=120)
    if parameters:
        given = ", ".join(f"{name}={value}" for name, value in parameters.items())
        console.print(f"{result.id}: {given}", style="dim", markup=False)
    if result.evidence is None:
        console.print(result.reason, markup=False)
        return
    table = Table("", "check", "measured", "tolerance", box=None, pad_edge=False)
    for check in result.evidence.checks:
        symbol = check.status.symbol if check.essential else "·"
        name = without_tags(check.name)
        table.add_row(symbol, name, measured_text(check), tolerance_text(check))
    console.print(table)
    console.print(without_tags(result.evidence.finding), markup=False)
    console.print(f"{result.verdict.symbol} {result.verdict.value}", style="bold", markup=False)
