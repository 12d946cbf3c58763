"""What a sweep costs beside its runs: time per run, memory, readers, and the second core.

    python -m tests.sweep.overhead 10000
    python -m tests.sweep.overhead --cores

The first prints the overhead of a grid of runs of a few milliseconds (wall clock of the sweep less that
of the same work called one by one), the memory of the driver at a tenth of the way and at the end, and
how many rows another process could read meanwhile. The second compares one worker with two on
runs of a tenth of a second; it needs two idle cores.
"""

import argparse
import resource
import sqlite3
import sys
import tempfile
import threading
import time
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import featavg as fa
from featavg.simulate.sweep.engines import Processes, Serial
from featavg.simulate.sweep.work import work

SMALL = {"k": 4, "d": 60, "n": 16, "steps": 8, "lr": 5e-3}
LARGE = {"k": 10, "d": 3000, "n": 200, "steps": 130, "labels": "coarse"}


class Timed(Serial):
    """The serial engine, adding up the time of the work itself; memory on the way."""

    def __init__(self):
        self.seconds, self.memory = 0.0, []

    def run(self, jobs):
        for number, job in enumerate(jobs):
            start = time.perf_counter()
            rows = work(job)
            self.seconds += time.perf_counter() - start
            if number == len(jobs) // 10:
                self.memory.append(resident())
            yield rows
        self.memory.append(resident())


def resident():
    """Bytes of this process in memory now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def overhead(count):
    """Seconds of overhead per run, memory at a tenth of the way and at the end, and rows read."""
    read, engine = [], Timed()
    with tempfile.TemporaryDirectory() as folder:
        stop = threading.Event()

        def look():
            path = Path(folder) / "runs.sqlite"
            while not stop.wait(0.2):
                if path.exists():
                    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as base:
                        try:
                            read.append(base.execute("SELECT count(*) FROM runs").fetchone()[0])
                        except sqlite3.OperationalError:
                            continue

        reader = threading.Thread(target=look)
        reader.start()
        start = time.perf_counter()
        table = fa.sweep(
            {"cosine": [i / (2 * count) for i in range(count)]},
            folder,
            measures="loss",
            seeds=1,
            engine=engine,
            **SMALL,
        )
        wall = time.perf_counter() - start
        stop.set()
        reader.join()
    assert len(table) == count
    return (wall - engine.seconds) / count, engine.seconds / count, engine.memory, read


def cores(count=240, rounds=3):
    """Seconds with one worker and with two, and whether the tables agree.

    The least of several rounds in turn: a shared machine is not equally fast from minute to minute.
    """
    walls, columns = {1: [], 2: []}, []
    for workers in (1, 2) * rounds:
        with tempfile.TemporaryDirectory() as folder:
            vary = {"cosine": [i / (2 * count) for i in range(count)]}
            start = time.perf_counter()
            table = fa.sweep(
                vary, folder, measures="loss", seeds=1, engine=Processes(workers), **LARGE
            )
            walls[workers].append(time.perf_counter() - start)
        columns.append(table.columns["log10_loss_coarse"])
    same = all((column == columns[0]).all() for column in columns)
    return [min(walls[workers]) for workers in (1, 2)], same


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("count", type=int, nargs="?", default=10_000)
    parser.add_argument("--cores", action="store_true")
    given = parser.parse_args()
    if given.cores:
        (one, two), same = cores()
        print(f"one worker {one:.1f} s, two {two:.1f} s: {one / two:.2f} times; same bits: {same}")
        return 0 if same and one / two >= 1.8 else 1
    beside, inside, (early, late), read = overhead(given.count)
    print(f"{given.count:,} runs of {inside * 1e3:.1f} ms: {beside * 1e3:.2f} ms of overhead each")
    print(f"memory {early / 1e6:.0f} MB at a tenth of the way, {late / 1e6:.0f} MB at the end")
    grown = sum(a < b for a, b in pairwise(read))
    print(f"read {len(read)} times while it ran, {grown} times with more rows than before")
    return 0 if beside <= 3e-3 and late - early < 5e7 else 1


if __name__ == "__main__":
    sys.exit(main())
