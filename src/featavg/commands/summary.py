"""What `featavg simulate` prints when it is done."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from featavg.experiments.simulation import RunNumbers, Simulation

Column = list["RunNumbers"]


def show(done: Simulation) -> None:
    """Print the table, and where the rest is."""
    from rich.markup import escape

    from featavg.commands.tables import console, table

    kinds = done.setting.each_labels
    shown = table("", *(f"{labels} labels" for labels in kinds))
    for name, cell in _ROWS.items():
        cells = [cell(done.of(labels)) for labels in kinds]
        if any(cells):
            shown.add_row(name, *map(escape, cells))
    terminal = console()
    terminal.print(escape(_title(done)), style="bold")
    terminal.print(shown)
    if done.folder is not None:
        terminal.print(f"Result: {escape(_short(done.folder))}", soft_wrap=True)


def _title(done: Simulation) -> str:
    setting = done.setting
    seeds = f"seed {setting.seeds[0]}" if len(setting.seeds) == 1 else f"{len(setting.seeds)} seeds"
    if setting.data is not None:
        return f"{setting.data}, {seeds}"
    return f"k = {setting.k}, d = {setting.d}, n = {setting.n}, {seeds}"


def _short(folder: Path) -> str:
    try:
        return str(folder.relative_to(Path.cwd()))
    except ValueError:
        return str(folder)


def _outcome(runs: Column) -> str:
    from featavg.training.trajectory import Outcome

    endings = []
    for name in dict.fromkeys(run.outcome for run in runs):
        steps = [run.steps for run in runs if run.outcome == name]
        counts = f"{steps[0]}" if len(set(steps)) == 1 else f"{min(steps)} to {max(steps)}"
        endings.append(f"{Outcome[name].value} ({counts})")
    return "; ".join(endings)


def _number(get: Callable[[RunNumbers], float | None]) -> Callable[[Column], str]:
    """The median over the seeds, and their range if there are several."""

    def cell(runs: Column) -> str:
        values = [value for run in runs if (value := get(run)) is not None]
        if not values:
            return ""
        middle = f"{statistics.median(values):.3f}"
        return middle if len(runs) == 1 else f"{middle}  [{min(values):.3f}, {max(values):.3f}]"

    return cell


def _accuracy(
    right: Callable[[RunNumbers], int | None], n: Callable[[RunNumbers], int | None]
) -> Callable[[Column], str]:
    """All seeds' points in one share, with its 95% interval."""

    def cell(runs: Column) -> str:
        from featavg.measures.accuracy import wilson

        rights, counts = [right(run) for run in runs], [n(run) for run in runs]
        if None in rights or None in counts:
            return ""
        return str(wilson(sum(r or 0 for r in rights), sum(c or 0 for c in counts)))

    return cell


_ROWS: dict[str, Callable[[Column], str]] = {
    "how it ended (steps)": _outcome,
    "log10 of the training loss": _number(lambda run: run.log10_loss),
    "training accuracy": _accuracy(lambda run: run.train_right, lambda run: run.train_n),
    "test accuracy": _accuracy(lambda run: run.test_right, lambda run: run.test_n),
    "clusters named right": _accuracy(lambda run: run.cluster_right, lambda run: run.test_n),
    "cosine with the own feature": _number(lambda run: run.own_cosine),
    "  with others of its class": _number(lambda run: run.same_class_cosine),
    "  with the other class": _number(lambda run: run.other_class_cosine),
    "averaging index": _number(lambda run: run.averaging_index),
    "  the same for random directions": _number(lambda run: run.averaging_index_null),
    "  share of |w|² in the features' span": _number(lambda run: run.span_share),
}
