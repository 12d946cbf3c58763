"""A sweep to be killed: `python driver.py STORE LOG ENGINE OUT COUNT`; `tests.sweep.kills` starts it."""

import json
import sys
from pathlib import Path

import featavg as fa
from featavg.errors import InputError
from featavg.simulate.sweep.run import Dask, Processes


class Logged:
    """An engine that writes down what it hands over, one line per job, as soon as it does."""

    def __init__(self, inner, path):
        self.inner, self.path = inner, path

    def run(self, jobs):
        with open(self.path, "a", buffering=1) as log:
            log.write(f"asked {len(jobs)}\n")
            for rows in self.inner.run(jobs):
                log.write(rows[0].id + "\n")
                yield rows


def plain_table(store, engine, count):
    """A sweep over `count` angles as plain values, without its times."""
    vary = {"cosine": [i / 100 for i in range(count)]}
    base = {"k": 4, "d": 200, "n": 60, "steps": 60, "lr": 5e-3}
    table = fa.sweep(vary, store, measures="loss,cosines", seeds=1, engine=engine, **base)
    columns = {name: c.tolist() for name, c in table.columns.items() if name != "seconds"}
    return columns | {"matrices": [m.tolist() for m in table.array("cosine_matrix_coarse")]}


def main():
    store, log, engine, out, count = sys.argv[1:]
    inner = Processes(2) if engine == "processes" else Dask(None if engine == "dask" else engine, 2, patience=20.0)
    try:
        columns = plain_table(store, Logged(inner, log), int(count))
    except InputError as error:
        sys.exit(str(error))
    Path(out).write_text(json.dumps(columns))


if __name__ == "__main__":
    main()
