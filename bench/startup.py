"""How long a user waits for `featavg --help`."""

from __future__ import annotations

import resource
import subprocess
import sys
from time import perf_counter

TARGET = 0.5
RUNS = 7


def rows() -> list[tuple[str, str, str, bool, str]]:
    """(name, measured, target, ok, note): the best of a few cold processes."""
    seconds, before = [], _child_seconds()
    for _ in range(RUNS):
        start = perf_counter()
        subprocess.run([sys.executable, "-m", "featavg", "--help"], capture_output=True, check=True)
        seconds.append(perf_counter() - start)
    best, worst = min(seconds), max(seconds)
    # On a busy machine a process mostly waits: its own work tells the two apart.
    work = (_child_seconds() - before) / RUNS
    note = f"best of {RUNS} processes, the slowest {worst:.2f} s; {work:.2f} s of CPU each"
    return [("featavg --help", f"{best:.2f} s", f"{TARGET} s", best <= TARGET, note)]


def _child_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    for row in rows():
        print(*row, sep="  ")
