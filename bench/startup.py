"""What `featavg --help` costs, over starting Python and importing NumPy."""

from __future__ import annotations

import resource
import subprocess
import sys

from row import Row

TARGET = 2.0
RUNS = 7


def rows() -> list[Row]:
    """CPU seconds of the best of a few processes, alternating with the yardstick."""
    commands = {"help": ["-m", "featavg", "--help"], "numpy": ["-c", "import numpy"]}
    best = dict.fromkeys(commands, float("inf"))
    for _ in range(RUNS):
        for name, words in commands.items():
            before = _children()
            subprocess.run([sys.executable, *words], capture_output=True, check=True)
            best[name] = min(best[name], _children() - before)
    ratio = best["help"] / best["numpy"]
    note = f"{best['help']:.2f} s over {best['numpy']:.2f} s of CPU, best of {RUNS} processes each"
    return [Row("featavg --help over `import numpy`", f"{ratio:.2f}x", f"<= {TARGET:g}x", ratio <= TARGET, note)]


def _children() -> float:
    """CPU seconds of the processes that have ended so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    for row in rows():
        print(*row, sep="  ")
