"""Kill a sweep's driver, worker, Dask worker or Dask scheduler at random times, and look at what is left.

    python -m tests.sweep.kills 30

After every kill the sweep is started again. It must end with the table of a sweep that nobody disturbed,
to the bit; every run that was in the index stays as it was; no run that was in the index is computed
again, so that nothing is lost but what was in flight.
"""

import argparse
import contextlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.sweep.driver import plain_table

from featavg.simulate.sweep.run import Serial

SETTINGS = 80
KINDS = ("driver", "worker", "dask worker", "dask scheduler")
PATIENCE = 900.0


class Cluster:
    """A Dask scheduler and a worker as processes of their own, which can be killed."""

    def __init__(self, folder):
        self.file = Path(folder) / f"scheduler-{time.monotonic_ns()}.json"
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        base = [sys.executable, "-m", "distributed.cli.dask_scheduler"]
        options = ["--scheduler-file", str(self.file), "--no-dashboard", "--port", "0"]
        self.scheduler = subprocess.Popen([*base, *options, "--host", "127.0.0.1"], **quiet)
        wait_for(lambda: self.file.exists() and self.file.read_text().strip())
        worker = [sys.executable, "-m", "distributed.cli.dask_worker", "--no-dashboard"]
        options = ["--scheduler-file", str(self.file), "--nworkers", "1", "--nthreads", "1"]
        self.worker = subprocess.Popen([*worker, *options], cwd=folder, **quiet)

    @property
    def address(self):
        return json.loads(self.file.read_text())["address"]

    def end(self):
        for process in (self.worker, self.scheduler):
            process.terminate()
        for process in (self.worker, self.scheduler):
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def wait_for(condition, patience=PATIENCE):
    """Whether something came true in time."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return False


def start(store, log, engine, out, settings):
    program = Path(__file__).with_name("driver.py")
    command = [sys.executable, program, store, log, engine, out, str(settings)]
    with open(errors_of(store), "w") as errors:
        return subprocess.Popen(command, stderr=errors, cwd=store.parent)


def errors_of(store):
    """The file of what a driver says last."""
    return store.parent / "errors"


def stored(store):
    """The rows of the index as they are, by id: read while the sweep writes."""
    path = store / "runs.sqlite"
    if not path.exists():
        return {}
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as base:
        try:
            rows = base.execute('SELECT id, "values", seconds FROM runs WHERE error = ""')
            return {name: rest for name, *rest in rows}
        except sqlite3.OperationalError:
            return {}


def children(pid):
    """Processes below this one that compute: joblib's workers, or Dask's."""
    pids = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            text = path.read_text()
            parent = int(text.rsplit(")", 1)[1].split()[1])
            if parent == pid:
                pids.append(int(path.parent.name))
    found = [p for p in pids if b"resource_tracker" not in _command(p)]
    below = [q for p in found for q in children(p)]
    return [p for p in (*found, *below) if b"popen_loky" in _command(p) or b"spawn_main" in _command(p)]


def _command(pid):
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def once(kind, folder, rng, settings=SETTINGS):
    """One sweep with one kill: what was found wrong with it, in sentences."""
    folder = Path(tempfile.mkdtemp(dir=folder))
    store, log, out = folder / "store", folder / "log", folder / "table.json"
    store.mkdir()
    cluster = Cluster(folder) if kind.startswith("dask") else None
    engine = cluster.address if cluster else "processes"
    driver = start(store, log, engine, out, settings)
    wanted = rng.randrange(1, 3 * settings // 2)  # two measures, so two rows per setting
    wait_for(lambda: len(stored(store)) >= wanted or driver.poll() is not None)
    time.sleep(rng.random() * 0.1)
    if kind == "driver":
        below = children(driver.pid)
        driver.send_signal(signal.SIGKILL)
        driver.wait()
        for pid in below:  # orphans of the killed driver end by themselves, only later
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    elif kind == "dask scheduler":
        cluster.scheduler.send_signal(signal.SIGKILL)
        cluster.scheduler.wait()
    else:
        workers = children(cluster.worker.pid if cluster else driver.pid)
        if workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(rng.choice(workers), signal.SIGKILL)
    wrong = []
    if kind in ("worker", "dask worker"):  # the sweep itself goes on
        before = stored(store)
        if not wait_for(lambda: driver.poll() is not None):
            driver.kill()
            driver.wait()
            wrong.append("did not end after a worker was killed")
        elif driver.returncode:
            wrong.append(f"ended with {errors_of(store).read_text()[-300:]}")
    else:
        if kind == "dask scheduler":
            if not wait_for(lambda: driver.poll() is not None):
                driver.kill()
                driver.wait()
                wrong.append("did not notice that the scheduler is gone")
            elif not out.exists() and "scheduler" not in errors_of(store).read_text():
                wrong.append("said nothing of the scheduler")
            cluster.end()
            cluster = Cluster(folder)
            engine = cluster.address
        before = stored(store)
        if not out.exists():
            again = start(store, log, engine, out, settings)
            if not wait_for(lambda: again.poll() is not None) or again.returncode:
                again.kill()
                again.wait()
                wrong.append(f"did not go on: {errors_of(store).read_text()[-300:]}")
    if cluster is not None:
        cluster.end()
    after = stored(store)
    changed = [name for name, row in before.items() if after.get(name) != row]
    if changed:
        wrong.append(f"changed {len(changed)} rows that were there")
    lives = log.read_text().split("asked ")[1:]
    handed = [line for life in lives for line in life.splitlines()[1:]]
    # A row is handed over and then written: one may have been on its way.
    if len(handed) - len(set(handed)) > 1:
        wrong.append(f"computed {len(handed) - len(set(handed))} runs again that it had")
    if len(lives) == 2 and int(lives[1].split()[0]) != settings - len(before) // 2:
        wrong.append(f"asked for {lives[1].split()[0]} settings with {len(before)} rows there")
    return wrong, (json.loads(out.read_text()) if out.exists() else None), len(before)


def reference(folder, settings=SETTINGS):
    """The table of a sweep that nobody disturbed, in this process."""
    table = plain_table(tempfile.mkdtemp(dir=folder), Serial(), settings)
    return json.loads(json.dumps(table))


def campaign(count, seed=0, kinds=KINDS, settings=SETTINGS, tell=lambda line: None):
    """`count` kills, one kind after the other; the sentences on what went wrong."""
    rng, faults = random.Random(seed), []
    with tempfile.TemporaryDirectory() as folder:
        right = reference(folder, settings)
        for number in range(count):
            kind = kinds[number % len(kinds)]
            wrong, table, rows = once(kind, folder, rng, settings)
            if table != right:
                wrong.append("ended with another table" if table else "left no table")
            faults += [f"kill {number} ({kind}): {sentence}" for sentence in wrong]
            tell(f"{number + 1:3d} {kind:<15} at {rows:3d} rows: {'; '.join(wrong) or 'same table'}")
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("count", type=int, nargs="?", default=30)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    start_time = time.monotonic()
    faults = campaign(given.count, given.seed, tell=lambda line: print(line, flush=True))
    print(f"{given.count} kills, {len(faults)} faults, {time.monotonic() - start_time:.0f} s")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
