"""How long a user waits for `featavg --help`, over starting Python and importing NumPy."""

from __future__ import annotations

import subprocess
import sys
from time import perf_counter

from row import Row

TARGET = 2.0
RUNS = 7


def rows() -> list[Row]:
    """The best of a few cold processes, alternating with the yardstick."""
    commands = {"help": ["-m", "featavg", "--help"], "numpy": ["-c", "import numpy"]}
    best = dict.fromkeys(commands, float("inf"))
    for _ in range(RUNS):
        for name, words in commands.items():
            start = perf_counter()
            subprocess.run([sys.executable, *words], capture_output=True, check=True)
            best[name] = min(best[name], perf_counter() - start)
    ratio = best["help"] / best["numpy"]
    note = f"{best['help']:.2f} s over {best['numpy']:.2f} s, best of {RUNS} processes each"
    return [Row("featavg --help over `import numpy`", f"{ratio:.2f}x", f"<= {TARGET:g}x", ratio <= TARGET, note)]


if __name__ == "__main__":
    for row in rows():
        print(*row, sep="  ")
