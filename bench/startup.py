"""How long a user waits for `featavg --help`."""

from __future__ import annotations

import subprocess
import sys
from time import perf_counter

TARGET = 0.5
RUNS = 7


def rows() -> list[tuple[str, str, str, bool, str]]:
    """(name, measured, target, ok, note): the best of a few cold processes."""
    seconds = []
    for _ in range(RUNS):
        start = perf_counter()
        subprocess.run([sys.executable, "-m", "featavg", "--help"], capture_output=True, check=True)
        seconds.append(perf_counter() - start)
    best, worst = min(seconds), max(seconds)
    note = f"best of {RUNS} processes, the slowest {worst:.2f} s"
    return [("featavg --help", f"{best:.2f} s", f"{TARGET} s", best <= TARGET, note)]


if __name__ == "__main__":
    for row in rows():
        print(*row, sep="  ")
