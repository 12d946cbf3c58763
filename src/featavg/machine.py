"""What this machine has: cores and memory, said before a computation starts and not when it dies."""

from __future__ import annotations

import os
import sys
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path
from typing import Any

from featavg.errors import InputError

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


@cache
def _libraries(scipy: bool) -> Any:
    """The BLAS of NumPy, and SciPy's own once it is loaded. Finding them takes milliseconds."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def one_blas_thread() -> AbstractContextManager[Any]:
    """One BLAS thread while the block runs: several on small matrices take six times as long."""
    limited: AbstractContextManager[Any] = _libraries("scipy.linalg" in sys.modules).limit(limits=1)
    return limited


def work_alone() -> None:
    """From now on this process has one core: it is one of several that share the machine."""
    os.environ[SHARE] = "1"


def available_bytes() -> int | None:
    """Memory that can be had without swapping, or None where the system does not tell."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def readable(size: float) -> str:
    """A size in the unit a person would choose.

    >>> readable(8.2e9)
    '8.2 GB'
    """
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if size < 1000 or unit == "TB":
            break
        size /= 1000
    return f"{size:.3g} {unit}"


def require(size: float, argument: str, remedy: str) -> None:
    """Refuse work that needs `size` bytes when the machine does not have them."""
    available = available_bytes()
    if available is not None and size > available:
        problem = f"asks for {readable(size)} of memory and {readable(available)} are free"
        raise InputError(argument, problem, remedy)
