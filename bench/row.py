"""One line of the benchmark table, and the yardsticks that times are compared with."""

from functools import cache
from time import process_time
from typing import NamedTuple

import numpy as np


class Row(NamedTuple):
    """What was measured, what was asked for, and whether it is met.

    `ok` is None where there is nothing to meet: a number that is only shown. What decides is a ratio of two
    things measured in this run: seconds alone say how fast the machine is, and how busy.
    """

    name: str
    measured: str
    target: str
    ok: bool | None
    note: str = ""


@cache
def program_seconds() -> float:
    """CPU seconds of one small quadratic program: 12 coordinates, 20 inequalities, by daqp."""
    import daqp

    rng = np.random.default_rng(0)
    hessian, linear = np.eye(12), np.zeros(12)
    rows, upper = rng.normal(size=(20, 12)), -rng.random(20)
    lower, sense = np.full(20, -1e30), np.zeros(20, dtype=np.int32)
    return _best(lambda: daqp.solve(hessian, linear, rows, upper, lower, sense), 500)


@cache
def product_seconds() -> float:
    """CPU seconds of a product of two 512 x 512 matrices."""
    matrix = np.random.default_rng(0).normal(size=(512, 512))
    return _best(lambda: matrix @ matrix, 5)


def _best(call, count: int, repeats: int = 5) -> float:
    times = []
    for _ in range(repeats):
        start = process_time()
        for _ in range(count):
            call()
        times.append((process_time() - start) / count)
    return min(times)
