"""How many cores are ours."""

from __future__ import annotations

import os

# A variable that joblib knows: how many cores its processes may count on.
SHARE = "LOKY_MAX_CPU_COUNT"


def cores() -> int:
    """Cores that this process may use: a container's or a cluster job's share, 1 inside a worker.

    `os.cpu_count` counts the whole machine, also where this process may use only a part of it.

    >>> cores() >= 1
    True
    """
    from joblib import cpu_count  # a tenth of a second, which only long work pays

    return int(cpu_count())


def work_alone() -> None:
    """From now on this process has one core: it is one of several that share the machine."""
    os.environ[SHARE] = "1"
